"""Curves: what every value of a sweep reached, in the plane of a frontier."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chunkfront import output
from chunkfront.compare import ComparedPolicy, PolicyRun, Rules, broken_rule, compare_with_frontier
from chunkfront.running import GRACE_S, run_policy
from chunkfront.sweep import Sweep, Variant, failure_of, looser, shown
from instances.instance import Instance
from solver.result import Frontier


@dataclass(frozen=True)
class Curve:
    """One policy in the plane of a frontier, value by value.

    Parameters
    ----------
    policy, sweep
        Who, and what was swept.
    values, places
        The values that were tried, and what the policy reached with each.
    """

    policy: str
    sweep: Sweep
    values: tuple[Any, ...]
    places: tuple[ComparedPolicy, ...]


def run_variants(found: Sequence[Variant], *, deadline: float) -> tuple[list[PolicyRun], bool]:
    """Run variants one after the other, as `chunkfront.running.run_policies` does; say whether the user stopped."""
    runs: list[PolicyRun] = []
    try:
        with output.progress("sweep") as show:
            for variant in found:
                show(variant.name)
                if variant.instance is None:
                    runs.append(PolicyRun(variant.name, failure=variant.problem))
                elif time.monotonic() > deadline + GRACE_S:
                    runs.append(PolicyRun(variant.name, failure="not run within the time limit"))
                else:
                    runs.append(_run(variant, variant.instance))
    except KeyboardInterrupt:
        return runs, True
    return runs, False


def _run(variant: Variant, instance: Instance) -> PolicyRun:
    try:
        return replace(run_policy(instance, variant.policy), name=variant.name)
    except Exception as problem:
        return PolicyRun(variant.name, failure=failure_of(variant.policy, problem))


def curves(
    instance: Instance, sweep: Sweep, found: Sequence[Variant], runs: Sequence[PolicyRun], frontier: Frontier,
    rules: Rules | None = None,
) -> tuple[Curve, ...]:  # fmt: skip
    """Return what the runs of `found` reached in the plane of `frontier`, one curve per policy (of those that ran)."""
    places: dict[str, list[tuple[Any, ComparedPolicy]]] = {}
    for variant, run in zip(found, runs, strict=False):  # fewer runs where the user stopped
        (place,) = compare_with_frontier(variant.instance or instance, [run], frontier, rules)
        reason = looser(instance, sweep, variant.value) or broken_rule(instance, run, rules or Rules())
        if place.comparable and reason is not None:
            place = replace(place, comparable=False, reason=reason, dominated_by=None,
                            excess=dict.fromkeys(frontier.axes))  # fmt: skip
        places.setdefault(variant.base, []).append((variant.value, place))
    return tuple(
        Curve(policy, sweep, tuple(value for value, _ in reached), tuple(place for _, place in reached))
        for policy, reached in places.items()
    )


def reasons_of(curves: Sequence[Curve]) -> dict[str, str]:
    """Return why runs are not comparable, by name; by the value alone where that holds for every policy."""
    found: dict[str, str] = {}
    values = curves[0].sweep.values if curves else ()
    for at, value in enumerate(values):
        there = [curve.places[at] for curve in curves if at < len(curve.places)]
        shared = {place.reason for place in there}
        for place in there:
            if place.reason is not None:
                found[f"{curves[0].sweep.key}={shown(value)}" if len(shared) == 1 else place.name] = place.reason
    return found
