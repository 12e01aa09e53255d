"""The judge of an attack: how far a policy is from the proved optimum of one instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from chunkfront.compare import Rules, broken_rule
from chunkfront.validate.loading import PolicySource
from chunkfront.validate.scheduled import run_source
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES, limit_amounts
from instances.schedule import Schedule
from solver.bounds import Bounds
from solver.model import solve
from solver.problem import Problem
from solver.result import OPTIMAL, Result

WORK = 1.0
"""Work that one proof may take, in units of `solver.model.solve` (about seconds): the same verdict on every machine."""


@dataclass(frozen=True)
class Question:
    """What an attack asks.

    Parameters
    ----------
    policy
        Whom to attack.
    metric
        An objective in ms.
    limits
        Metric -> limit that policy and optimum obey.
    no_worse
        Objectives in which the optimum must not be worse than the policy's own schedule.
    no_pause
        Whether both must decode every prefilled resident in every iteration.
    max_preemptions
        Most evictions per request, where the engine may evict.
    """

    policy: PolicySource
    metric: str
    limits: Mapping[str, float] = field(default_factory=dict)
    no_worse: tuple[str, ...] = ()
    no_pause: bool = False
    max_preemptions: int = 1

    def __post_init__(self) -> None:
        for name in (self.metric, *self.no_worse):
            if name not in OBJECTIVES or OBJECTIVES[name].unit != "ms":
                names = ", ".join(known for known, objective in OBJECTIVES.items() if objective.unit == "ms")
                raise InputError.expected(f"one of {names}", name, "metric")


@dataclass(frozen=True)
class Verdict:
    """A proved distance.

    Parameters
    ----------
    instance
        Where.
    policy
        Its name, knobs included.
    schedule, amount
        What the policy does, and its exact amount of the metric.
    optimum
        Proved, under the question's rules.
    limits
        What the optimum obeys, in the metrics' units: the question's limits, and the policy's own values of `no_worse`.
    """

    instance: Instance
    policy: str
    schedule: Schedule
    amount: int
    optimum: Result
    limits: Mapping[str, float]

    @property
    def ratio(self) -> Fraction:
        """The policy's value over the optimum."""
        assert self.optimum.amount, "a verdict has a positive optimum"
        return Fraction(self.amount, self.optimum.amount)


def judge(instance: Instance, question: Question, at_least: Fraction = Fraction(0)) -> Verdict | None:
    """Return the proved distance of the policy on an instance.

    None where it is not comparable, where the optimum is 0 or not proved within `WORK`, and where a cheap lower bound
    on the optimum shows that the ratio is below `at_least`, without a solve.
    """
    run = run_source(instance, question.policy)
    rules = Rules(question.limits, question.no_pause, question.max_preemptions)
    if run.schedule is None or broken_rule(instance, run, rules):
        return None
    reached = amounts(instance, run.schedule)
    amount, bound = reached[question.metric], Bounds(Problem(instance)).amount(question.metric)
    if amount < at_least * bound:
        return None
    limits = dict(question.limits)
    allowed = limit_amounts(instance, question.limits)
    for name in question.no_worse:
        if reached[name] <= allowed.get(name, reached[name]):
            limits[name] = OBJECTIVES[name].value(instance, reached[name])
    optimum = solve(
        instance, question.metric, limits, no_pause=question.no_pause, max_preemptions=question.max_preemptions,
        time_limit=WORK, deterministic=True, known=[run.schedule],
    )  # fmt: skip
    if optimum.interrupted:
        raise KeyboardInterrupt
    if optimum.status != OPTIMAL or not optimum.amount:
        return None
    return Verdict(instance, run.name, run.schedule, amount, optimum, limits)
