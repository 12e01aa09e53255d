"""Heuristics against the optimum of one objective at a time: the gap to what is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chunkfront.compare import PolicyRun, Rules, broken_rule
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES
from solver.result import Result


@dataclass(frozen=True)
class PolicyGaps:
    """One heuristic against the optima.

    Parameters
    ----------
    run
        What it did.
    reason
        Why it is not comparable; None where it is.
    values
        Per objective, its value in the metric's unit; None where it has no schedule.
    gaps
        Per objective, its gap to the proved bound (`gap_to_bound`); None where it is not comparable or there is none.
    """

    run: PolicyRun
    reason: str | None
    values: Mapping[str, float | None]
    gaps: Mapping[str, float | None]


@dataclass(frozen=True)
class Comparison:
    """All heuristics against the optima of one instance.

    Parameters
    ----------
    instance
        Its name.
    metrics
        The objectives, in order.
    results
        The answer of the solver per objective; fewer when the user stopped.
    policies
        One entry per heuristic.
    """

    instance: str
    metrics: tuple[str, ...]
    results: Mapping[str, Result]
    policies: tuple[PolicyGaps, ...]


def compare_with_optima(
    instance: Instance,
    runs: Sequence[PolicyRun],
    metrics: Sequence[str],
    results: Mapping[str, Result],
    rules: Rules | None = None,
) -> Comparison:
    """Return every policy run with its gaps to `results`, which obey `rules` beside the instance."""
    rules = rules or Rules()
    policies = tuple(_gaps(instance, run, metrics, results, rules) for run in runs)
    return Comparison(instance.name, tuple(metrics), dict(results), policies)


def _gaps(
    instance: Instance, run: PolicyRun, metrics: Sequence[str], results: Mapping[str, Result], rules: Rules
) -> PolicyGaps:
    reason = broken_rule(instance, run, rules)
    values: dict[str, float | None] = dict.fromkeys(metrics)
    gaps: dict[str, float | None] = dict.fromkeys(metrics)
    if run.schedule is not None:
        reached = amounts(instance, run.schedule)
        values = {name: OBJECTIVES[name].value(instance, reached[name]) for name in metrics}
    if reason is None:
        gaps = {name: gap_to_bound(instance, run, results[name]) if name in results else None for name in metrics}
    return PolicyGaps(run, reason, values, gaps)


def gap_to_bound(instance: Instance, run: PolicyRun, result: Result) -> float | None:
    """Return the gap of a policy to a proved bound, as for the solver's own answers (model.md §6).

    (value - bound) / value, for a maximised objective (bound - value) / bound; None without bound or schedule.
    """
    if run.schedule is None or result.bound_amount is None:
        return None
    objective = OBJECTIVES[result.minimize]
    amount = amounts(instance, run.schedule)[result.minimize]
    value, bound = (objective.value_of(instance, a) for a in (amount, result.bound_amount))
    better, worse = (value, bound) if objective.maximise else (bound, value)
    return float((worse - better) / worse) if worse else 0.0
