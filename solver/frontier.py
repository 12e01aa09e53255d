"""frontier(): the complete set of nondominated values on two or three axes, each point with its proof (model.md §7).

`solver.sweep` (two axes) and `solver.zone_sweep` (three) find the points; here they become a result. One that is cut
short holds the heuristics' points too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from instances.objectives import Objective, amount_key, objective
from instances.schedule import Schedule
from solver.conflicts import conflict
from solver.evicting_search import EvictingSearch
from solver.raising import could_help_frontier, eviction_notes
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint
from solver.run import Progress, Settings
from solver.sweep import Point, Sweep
from solver.zone_sweep import ZoneSweep


def frontier(
    instance: Instance,
    axes: Sequence[str] = ("makespan", "max_tbt"),
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
    """Return the nondominated values of two or three objectives, each with a schedule and its proof.

    Parameters
    ----------
    instance
        The problem; all points are clairvoyant.
    axes
        Two or three different objectives.
    limits, no_pause, workers, seed, deterministic, max_preemptions, known, on_progress
        As for `solver.model.solve`.
    resolution
        Grid on every axis but the first, in its unit: no schedule is better than some point by more than it on those
        axes and anything on the first. Of three axes a grid in ms leaves `slo_attainment` alone. None for the
        complete set.
    time_limit
        Seconds for everything. A frontier that is cut short says so and where points may be missing.

    Raises
    ------
    InputError
        For unknown or equal axes, a bad limit or resolution.

    Notes
    -----
    A KeyboardInterrupt ends it with what is proved and `interrupted` set.
    """
    wanted = _axes(axes)
    steps = _steps(instance, wanted, resolution)
    settings = Settings(workers, seed, deterministic)
    search = EvictingSearch(
        instance, settings, settings.clock(time_limit), no_pause=no_pause, max_preemptions=max_preemptions,
        known=known, tell=on_progress,
    )  # fmt: skip
    caps = search.problem.limits(limits)
    sweep: Sweep | ZoneSweep
    if len(wanted) == 2:
        sweep = Sweep(search, wanted[0], wanted[1], caps, steps[1])
    else:
        sweep = ZoneSweep(search, wanted, caps, steps)
    sweep.run()
    why = conflict(search, limits or {}, max_preemptions) if sweep.infeasible else ()
    result = _result(sweep, resolution)
    more = could_help_frontier(search, result)
    notes = eviction_notes("The frontier", max_preemptions, more) + (() if result.complete else search.guard.notes)
    return replace(result, conflict=why, notes=notes, more_preemptions_could_help=more)


def _axes(names: Sequence[str]) -> tuple[Objective, ...]:
    if not 2 <= len(names) <= 3:
        raise InputError.expected("two or three metrics", list(names), "axes")
    axes = tuple(objective(name, "axes") for name in names)
    if len({amount_key(axis.name) for axis in axes}) < len(axes):
        raise InputError.expected(f"{len(axes)} different metrics", list(names), "axes")
    return axes


def _steps(instance: Instance, axes: Sequence[Objective], resolution: float | None) -> list[int]:
    """Return per axis by how much a point must be better than others to be looked for; 1 on the first."""
    if resolution is None:
        return [1] * len(axes)
    if not resolution > 0 or resolution == float("inf"):
        raise InputError.expected("a number > 0", resolution, "resolution")
    steps = [1]
    for axis in axes[1:]:
        if axis.name == "throughput":
            raise InputError.expected("no resolution on throughput (use makespan)", resolution, "resolution")
        per_amount = abs(axis.value_of(instance, 1) - axis.value_of(instance, 0))
        mixed = len(axes) > 2 and axis.unit != "ms"
        steps.append(1 if mixed else max(1, int(resolution / per_amount)))
    return steps


def _result(sweep: Sweep | ZoneSweep, resolution: float | None) -> Frontier:
    """Return what a sweep found, without dominated or repeated points."""
    search, axes = sweep.search, sweep.axes
    kept = _nondominated(sweep.points)
    complete = bool(kept) and not sweep.cut and all(p.proved for p in kept) and not search.interrupted
    if not complete and not sweep.infeasible:
        kept = _nondominated([*sweep.points, *_known_points(sweep)])
    status = OPTIMAL if complete else FEASIBLE
    if not kept:
        status = INFEASIBLE if sweep.infeasible else UNKNOWN
    shown = [_shown(sweep, point) for point in kept]
    return Frontier(
        axes=tuple(axis.name for axis in axes),
        units=tuple(axis.unit for axis in axes),
        points=tuple(reversed(shown) if axes[0].maximise else shown),
        complete=complete or status == INFEASIBLE,
        open_intervals=tuple(sweep.open) if isinstance(sweep, Sweep) else (),
        open_zones=tuple(sweep.open) if isinstance(sweep, ZoneSweep) else (),
        status=status,
        resolution=resolution,
        wall_s=search.clock.wall_s,
        interrupted=search.interrupted,
    )


def _known_points(sweep: Sweep | ZoneSweep) -> list[Point]:
    """Return the schedules known within the limits as unproved points, with the bounds that are proved there."""
    points = []
    for known in sweep.search.incumbents.found:
        if known.obeys(sweep.limits):
            reached = tuple(known.amounts[key] for key in sweep.keys)
            points.append(Point(known, reached, sweep.bounds_at(reached), proved=False))
    return points


def _nondominated(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other one reaches or betters on every axis, in order of amounts; one of equal ones."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.amounts, not p.proved)):
        if not any(all(a <= b for a, b in zip(p.amounts, point.amounts, strict=True)) for p in kept):
            kept.append(point)
    return kept


def _shown(sweep: Sweep | ZoneSweep, point: Point) -> FrontierPoint:
    instance, bounds = sweep.instance, point.amounts if point.proved else point.bounds
    return FrontierPoint(
        values=tuple(axis.value(instance, a) for axis, a in zip(sweep.axes, point.amounts, strict=True)),
        bounds=tuple(axis.value(instance, b) for axis, b in zip(sweep.axes, bounds, strict=True)),
        amounts=point.amounts,
        status=OPTIMAL if point.proved else FEASIBLE,
        schedule=point.known.schedule,
        metrics=report(instance, point.known.schedule),
    )
