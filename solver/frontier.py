"""frontier(): the complete set of nondominated value pairs, each point with its proof (model.md §7).

`solver.sweep` finds the points; here they become a result. One that is cut short holds the heuristics' points too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from instances.objectives import Objective, amount_key, objective
from instances.schedule import Schedule
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint
from solver.run import Progress, Settings
from solver.search import Search
from solver.sweep import Point, Sweep


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
    deterministic: bool = False,
    max_preemptions: int = 1,
    known: Iterable[Schedule] = (),
    on_progress: Progress | None = None,
) -> Frontier:
    """Return the nondominated pairs of two objectives, each with a schedule and its proof.

    Parameters
    ----------
    instance
        The problem; all points are clairvoyant.
    axes
        Two different objectives.
    limits, no_pause, workers, seed, deterministic, max_preemptions, known, on_progress
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
    settings = Settings(workers, seed, deterministic)
    search = Search(
        instance, settings, settings.clock(time_limit), no_pause=no_pause, known=known, tell=on_progress
    )
    sweep = Sweep(search, first, second, search.problem.limits(limits), step)
    sweep.run()
    return _result(sweep, resolution)


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


def _result(sweep: Sweep, resolution: float | None) -> Frontier:
    """Return what a sweep found, without dominated or repeated points."""
    search, axes = sweep.search, sweep.axes
    kept = _nondominated(sweep.points)
    complete = bool(kept) and not sweep.open and all(p.proved for p in kept) and not search.interrupted
    if not complete and not sweep.infeasible:
        kept = _nondominated([*sweep.points, *_known_points(sweep)])
    status = OPTIMAL if complete else FEASIBLE
    if not kept:
        status = INFEASIBLE if sweep.infeasible else UNKNOWN
    shown = [_shown(sweep, point) for point in kept]
    return Frontier(
        axes=(axes[0].name, axes[1].name),
        units=(axes[0].unit, axes[1].unit),
        points=tuple(reversed(shown) if axes[0].maximise else shown),
        complete=complete or status == INFEASIBLE,
        open_intervals=tuple(sweep.open),
        status=status,
        resolution=resolution,
        wall_s=search.clock.wall_s,
        interrupted=search.interrupted,
    )


def _known_points(sweep: Sweep) -> list[Point]:
    """Return the schedules known within the limits as unproved points, with the bounds that other points imply."""
    points = []
    for known in sweep.search.incumbents.found:
        if known.obeys(sweep.limits):
            x, y = known.amounts[sweep.x], known.amounts[sweep.y]
            x_bounds = [p.x_bound for p in sweep.points if p.y >= y]
            y_bounds = [p.y_bound for p in sweep.points if p.x >= x]
            x_bound = max(sweep.search.bounds.amount(sweep.x), *x_bounds, 0)
            y_bound = max(sweep.search.bounds.amount(sweep.y), *y_bounds, 0)
            points.append(Point(known, x, y, x_bound, y_bound, proved=False))
    return points


def _nondominated(points: list[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.x, p.y, not p.proved)):
        if not kept or point.y < kept[-1].y:
            kept.append(point)
    return kept


def _shown(sweep: Sweep, point: Point) -> FrontierPoint:
    (first, second), instance = sweep.axes, sweep.instance
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
