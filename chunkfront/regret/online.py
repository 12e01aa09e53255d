"""The price of not knowing the future: the optimum against the best that a rolling exact re-solve reaches online."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from chunkfront.compare import PolicyRun, Rules, broken_rule
from chunkfront.running import run_policy
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Schedule
from solver.rolling import RollingHorizon

LONGEST_SOLVE_S = 1.0
"""Most seconds of one solve of the rolling horizon."""


@dataclass(frozen=True)
class Online:
    """The best online run that was found.

    Parameters
    ----------
    policy
        The rolling horizon that made it, with its knobs.
    amount
        Of the objective; None where no run is comparable.
    schedule
        Of the run; None where no run is comparable.
    reason
        Why none is.
    """

    policy: str
    amount: int | None
    schedule: Schedule | None = None
    reason: str | None = None


def best_online(
    instance: Instance, objective: str, limits: Mapping[str, float], *, no_pause: bool = False,
    max_preemptions: int = 1, time_limit: float,
) -> Online:  # fmt: skip
    """Return the best run of `solver.rolling.RollingHorizon` that obeys the limits.

    It re-solves an exact model before every iteration, for the objective itself and for mean E2E (a maximum of the
    moment does not know who has waited longest), and sees what an online scheduler sees: no arrivals to come, and
    declared caps instead of true output lengths. It does not know the limits.

    Parameters
    ----------
    instance, objective, limits, no_pause, max_preemptions
        As for `solver.model.solve`.
    time_limit
        Seconds for everything, about: solves that are cut short decide by the best schedule they have.
    """
    rules, deadline = Rules(limits, no_pause, max_preemptions), time.monotonic() + time_limit
    targets = list(dict.fromkeys((objective, "mean_e2e")))
    solves = sum(r.prefill_left // instance.engine.largest_chunk + 1 + r.decodes_left for r in instance.requests)
    best: Online | None = None
    for index, target in enumerate(targets):
        left = max(0.0, deadline - time.monotonic())
        seconds = min(LONGEST_SOLVE_S, max(0.01, left / (len(targets) - index) / max(1, solves)))
        run = run_policy(instance, RollingHorizon(objective=target, time_limit=round(seconds, 2)))
        found = _judged(instance, run, objective, rules)
        if best is None or (found.amount is not None and (best.amount is None or found.amount < best.amount)):
            best = found
        if time.monotonic() > deadline:
            break
    assert best is not None
    return best


def _judged(instance: Instance, run: PolicyRun, objective: str, rules: Rules) -> Online:
    reason = broken_rule(instance, run, rules)
    if reason is not None or run.schedule is None:
        return Online(run.name, None, reason=reason)
    return Online(run.name, amounts(instance, run.schedule)[objective], run.schedule)
