"""ZoneSweep: a complete frontier of three or more axes, by ε-constraint solves in search zones (`solver.zones`).

In a zone with corner u the first axis is minimised under "better than u on every axis", then the second one at that
value, and so on: the point is nondominated. An empty zone is closed, and its proof bounds all zones inside it.

With a grid of step s_j on a later axis "better than u_j" means z_j <= u_j - s_j. At the end every schedule z has a
point p with p_1 <= z_1 and p_j <= z_j + s_j - 1: else no point would cover (z_1, z_2 + s_2 - 1, ...), so it would lie
in some zone, z would obey that zone's limits, and the zone could not have been closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from instances.objectives import Objective, amount_key
from solver.answer import Answer
from solver.proofs import NEVER, Proofs
from solver.search import Search
from solver.sweep import TIE_BREAK_S, Point
from solver.zones import Corner, Zones

SHARE = 0.2
"""Largest share of the time left that one solve may take."""


class ZoneSweep:
    """The search for one frontier.

    Parameters
    ----------
    search
        Of the instance.
    axes
        At least two.
    limits
        Largest amounts allowed.
    steps
        Per axis, by how much a point must be better than another to be looked for (1 on the first).

    Attributes
    ----------
    points
        Found so far; some may be dominated.
    open
        Zones in which points may be missing.
    infeasible
        Whether no schedule obeys the limits (proved).
    """

    def __init__(
        self, search: Search, axes: Sequence[Objective], limits: Mapping[str, int], steps: Sequence[int]
    ) -> None:
        self.search = search
        self.instance = search.instance
        self.axes = tuple(axes)
        self.keys = tuple(amount_key(axis.name) for axis in axes)
        self.limits = dict(limits)
        self.steps = tuple(steps)
        self.zones = Zones([NEVER] * len(self.axes))
        self.proofs = Proofs()
        self.points: list[Point] = []
        self.open: list[dict[str, Any]] = []
        self.infeasible = False

    @property
    def cut(self) -> bool:
        """Whether points may be missing."""
        return bool(self.open)

    def run(self) -> None:
        """Search all zones, and once more those that took too long."""
        aside = self._search_all(SHARE)
        if aside and not self._stopped:
            self.zones.open += aside
            aside = self._search_all(1 / len(aside))
        self.open = [self._zone(corner) for corner in sorted([*self.zones.open, *aside])]
        if not self.open and max(self.steps) == 1:
            # Nothing that no point covers is left, so what no other point dominates is nondominated.
            for point in self.points:
                point.proved = True

    @property
    def _stopped(self) -> bool:
        return self.search.interrupted or not self.search.clock.left_s

    def _search_all(self, share: float) -> list[Corner]:
        """Search the open zones; return those that were put aside because nothing was found or proved in time."""
        aside = []
        while self.zones.open and not self._stopped:
            corner = self.zones.take(self._width)
            answer = self._least(0, self._caps(corner), share)
            if answer.best is not None:
                point = self._completed(answer, corner, share)
                self.points.append(point)
                self.zones.split(point.amounts)
            elif answer.proved:
                self.infeasible = not self.points and min(corner) == NEVER
                self.zones.close(corner)
            else:
                aside.append(corner)
                self.zones.put_aside(corner)
        return aside

    def _width(self, corner: Corner) -> int:
        """Return the room between what is known at best and the corner."""
        worst = [max((point.amounts[at] for point in self.points), default=0) + 1 for at in range(len(corner))]
        least = [self.search.bounds.amount(key) for key in self.keys]
        return prod(max(1, min(edge, top) - low) for edge, top, low in zip(corner, worst, least, strict=True))

    def _caps(self, corner: Corner) -> dict[str, int]:
        """Return the limits of a zone."""
        caps = dict(self.limits)
        for key, edge, step in zip(self.keys, corner, self.steps, strict=True):
            if edge < NEVER:
                caps[key] = min(edge - step, caps.get(key, edge))
        return caps

    def _least(self, at: int, caps: Mapping[str, int], share: float) -> Answer:
        """Return the least amount of one axis under caps, with what is proved about it already."""
        key = self.keys[at]
        known = self.proofs.bound(key, caps)
        if known > caps.get(key, NEVER - 1):
            return Answer(None, None, True)
        limit = max(share * self.search.clock.left_s, 0.1)
        answer = self.search.optimum(key, caps, time_limit=limit, at_least=known)
        if answer.best is None and answer.proved:
            self.proofs.add(key, caps, None)
        elif answer.bound is not None:
            self.proofs.add(key, caps, answer.bound)
        return answer

    def _completed(self, answer: Answer, corner: Corner, share: float) -> Point:
        """Return the point of an answer on the first axis: the best on the others in order, mean E2E breaking ties."""
        assert answer.best is not None
        known, proved, caps = answer.best, answer.proved, self._caps(corner)
        bounds = [answer.bound or 0]
        for at in range(1, len(self.keys)):
            caps[self.keys[at - 1]] = known.amounts[self.keys[at - 1]]
            least = Answer(None, None, False) if self._stopped else self._least(at, caps, share)
            known, proved = least.best or known, proved and least.proved
            bounds.append(max(least.bound or 0, self.search.bounds.amount(self.keys[at])))
        caps[self.keys[-1]] = known.amounts[self.keys[-1]]
        if proved and not self._stopped and "mean_e2e" not in self.keys:
            known = self.search.optimum("mean_e2e", caps, time_limit=TIE_BREAK_S).best or known
        reached = tuple(known.amounts[key] for key in self.keys)
        return Point(known, reached, reached if proved else tuple(bounds), proved)

    def bounds_at(self, amounts: Sequence[int]) -> tuple[int, ...]:
        """Return per axis what is proved of schedules that are no worse than `amounts` on all the others."""
        caps = {**self.limits, **dict(zip(self.keys, amounts, strict=True))}
        found = []
        for key, amount in zip(self.keys, amounts, strict=True):
            others = {other: cap for other, cap in caps.items() if other != key}
            found.append(min(amount, max(self.search.bounds.amount(key), self.proofs.bound(key, others))))
        return tuple(found)

    def _zone(self, corner: Corner) -> dict[str, Any]:
        """Return an open zone in the axes' units: points may be missing that are better than its corner."""
        caps = self._caps(corner)
        others = {key: cap for key, cap in caps.items() if key != self.keys[0]}
        least = [self.search.bounds.amount(key) for key in self.keys]
        least[0] = max(least[0], self.proofs.bound(self.keys[0], others))
        return {
            "better_than": {
                axis.name: None if edge == NEVER else axis.value(self.instance, edge)
                for axis, edge in zip(self.axes, corner, strict=True)
            },
            "bounds": {
                axis.name: axis.value(self.instance, low) for axis, low in zip(self.axes, least, strict=True)
            },
        }
