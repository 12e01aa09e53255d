"""The pytest plugin: somebody's scheduler against the suite and the library, in their own tests.

Installed with Chunkfront (entry point ``pytest11``). A test that asks for ``chunkfront_instances`` runs once per
instance of the conformance suite, or per key of the ini option of that name::

    from chunkfront.pytest_plugin import assert_gap, assert_valid
    from my_module import MyScheduler

    def test_it_is_right(chunkfront_instances):
        assert_valid(chunkfront_instances, MyScheduler)

    def test_it_is_good():
        assert_gap("mean_ttft", at_most=0.2, instance="chat", scheduler=MyScheduler)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from heuristics.policy import Policy
    from instances.instance import Instance
    from instances.schedule import Schedule

FIXTURE = "chunkfront_instances"
SEEDS = 20
"""Random instances among those of the fixture where nobody says otherwise."""

Scheduler = Any
"""A class with the Policy protocol, a policy, a function that makes one, or a text (`loading.load_policy`)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini option."""
    parser.addini(FIXTURE, "instances of the fixture: bundled names, files, edge:NAME, random:SEED, serving:SEED",
                  type="args", default=[])  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for the fixture once per instance."""
    if FIXTURE not in metafunc.fixturenames:
        return
    from chunkfront.validate.suite import suite_keys

    keys = metafunc.config.getini(FIXTURE) or suite_keys(SEEDS)
    metafunc.parametrize(FIXTURE, keys, indirect=True)


@pytest.fixture
def chunkfront_instances(request: pytest.FixtureRequest) -> Instance:
    """One instance of the suite; the test runs once per instance."""
    return _instance(request.param)


def assert_valid(instance: Instance | str, schedule_or_scheduler: Schedule | Scheduler) -> Schedule:
    """Assert that a schedule obeys every rule, or that a scheduler conforms on an instance; return the schedule.

    Parameters
    ----------
    instance
        An instance, a file, or a key of the suite.
    schedule_or_scheduler
        A schedule, or what makes one. Of a scheduler all habits are checked too: determinism, no looking into the
        future, no starvation; warnings do not fail.

    Raises
    ------
    AssertionError
        Naming rule, iteration, request, value and limit.
    InputError
        Where there is no such instance, or no scheduler.
    """
    __tracebackhide__ = True
    from chunkfront.validate.conformance import findings
    from chunkfront.validate.finding import ERROR
    from instances.check import violations
    from instances.schedule import Schedule

    problem = _instance(instance)
    if isinstance(schedule_or_scheduler, Schedule):
        broken = violations(problem, schedule_or_scheduler)
        if broken:
            raise AssertionError(_told(problem, broken))
        return schedule_or_scheduler
    source = _source(schedule_or_scheduler)
    wrong = [finding for _, finding in findings(source, problem) if finding.severity == ERROR]
    if wrong:
        raise AssertionError(_told(problem, wrong))
    return _schedule(problem, source)


def assert_gap(
    metric: str, *, at_most: float, instance: Instance | str, scheduler: Schedule | Scheduler, time_limit: float = 60.0
) -> float:
    """Assert that a schedule, or a scheduler, is within a gap of the optimum; return the gap.

    Parameters
    ----------
    metric
        Name of an objective, like ``mean_ttft``.
    at_most
        Largest gap allowed, as a share: (value - bound) / value.
    instance
        An instance, a file, or a key of the suite.
    scheduler
        A schedule, or what makes one.
    time_limit
        Seconds to prove a bound where the library of best-known values has none. The gap is to what is proved, so
        that a bound which is not tight can only fail the assertion.

    Raises
    ------
    AssertionError
        With value, bound and gap; also for a schedule that is not valid, whose gap would mean nothing.
    """
    __tracebackhide__ = True
    from chunkfront.compare import PolicyRun, Rules, broken_rule
    from chunkfront.gaps import compare_with_optima
    from chunkfront.validate.library import known_results
    from instances.objectives import objective
    from instances.schedule import Schedule
    from solver.model import solve

    objective(metric, "metric")
    problem = _instance(instance)
    schedule = scheduler if isinstance(scheduler, Schedule) else _schedule(problem, _source(scheduler))
    run = PolicyRun("scheduler", schedule)
    reason = broken_rule(problem, run, Rules())
    if reason is not None:
        raise AssertionError(f"no gap on {problem.name}: {reason}")
    result = known_results(problem).get(metric) or solve(problem, metric, time_limit=time_limit)
    found = compare_with_optima(problem, [run], (metric,), {metric: result}, Rules()).policies[0]
    gap = found.gaps[metric]
    if gap is None:
        raise AssertionError(f"nothing is proved about {metric} of {problem.name} within {time_limit:g} s")
    if gap > at_most:
        raise AssertionError(
            f"{metric} of {problem.name} is {found.values[metric]:g}, proved bound {result.bound:g}: "
            f"gap {gap:.1%}, at most {at_most:.1%} is allowed"
        )
    return gap


def _instance(given: Instance | str) -> Instance:
    from pathlib import Path

    from chunkfront.validate.suite import instance_of
    from instances.instance import Instance

    if isinstance(given, Instance):
        return given
    return Instance.read(given) if Path(given).is_file() else instance_of(given)


def _source(given: Scheduler) -> Callable[[], Policy]:
    """Return what makes new policies; a policy object starts anew by itself (`Policy.start`)."""
    from chunkfront.validate.loading import load_policy
    from chunkfront.validate.protocol import as_policy_class
    from heuristics.policy import Policy
    from instances.errors import InputError

    if isinstance(given, str):
        return load_policy(given)
    if isinstance(given, Policy):
        return lambda: given
    if isinstance(given, type):
        return as_policy_class(given, given.__name__)
    if not callable(given):
        raise InputError.expected("a class with the Policy protocol, a policy, or its name", given, "scheduler")
    found: Callable[[], Policy] = given
    return found


def _schedule(problem: Instance, source: Callable[[], Policy]) -> Schedule:
    """Return what a scheduler makes of an instance; a failure is an AssertionError."""
    __tracebackhide__ = True
    from chunkfront.validate.attempt import attempt

    found = attempt(problem, source())
    if found.run is None:
        raise AssertionError(_told(problem, found.findings))
    return found.run.schedule


def _told(problem: Instance, wrong: Any) -> str:
    lines = [
        f"  {each.rule}: {each.message} (iteration {each.iteration}, request {each.request}, value {each.value}, "
        f"limit {each.limit})"
        for each in wrong
    ]
    return "\n".join([f"on {problem.name}:", *lines])
