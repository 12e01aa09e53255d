"""Seeded random instances: small ones to judge by exhaustive search, and the slot model's families of 2502.07115.

One seed gives one instance, on every machine and in every run. All engine limits, cost terms, residents at time 0
and prefix hits of model.md can appear, so that tests over many seeds cover their combinations.

Example
-------
>>> random_instance(7) == random_instance(7)
True
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_MS, PS_PER_US, US_PER_MS

MAX_PROMPT, MAX_OUTPUT = 6, 4
COST_KINDS = ("linear", "unit", "pieces")
_ATTEMPTS = 1000


def random_instance(
    seed: int,
    *,
    requests: tuple[int, int] = (1, 4),
    preemption: Sequence[str] = ("none",),
    cost_kinds: Sequence[str] = ("linear", "unit"),
    limits: bool = True,
    progress: bool = True,
    cached: bool = True,
) -> Instance:
    """Return the tiny random instance of a seed.

    Parameters
    ----------
    seed
        Any integer.
    requests
        Fewest and most requests.
    preemption
        Modes to draw from (``none``, ``recompute``, ``swap``).
    cost_kinds
        Kinds of cost to draw from: ``linear``, ``unit``, ``pieces`` (one or two pieces with context terms, tiles,
        capture sizes, eager and swap costs).
    limits
        Draw seats, KV pool, chunk rules, mixing and partial prefills too; False leaves the token budget alone.
    progress
        Some requests may be resident at time 0.
    cached
        Some prompts may have a prefix hit.

    Returns
    -------
    Instance
        One that passes validation. With residents at time 0 and no preemption it may have no valid schedule
        (residents that hold the blocks that each of them needs).

    Raises
    ------
    InputError
        For an unknown cost kind, or where no draw of these parameters is a valid instance.
    """
    for kind in cost_kinds:
        if kind not in COST_KINDS:
            raise InputError.expected(f"one of {', '.join(COST_KINDS)}", kind, "cost_kinds")
    rng = random.Random(f"chunkfront {seed}")
    for _ in range(_ATTEMPTS):
        count = rng.randint(*requests)
        kind = rng.choice(list(cost_kinds))
        drawn = [_request(rng, f"r{i}", progress=progress, cached=cached) for i in range(count)]
        engine = _engine(rng, drawn, rng.choice(list(preemption)), limits=limits)
        try:
            return Instance(f"random-{seed}", tuple(drawn), engine, _cost(rng, kind))
        except InputError:
            continue  # something that can never fit: draw again
    raise InputError(f"no valid instance in {_ATTEMPTS} draws", field="seed")


def rounds_instance(seed: int, requests: int | None = None, *, poisson: bool = False) -> Instance:
    """Return an instance of the slot model of Jaillet et al. (arXiv 2502.07115), in their synthetic setting.

    Rounds of 1 ms, whole prefills, a token budget that never binds, KV as the only limit. Their prompt s and output o
    are P = s + 1 and O = o here: M is drawn from 30..50, then all s from 1..5, then all o from 1..M-s.

    Parameters
    ----------
    seed
        Any integer.
    requests
        Number of requests; None draws it as they do: 40..60, or with `poisson` as many as arrive in 40..60 rounds.
    poisson
        Their Arrival Model 2: Poisson arrivals at a rate from 0.5..1.5 a round, each at the beginning of its round.
        Otherwise Model 1, all at time 0.
    """
    arrivals = _rounds_of_arrival(random.Random(f"arrivals {seed}"), requests, poisson=poisson)
    rng = random.Random(seed)
    pool = rng.randint(30, 50)
    prompts = [rng.randint(1, 5) for _ in arrivals]
    outputs = [rng.randint(1, pool - prompt) for prompt in prompts]
    made = tuple(
        Request(f"r{i}", prompt + 1, output, arrival * US_PER_MS)
        for i, (prompt, output, arrival) in enumerate(zip(prompts, outputs, arrivals, strict=True))
    )
    budget = sum(r.prompt_tokens for r in made)
    engine = EngineLimits(budget, num_kv_blocks=pool, enable_chunked_prefill=False)
    return Instance(f"rounds-{2 if poisson else 1}-{len(made)}-{seed}", made, engine, CostModel.unit())


def _rounds_of_arrival(rng: random.Random, requests: int | None, *, poisson: bool) -> list[int]:
    if not poisson:
        return [0] * (rng.randint(40, 60) if requests is None else requests)
    rate, rounds, now = rng.uniform(0.5, 1.5), rng.randint(40, 60), 0.0
    arrivals: list[int] = []
    while len(arrivals) < requests if requests is not None else now < rounds or not arrivals:
        now += rng.expovariate(rate)
        if requests is not None or now < rounds or not arrivals:
            arrivals.append(int(now))
    return arrivals


def _maybe(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def _request(rng: random.Random, name: str, *, progress: bool, cached: bool) -> Request:
    prompt, output = rng.randint(1, MAX_PROMPT), rng.randint(1, MAX_OUTPUT)
    hit = rng.randint(0, prompt - 1) if cached and _maybe(rng, 0.25) else 0
    resident = _progress(rng, prompt, output, hit) if progress and _maybe(rng, 0.2) else None
    arrival = 0 if resident is not None or _maybe(rng, 0.4) else rng.randint(0, 8 * US_PER_MS)
    if _maybe(rng, 0.6):
        arrival -= arrival % US_PER_MS
    ttft, tbt, e2e = (rng.randint(1, 12) * US_PER_MS if _maybe(rng, 0.3) else None for _ in range(3))
    return Request(
        name,
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_us=arrival,
        max_output_tokens=output + rng.randint(0, 3) if _maybe(rng, 0.3) else None,
        cached_tokens=hit,
        priority=rng.randint(0, 2) if _maybe(rng, 0.3) else 0,
        weight=rng.randint(1, 5) if _maybe(rng, 0.3) else 1,
        ttft_slo_us=ttft,
        tbt_slo_us=tbt,
        e2e_slo_us=e2e,
        group=rng.choice(("chat", "code")) if _maybe(rng, 0.2) else "default",
        progress=resident,
    )


def _progress(rng: random.Random, prompt: int, output: int, hit: int) -> Progress | None:
    """Return a state at time 0: amid the decodes where there are any, or amid the prefill."""
    if output > 1 and _maybe(rng, 0.6):
        return Progress(prompt, rng.randint(1, output - 1), -rng.randint(0, 3 * US_PER_MS))
    return Progress(rng.randint(hit, prompt - 1))


def _engine(rng: random.Random, requests: Sequence[Request], preemption: str, *, limits: bool) -> EngineLimits:
    budget = rng.randint(1, 8)
    if not limits:
        return EngineLimits(budget, preemption=preemption)
    residents = [r for r in requests if r.progress is not None]
    partial = sum(not r.starts_in_decode for r in residents)
    block = rng.choice((1, 1, 2, 3, 4))
    pool = None
    if _maybe(rng, 0.5) or preemption != "none":  # tight: between the largest request and all of them at once
        peaks = sorted(-(-r.peak_kv_tokens // block) for r in requests)
        pool = rng.randint(peaks[-1], max(peaks[-1], sum(peaks)))
    sizes = None
    if _maybe(rng, 0.15):
        sizes = tuple(sorted(rng.sample(range(1, 7), rng.randint(1, 3))))
    return EngineLimits(
        budget,
        max_num_seqs=max(rng.randint(1, 3), len(residents)) if _maybe(rng, 0.4) else None,
        num_kv_blocks=pool,
        block_size=block,
        enable_chunked_prefill=not _maybe(rng, 0.2),
        mixed_batches=not _maybe(rng, 0.2),
        chunk_quantum=rng.choice((2, 3)) if sizes is None and _maybe(rng, 0.2) else 1,
        chunk_sizes=sizes,
        max_chunk_tokens=rng.randint(1, 4) if _maybe(rng, 0.2) else None,
        max_partial_prefills=max(rng.randint(1, 2), partial) if _maybe(rng, 0.25) else None,
        preemption=preemption,
    )


def _cost(rng: random.Random, kind: str) -> CostModel:
    if kind == "unit":
        return CostModel.unit()
    if kind == "linear":
        base, token, decode = rng.choice((0, 500, 1000, 5000)), rng.choice((0, 100, 1000)), rng.choice((0, 300, 1000))
        if not base and not token and not decode:
            base = 1000
        odd = rng.randint(1, PS_PER_US) if _maybe(rng, 0.2) else 0  # fractions of a µs per token: rounding shows
        return CostModel.linear(base * PS_PER_US, token * PS_PER_US + odd, decode * PS_PER_US)
    pieces = tuple(_piece(rng) for _ in range(rng.randint(1, 2)))
    sizes = tuple(sorted(rng.sample(range(1, 6), rng.randint(1, 3)))) if _maybe(rng, 0.4) else None
    return CostModel(
        pieces,
        capture_sizes=sizes,
        eager_ps=_amount(rng, 2) if sizes is not None else 0,
        swap_out_ps=_amount(rng, 1),
        swap_in_ps=_amount(rng, 1),
    )


def _piece(rng: random.Random) -> Piece:
    tiles = rng.randint(2, 4) if _maybe(rng, 0.3) else None
    return Piece(
        base_ps=rng.randint(1, 3) * PS_PER_MS + _amount(rng, 1),
        prefill_ps=_amount(rng, 1),
        prefill_context_ps=_amount(rng, 1) // 10,
        decode_ps=_amount(rng, 1),
        decode_context_ps=_amount(rng, 1) // 10,
        tile_tokens=tiles,
        tile_ps=_amount(rng, 2) if tiles is not None else 0,
    )


def _amount(rng: random.Random, most_ms: int) -> int:
    """Return 0 or an amount in ps up to `most_ms`, mostly not a whole number of µs."""
    return 0 if _maybe(rng, 0.3) else rng.randint(1, most_ms * PS_PER_MS)
