"""Heuristics in the plane of a frontier: who is dominated, by which point, and how far from it (model.md §7).

Everything is decided on exact integer amounts (`instances.objectives`); ratios are made from them for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES, limit_amounts
from instances.replay import replay
from instances.schedule import Schedule
from solver.result import Frontier


@dataclass(frozen=True)
class PolicyRun:
    """What one policy did on an instance.

    Parameters
    ----------
    name
        The policy as it was asked for, options included.
    schedule, metrics
        Its schedule and all metrics, keys with units; None and empty where it failed.
    failure
        Why there is no schedule.
    """

    name: str
    schedule: Schedule | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True)
class Rules:
    """What the optimum was asked to obey, and a heuristic must obey too to be compared with it.

    Parameters
    ----------
    limits
        Bounds on metrics, in their units.
    no_pause
        Whether every prefilled resident must decode in every iteration.
    max_preemptions
        Most evictions per request.
    """

    limits: Mapping[str, float] = field(default_factory=dict)
    no_pause: bool = False
    max_preemptions: int = 1


@dataclass(frozen=True)
class ComparedPolicy:
    """One heuristic in the plane of a frontier.

    Parameters
    ----------
    name
        The policy.
    values
        In the units of the axes; None where it has no schedule.
    comparable, reason
        Whether it obeys the rules that the frontier obeys, and if not, why not.
    dominated_by
        Index of the first point of the frontier that is no worse on both axes and better on one; None if there is
        none, or if it is not comparable.
    excess
        Per axis, how far it is from the frontier: |value - best| / best, where `best` is the best value on this
        axis among the points that are no worse on the others. None where no point is (the frontier is open there)
        or `best` is 0.
    metrics
        All metrics, keys with units.
    schedule
        What it did, None where it failed.
    """

    name: str
    values: tuple[float | None, ...]
    comparable: bool
    reason: str | None
    dominated_by: int | None
    excess: Mapping[str, float | None]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None


def reached_amounts(instance: Instance, run: PolicyRun) -> dict[str, int] | None:
    """Return the exact amount of every objective, None where there is no schedule that serves every request.

    A schedule with moves that the instance forbids may leave requests unserved under the instance's own rules.
    """
    if run.schedule is None:
        return None
    times = replay(instance, run.schedule).token_times
    if any(len(times[request.id]) < request.outputs_left for request in instance.requests):
        return None
    return {name: objective.amount(instance, times) for name, objective in OBJECTIVES.items()}


def broken_rule(instance: Instance, run: PolicyRun, rules: Rules) -> str | None:
    """Return why a policy's schedule cannot be compared with an optimum under `rules`, or None."""
    if run.schedule is None:
        return run.failure or "no schedule"
    found = violations(instance, run.schedule, no_pause=rules.no_pause)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"breaks {found[0].rule}: {found[0].message}{more}"
    evictions = Counter(name for iteration in run.schedule.iterations for name in iteration.evict)
    for name, count in evictions.items():
        if count > rules.max_preemptions:
            return f"evicts {name!r} {count} times, --max-preemptions is {rules.max_preemptions}"
    reached = amounts(instance, run.schedule)
    for metric, largest in limit_amounts(instance, rules.limits).items():
        if reached[metric] > largest:
            shown = [OBJECTIVES[metric].value(instance, amount) for amount in (reached[metric], largest)]
            unit = OBJECTIVES[metric].unit
            return f"breaks the limit on {metric}: {shown[0]:g} {unit}, allowed {shown[1]:g} {unit}"
    return None


def compare_with_frontier(
    instance: Instance, runs: Sequence[PolicyRun], frontier: Frontier, rules: Rules | None = None
) -> tuple[ComparedPolicy, ...]:
    """Return every policy run in the plane of `frontier`.

    Parameters
    ----------
    instance
        What both were made for.
    runs
        The heuristics.
    frontier
        With points in order of its first axis; may be cut short.
    rules
        What the frontier obeys beside the instance.
    """
    rules = rules or Rules()
    return tuple(_place(instance, run, frontier, rules) for run in runs)


