"""When the first tokens of the rest come at the earliest, by the preemptive shortest-remaining-first schedule."""

from __future__ import annotations

import numpy as np

from solver.pooled.pool import Pool, Units
from solver.pooled.sets import OUT_OF_REACH, Sets

TOGETHER = 8
"""Arrivals that are no further apart than this part of a base count as one, the first of them."""


class Srpt:
    """The schedule in which the prefill with the least work left always runs, a share of the base added to its work.

    Proof that its m-th completion is no later than the m-th first token: an iteration holds at most `full_tokens`, so
    each prefill may be charged its work and a share of the base; what is charged does not overlap in time. Of all
    preemptive schedules this one has completed the most prefills at any time (Schrage 1968). Units in the pool that
    belong to unfinished requests are at best those that it would have processed just before.
    """

    def __init__(self, pool: Pool, sets: Sets) -> None:
        self.pool = pool
        self.sets = sets
        self.never = OUT_OF_REACH // (2 + len(pool.members))
        self.lengths = np.array([
            sets.prefills[m.index] + (m.units * pool.unit + m.tail) * pool.base // pool.full_tokens
            for m in pool.members
        ], dtype=np.int64)
        self.numbers = np.array([sum(when <= m.arrival for when in pool.arrivals) for m in pool.members])
        self.groups = self._groups()

    def _groups(self) -> list[tuple[int, Units]]:
        """Return (time, places of the members that arrive about then), in order, without the first arrivals."""
        groups: list[tuple[int, Units]] = []
        for number, when in enumerate(self.pool.arrivals, start=1):
            places = np.nonzero(self.numbers == number)[0]
            if groups and when - groups[-1][0] <= self.pool.base // TOGETHER:
                groups[-1] = groups[-1][0], np.append(groups[-1][1], places)
            else:
                groups.append((when, places))
        return groups

    def completions(self, row: Units, spare: Units, time: Units, arrived: Units) -> Units:
        """Return, states x members, the completions in order.

        Parameters
        ----------
        row
            Of the set of members that do not count.
        spare, time, arrived
            Units in the pool that belong to the rest, the time, and arrivals that have passed.
        """
        pool, sets = self.pool, self.sets
        base = -(-spare * pool.unit * pool.base // pool.full_tokens)
        clock = time - sets.most_partial[row, spare] - base
        counts = sets.masks[row][:, None] >> np.arange(self.lengths.size) & 1 == 0
        lengths = np.where(counts & (self.numbers <= arrived[:, None]), self.lengths, self.never)
        found = np.full(lengths.shape, self.never)
        size = np.zeros_like(clock)
        for when, places in self.groups:
            some = np.nonzero(arrived < self.numbers[places].max())[0]
            if not some.size:
                continue
            self._process(lengths, clock, when, found, size, some)
            new = counts[np.ix_(some, places)] & (self.numbers[places] > arrived[some, None])
            # Whoever is new takes the place of one that is done or never comes; these are last.
            values = -np.sort(-np.where(new, self.lengths[places], self.never), axis=1)
            lengths[some, -len(places):] = np.minimum(lengths[some, -len(places):], values)
        self._process(lengths, clock, self.never // 2, found, size, np.arange(clock.size))
        return found

    def _process(self, lengths: Units, clock: Units, until: int, found: Units, size: Units, some: Units) -> None:
        """Process the shortest lengths of some rows until a time, and note the completions."""
        order = np.sort(lengths[some], axis=1)
        ends = clock[some, None] + np.cumsum(order, axis=1)
        done = ends <= until
        rows, places = np.nonzero(done)
        found[some[rows], size[some[rows]] + places] = ends[rows, places]
        size[some] += done.sum(axis=1)
        left = np.where(done, self.never, np.minimum(order, ends - until))
        lengths[some] = np.sort(left, axis=1)
        clock[some] = np.maximum(clock[some], until)
