"""Sweep: ε-constraint with a second, lexicographic solve per point, from both ends.

The best first axis under a limit on the second, then the best second axis at that first one: no weakly dominated
point appears. After both ends the limit moves by one step below the last point; when many points lie close together
(delaying a token by 1 µs can buy 1 µs of TBT), the widest open interval is cut in half instead, so that a frontier
cut short is known evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instances.objectives import Objective, amount_key
from solver.answer import Answer
from solver.incumbent import Candidate
from solver.search import Search

SEQUENTIAL = 24
"""Points found one after the other before the widest open interval is cut in half instead."""
SHARE = 0.35
"""Largest share of the time left that one solve may take."""
TIE_BREAK_S = 1.0
"""Seconds at most, per point, for the best mean E2E among the schedules with its values."""


@dataclass
class Point:
    """A point in amounts, one per axis, with what is proved about it.

    No schedule that is no worse on all other axes has an amount below the `bounds` on an axis; `proved` says that
    none of them is better at all.
    """

    known: Candidate
    amounts: tuple[int, ...]
    bounds: tuple[int, ...]
    proved: bool

    @property
    def x(self) -> int:
        """Amount on the first axis."""
        return self.amounts[0]

    @property
    def y(self) -> int:
        """Amount on the second axis."""
        return self.amounts[1]

    @property
    def x_bound(self) -> int:
        """Bound on the first axis: no schedule with a second amount of at most `y` is below it."""
        return self.bounds[0]

    @property
    def y_bound(self) -> int:
        """Bound on the second axis: no schedule with a first amount of at most `x` is below it."""
        return self.bounds[1]


class Sweep:
    """The search for one frontier.

    Parameters
    ----------
    search
        Of the instance.
    first, second
        Axes.
    limits
        Largest amounts allowed.
    step
        By how much the limit on the second axis moves.

    Attributes
    ----------
    points
        Found so far; some may be dominated.
    open
        Intervals in which points may be missing.
    infeasible
        Whether no schedule obeys the limits (proved).
    """

    def __init__(self, search: Search, first: Objective, second: Objective, limits: dict[str, int], step: int) -> None:
        self.search = search
        self.instance = search.instance
        self.axes = (first, second)
        self.keys = self.x, self.y = amount_key(first.name), amount_key(second.name)
        self.limits = limits
        self.step = step
        self.points: list[Point] = []
        self.open: list[dict[str, Any]] = []
        self.infeasible = False

    @property
    def cut(self) -> bool:
        """Whether points may be missing."""
        return bool(self.open)

    def run(self) -> None:
        """Find both ends, then what lies between."""
        left = self._point({})
        if left is None:
            return
        if not left.proved:
            self._note_unproved(left)
        right = None if self._stopped else self._end(left)
        if right is None:
            self._leave_open(None, left.y)
            return
        if right is not left and not right.proved:
            self._note_unproved(right)
        self._between(left, right)

    @property
    def _stopped(self) -> bool:
        return self.search.interrupted or not self.search.clock.left_s

    def _solve(self, name: str, extra: Mapping[str, int], at_least: int = 0) -> Answer:
        limits = dict(self.limits)
        for key, limit in extra.items():
            limits[key] = min(limit, limits.get(key, limit))
        share = max(SHARE * self.search.clock.left_s, 0.1)
        return self.search.optimum(name, limits, time_limit=share, at_least=at_least)

    def _point(self, extra: Mapping[str, int], *, least: tuple[int, int] = (0, 0)) -> Point | None:
        """Return the point with the best first axis under `extra`, None where there is none (or none was found)."""
        answer = self._solve(self.x, extra, least[0])
        if answer.best is None:
            self.infeasible = answer.proved
            if not answer.proved:
                self._leave_open(None, extra.get(self.y))
            return None
        return self._add(self._completed(answer, least[1]))

    def _completed(self, answer: Answer, least: int) -> Point:
        """Return the point of an answer on the first axis: the best second axis, and mean E2E breaking ties."""
        assert answer.best is not None
        known, x = answer.best, answer.best.amounts[self.x]
        bound, y_bound, proved = answer.bound if answer.bound is not None else 0, 0, False
        if not self._stopped:
            second = self._solve(self.y, {self.x: x}, least)
            known = second.best or known
            y_bound, proved = second.bound or 0, second.proved and answer.proved
        if proved and not self._stopped:
            both = {self.x: x, self.y: known.amounts[self.y]}
            tie = self.search.optimum("mean_e2e", {**self.limits, **both}, time_limit=TIE_BREAK_S)
            known = tie.best or known
        return Point(known, (known.amounts[self.x], known.amounts[self.y]), (bound, y_bound), proved)

    def _end(self, left: Point) -> Point | None:
        """Return the other end: the best second axis, and the best first one there."""
        answer = self._solve(self.y, {})
        if answer.best is None:
            return None
        if answer.proved and answer.best.amounts[self.y] == left.y:
            return left
        point = self._point({self.y: answer.best.amounts[self.y]}, least=(left.x_bound, answer.bound or 0))
        if point is not None and not answer.proved:
            point.proved = False
            self.open.append(self._interval(self.axes[1], answer.bound or 0, point.y))
        return point

    def _between(self, left: Point, right: Point) -> None:
        """Close the interval between two points, the widest open part first once there are many."""
        intervals = [(left, right)]
        while intervals:
            intervals.sort(key=lambda pair: pair[0].y - pair[1].y)
            above, below = intervals.pop()
            if above.y - self.step <= below.y or above.x >= below.x:
                continue
            if self._stopped:
                self._leave_open(below.y, above.y)
                continue
            halving = len(self.points) > SEQUENTIAL and above.y - below.y > 4 * self.step
            limit = (above.y + below.y) // 2 if halving else above.y - self.step
            point = self._point({self.y: limit}, least=(above.x_bound, below.y_bound))
            if point is None or self.search.interrupted:
                self._leave_open(below.y, above.y)
                continue
            if not point.proved:
                self._note_unproved(point)
            if halving:
                intervals.append((above, capped(point, limit)))
            if point.y > below.y:
                intervals.append((point, below))

    def bounds_at(self, amounts: Sequence[int]) -> tuple[int, int]:
        """Return per axis what the points imply for schedules that are no worse than `amounts` on the other one."""
        x, y = amounts
        x_bound = max(self.search.bounds.amount(self.x), *(p.x_bound for p in self.points if p.y >= y), 0)
        y_bound = max(self.search.bounds.amount(self.y), *(p.y_bound for p in self.points if p.x >= x), 0)
        return x_bound, y_bound

    def _add(self, point: Point) -> Point:
        self.points.append(point)
        return point

    def _note_unproved(self, point: Point) -> None:
        if point.x_bound < point.x:
            self.open.append(self._interval(self.axes[0], point.x_bound, point.x))
        if point.y_bound < point.y:
            self.open.append(self._interval(self.axes[1], point.y_bound, point.y))

    def _interval(self, axis: Objective, low: int | None, high: int | None) -> dict[str, Any]:
        above, below = (None if v is None else axis.value(self.instance, v) for v in (low, high))
        return {"axis": axis.name, "above": above, "below": below}

    def _leave_open(self, low: int | None, high: int | None) -> None:
        self.open.append(self._interval(self.axes[1], low, high))


def capped(point: Point, limit: int) -> Point:
    """Return `point` as the lower end of an interval whose lower part is closed down from `limit`."""
    return Point(point.known, (point.x, limit), point.bounds, point.proved)
