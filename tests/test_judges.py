"""The exhaustive judge itself: hand-made facts, and its fast search against plain enumeration of all schedules."""

from __future__ import annotations

import random

import pytest

from instances.request import Request
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import OBJECTIVES, exact_frontier, exact_optimum, witnesses
from tests.judges.naive import all_amounts
from tests.judges.random_instances import tiny_instance
from tests.judges.witness import amounts_of

MS = 1000


def test_waiting_on_purpose_shortens_the_largest_gap() -> None:
    # model.md §8.1: A runs 4..10, so that its second token, at 17 with B's first, is 7 later; 6 costs one more base
    instance = build([(0, 1, 2), (10, 1, 1)], 8, base_and_tokens(5))
    assert exact_frontier(instance, ("makespan", "max_tbt")) == [(17 * MS, 7 * MS), (18 * MS, 6 * MS)]


def test_the_best_gap_can_be_half_of_an_odd_distance_rounded_up() -> None:
    # Cost 5 + tokens: r0's three tokens alone take 18 ms, r1's prompt alone 6 more: 24. Makespan 23.001 forces the
    # third token into the iteration of r1's prompt, 16.001..23.001; max TTFT 7 (r1's is 7) forces the first to 7 at the
    # latest. The second halves the 16.001 between them, in whole µs: 8.001.
    instance = build([(0, 1, 3), (16.001, 1, 1)], 8, base_and_tokens(5))
    assert exact_optimum(instance, "makespan") == 23_001
    assert exact_optimum(instance, "max_tbt", {"makespan": 23_001, "max_ttft": 7 * MS}) == 8_001


def test_eviction_bounds_change_the_optimum() -> None:
    # Two (0,4,6) in a pool of 10: without preemption they run one after the other (12); with one eviction 10, as
    # FCFS with recompute reaches (known-trouble A9), or better.
    none = build([(0, 4, 6), (0, 4, 6)], 8, num_kv_blocks=10)
    recompute = build([(0, 4, 6), (0, 4, 6)], 8, num_kv_blocks=10, preemption="recompute")
    assert exact_optimum(none, "makespan") == 12 * MS
    assert exact_optimum(recompute, "makespan", max_preemptions=0) == 12 * MS
    once = exact_optimum(recompute, "makespan")
    assert once is not None
    assert once <= 10 * MS
    free = exact_optimum(recompute, "makespan", max_preemptions=None)
    assert free is not None
    assert free <= once


def test_pausing_helps_and_no_pause_forbids_it() -> None:
    # Three (0,1,3), K = 2 (known-trouble A16): 9 tokens need 5 iterations with free pausing. Without pausing, of three
    # residents only two fit the budget, so the third starts when one has finished: 1-3 two of them, then 3 more.
    instance = build([(0, 1, 3)] * 3, 2)
    assert exact_optimum(instance, "makespan") == 5 * MS
    assert exact_optimum(instance, "makespan", no_pause=True) == 6 * MS


def test_infeasible_limits_give_none() -> None:
    instance = build([(0, 4, 1)] * 2, 4)
    assert exact_optimum(instance, "makespan", {"max_ttft": 1 * MS}) is None
    assert exact_optimum(instance, "makespan", {"max_ttft": 2 * MS}) == 2 * MS


def test_slo_attainment_counts_the_requests_that_miss() -> None:
    # K = 4: only one of two prompts of 4 can have its first token at 1 ms
    requests = [Request(f"r{i}", 4, 1, ttft_slo_us=MS) for i in range(2)]
    assert exact_optimum(build(requests, 4), "slo_attainment") == 1
    assert exact_optimum(build(requests, 8), "slo_attainment") == 0
    assert exact_optimum(build(requests, 4), "makespan", {"slo_attainment": 0}) is None


@pytest.mark.parametrize("axes", [("makespan", "max_tbt"), ("mean_ttft", "max_tbt"), ("mean_e2e", "makespan")])
@pytest.mark.parametrize("seed", range(12))
def test_a_witness_has_the_amounts_of_its_point(seed: int, axes: tuple[str, ...]) -> None:
    instance = tiny_instance(seed, every_feature=True, requests=2, tokens=4)
    for point, way, ends in witnesses(instance, axes):
        amounts = amounts_of(instance, way, ends)
        assert tuple(amounts[axis] for axis in axes) == point


MOST_SCHEDULES = 100_000


def compare_with_enumeration(seed: int, every_feature: bool) -> bool:
    """Compare fast search and enumeration of a tiny instance on frontiers with random axes and limits.

    Returns False, with nothing compared, where there are more than `MOST_SCHEDULES` schedules.
    """
    rng = random.Random(seed)
    requests, tokens = rng.choice(((2, 3), (2, 3), (3, 2)))
    instance = tiny_instance(seed, every_feature=every_feature, requests=requests, tokens=tokens, unit_us=1)
    no_pause = rng.random() < 0.2
    attained = set()
    for count, reached in enumerate(all_amounts(instance, 1, no_pause)):
        if count == MOST_SCHEDULES:
            return False
        attained.add(tuple(reached.values()))
    for _ in range(8):
        axes = rng.sample(OBJECTIVES, rng.choice((1, 2, 2, 2, 3)))
        limits = {}
        for name in rng.sample(OBJECTIVES, rng.choice((0, 0, 1, 1, 2))):
            values = sorted({point[OBJECTIVES.index(name)] for point in attained}) or [3]
            limits[name] = rng.choice(values[: 1 + len(values) // 2]) - rng.choice((0, 0, 0, 1))
        obeying = {
            tuple(point[OBJECTIVES.index(axis)] for axis in axes)
            for point in attained
            if all(point[OBJECTIVES.index(name)] <= limit for name, limit in limits.items())
        }
        expected = sorted(
            p for p in obeying if not any(q != p and all(x <= y for x, y in zip(q, p, strict=True)) for q in obeying)
        )
        assert exact_frontier(instance, axes, limits, 1, no_pause) == expected, (axes, limits)
    return True


@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_search_equals_enumeration_of_all_schedules(block: int, every_feature: bool) -> None:
    compared = [compare_with_enumeration(seed, every_feature) for seed in range(15 * block, 15 * block + 15)]
    assert sum(compared) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("block", range(100))
def test_search_equals_enumeration_of_all_schedules_at_length(block: int, every_feature: bool) -> None:
    seeds = range(10_000 + 20 * block, 10_020 + 20 * block)
    assert sum(compare_with_enumeration(seed, every_feature) for seed in seeds) >= 12


def test_the_naive_switch_gives_the_same_frontier() -> None:
    instance = tiny_instance(4, every_feature=True, requests=2, tokens=2, unit_us=1)
    axes = ("mean_e2e", "max_tbt")
    assert exact_frontier(instance, axes, naive=True) == exact_frontier(instance, axes)
