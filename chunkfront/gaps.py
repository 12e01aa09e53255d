"""Heuristics against the optimum of one objective at a time: the gap to what is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chunkfront.compare import PolicyRun, Rules, broken_rule, reached_amounts
from instances.instance import Instance
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
    reached = reached_amounts(instance, run)
    if reached is not None:
        values = {name: OBJECTIVES[name].value(instance, reached[name]) for name in metrics}
    if reached is not None and reason is None:
        gaps |= {name: gap_to_bound(instance, reached[name], results[name]) for name in metrics if name in results}
    return PolicyGaps(run, reason, values, gaps)


def gap_to_bound(instance: Instance, amount: int, result: Result) -> float | None:
    """Return the gap of an amount of the objective to a proved bound, as for the solver's own answers (model.md §6).

    (value - bound) / value, for a maximised objective (bound - value) / bound; None without a bound.
    """
    if result.bound_amount is None:
        return None
    objective = OBJECTIVES[result.minimize]
    value, bound = (objective.value_of(instance, each) for each in (amount, result.bound_amount))
    better, worse = (value, bound) if objective.maximise else (bound, value)
    return float((worse - better) / worse) if worse else 0.0
