"""Requests taken apart by their arrival: those before some time, and the late ones, which cost what they cost alone.

Proof that both parts add up: without the tokens and units of the late ones a path of the relaxation is one of the
others, and no later; and of a schedule the late ones are a schedule of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solver.pooled.pool import Pool, Units
from solver.pooled.sets import Sets

MOST_SPLITS = 4
"""Times at which the requests are taken apart: after the longest pauses between arrivals."""


@dataclass(frozen=True)
class Late:
    """Members that arrive at some time or later.

    Parameters
    ----------
    number
        Of their first arrival, in the pool's.
    mask
        Of the members.
    least
        Lower bound on Σ weight x time of their tokens (first or last ones), in ps.
    """

    number: int
    mask: int
    least: int


class Splits:
    """Ways to take the members apart, side by side; number 0 is not to.

    Attributes
    ----------
    masks, numbers, least
        As of `Late`.
    """

    def __init__(self, pool: Pool, sets: Sets, late: Sequence[Late]) -> None:
        self.sets = sets
        self.masks = [0, *(each.mask for each in late)]
        self.numbers: Units = np.array([len(pool.arrivals), *(each.number for each in late)])
        self.least: Units = np.array([0, *(each.least for each in late)])

    def rows(self, row: Units, split: Units) -> Units:
        """Return the rows of sets joined by who is late."""
        found = row.astype(np.int64)
        for number, mask in enumerate(self.masks):
            some = split == number
            if mask and some.any():
                unique, where = np.unique(row[some], return_inverse=True)
                found[some] = self.sets.rows(int(known) | mask for known in self.sets.masks[unique])[where]
        return found


def splits(pool: Pool) -> list[int]:
    """Return the numbers of the arrivals after the longest pauses of an iteration or more, the last one first."""
    pauses = [
        (after - before, number) for number, (before, after) in enumerate(pairwise((0, *pool.arrivals)))
        if after - before >= pool.base
    ]
    return sorted((number for _, number in sorted(pauses, reverse=True)[:MOST_SPLITS]), reverse=True)


def latecomers(pool: Pool, least: Callable[[Pool, Sequence[Late]], int]) -> list[Late]:
    """Return those who are late for each split; `least` bounds their tokens, given those who come even later.

    Parameters
    ----------
    pool
        Of all members.
    least
        Told a pool of the late ones, and who of them is later still.
    """
    found: list[tuple[int, frozenset[int], int]] = []
    for number in splits(pool):
        when = pool.arrivals[number]
        members = [m for m in pool.members if m.arrival >= when]
        part = pool.of(members)
        later = [Late(part.arrivals.index(time), part.mask(indexes), value) for time, indexes, value in found]
        found.append((when, frozenset(m.index for m in members), least(part, later)))
    return [Late(pool.arrivals.index(time), pool.mask(indexes), value) for time, indexes, value in found]
