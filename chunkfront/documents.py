"""The JSON documents of interfaces.md, and the CSV of a frontier. Keys are stable: scripts read them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from chunkfront.compare import ComparedPolicy
from chunkfront.curves import Curve
from chunkfront.gaps import Comparison, PolicyGaps
from heuristics.recorder import Run
from instances.check import Violation, violations
from instances.instance import Instance
from instances.metrics import json_key, report
from solver.result import Frontier, FrontierPoint, Result


def solve_document(result: Result) -> dict[str, Any]:
    """Return the document of ``solve --json``."""
    return {
        "status": result.status,
        "minimize": result.minimize,
        "value": result.value,
        "bound": result.bound,
        "gap": result.gap,
        "wall_s": result.wall_s,
        "metrics": dict(result.metrics),
        "schedule": None if result.schedule is None else result.schedule.to_dict(),
        "interrupted": result.interrupted,
        "notes": list(result.notes),
        "conflict": [asdict(member) for member in result.conflict],
        "more_preemptions_could_help": result.more_preemptions_could_help,
    }


def frontier_document(
    instance: str,
    frontier: Frontier,
    compared: Sequence[ComparedPolicy],
    hypervolume: Mapping[str, Any] | None,
    wall_s: float | None,
    curves: Sequence[Curve] = (),
) -> dict[str, Any]:
    """Return the document of ``frontier --json``; `wall_s` is the time of the whole command, None for none."""
    return {
        "instance": instance,
        "axes": list(frontier.axes),
        "complete": frontier.complete,
        "status": frontier.status,
        "units": list(frontier.units),
        "points": [_point(point) for point in frontier.points],
        "open_intervals": [dict(interval) for interval in frontier.open_intervals],
        "open_zones": [dict(zone) for zone in frontier.open_zones],
        "resolution": frontier.resolution,
        "policies": [_policy(policy) | _schedule(policy) for policy in compared],
        "sweep": _sweep(curves),
        "hypervolume": None if hypervolume is None else dict(hypervolume),
        "wall_s": wall_s,
        "interrupted": frontier.interrupted,
        "notes": list(frontier.notes),
        "conflict": [asdict(member) for member in frontier.conflict],
        "more_preemptions_could_help": frontier.more_preemptions_could_help,
    }


def _point(point: FrontierPoint) -> dict[str, Any]:
    return {
        "values": list(point.values),
        "status": point.status,
        "bounds": list(point.bounds),
        "metrics": dict(point.metrics),
        "schedule": point.schedule.to_dict(),
    }


def _policy(policy: ComparedPolicy) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": policy.name,
        "values": list(policy.values),
        "comparable": policy.comparable,
        "dominated_by": policy.dominated_by,
        "excess": dict(policy.excess),
        "metrics": dict(policy.metrics),
    }
    if policy.reason is not None:
        document["reason"] = policy.reason
    return document


def _schedule(policy: ComparedPolicy) -> dict[str, Any]:
    return {"schedule": None if policy.schedule is None else policy.schedule.to_dict()}


def _sweep(curves: Sequence[Curve]) -> dict[str, Any] | None:
    if not curves:
        return None
    sweep = curves[0].sweep
    drawn = [
        {"policy": curve.policy,
         "points": [{"value": value, **_policy(place)}
                    for value, place in zip(curve.values, curve.places, strict=True)]}
        for curve in curves
    ]  # fmt: skip
    return {"key": sweep.key, "kind": sweep.kind, "values": list(sweep.values), "curves": drawn}


def comparison_document(
    comparisons: Sequence[Comparison], *, interrupted: bool, wall_s: float | None
) -> dict[str, Any]:
    """Return the document of ``compare --json``."""
    return {
        "instances": [
            {
                "instance": comparison.instance,
                "optima": {name: _optimum(result) for name, result in comparison.results.items()},
                "policies": [_gaps(policy) for policy in comparison.policies],
            }
            for comparison in comparisons
        ],
        "interrupted": interrupted,
        "wall_s": wall_s,
    }


def _optimum(result: Result) -> dict[str, Any]:
    shown = ("status", "value", "bound", "gap", "wall_s", "more_preemptions_could_help")
    return {name: getattr(result, name) for name in shown}


def _gaps(policy: PolicyGaps) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": policy.run.name,
        "comparable": policy.reason is None,
        "values": dict(policy.values),
        "gaps": dict(policy.gaps),
        "metrics": dict(policy.run.metrics),
    }
    if policy.reason is not None:
        document["reason"] = policy.reason
    return document


def run_document(run: Run, instance: Instance, simulated: Instance | None = None) -> dict[str, Any]:
    """Return the document of ``simulate --json``.

    Parameters
    ----------
    run
        The simulation.
    instance
        Whose rules the schedule is held against: a policy may make moves that it forbids.
    simulated
        What the metrics are measured on, `instance` by default.
    """
    return {
        "policy": run.policy,
        "metrics": report(simulated or instance, run.schedule),
        "schedule": run.schedule.to_dict(),
        "decisions": run.decisions,
        "violations": [violation_document(violation) for violation in violations(instance, run.schedule)],
    }


def violation_document(violation: Violation) -> dict[str, Any]:
    """Return one entry of ``violations`` of ``check --json``."""
    return {
        "rule": violation.rule,
        "iteration": violation.iteration,
        "request": violation.request,
        "message": violation.message,
        "value": violation.value,
        "limit": violation.limit,
    }


def frontier_csv(frontier: Frontier, compared: Sequence[ComparedPolicy], curves: Sequence[Curve] = ()) -> str:
    """Return points, heuristics and what a sweep reached as CSV, one line each, with all of their metrics."""
    keys = [json_key(axis) for axis in frontier.axes]
    reached_by = [("policy", policy) for policy in compared]
    reached_by += [("sweep", place) for curve in curves for place in curve.places]
    rows = [point.metrics for point in frontier.points] + [policy.metrics for _, policy in reached_by]
    metrics = list(dict.fromkeys(key for row in rows for key in row))
    header = ["kind", "name", *keys, "status", *(f"bound_{key}" for key in keys), "comparable", "reason",
              "dominated_by", *(f"excess_{axis}" for axis in frontier.axes),
              *(key for key in metrics if key not in keys)]  # fmt: skip
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for index, point in enumerate(frontier.points):
        bounds = {f"bound_{key}": bound for key, bound in zip(keys, point.bounds, strict=True)}
        own = dict(zip(keys, point.values, strict=True))
        writer.writerow({**point.metrics, **own, **bounds, "kind": "point", "name": index, "status": point.status})
    for kind, policy in reached_by:
        excess = {f"excess_{axis}": ratio for axis, ratio in policy.excess.items()}
        reached = dict(zip(keys, policy.values, strict=True))
        standing = {"comparable": str(policy.comparable).lower(), "reason": policy.reason,
                    "dominated_by": policy.dominated_by}  # fmt: skip
        writer.writerow({**policy.metrics, **reached, **excess, **standing, "kind": kind, "name": policy.name})
    return text.getvalue()
