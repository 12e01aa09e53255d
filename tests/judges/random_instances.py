"""Random tiny instances for the judges: every field of model.md, sizes that exhaustive search can bear."""

from __future__ import annotations

import random

from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request

US = 10**6
"""1 µs in ps."""


def tiny_instance(
    seed: int, *, every_feature: bool, requests: int = 3, tokens: int = 5, unit_us: int = 500
) -> Instance:
    """Return the instance of a seed.

    Parameters
    ----------
    seed
        Any integer.
    every_feature
        False: preemption ``none``, linear and unit costs, but all limits; True: everything.
    requests
        At most so many.
    tokens
        At most so many prompt tokens, and outputs, of a request.
    unit_us
        Scale of costs and arrivals in µs; most are multiples of it.
    """
    rng = random.Random(f"{seed} {every_feature} {requests} {tokens} {unit_us}")
    while True:
        try:
            return _draw(rng, seed, every_feature, requests, tokens, unit_us)
        except InputError:  # a request that can never fit, or residents above a limit
            continue


def _maybe(rng: random.Random, chance: float, low: int, high: int) -> int | None:
    return rng.randint(low, high) if rng.random() < chance else None


def _draw(rng: random.Random, seed: int, every: bool, most: int, tokens: int, unit: int) -> Instance:
    count = 1 if rng.random() < 0.1 else rng.randint(2, most)
    together = rng.random() < 0.3
    found = []
    for i in range(count):
        found.append(_request(rng, f"r{i}", tokens, unit, together))
    peak = max(r.peak_kv_tokens for r in found)
    block_size = rng.choice((1, 1, 2, 3))
    engine = EngineLimits(
        max_num_batched_tokens=rng.randint(1, 2 * tokens),
        max_num_seqs=_maybe(rng, 0.3, 1, count),
        num_kv_blocks=_maybe(rng, 0.5 if every else 0.3, -(-peak // block_size), -(-peak // block_size) + tokens),
        block_size=block_size,
        enable_chunked_prefill=rng.random() > 0.15,
        mixed_batches=rng.random() > 0.15,
        chunk_quantum=rng.choice((1, 1, 1, 1, 2, 3)),
        chunk_sizes=tuple(rng.sample(range(1, tokens + 1), 2)) if rng.random() < 0.1 and tokens > 1 else None,
        max_chunk_tokens=_maybe(rng, 0.15, 1, tokens),
        max_partial_prefills=_maybe(rng, 0.15, 1, 2),
        preemption=rng.choice(("none", "recompute", "swap")) if every else "none",
    )
    name = f"tiny-{seed}"
    return Instance(name, tuple(found), engine, _cost(rng, every, unit, engine.preemption))


def _request(rng: random.Random, name: str, tokens: int, unit: int, together: bool) -> Request:
    prompt, output = rng.randint(1, tokens), rng.randint(1, tokens)
    cached = rng.randint(0, prompt - 1) if rng.random() < 0.2 else 0
    arrival = 0 if together or rng.random() < 0.3 else rng.randint(0, 8) * unit + rng.choice((0, 0, 0, 1))
    progress = None
    if rng.random() < 0.15:
        arrival = 0
        if output > 1 and rng.random() < 0.6:
            progress = Progress(prompt, rng.randint(1, output - 1), -rng.randint(0, 3) * unit)
        else:
            progress = Progress(rng.randint(cached, prompt - 1))
    return Request(
        name, prompt, output, arrival, cached_tokens=cached, progress=progress,
        weight=rng.choice((1, 1, 2, 5)),
        ttft_slo_us=rng.randint(1, 12) * unit if rng.random() < 0.4 else None,
        tbt_slo_us=rng.randint(1, 6) * unit if rng.random() < 0.4 else None,
        e2e_slo_us=rng.randint(2, 25) * unit if rng.random() < 0.4 else None,
    )


def _cost(rng: random.Random, every: bool, unit: int, preemption: str) -> CostModel:
    def amount(high: int) -> int:
        return rng.randint(0, high) * unit * US + rng.choice((0, 0, 0, US, US // 3))

    if rng.random() < (0.1 if every else 0.2):
        return CostModel.unit()
    if not every or rng.random() < 0.3:
        return CostModel.linear(amount(4), amount(2), amount(2))
    pieces = []
    for _ in range(rng.choice((1, 1, 2))):
        tile = _maybe(rng, 0.25, 2, 4)
        pieces.append(Piece(
            amount(4), amount(2), amount(1) if rng.random() < 0.4 else 0, amount(2),
            amount(1) // 2 if rng.random() < 0.4 else 0, tile, 0 if tile is None else amount(3),
        ))
    sizes = tuple(rng.sample(range(1, 5), rng.randint(1, 3))) if rng.random() < 0.35 else None
    swap = preemption == "swap"
    return CostModel(
        tuple(pieces), sizes, amount(3) if sizes else 0, amount(1) if swap else 0, amount(1) // 2 if swap else 0
    )
