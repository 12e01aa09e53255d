"""What the relaxation needs to know of a set of requests with their first tokens out; sets are bit masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instances.units import PS_PER_US
from solver.pooled.pool import Member, Pool, Units


@dataclass(frozen=True)
class Facts:
    """Facts about a set of members.

    Parameters
    ----------
    units, work
        All units of the set; the exact ps of its whole prefills.
    rest
        The other members.
    needed, tails, works
        For m = 1.. : the least units, tails' tokens and ps of whole prefills of any m members of the rest.
    alone
        In order: when the rest's first tokens are out at the earliest, each alone.
    weights
        Of the rest, the largest first.
    decodes
        The fewest decodes among the rest.
    end
        A time before which the last tokens of the rest are not all out, each alone.
    """

    units: int
    work: int
    rest: tuple[Member, ...]
    needed: Units
    tails: Units
    works: Units
    alone: Units
    weights: Units
    decodes: int
    end: int


class Sets:
    """Facts about sets, each worked out once."""

    def __init__(self, pool: Pool, works_us: dict[int, int]) -> None:
        self.pool = pool
        self.works = {index: work * PS_PER_US for index, work in works_us.items()}
        self._facts: dict[int, Facts] = {}
        self._since: dict[tuple[int, int], int] = {}

    def __getitem__(self, members: int) -> Facts:
        if members not in self._facts:
            self._facts[members] = self._made(members)
        return self._facts[members]

    def _made(self, members: int) -> Facts:
        inside = [m for i, m in enumerate(self.pool.members) if members >> i & 1]
        rest = [m for i, m in enumerate(self.pool.members) if not members >> i & 1]
        return Facts(
            units=sum(m.units for m in inside),
            work=sum(self.works[m.index] for m in inside),
            rest=tuple(rest),
            needed=_smallest_sums(m.units for m in rest),
            tails=_smallest_sums(m.tail for m in rest),
            works=_smallest_sums(self.works[m.index] for m in rest),
            alone=self._earliest(rest),
            weights=-np.sort(-np.array([m.weight for m in rest], dtype=np.int64)),
            decodes=min((m.decodes for m in rest), default=0),
            end=max((self._alone(m) + self.pool.base * m.decodes for m in rest), default=0),
        )

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
        return member.arrival + self.pool.base * -(-tokens // self.pool.full_tokens) + self.works[member.index]

    def units_since(self, members: int, arrival: int) -> int:
        """Return the units of the members of a set that arrive at `arrival` or later."""
        key = members, arrival
        if key not in self._since:
            inside = (m for i, m in enumerate(self.pool.members) if members >> i & 1)
            self._since[key] = sum(m.units for m in inside if m.arrival >= arrival)
        return self._since[key]


def _smallest_sums(values) -> Units:  # type: ignore[no-untyped-def]
    return np.cumsum(np.sort(np.fromiter(values, dtype=np.int64)))
