"""The pooled relaxation: who gets a chunk is forgotten, only how much has been prefilled in all.

A schedule is seen as a sequence of iterations, each with a number of chunk units, and of first tokens. The first
tokens of a set S need all units of S in the pool; that is necessary, and by earliest-deadline-first nearly sufficient.
From its first token on a request is *live* for as many iterations as it has decodes; what an iteration with a live
request can prefill is limited by the TBT limit. Times are integers in picoseconds.

Proof that it is a relaxation. Take any schedule that obeys the limits; c_i is the iteration of the first token of i.
- The first tokens of S are out after iteration k only if all prefill tokens of S have been processed, so the units
  processed by then are at least those of S. Units that were processed before time r belong to requests that arrived
  before r, so those of S that arrived later need as many units after r.
- Between its first and its last token i emits one token per iteration, so it stays unfinished for at least
  `decodes` iterations. Each of them lies in one of its gaps, which is at most G long: base and prefill of the
  iteration, and i's own decode or at least another iteration's base, fit into G.
- An iteration lasts at least its base and its prefill work at the smallest rate. F is rounded, but telescopes: of each
  request the work since any moment is at least its tokens times the rate, less 1 µs. So every time is at least the
  relaxed one less 1 µs per request.
Limits on memory, seats and shapes of chunks are forgotten, and so is the upper limit on idling. Decodes cost nothing
but what last tokens count of their own request's, and, where `pays_for_pauses`, what every iteration is charged.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from instances.cost_model import Piece
from instances.units import PS_PER_US
from solver.pooled.pauses import pays_for_pauses, steps
from solver.problem import Job, Problem

Units = NDArray[np.int64]
MOST_UNITS = 600
"""Largest pool: above, the tables and the number of choices are too long."""
MOST_MEMBERS = 60
"""Sets of more do not fit into an integer of 64 bits."""
LARGEST_SUM = 1 << 60
"""Sums of weights x times in ps stay below this."""


@dataclass(frozen=True)
class Member:
    """A request in the pool.

    Parameters
    ----------
    index
        Of its job.
    units, tail
        Chunk units to prefill, and the tokens that only end the prefill.
    arrival
        In ps from the origin.
    decodes, decode_ps, token_ps
        Decodes after the prefill, what they cost at least in all, and what each of them is charged to all who wait.
    weight
        In the objective.
    """

    index: int
    units: int
    tail: int
    arrival: int
    decodes: int
    decode_ps: int
    weight: int
    token_ps: int = 0

    @property
    def own_ps(self) -> int:
        """What the decodes cost beyond what all are charged."""
        return self.decode_ps - self.decodes * self.token_ps


class Pool:
    """The relaxation of a problem for one piece of its cost.

    Parameters
    ----------
    problem
        What.
    piece
        Of the cost: every iteration lasts at least what one piece charges.
    gap_us
        Largest TBT gap, None without a limit.
    weights
        Per job, its weight in the objective; 0 where its token was out before time 0.
    last_tokens
        Whether the objective is on last tokens.
    """

    def __init__(
        self, problem: Problem, piece: Piece, gap_us: int | None, weights: dict[int, int], *, last_tokens: bool = False
    ) -> None:
        self.problem = problem
        self._piece = piece
        self.base = piece.base_us * PS_PER_US
        self.rate = piece.prefill_ps
        self.unit = max((job.unit for job in problem.jobs if job.left), default=1)
        evicts = problem.engine.preemption != "none"  # the end of a prefill may stand for a decode

        curves = {job.index: problem.decode_curve(piece, job) for job in problem.jobs}
        charges = last_tokens and not evicts and pays_for_pauses(piece.base_us, curves, weights)

        def own(job: Job) -> int:
            return 0 if evicts else curves[job.index][-1] * PS_PER_US

        def each(job: Job) -> int:
            return min(steps(curves[job.index]), default=0) * PS_PER_US if charges else 0

        self.members = tuple(
            Member(job.index, job.units, job.remainder, job.arrival * PS_PER_US, job.decodes,
                   own(job), weights.get(job.index, 0), each(job))
            for job in problem.jobs
        )
        self.full_tokens = problem.engine.max_num_batched_tokens
        self.live_tokens = self._live_tokens(piece, gap_us)
        self.total = sum(member.units for member in self.members)
        self._tables: dict[int, Units] = {}

    def _live_tokens(self, piece: Piece, gap_us: int | None) -> int:
        """Return the most prefill tokens of an iteration in which a request is live."""
        if gap_us is None or not piece.prefill_ps:
            return self.full_tokens
        least = [piece.decode_us(job.held + job.left + 1) for job in self.problem.jobs if job.decodes]
        decode = min(min(least, default=0), self.problem.shortest_us)
        own = decode if self.problem.engine.preemption == "none" else 0
        room = gap_us - piece.base_us - own + len(self.members)
        return max(0, min(self.full_tokens, room * PS_PER_US // piece.prefill_ps))

    def of(self, members: Iterable[Member]) -> Pool:
        """Return the relaxation of some of the members alone; without the others a schedule is none the slower."""
        part = copy(self)
        for name, value in vars(Pool).items():
            if isinstance(value, cached_property):
                vars(part).pop(name, None)
        part.members = tuple(members)
        part.total = sum(member.units for member in part.members)
        part._tables = {}
        return part

    def mask(self, indexes: Container[int]) -> int:
        """Return the members of some jobs, as a mask."""
        return sum(1 << place for place, member in enumerate(self.members) if member.index in indexes)

    @property
    def unit_ps(self) -> int:
        """The least ps that a unit takes."""
        return self.unit * self.rate

    @property
    def charged_ps(self) -> int:
        """What decodes that a schedule puts off may take off a time."""
        return sum(member.decodes * member.token_ps for member in self.members)

    @property
    def slack_ps(self) -> int:
        """What rounding may take off a time.

        Up to 1 µs per request in a schedule; and where one label dominates another of the same set whose times idle,
        its whole prefills may be rounded up by half of that.
        """
        return 2 * len(self.members) * PS_PER_US

    @cached_property
    def applies(self) -> bool:
        """Whether the pool has units of one size, and few enough, and its sums are integers of 64 bits."""
        sizes = {job.unit for job in self.problem.jobs if job.left}
        if len(sizes) != 1 or len(self.members) > MOST_MEMBERS or self._largest_sum > LARGEST_SUM:
            return False
        return 0 < self.total <= MOST_UNITS and self.base > 0 and self.full_tokens >= self.unit

    @property
    def _largest_sum(self) -> int:
        """Σ weight x the latest time of any path: an iteration per unit, tail and decode after the last arrival."""
        curves = [self.problem.prefill_curve(self._piece, job)[-1] for job in self.problem.jobs]
        alone = [m.decode_ps + self.base * (m.units + 1 + m.decodes) for m in self.members]
        end = max(m.arrival for m in self.members) + sum(alone) + sum(curves) * PS_PER_US
        return end * max(1, sum(m.weight for m in self.members))

    @cached_property
    def decodes(self) -> Units:
        """Decodes of the members."""
        return np.array([member.decodes for member in self.members], dtype=np.int64)

    @cached_property
    def tokens(self) -> Units:
        """What each decode of the members is charged, in ps."""
        return np.array([member.token_ps for member in self.members], dtype=np.int64)

    @cached_property
    def weights(self) -> Units:
        """Weights of the members."""
        return np.array([member.weight for member in self.members], dtype=np.int64)

    @cached_property
    def arrivals(self) -> tuple[int, ...]:
        """Different arrivals after the first, in order."""
        return tuple(sorted({member.arrival for member in self.members} - {0}))

    def plain_work(self, member: Member) -> int:
        """Return the ps of a whole prefill at the rate per token."""
        return (member.units * self.unit + member.tail) * self.rate

    def work(self, units: Units) -> Units:
        """Return the least ps that units take."""
        return units * self.unit_ps

    def iterations(self, tail: int) -> Units:
        """Return per live iterations and number of units the fewest iterations that hold them.

        A request is live in the first ones, at most `longest` of them; `tail` more tokens fit into the last one. At
        least one iteration is counted.
        """
        if tail not in self._tables:
            live = np.arange(self.longest + 1)
            limits = np.where(live[None, :] < live[:, None], self.live_tokens, self.full_tokens)
            before = np.cumsum(limits // self.unit, axis=1) - limits // self.unit
            reach = np.where(limits >= tail, before + np.maximum(0, limits - tail) // self.unit, -1)
            reach = np.maximum.accumulate(reach, axis=1)
            pooled = np.arange(self.total + 2)
            self._tables[tail] = np.array([np.searchsorted(row, pooled) + 1 for row in reach], dtype=np.int64)
        return self._tables[tail]

    @cached_property
    def longest(self) -> int:
        """More iterations than any block of the pool needs."""
        return self.total // max(1, self.live_units) + max(member.decodes for member in self.members) + 3

    @property
    def full_units(self) -> int:
        """Most units of an iteration."""
        return self.full_tokens // self.unit

    @property
    def live_units(self) -> int:
        """Most units of an iteration with a live request."""
        return self.live_tokens // self.unit
