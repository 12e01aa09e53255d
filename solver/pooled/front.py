"""Which labels are dominated: for each state, the best values found."""

from __future__ import annotations

import numpy as np

from solver.pooled.pool import Pool, Units
from solver.pooled.states import END, LAST, Label, Live, Marks, longest

FREE = 1 << 40
"""Units since an arrival where their number does not matter."""


class Nondominated:
    """Values of which none is as small as another in every component."""

    __slots__ = ("rows", "size")

    def __init__(self, value: tuple[int, ...]) -> None:
        self.rows: Units = np.array([value], dtype=np.int64)
        self.size = 1

    def holds(self, value: tuple[int, ...]) -> bool:
        """Return whether a value is among them."""
        return bool((self.rows[: self.size] == value).all(axis=1).any())

    def add(self, value: tuple[int, ...]) -> bool:
        """Add a value and drop those that it dominates; return False where one dominates it."""
        known, new = self.rows[: self.size], np.array(value, dtype=np.int64)
        if (known <= new).all(axis=1).any():
            return False
        kept = (known < new).any(axis=1)
        if not kept.all():
            known = known[kept]
            self.size = len(known)
            self.rows[: self.size] = known
        if self.size == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        self.rows[self.size] = new
        self.size += 1
        return True


class Front:
    """The nondominated labels of a search.

    More units are never worse at the same time: what comes later may process less. Where the floor under the time
    depends on units and needed iterations too, these are compared as well.

    Parameters
    ----------
    pool, aim
        Of the search.
    exact_work
        Whether that floor is above the time: for token times to the µs, or where whole prefills take longer than their
        tokens at the rate.

    Attributes
    ----------
    added
        States that were added, those that are dominated by now included.
    """

    def __init__(self, pool: Pool, aim: str, *, exact_work: bool) -> None:
        self.pool = pool
        self.aim = aim
        self.exact_work = exact_work
        self.fronts: dict[object, Nondominated] = {}
        self.added = 0

    def holds(self, label: Label) -> bool:
        """Return whether a label is still not dominated."""
        key, value = self._ranked(*label[2:13])
        front = self.fronts.get(key)
        return front is not None and front.holds(value)

    def add(
        self, paid: int, time: int, iterations: int, floor: int, units: int, done: int, arrived: int, joinable: bool,
        spare: bool, marks: Marks, live: Live
    ) -> bool:
        """Add a state; return False where a known one is at least as good."""
        key, value = self._ranked(paid, time, iterations, floor, units, done, arrived, joinable, spare, marks, live)
        front = self.fronts.get(key)
        if front is None:
            self.fronts[key] = Nondominated(value)
        elif not front.add(value):
            return False
        self.added += 1
        return True

    def _ranked(
        self, paid: int, time: int, iterations: int, floor: int, units: int, done: int, arrived: int, joinable: bool,
        spare: bool, marks: Marks, live: Live
    ) -> tuple[object, tuple[int, ...]]:
        """Return what must be equal, and what is better the smaller it is, of two labels that are compared."""
        since = dict(marks)
        counts = tuple(-since.get(number, FREE) for number in range(arrived))
        works = (floor, units) if self.exact_work else ()
        if self.aim == END:  # the work that is done need not be done later
            time -= self.pool.unit * self.pool.rate * units
        if self.aim == LAST:
            return (done, arrived, joinable, spare, live), (time, paid, -units, *counts, *works)
        return (done, arrived, joinable, spare), (time, paid, -units, longest(live), *counts, *works)
