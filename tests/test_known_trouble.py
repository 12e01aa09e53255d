"""Values of ../shared/design/known-trouble.md, confirmed there by enumeration, that cases/reference.json leaves out.

Requests are (arrival, prompt, outputs), iterations 1 ms unless a cost is given; sums, not means.
"""

from __future__ import annotations

from typing import Any

import pytest

from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import exact_frontier, exact_optimum

MS = 1000


def optimum(instance: Instance, objective: str, limits: dict[str, int] | None = None, **options: Any) -> float | None:
    """Return the optimum in ms (sums for means)."""
    amount = exact_optimum(instance, objective, {k: v * MS for k, v in (limits or {}).items()}, **options)
    return None if amount is None else amount / MS


@pytest.mark.parametrize(("budget", "makespan"), [(12, 16), (6, 20), (5, 24), (4, 24), (3, 28)])
def test_a3_a_needless_split_costs_one_base(budget: int, makespan: int) -> None:
    # 12 + 4 * ceil(12 / K)
    assert optimum(build([(0, 12, 1)], budget, base_and_tokens(4)), "makespan") == makespan


def test_a4_a_prompt_of_exactly_the_budget_runs_without_chunking() -> None:
    assert optimum(build([(0, 8, 1)], 8, enable_chunked_prefill=False), "max_ttft") == 1


def test_a4_rejecting_the_hopeless_request_serves_the_other_at_once() -> None:
    with pytest.raises(InputError, match=r"'r0'.*10.*8"):
        build([(0, 10, 1), (0, 4, 1)], 8, enable_chunked_prefill=False)
    assert optimum(build([(0, 4, 1)], 8, enable_chunked_prefill=False), "mean_ttft") == 1


@pytest.mark.parametrize(("prompt", "outputs", "finish"), [(14, 3, 3), (10, 7, 7)])
def test_a5_peak_of_exactly_the_pool_is_served(prompt: int, outputs: int, finish: int) -> None:
    assert optimum(build([(0, prompt, outputs)], 32, num_kv_blocks=16), "makespan") == finish


@pytest.mark.parametrize(("prompt", "outputs"), [(14, 4), (17, 1), (10, 8)])
def test_a5_peak_above_the_pool_is_refused(prompt: int, outputs: int) -> None:
    with pytest.raises(InputError, match=rf"'r0'.*{prompt + outputs - 1}.*16"):
        build([(0, prompt, outputs)], 32, num_kv_blocks=16)


def test_a6_pages_round_each_request_up() -> None:
    three = [(0, 5, 1)] * 3
    assert optimum(build(three, 15, num_kv_blocks=16), "makespan") == 1
    assert optimum(build(three, 15, num_kv_blocks=4, block_size=4), "makespan") == 2
    assert optimum(build([(0, 13, 4)], 15, num_kv_blocks=4, block_size=4), "makespan") == 4
    with pytest.raises(InputError, match=r"17.*16"):
        build([(0, 13, 5)], 15, num_kv_blocks=4, block_size=4)


def test_a9_preemption_beats_the_optimum_without_it() -> None:
    two = [(0, 4, 6)] * 2
    forbidden = build(two, 8, num_kv_blocks=10)
    assert optimum(forbidden, "makespan") == 12
    assert optimum(forbidden, "mean_e2e") == 18
    assert optimum(forbidden, "max_tbt") == 1
    allowed = build(two, 8, num_kv_blocks=10, preemption="recompute")
    # First come first served, evicting the newest, reaches makespan 10 and sum of E2E 16 with a gap of 5.
    reached = optimum(allowed, "makespan", {"mean_e2e": 16, "max_tbt": 5})
    assert reached is not None
    assert reached <= 10


def test_a9_three_requests_without_preemption_run_one_after_the_other() -> None:
    assert optimum(build([(0, 4, 6)] * 3, 12, num_kv_blocks=12), "makespan") == 18


def test_a10_two_requests_that_fill_the_pool_each() -> None:
    instance = build([(0, 5, 4)] * 2, 8, num_kv_blocks=8)
    assert exact_frontier(instance, ("makespan", "mean_e2e")) == [(8 * MS, 12 * MS)]


def test_a15_seats_count_residents() -> None:
    three = [(0, 1, 3)] * 3
    assert optimum(build(three, 8, max_num_seqs=2), "makespan") == 6
    assert optimum(build(three, 2), "makespan") == 5  # a limit on the batch alone, with pausing
    assert optimum(build(three, 8, max_num_seqs=1), "makespan") == 9  # what an off-by-one would give
    assert optimum(build(three, 8), "makespan") == 3  # what "zero is no limit" would give
    with pytest.raises(InputError, match="max_num_seqs"):
        EngineLimits(8, max_num_seqs=0)


def test_a17_the_two_short_prompts_go_first() -> None:
    instance = build([(0, 4, 1), (0, 8, 1), (0, 4, 1)], 8)
    assert exact_frontier(instance, ("mean_ttft", "makespan")) == [(4 * MS, 2 * MS)]


def test_b3_either_loosening_repairs_the_conflict() -> None:
    two = [(0, 4, 1)] * 2
    assert optimum(build(two, 4), "makespan", {"max_ttft": 1}) is None
    assert optimum(build(two, 4), "makespan", {"max_ttft": 2}) == 2
    assert optimum(build(two, 8), "makespan", {"max_ttft": 1}) == 1


def test_b5_the_value_is_one_though_optimal_schedules_are_two() -> None:
    assert optimum(build([(0, 4, 1)] * 2, 4), "mean_ttft") == 3


def test_b9_the_point_below_a_timed_out_one_exists() -> None:
    # A2 with gap <= 6: the next point after (24, 7) is (26, 3)
    instance = build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2))
    assert exact_frontier(instance, ("mean_ttft", "max_tbt"), {"max_tbt": 6 * MS}) == [(26 * MS, 3 * MS)]
