"""The pytest plugin, in a pytest of its own: what a user's test file says and what it gets to see."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from chunkfront.pytest_plugin import assert_gap, assert_valid
from chunkfront.validate.suite import instance_of, suite_keys
from heuristics.greedy_chunked import GreedyChunked
from heuristics.simulator import simulate
from instances.errors import InputError
from instances.schedule import Schedule
from tests.judges.build import build
from tests.judges.mutants import IgnoresPool, OverBudget

pytest_plugins = ["pytester"]
INSTALLED = bool(entry_points(group="pytest11", name="chunkfront"))
PLUGIN = ("-p", "no:hypothesispytest", *(() if INSTALLED else ("-p", "chunkfront.pytest_plugin")))
"""Where Chunkfront is installed, its entry point has loaded the plugin; that of hypothesis takes seconds to load."""

TESTS = """
from chunkfront.pytest_plugin import assert_gap, assert_valid
from heuristics.policy import Batch

class OneByOne:
    def schedule(self, state):
        request = (state.running or state.waiting)[0]
        return Batch([(request, min(request.remaining, state.limits.max_num_batched_tokens))])

class Greedy:
    def schedule(self, state):
        return Batch([(r, r.remaining) for r in (*state.running, *state.waiting)])

def test_right(chunkfront_instances):
    assert_valid(chunkfront_instances, OneByOne)

def test_wrong(chunkfront_instances):
    assert_valid(chunkfront_instances, Greedy)

def test_good():
    assert_gap("max_tbt", at_most=0.0, instance="edge:single-outputs", scheduler=OneByOne)

def test_poor():
    assert_gap("mean_ttft", at_most=0.01, instance="code", scheduler="greedy-chunked")
"""


def test_a_test_runs_once_per_instance_and_says_what_is_wrong(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nchunkfront_instances = edge:single-outputs edge:prompt-equals-budget")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*PLUGIN)
    # Two instances: right, right, wrong, wrong; then one that is good and one that is not.
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines_random([
        "*AssertionError: on edge:single-outputs:",
        "*  token-budget: iteration 0: 7 tokens, max_num_batched_tokens is 4 (iteration 0, * value 7, limit 4)",
        "*AssertionError: mean_ttft of code is *, proved bound 96.1297: gap *%, at most 1.0% is allowed",
    ])  # fmt: skip
    shown = [line for line in result.outlines if "pytest_plugin.py" in line]
    assert shown == []  # the traceback ends in the user's test


def test_without_the_option_the_fixture_stands_for_the_suite(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(chunkfront_instances):\n    assert chunkfront_instances.requests\n")
    result = pytester.runpytest_inprocess(*PLUGIN, "--collect-only", "-q")
    collected = [line for line in result.outlines if "::test_it[" in line]
    assert len(collected) == len(suite_keys(20))
    assert any("[edge:one-token]" in line for line in collected)
    assert any("[chat]" in line for line in collected)


def test_an_instance_of_a_file_may_be_named(pytester: pytest.Pytester) -> None:
    Path(pytester.path / "mine.json").write_text(build([(0, 3, 2)], 4).to_json(), encoding="utf-8")
    pytester.makeini("[pytest]\nchunkfront_instances = mine.json")
    pytester.makepyfile("def test_it(chunkfront_instances):\n    assert chunkfront_instances.name == 'built'\n")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_whoever_does_not_ask_for_the_fixture_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it():\n    pass\n")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


# The functions alone.


def test_a_schedule_is_judged_by_the_checker_and_returned() -> None:
    instance = build([(0, 3, 2)], 4)
    schedule = simulate(instance, "orca").schedule
    assert assert_valid(instance, schedule) is schedule
    cut = Schedule(schedule.instance, "cut", schedule.iterations[:1])
    with pytest.raises(AssertionError, match=r"completion: request 'r0' has emitted 1 of 2 tokens .*value 1, limit 2"):
        assert_valid(instance, cut)
    with pytest.raises(AssertionError, match="no gap on built: breaks completion"):
        assert_gap("makespan", at_most=1, instance=instance, scheduler=cut)


@pytest.mark.parametrize("scheduler", [GreedyChunked, GreedyChunked(), "greedy-chunked", lambda: GreedyChunked()])
def test_a_scheduler_is_a_class_an_object_a_function_or_a_text(scheduler: object) -> None:
    assert assert_valid("chat", scheduler) == simulate(instance_of("chat"), "greedy-chunked").schedule


def test_a_scheduler_that_fails_is_an_assertion_and_none_at_all_is_bad_input() -> None:
    with pytest.raises(AssertionError, match="token-budget"):
        assert_valid("edge:single-outputs", OverBudget)
    with pytest.raises(AssertionError, match="kv-pool"):
        assert_gap("makespan", at_most=1, instance="edge:pool-of-one-peak", scheduler=IgnoresPool)
    with pytest.raises(InputError, match="scheduler: expected a class with the Policy protocol"):
        assert_valid("chat", 3)
    with pytest.raises(InputError, match="metric: expected one of"):
        assert_gap("speed", at_most=1, instance="chat", scheduler=GreedyChunked)


def test_a_gap_comes_from_the_library_or_from_a_solve() -> None:
    # chat: greedy chunking's mean E2E is the proved optimum. Built: 3 tokens with a budget of 4, 2 ms for anybody.
    assert assert_gap("mean_e2e", at_most=0, instance="chat", scheduler=GreedyChunked) == 0
    assert assert_gap("makespan", at_most=0, instance=build([(0, 3, 2)], 4), scheduler=GreedyChunked) == 0
    gap = assert_gap("max_tbt", at_most=0.7, instance="chat", scheduler=GreedyChunked)
    assert gap == pytest.approx(0.6356, abs=1e-4)
