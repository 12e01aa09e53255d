"""Bounds on what labels cost that know when requests arrive."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from solver.pooled.late import Splits
from solver.pooled.pool import Pool, Units
from solver.pooled.remaining import remaining_of
from solver.pooled.sets import Sets
from solver.pooled.states import Label, States


class Later:
    """Bounds on what labels cost that know when requests arrive.

    One is the preemptive shortest-remaining-first schedule of all that is left; the other takes the late ones apart.

    Parameters
    ----------
    pool, sets, aim, splits
        Of the search; the aim is on first or last tokens.
    """

    def __init__(self, pool: Pool, sets: Sets, aim: str, splits: Splits) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.splits = splits
        self._jobs: dict[int, list[tuple[int, int]]] = {}

    def refined(self, labels: Sequence[Label]) -> list[Label]:
        """Return the labels with the best bound on every completion of theirs, and how they are taken apart for it."""
        found = [label._replace(split=0) for label in labels]
        for split, number in enumerate(self.splits.numbers.tolist()):
            # With nobody yet to arrive, the bound by units says as much.
            some = [n for n, each in enumerate(labels) if each.arrived <= number and self._awaits(each)]
            if not some:
                continue
            states = States.of([labels[n]._replace(split=split) for n in some], self.sets)
            soonest = self._soonest([labels[n] for n in some], self.splits.masks[split])
            bounds = states.paid + remaining_of(self.pool, self.sets, self.splits, self.aim, states, soonest)
            for n, bound in zip(some, bounds.tolist(), strict=True):
                if bound > found[n].estimate:
                    found[n] = labels[n]._replace(estimate=bound, split=split)
        return found

    def _awaits(self, label: Label) -> bool:
        return label.arrived < len(self.pool.arrivals)

    def _soonest(self, labels: Sequence[Label], late: int) -> Units:
        """Return per label when so many first tokens of those that are not late are out, at the earliest."""
        times = [self._completions(label, late) for label in labels]
        wide = max(len(each) for each in times)
        return np.array([each + [0] * (wide - len(each)) for each in times], dtype=np.int64)

    def _completions(self, label: Label, late: int) -> list[int]:
        """Return the completions of the preemptive shortest-remaining-first schedule from a label on, in order.

        Proof: an iteration holds at most `full_tokens`, so each prefill may be charged its work and a share of the
        base; shares do not overlap in time. Of all preemptive schedules shortest-remaining-first has completed the most
        prefills at any time (Schrage 1968), so its m-th completion is no later than the m-th first token. Units in the
        pool that belong to unfinished requests are at best the ones it would have processed just before the label.
        """
        pool, sets = self.pool, self.sets
        row = sets.row(label.done | late)
        spare = label.units - int(sets.units[sets.row(label.done)])
        done = int(sets.most_partial[row, spare]) - (-spare * pool.unit * pool.base // pool.full_tokens)
        clock, jobs = label.time - done, self._lengths(row)
        here = pool.arrivals[label.arrived] if label.arrived < len(pool.arrivals) else 1 << 62
        lengths = sorted(length for arrival, length in jobs if arrival < here)
        found: list[int] = []
        for arrival, length in [job for job in jobs if job[0] >= here]:
            clock = _processed(lengths, clock, arrival, found)
            heappush(lengths, length)
        _processed(lengths, clock, 1 << 62, found)
        return found

    def _lengths(self, row: int) -> list[tuple[int, int]]:
        """Return the (arrival, length) of the rest of a set, in order."""
        if row not in self._jobs:
            pool, sets = self.pool, self.sets
            self._jobs[row] = sorted(
                (m.arrival, sets.prefills[m.index] + (m.units * pool.unit + m.tail) * pool.base // pool.full_tokens)
                for m in sets.rest(int(sets.masks[row]))
            )
        return self._jobs[row]


def _processed(lengths: list[int], clock: int, until: int, found: list[int]) -> int:
    """Process the shortest of a heap of lengths until a time, append the completions, and return the time."""
    while lengths and clock + lengths[0] <= until:
        clock += heappop(lengths)
        found.append(clock)
    if lengths and clock < until:
        heappush(lengths, heappop(lengths) - (until - clock))
    return max(clock, until)
