"""The instances that a scheduler is tried on: the bundled ones, edge cases, streams that tempt, seeded random families.

Every instance has a key, by which it can be asked for again: a bundled name, ``edge:NAME``, ``random:SEED``,
``rounds:REQUESTS:SEED`` or ``serving:SEED``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from heuristics.policy import PolicyError
from heuristics.simulator import simulate
from instances.bundled import bundled_names, load_bundled
from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.generate import random_instance, rounds_instance
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_MS, US_PER_MS

DEFAULT_SEEDS = 60
STREAM = 32
"""Requests that arrive one after the other in the streams that tempt to starve somebody."""


def suite_keys(seeds: int = DEFAULT_SEEDS) -> tuple[str, ...]:
    """Return the keys of the conformance suite; the smaller families first."""
    edges = tuple(f"edge:{name}" for name in EDGES)
    return (*edges, *(f"random:{seed}" for seed in range(seeds)), *bundled_names())


def instance_of(key: str) -> Instance:
    """Return the instance of a key.

    Raises
    ------
    InputError
        For a key that names nothing.
    """
    kind, *rest = key.split(":")
    numbers = [int(text) for text in rest if text.isdecimal()]
    if not rest and kind in bundled_names():
        return load_bundled(kind)
    if kind == "edge" and len(rest) == 1 and rest[0] in EDGES:
        return replace(EDGES[rest[0]](), name=key)
    maker = FAMILIES.get(kind)
    if maker is None or len(numbers) != len(rest) or len(rest) != (2 if kind == "rounds" else 1):
        raise InputError(f"there is no instance {key!r}; there are {', '.join(bundled_names())}, edge:NAME "
                         f"({', '.join(EDGES)}), random:SEED, rounds:REQUESTS:SEED and serving:SEED")  # fmt: skip
    return replace(maker(*numbers), name=key)


def suite(keys: Sequence[str]) -> Iterator[Instance]:
    """Yield the instances of these keys that have a schedule.

    Residents at time 0 may block each other for ever (model.md §3): an instance on which greedy chunking, which
    reserves what residents need, finds no valid schedule is left out.
    """
    for key in keys:
        instance = instance_of(key)
        try:
            run = simulate(instance, "greedy-chunked")
        except PolicyError:
            continue
        if not violations(instance, run.schedule):
            yield instance


def _random(seed: int) -> Instance:
    """Every field of the model, tiny numbers."""
    return random_instance(seed, preemption=("none", "none", "recompute", "swap"),
                           cost_kinds=("linear", "unit", "pieces"))  # fmt: skip


def _rounds(requests: int, seed: int) -> Instance:
    return rounds_instance(seed, requests)


def _serving(seed: int) -> Instance:
    """Four requests with prompts of some hundred tokens, arriving within 100 ms."""
    rng = random.Random(f"serving {seed}")
    now, requests = 0, []
    for index in range(4):
        prompt, output = rng.choice((32, 64, 96, 128, 192, 256, 384)), rng.randint(2, 6)
        requests.append(Request(f"r{index}", prompt, output, now, max_output_tokens=output + rng.choice((0, 0, 4))))
        now += rng.choice((0, 5, 10, 20, 40)) * US_PER_MS
    seats = rng.choice((None, None, 3))
    cost = CostModel.linear(4 * PS_PER_MS, PS_PER_MS // 10, PS_PER_MS // 5)
    return Instance(f"serving-{seed}", tuple(requests), EngineLimits(128, max_num_seqs=seats), cost)


FAMILIES: dict[str, Callable[..., Instance]] = {"random": _random, "rounds": _rounds, "serving": _serving}


def _made(requests: Sequence[tuple[int, int, int] | Request], engine: EngineLimits, cost: CostModel | None = None
          ) -> Instance:  # fmt: skip
    """Return an instance of (arrival in ms, prompt, outputs)."""
    made = tuple(
        r if isinstance(r, Request) else Request(f"r{i}", r[1], r[2], r[0] * US_PER_MS) for i, r in enumerate(requests)
    )
    return Instance("edge", made, engine, cost or CostModel.linear(PS_PER_MS, PS_PER_MS, PS_PER_MS))


def _stream(first: Sequence[tuple[int, int, int]], then: tuple[int, int]) -> Instance:
    """Return some requests and then one (prompt, outputs) per iteration of 1 ms, which alone fills the budget of 8."""
    arrivals = [(at + 1, *then) for at in range(STREAM)]
    return _made([*first, *arrivals], EngineLimits(8), CostModel.unit())


def _resident(name: str, prompt: int, output: int, prefilled: int, emitted: int = 0) -> Request:
    return Request(name, prompt, output, progress=Progress(prefilled, emitted, -US_PER_MS if emitted else 0))


THREE = [(0, 6, 3), (1, 9, 2), (2, 3, 4)]
TEN = [(0, 4, 3)] * 10
EVERY_COST = CostModel(
    (Piece(PS_PER_MS, PS_PER_MS // 3, PS_PER_MS // 90, PS_PER_MS // 7, PS_PER_MS // 70, 4, PS_PER_MS // 2),
     Piece(2 * PS_PER_MS)), (1, 2, 4), PS_PER_MS, PS_PER_MS // 5, PS_PER_MS // 5,
)  # fmt: skip

EDGES: dict[str, Callable[[], Instance]] = {
    "one-token": lambda: _made([(0, 1, 1)], EngineLimits(1)),
    "single-outputs": lambda: _made([(0, 4, 1), (0, 3, 1), (5, 2, 1)], EngineLimits(4)),
    "budget-of-one": lambda: _made([(0, 2, 2), (0, 1, 3), (1, 2, 1)], EngineLimits(1)),
    "prompt-equals-budget": lambda: _made([(0, 8, 2), (0, 8, 2), (3, 8, 1)], EngineLimits(8)),
    "one-seat": lambda: _made(THREE, EngineLimits(8, max_num_seqs=1)),
    "more-seats-than-budget": lambda: _made([(0, 1, 3)] * 3, EngineLimits(2, max_num_seqs=3)),
    "many-at-once": lambda: _made(TEN, EngineLimits(6, max_num_seqs=4)),
    "long-idle": lambda: _made([(0, 3, 2), (10_000, 3, 2)], EngineLimits(4)),
    "late-first-arrival": lambda: _made([(500, 3, 2), (501, 5, 1)], EngineLimits(4)),
    "last-one-late": lambda: _made([(0, 3, 4), (2, 6, 3), (500, 2, 1)], EngineLimits(4)),
    "unsorted-arrivals": lambda: _made([(9, 3, 2), (0, 5, 2), (4, 2, 2)], EngineLimits(4)),
    "pool-of-one-peak": lambda: _made([(0, 5, 4), (0, 5, 4), (1, 2, 2)], EngineLimits(6, num_kv_blocks=8)),
    "tight-blocks": lambda: _made(TEN, EngineLimits(8, num_kv_blocks=5, block_size=4)),
    "growth-fills-pool": lambda: _made([(0, 2, 6), (0, 2, 6), (0, 2, 6)], EngineLimits(8, num_kv_blocks=15)),
    "cached-prefix": lambda: _made(
        [Request("r0", 9, 2, cached_tokens=8), Request("r1", 6, 2, 1000, cached_tokens=3)],
        EngineLimits(4, num_kv_blocks=8, block_size=2)),
    "no-chunking": lambda: _made(THREE, EngineLimits(9, enable_chunked_prefill=False)),
    "no-mixing": lambda: _made(THREE, EngineLimits(8, mixed_batches=False)),
    "chunk-quantum": lambda: _made(THREE, EngineLimits(8, chunk_quantum=4)),
    "chunk-sizes": lambda: _made([(0, 11, 2), (1, 7, 2)], EngineLimits(8, chunk_sizes=(2, 4))),
    "chunk-cap": lambda: _made(THREE, EngineLimits(8, max_chunk_tokens=3)),
    "one-partial-prefill": lambda: _made([(0, 9, 2), (0, 9, 2), (0, 9, 2)],
                                         EngineLimits(8, max_chunk_tokens=3, max_partial_prefills=1)),
    "running-decodes": lambda: _made([_resident("r0", 4, 5, 4, 2), _resident("r1", 3, 3, 3, 1), (1, 9, 2)],
                                     EngineLimits(4)),
    "running-prefill": lambda: _made([_resident("r0", 9, 2, 4), (0, 3, 2)], EngineLimits(4)),
    "recompute": lambda: _made([(0, 4, 6), (0, 4, 6), (2, 4, 2)],
                               EngineLimits(16, num_kv_blocks=6, block_size=2, preemption="recompute")),
    "swap": lambda: _made([(0, 4, 6), (0, 4, 6), (2, 4, 2)],
                          EngineLimits(16, num_kv_blocks=6, block_size=2, preemption="swap"), EVERY_COST),
    "every-cost": lambda: _made(THREE, EngineLimits(8), EVERY_COST),
    "caps-above-outputs": lambda: _made(
        [Request("r0", 5, 2, max_output_tokens=30), Request("r1", 5, 4, max_output_tokens=9)], EngineLimits(4)),
    "priorities": lambda: _made(
        [Request(f"r{i}", 6, 2, i * US_PER_MS, priority=3 - i, weight=i + 1, ttft_slo_us=9000, tbt_slo_us=3000,
                 e2e_slo_us=20_000, group="ab"[i % 2]) for i in range(4)], EngineLimits(6)),
    "stream-over-long-prompt": lambda: _stream([(0, 64, 1)], (8, 1)),
    "stream-over-decodes": lambda: _stream([(0, 1, 4)], (8, 1)),
    "stream-over-oldest": lambda: _stream([(0, 8, 1), (0, 8, 1)], (8, 1)),
}  # fmt: skip
"""Small instances, each of which stands for one thing that is easily forgotten."""