def _place(instance: Instance, run: PolicyRun, frontier: Frontier, rules: Rules) -> ComparedPolicy:
    axes = [OBJECTIVES[name] for name in frontier.axes]
    reason, nothing = broken_rule(instance, run, rules), dict.fromkeys(frontier.axes)
    reached = reached_amounts(instance, run)
    if reached is None:
        return ComparedPolicy(run.name, (None,) * len(axes), False, reason, None, nothing, run.metrics, run.schedule)
    own = [reached[axis.name] for axis in axes]
    values = tuple(axis.value(instance, amount) for axis, amount in zip(axes, own, strict=True))
    if reason is not None:
        return ComparedPolicy(run.name, values, False, reason, None, nothing, run.metrics, run.schedule)
    points = [point.amounts for point in frontier.points]
    excess = {axis.name: _excess(instance, frontier.axes, points, own, at) for at, axis in enumerate(axes)}
    dominating = first_dominating(points, own)
    return ComparedPolicy(run.name, values, True, None, dominating, excess, run.metrics, run.schedule)


def first_dominating(points: Sequence[Sequence[int]], own: Sequence[int]) -> int | None:
    """Return the index of the first point that is no worse than `own` everywhere and better somewhere."""
    for index, point in enumerate(points):
        if list(point) != list(own) and all(p <= o for p, o in zip(point, own, strict=True)):
            return index
    return None


def _excess(
    instance: Instance, axes: Sequence[str], points: Sequence[Sequence[int]], own: Sequence[int], at: int
) -> float | None:
    others = [axis for axis in range(len(axes)) if axis != at]
    best = min((point[at] for point in points if all(point[o] <= own[o] for o in others)), default=None)
    if best is None or best > own[at]:
        return None
    return ratio_away(instance, axes[at], own[at], best)


def ratio_away(instance: Instance, metric: str, amount: int, best: int) -> float | None:
    """Return |value - best value| / best value of two amounts of a metric; 0 if equal, None if it is unbounded."""
    if amount == best:
        return 0.0
    value, reference = (OBJECTIVES[metric].value_of(instance, a) for a in (amount, best))
    return float(abs(value - reference) / reference) if reference else None


def hypervolumes(frontier: Frontier, compared: Sequence[ComparedPolicy]) -> dict[str, Any] | None:
    """Return the area that the frontier and the comparable heuristics dominate, and their ratio.

    The reference corner is, on each axis, the worst value of any point or comparable heuristic, moved away from the
    best one by a tenth of the distance between the two (by a tenth of the value where all are equal).

    Returns
    -------
    dict or None
        ``reference``, ``frontier``, ``policies`` (areas in the product of the axes' units) and ``ratio`` (policies /
        frontier, at most 1 for a complete frontier); None without a point.
    """
    ours = [point.values for point in frontier.points]
    theirs = [p.values for p in compared if p.comparable]
    if not ours:
        return None
    import moocore
    import numpy as np

    signs = np.array([-1.0 if OBJECTIVES[name].maximise else 1.0 for name in frontier.axes])
    found = np.array(ours, dtype=float) * signs
    heuristic = np.array(theirs, dtype=float).reshape(-1, len(signs)) * signs
    everything = np.vstack([found, heuristic])
    worst, best = everything.max(axis=0), everything.min(axis=0)
    spread = np.where(worst > best, worst - best, np.where(worst != 0, np.abs(worst), 1.0))
    reference = worst + spread / 10
    areas = [float(moocore.hypervolume(s, ref=reference)) if len(s) else 0.0 for s in (found, heuristic)]
    return {
        "reference": [float(v) for v in reference * signs],
        "frontier": areas[0],
        "policies": areas[1],
        "ratio": areas[1] / areas[0],
    }
