"""Which labels are dominated: for each state, the best values found."""

from __future__ import annotations

from solver.pooled.pool import Pool
from solver.pooled.states import END, LAST, Label, Live, Marks, longest

FREE = 1 << 40
"""Units since an arrival where their number does not matter."""


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
    """

    def __init__(self, pool: Pool, aim: str, *, exact_work: bool) -> None:
        self.pool = pool
        self.aim = aim
        self.exact_work = exact_work
        self.values: dict[object, list[tuple[int, ...]]] = {}

    def holds(self, label: Label) -> bool:
        """Return whether a label is still not dominated."""
        key, value = self._ranked(*label[2:13])
        return value in self.values.get(key, [])

    def add(
        self, paid: int, time: int, iterations: int, floor: int, units: int, done: int, arrived: int, joinable: bool,
        spare: bool, marks: Marks, live: Live
    ) -> bool:
        """Add a state; return False where a known one is at least as good."""
        key, value = self._ranked(paid, time, iterations, floor, units, done, arrived, joinable, spare, marks, live)
        known = self.values.setdefault(key, [])
        if any(all(a <= b for a, b in zip(other, value, strict=True)) for other in known):
            return False
        known[:] = [other for other in known if not all(b <= a for a, b in zip(other, value, strict=True))]
        known.append(value)
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
