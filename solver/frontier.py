"""frontier(): the complete set of nondominated value pairs, each point with its proof (model.md §7).

ε-constraint with a second, lexicographic solve per point: the best first axis under a limit on the second, then the
best second axis at that first one, so no weakly dominated point appears. Both ends come first, then the limit moves
by one integer step below the last point; when many points lie close together (delaying a token by 1 µs can buy 1 µs
of TBT), the widest open interval is cut in half instead, so that a frontier cut short is known evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from instances.objectives import Objective, objective
from solver.incumbent import Candidate
from solver.model import Answer, Search, amount_key
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint
from solver.run import Clock, Progress, Settings

SEQUENTIAL = 24
"""Points found one after the other before the widest open interval is cut in half instead."""
SHARE = 0.35
"""Largest share of the time left that one solve may take."""
TIE_BREAK_S = 2.0
"""Seconds at most, per point, for the best mean E2E among the schedules with its values."""


def frontier(
    instance: Instance,
    axes: tuple[str, str] = ("makespan", "max_tbt"),
    *,
    limits: Mapping[str, float] | None = None,
    resolution: float | None = None,
    no_pause: bool = False,
    time_limit: float = 300.0,
    workers: int | None = None,
    seed: int = 0,
    max_preemptions: int = 1,
    on_progress: Progress | None = None,
) -> Frontier:
    """Return the nondominated pairs of two objectives, each with a schedule and its proof.

    Parameters
    ----------
    instance
        The problem; all points are clairvoyant.
    axes
        Two different objectives.
    limits, no_pause, workers, seed, max_preemptions, on_progress
        As for `solver.model.solve`.
    resolution
        Grid on the second axis, in its unit: no schedule is better than some point by more than it on the second
        axis and anything on the first. None for the complete set.
    time_limit
        Seconds for everything. A frontier that is cut short says so and which intervals are open.

    Raises
    ------
    InputError
        For unknown or equal axes, a bad limit or resolution.

    Notes
    -----
    A KeyboardInterrupt ends it with what is proved and `interrupted` set.
    """
    first, second = _axes(axes)
    step = _step(instance, second, resolution)
    search = Search(
        instance, Settings(workers, seed), Clock(time_limit), no_pause=no_pause, max_preemptions=max_preemptions,
        tell=on_progress,
    )  # fmt: skip
    sweep = _Sweep(search, first, second, search.problem.limits(limits), step)
    sweep.run()
    return sweep.frontier(resolution)


def _axes(axes: tuple[str, ...]) -> tuple[Objective, Objective]:
    if len(axes) != 2:
        raise InputError.expected("two metrics", list(axes), "axes")
    first, second = (objective(name, "axes") for name in axes)
    if amount_key(first.name) == amount_key(second.name):
        raise InputError.expected("two different metrics", list(axes), "axes")
    return first, second


def _step(instance: Instance, axis: Objective, resolution: float | None) -> int:
    if resolution is None:
        return 1
    if not resolution > 0 or resolution == float("inf"):
        raise InputError.expected("a number > 0", resolution, "resolution")
    if axis.name == "throughput":
        raise InputError.expected("no resolution on throughput (use makespan)", resolution, "resolution")
    per_amount = abs(axis.value_of(instance, 1) - axis.value_of(instance, 0))
    return max(1, int(resolution / per_amount))


@dataclass
class _Point:
    """A point in amounts, with what is proved about it."""

    known: Candidate
    x: int
    y: int
    x_bound: int
    y_bound: int
    proved: bool


class _Sweep:
    """The state of one frontier."""

    def __init__(self, search: Search, first: Objective, second: Objective, limits: dict[str, int], step: int) -> None:
        self.search = search
        self.instance = search.instance
        self.axes = (first, second)
        self.x, self.y = amount_key(first.name), amount_key(second.name)
        self.limits = limits
        self.step = step
        self.points: list[_Point] = []
        self.open: list[dict[str, Any]] = []
        self.infeasible = False

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

    def _point(self, extra: Mapping[str, int], *, least: tuple[int, int] = (0, 0)) -> _Point | None:
        """Return the point with the best first axis under `extra`, None where there is none (or none was found)."""
        answer = self._solve(self.x, extra, least[0])
        if answer.best is None:
            self.infeasible = answer.proved
            if not answer.proved:
                self._leave_open(None, extra.get(self.y))
            return None
        return self._add(self._completed(answer, least[1]))

    def _completed(self, answer: Answer, least: int) -> _Point:
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
        return _Point(known, known.amounts[self.x], known.amounts[self.y], bound, y_bound, proved)

    def _end(self, left: _Point) -> _Point | None:
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

    def _between(self, left: _Point, right: _Point) -> None:
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
            point = self._point({self.y: limit}, least=(above.x_bound, below.y))
            if point is None or self.search.interrupted:
                self._leave_open(below.y, above.y)
                continue
            if not point.proved:
                self._note_unproved(point)
            if halving:
                intervals.append((above, _capped(point, limit)))
            if point.y > below.y:
                intervals.append((point, below))

    def _add(self, point: _Point) -> _Point:
        self.points.append(point)
        return point

    def _note_unproved(self, point: _Point) -> None:
        if point.x_bound < point.x:
            self.open.append(self._interval(self.axes[0], point.x_bound, point.x))
        if point.y_bound < point.y:
            self.open.append(self._interval(self.axes[1], point.y_bound, point.y))

    def _interval(self, axis: Objective, low: int | None, high: int | None) -> dict[str, Any]:
        above, below = (None if v is None else axis.value(self.instance, v) for v in (low, high))
        return {"axis": axis.name, "above": above, "below": below}

    def _leave_open(self, low: int | None, high: int | None) -> None:
        self.open.append(self._interval(self.axes[1], low, high))

    def frontier(self, resolution: float | None) -> Frontier:
        """Return what was found, without dominated or repeated points."""
        kept = self._nondominated()
        complete = bool(kept) and not self.open and all(p.proved for p in kept) and not self.search.interrupted
        status = OPTIMAL if complete else FEASIBLE
        if not kept:
            status = INFEASIBLE if self.infeasible else UNKNOWN
        return Frontier(
            axes=(self.axes[0].name, self.axes[1].name),
            units=(self.axes[0].unit, self.axes[1].unit),
            points=tuple(self._shown(p) for p in kept),
            complete=complete or status == INFEASIBLE,
            open_intervals=tuple(self.open),
            status=status,
            resolution=resolution,
            wall_s=self.search.clock.elapsed_s,
            interrupted=self.search.interrupted,
            notes=self.search.notes,
        )

    def _nondominated(self) -> list[_Point]:
        kept: list[_Point] = []
        for point in sorted(self.points, key=lambda p: (p.x, p.y, not p.proved)):
            if not kept or point.y < kept[-1].y:
                kept.append(point)
        return kept[::-1] if self.axes[0].maximise else kept

    def _shown(self, point: _Point) -> FrontierPoint:
        (first, second), instance = self.axes, self.instance
        return FrontierPoint(
            values=(first.value(instance, point.x), second.value(instance, point.y)),
            bounds=(
                first.value(instance, point.x if point.proved else point.x_bound),
                second.value(instance, point.y if point.proved else point.y_bound),
            ),
            amounts=(point.x, point.y),
            status=OPTIMAL if point.proved else FEASIBLE,
            schedule=point.known.schedule,
            metrics=report(instance, point.known.schedule),
        )


def _capped(point: _Point, limit: int) -> _Point:
    """Return `point` as the lower end of an interval whose lower part is closed down from `limit`."""
    return _Point(point.known, point.x, limit, point.x_bound, point.y_bound, point.proved)
