"""What the relaxation needs to know of a set of requests with their first tokens out; sets are bit masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from instances.units import PS_PER_US
from solver.pooled.pool import Member, Pool, Units

OUT_OF_REACH = 1 << 60
"""A time in ps that is later than any."""
FEW = 64
"""Rows of the table at first; it doubles."""


class Sets:
    """Facts about sets, each worked out once: row i of every array belongs to set ``masks[i]``.

    Columns m = 0.. of the wide arrays are about m + 1 members of the rest (that is, those outside); where there are
    fewer, the last one is repeated, with a weight of 0.

    Attributes
    ----------
    masks, sizes
        The sets, and how many members the rest has.
    units, works, charged
        All units of the set; the exact ps of its whole prefills; what all its decodes are charged.
    partial, most_partial
        Per number of units, the least and the most ps that so many of the rest take.
    since, early
        Per arrival after the first: units of the members that arrive then or later; those of the others.
    needed, tails, rest_works
        Wide: the least units and tails' tokens of any m + 1 members of the rest; the ps of whole prefills that so few
        units take and any m + 1 members beyond their units.
    alone
        Wide: a time before which no m + 1 first tokens of the rest are out.
    weights
        Wide: of the rest, the largest first.
    decodes
        Wide: of the rest, the fewest first.
    all_weights, least_weight
        Σ weight and the least weight of the rest.
    decoding
        Σ weight x least duration of the decodes of the rest.
    end
        A time before which the last tokens of the rest are not all out, each alone.
    """

    def __init__(self, pool: Pool, curves_us: Mapping[int, Sequence[int]]) -> None:
        self.pool = pool
        self.prefills = {index: curve[-1] * PS_PER_US for index, curve in curves_us.items()}
        self._curves = {index: [work * PS_PER_US for work in curve[:-1]] for index, curve in curves_us.items()}
        self._rows: dict[int, int] = {}
        wide = len(pool.members)
        self.masks, self.sizes, self.units, self.works, self.charged = (self._empty() for _ in range(5))
        self.partial, self.most_partial = self._empty(pool.total + 1), self._empty(pool.total + 1)
        self.since, self.early = self._empty(len(pool.arrivals)), self._empty(len(pool.arrivals))
        self.needed, self.tails, self.rest_works, self.alone, self.weights = (self._empty(wide) for _ in range(5))
        self.decodes = self._empty(wide)
        self.all_weights, self.least_weight, self.decoding, self.end = (self._empty() for _ in range(4))

    def _empty(self, *wide: int) -> Units:
        return np.zeros((FEW, *wide), dtype=np.int64)

    def rows(self, masks: Iterable[int]) -> Units:
        """Return the rows of sets."""
        return np.array([self.row(mask) for mask in masks], dtype=np.int64)

    def row(self, mask: int) -> int:
        """Return the row of a set."""
        if mask not in self._rows:
            row = len(self._rows)
            if row == len(self.masks):
                for name, values in vars(self).items():
                    if isinstance(values, np.ndarray):
                        setattr(self, name, np.concatenate([values, np.zeros_like(values)]))
            self._rows[mask] = row
            self._fill(row, mask)
        return self._rows[mask]

    def rest(self, mask: int) -> list[Member]:
        """Return the members outside a set."""
        return [m for i, m in enumerate(self.pool.members) if not mask >> i & 1]

    def _fill(self, row: int, mask: int) -> None:
        inside = [m for i, m in enumerate(self.pool.members) if mask >> i & 1]
        rest, arrivals = self.rest(mask), self.pool.arrivals
        self.masks[row], self.sizes[row] = mask, len(rest)
        self.units[row] = sum(m.units for m in inside)
        self.works[row] = sum(self.prefills[m.index] for m in inside)
        self.charged[row] = sum(m.decodes * m.token_ps for m in inside)
        self.since[row] = [sum(m.units for m in inside if m.arrival >= when) for when in arrivals]
        self.early[row] = self.units[row] - self.since[row]
        self.partial[row], self.most_partial[row] = self._partials(mask)
        if not rest:
            return
        wide = len(self.pool.members) - len(rest)
        self.needed[row] = _widened(_smallest_sums(m.units for m in rest), wide)
        self.tails[row] = _widened(_smallest_sums(m.tail for m in rest), wide)
        beyond = _smallest_sums(self.prefills[m.index] - m.units * self.pool.unit_ps for m in rest)
        self.rest_works[row] = self.needed[row] * self.pool.unit_ps + _widened(beyond, wide)
        self.alone[row] = _widened(self._earliest(rest), wide)
        self.weights[row, : len(rest)] = sorted((m.weight for m in rest), reverse=True)
        self.all_weights[row] = sum(m.weight for m in rest)
        self.least_weight[row] = min(m.weight for m in rest)
        self.decodes[row] = _widened(np.sort(np.array([m.decodes for m in rest])), wide)
        self.decoding[row] = sum(m.weight * (m.decodes * self.pool.base + m.decode_ps) for m in rest)
        self.end[row] = max(self._alone(m) + self.pool.base * m.decodes for m in rest)

    def _partials(self, mask: int) -> tuple[Units, Units]:
        """Return per number of units the least and the most ps that so many units of the rest take.

        One more member than of a larger set: it has any number of the units. Prefills telescope, so no rounding is
        left out. Numbers that the rest does not have are out of reach.
        """
        place = next((i for i in range(len(self.pool.members)) if not mask >> i & 1), None)
        least, most = np.full((2, self.pool.total + 1), OUT_OF_REACH)
        if place is None:
            least[0] = most[0] = 0
            return least, -most
        others = self.row(mask | 1 << place)
        member = self.pool.members[place]
        for units, work in enumerate(self._curves[member.index][: member.units + 1]):
            some = slice(units, None)
            np.minimum(least[some], self.partial[others, : least.size - units] + work, out=least[some])
            np.minimum(most[some], -self.most_partial[others, : least.size - units] - work, out=most[some])
        return least, -most

    def _earliest(self, rest: list[Member]) -> Units:
        """Return for m = 1.. a time before which no m first tokens of the rest are out.

        Each alone; and for every arrival r: if e of the rest arrive before r, m - e of the m arrive later, and the
        units of these are processed after r.
        """
        best = np.sort(np.array([self._alone(m) for m in rest], dtype=np.int64))
        for arrival in {m.arrival for m in rest}:
            late = [m for m in rest if m.arrival >= arrival]
            units = _smallest_sums(m.units for m in late)
            tokens = units * self.pool.unit + _smallest_sums(m.tail for m in late)
            time = arrival + self.pool.base * -(-tokens // self.pool.full_tokens) + tokens * self.pool.rate
            best[len(rest) - len(late):] = np.maximum(best[len(rest) - len(late):], time)
        return best

    def _alone(self, member: Member) -> int:
        tokens = member.units * self.pool.unit + member.tail
        return member.arrival + self.pool.base * -(-tokens // self.pool.full_tokens) + self.prefills[member.index]


def _smallest_sums(values: Iterable[int]) -> Units:
    return np.cumsum(np.sort(np.fromiter(values, dtype=np.int64)))


def _widened(values: Units, wide: int) -> Units:
    return np.pad(values, (0, wide), mode="edge")
