"""What has been paid when an event happens, and when that is to the µs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.pooled.pool import Pool, Units
from solver.pooled.sets import Sets
from solver.pooled.states import AWAITED, END, LAST, Choices, Label, States


class Payments:
    """Weights x token times, of one search.

    Parameters
    ----------
    pool, sets, aim
        Of the search.
    exact
        Whether times are raised to what has been processed exactly; else `slack_ps` is taken off for rounding.
    """

    def __init__(self, pool: Pool, sets: Sets, aim: str, *, exact: bool) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.exact = exact

    def paid(self, states: States, choices: Choices) -> Units:
        """Return what has been paid after the events: weights x token times."""
        paid = states.paid[choices.label]
        if self.aim == END:
            return paid
        due = self._due(states, choices)
        pool, first, place = self.pool, choices.event >= 0, choices.place
        if self.aim == LAST:
            own = np.array([member.weight * member.own_ps for member in pool.members])
            paid = paid + np.where(first, own[place], 0)
            first &= pool.decodes[place] == 0
        paid = paid + np.where(first, pool.weights[place] * due, 0)
        ends = states.left[choices.label] == choices.count[:, None]
        weight = np.where(ends, states.weight[choices.label], 0).sum(axis=1)
        total: Units = paid + weight * due
        return total

    def _due(self, states: States, choices: Choices) -> Units:
        """Return when the events are at the earliest, to the µs; times that are earlier are raised to it.

        Times may be up to `slack_ps` too late, for rounding. What has been processed from the start on is exact: the
        floor, whole prefills, the least that units of others take, decodes.
        """
        if not self.exact:
            return choices.time - self.pool.slack_ps
        pool, sets, row, label = self.pool, self.sets, choices.row, choices.label
        left = np.maximum(states.left[label] - choices.count[:, None], 0)
        entering = np.where(choices.event >= 0, (pool.decodes * pool.tokens)[choices.place], 0)
        decoded = sets.charged[row] - (left * states.token[label]).sum(axis=1) - entering
        work = sets.works[row] + sets.partial[row, choices.units - sets.units[row]] + decoded
        processed = states.floor[label] + pool.base * (choices.count - choices.idle) + work
        due: Units = np.maximum(processed, choices.time - pool.slack_ps)
        # (Where an arrival is awaited, its time is known.)
        choices.time = np.where(choices.event == AWAITED, choices.time, np.maximum(choices.time, due))
        return due

    def floor(self, label: Label, choices: Choices, n: int, live: Sequence[tuple[int, int, int]]) -> int:
        """Return the floor after a choice; where an arrival was awaited, what follows comes after it."""
        sets, row = self.sets, int(choices.row[n])
        floor = label.floor + self.pool.base * (int(choices.count[n]) - int(choices.idle[n]))
        # The end counts decodes that are not charged, and how many of them came before is not known here.
        if self.aim == END or int(choices.event[n]) != AWAITED or int(choices.time[n]) != (
            when := self.pool.arrivals[label.arrived]
        ):
            return floor
        processed = sets.works[row] + sets.most_partial[row, int(choices.units[n]) - sets.units[row]]
        decoded = int(sets.charged[row]) - sum(max(left, 0) * token for left, _, token in live)
        return max(floor, when - int(processed) - decoded)
