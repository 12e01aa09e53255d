"""What the model needs to know of an instance: integers only, times shifted to the earliest arrival and scaled.

Times are divided by a common divisor (`Problem.tick_us` µs per tick), so unit-cost instances have small domains;
amounts that matter are multiples of it (`Problem.scaled_for`), so limits may be rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd
from operator import add

from instances.cost_model import Piece
from instances.instance import Instance
from instances.objectives import limit_amounts
from instances.request import Request
from instances.units import us_from_ps

LONGEST_TABLE = 20_000
"""Longest table of tile costs that is looked at for a common divisor."""
COUNTED = ("slo_attainment",)
"""Objectives whose amount counts requests instead of ticks."""


@dataclass(frozen=True)
class Job:
    """One request as the model sees it.

    Parameters
    ----------
    index, request
        Its place in the instance, and itself.
    held
        KV tokens at time 0, or those of a prefix hit at its first chunk.
    unit
        Tokens per chunk unit: a chunk is ``unit x units``, plus `remainder` where it ends the prefill.
    units, remainder
        ``left = unit x units + remainder``.
    left
        Tokens to prefill.
    decodes
        Decode steps after the prefill.
    arrival
        In µs from the origin; latencies count from it.
    release
        In µs from the origin; no iteration works on it before: its arrival, or a later time of admission that is held.
    """

    index: int
    request: Request
    held: int
    unit: int
    units: int
    remainder: int
    left: int
    decodes: int
    arrival: int
    release: int

    @property
    def resident(self) -> bool:
        """Whether it is resident at time 0."""
        return self.request.progress is not None

    @property
    def peak(self) -> int:
        """KV tokens at its end."""
        return self.held + self.left + self.decodes

    @property
    def last_token(self) -> int | None:
        """µs of its last token before time 0 (<= 0), None where there was none."""
        progress = self.request.progress
        return None if progress is None or not progress.emitted else progress.last_token_us


class Problem:
    """An instance prepared for the model. Nothing is evicted here, whatever the engine allows; see `solver.evictions`.

    Parameters
    ----------
    instance
        The instance.
    releases_us
        Per request, a time before which it may not start, beside its arrival.
    allowed
        Evictions per request that a schedule may have.
    """

    def __init__(self, instance: Instance, releases_us: Mapping[str, int] | None = None, allowed: int = 0) -> None:
        self.instance = instance
        self.allowed = allowed
        self.engine = instance.engine
        self.cost = instance.cost
        self.origin_us = instance.origin_us
        self.releases_us = dict(releases_us or {})
        self.jobs = tuple(self._job(i, r) for i, r in enumerate(instance.requests))

    def _job(self, index: int, request: Request) -> Job:
        left = request.prefill_left
        unit = self.engine.chunk_quantum if self.engine.enable_chunked_prefill else max(left, 1)
        units, remainder = divmod(left, unit)
        arrival = request.arrival_us - self.origin_us
        release = max(arrival, self.releases_us.get(request.id, request.arrival_us) - self.origin_us)
        return Job(index, request, request.computed_before, unit, units, remainder, left, request.decodes_left,
                   arrival, release)

    def prefill_curve(self, piece: Piece, job: Job) -> list[int]:
        """Return the µs of the first m units of the prefill, m = 0..units, then of the whole prefill."""
        start = piece.prefill_us(job.held)
        marks = [job.held + job.unit * m for m in range(job.units + 1)] + [job.held + job.left]
        return [piece.prefill_us(mark) - start for mark in marks]

    def decode_curve(self, piece: Piece, job: Job) -> list[int]:
        """Return the µs of the first t decodes, t = 0..decodes."""
        context, total, curve = job.held + job.left, 0, [0]
        for step in range(1, job.decodes + 1):
            total += piece.decode_us(context + step)
            curve.append(total)
        return curve

    def least_token_us(self, piece: Piece, job: Job, context: int) -> int:
        """Return the least that `piece` charges for a token after the first, emitted with `context` tokens held."""
        return piece.decode_us(context)

    def least_decode_curve(self, piece: Piece, job: Job) -> list[int]:
        """Return the least µs of the first t tokens after the first one to come, t = 0..decodes."""
        return self.decode_curve(piece, job)

    def most_tokens(self, job: Job) -> int:
        """Return the most tokens of `job` in one iteration, limits aside."""
        return job.left + 1

    def table_entries(self, job: Job) -> int:
        """Return about how many literals the model has for `job` per iteration and piece."""
        return min(job.units, 96) + min(job.decodes, 96) + 16

    @property
    def evictions(self) -> int:
        """How often the model may evict a request."""
        return 0

    @property
    def eviction_amounts(self) -> set[int]:
        """The µs that evictions may add to a duration."""
        return set()

    def most_eviction_us(self, piece: Piece) -> int:
        """Return the most µs that evictions add to the work of `piece` in a whole schedule."""
        return 0

    @property
    def prefilling(self) -> tuple[Job, ...]:
        """The requests that may have a chunk."""
        return tuple(job for job in self.jobs if job.left)

    @cached_property
    def tick_us(self) -> int:
        """µs per tick: the greatest common divisor of every time in the instance."""
        amounts = {us_from_ps(self.cost.eager_ps), *self.eviction_amounts}
        for job in self.jobs:
            amounts |= {job.arrival, job.release, -(job.last_token or 0)}
            amounts |= {v for piece in self.cost.pieces for v in self.prefill_curve(piece, job)}
            amounts |= {v for piece in self.cost.pieces for v in self.decode_curve(piece, job)}
        for piece in self.cost.pieces:
            amounts |= {piece.base_us, us_from_ps(piece.decode_ps)}
            tiles = -(-self.engine.max_num_batched_tokens // (piece.tile_tokens or 1)) if piece.tile_ps else 0
            amounts |= {us_from_ps(piece.tile_ps * n) for n in range(min(tiles, LONGEST_TABLE) + 1)}
        return gcd(*amounts) or 1

    def scaled_for(self, name: str, caps: Mapping[str, int]) -> Problem:
        """Return the problem with a tick on whose grid an optimum of the objective `name` under `caps` lies.

        Proof: for fixed batches the best ends are the least solution of difference constraints (`solver.timing`), so
        they are sums and differences of durations, releases and gap limits, all multiples of their common divisor.
        Where gaps themselves are minimised, the best one is a mean over a cycle of constraints, rounded up to µs.
        With one common release waiting never shortens a gap, so ends are sums of durations alone.
        """
        tick = self.tick_us
        if len({job.release for job in self.jobs}) > 1:
            if name == "max_tbt":
                tick = 1
            tick = gcd(tick, caps.get("max_tbt", 0))
            if name == "slo_attainment" or "slo_attainment" in caps:
                tick = gcd(tick, *(job.request.tbt_slo_us or 0 for job in self.jobs))
        scaled = copy(self)
        scaled.__dict__["tick_us"] = tick
        return scaled

    def ticks(self, us: int) -> int:
        """Return µs as ticks, rounded down."""
        return us // self.tick_us

    def amount_ticks(self, name: str, amount: int) -> int:
        """Return an objective's amount in the model's units, rounded down (exact for reachable amounts)."""
        return amount if name in COUNTED else amount // self.tick_us

    def amount_us(self, name: str, amount: int) -> int:
        """Return the amount that `amount_ticks` was made from."""
        return amount if name in COUNTED else amount * self.tick_us

    def limits(self, limits: Mapping[str, float] | None) -> dict[str, int]:
        """Return limits in metric units as amounts (µs, sums, counts); see `limit_amounts`."""
        return limit_amounts(self.instance, limits)

    @cached_property
    def count_bound(self) -> int:
        """Iterations that suffice for every schedule: each one has a chunk or a decode, and there are no more."""
        return sum(self.most_chunks(job) + job.decodes for job in self.jobs)

    def most_chunks(self, job: Job) -> int:
        """Return the largest number of chunks that the prefill of `job` can have."""
        return self.engine.most_chunks(job.left)

    def fewest_chunks(self, job: Job) -> int:
        """Return a lower bound on the number of chunks of the prefill of `job`."""
        return -(-job.left // self.engine.largest_chunk)

    @cached_property
    def shortest_us(self) -> int:
        """A lower bound on the duration of every iteration, in µs: each does one of the `single_works` at least."""
        fixed = [piece.base_us + piece.tile_us(1) for piece in self.cost.pieces]
        return min((max(map(add, fixed, work)) for work in self.single_works()), default=max(fixed))

    def single_works(self) -> Iterator[tuple[int, ...]]:
        """Yield what each piece charges for one decode or one unit of a chunk, in µs; all others cost more."""
        pieces = self.cost.pieces
        for job in self.jobs:
            if job.decodes:
                yield tuple(piece.decode_us(job.held + job.left + 1) for piece in pieces)
            if job.left:
                curves = [self.prefill_curve(piece, job) for piece in pieces]
                yield from zip(*([b - a for a, b in pairwise(curve[:-1])] for curve in curves), strict=True)
                if job.remainder:
                    yield tuple(curve[-1] - curve[-2] for curve in curves)
