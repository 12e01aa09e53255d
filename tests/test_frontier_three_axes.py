"""Frontiers of three axes: hand-derived ones, the judge's on random tiny instances, grids, and being cut short."""

from __future__ import annotations

import random

import pytest

from instances.check import violations
from instances.cost_model import CostModel
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES as KNOWN
from solver.frontier import frontier
from solver.result import INFEASIBLE, OPTIMAL, Frontier
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import OBJECTIVES, exact_frontier
from tests.judges.random_instances import tiny_instance

US = 10**6  # ps
WAITING = build([(0, 1, 2), (0.01, 1, 1)], 8, CostModel.linear(5 * US, US, US))
"""model.md §8, example 1, with µs for ms."""
SPIKE = build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2))
"""known-trouble A2: a stream, and a prompt of 12 that arrives in its midst."""
AXES = ("makespan", "mean_ttft", "max_tbt")


def triples(found: Frontier) -> list[tuple[int, ...]]:
    return [point.amounts for point in found.points]


def test_waiting_costs_first_tokens_on_the_third_axis() -> None:
    # On two axes (17, 7) and (18, 6). In (17, 7) A waits until 4: its first token at 10, B's at 17, Σ TTFT = 10 + 7.
    # A at once and its second token beside B (10..17): Σ TTFT = 6 + 7, a gap of 11; a start at s in 0..4 trades 1 for
    # 1. In (18, 6) A runs at once, twice (ends 6 and 12), B until 18: Σ TTFT = 6 + 8. In
    # (22, 12, 16) B runs alone (10..16) and A's second token comes after it: Σ TTFT = 6 + 6, a gap of 16.
    found = frontier(WAITING, AXES, workers=1)
    assert found.complete
    assert triples(found) == [*((17, 13 + s, 11 - s) for s in range(5)), (18, 14, 6), (22, 12, 16)]


def check_three(seed: int, every_feature: bool) -> None:
    rng = random.Random(f"three {seed}")
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=3, unit_us=1)
    axes = tuple(rng.sample(OBJECTIVES, 3))
    expected = exact_frontier(instance, axes)
    found = frontier(instance, axes, workers=1, time_limit=120)
    assert found.complete
    assert found.open_zones == ()
    assert sorted(triples(found)) == expected
    assert [point.values[0] for point in found.points] == sorted(point.values[0] for point in found.points)
    for point in found.points:
        assert (point.status, point.bounds) == (OPTIMAL, point.values)
        assert violations(instance, point.schedule) == []
        shown = amounts(instance, point.schedule)
        assert tuple(shown[axis] for axis in axes) == point.amounts


@pytest.mark.parametrize("every_feature", [False, True])
def test_three_axes_equal_those_of_exhaustive_search(every_feature: bool) -> None:
    for seed in (2, 7, 12, 13):
        check_three(seed, every_feature)


@pytest.mark.slow
@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("seed", range(6000, 6060))
def test_three_axes_equal_those_of_exhaustive_search_at_length(seed: int, every_feature: bool) -> None:
    check_three(seed, every_feature)


def in_open_zone(instance: Instance, found: Frontier, point: tuple[int, ...]) -> bool:
    """Return whether a point may be one of those that a frontier says are missing (all axes minimised)."""
    values = [KNOWN[axis].value(instance, amount) for axis, amount in zip(found.axes, point, strict=True)]
    return any(
        all(
            (zone["better_than"][axis] is None or value < zone["better_than"][axis]) and value >= zone["bounds"][axis]
            for axis, value in zip(found.axes, values, strict=True)
        )
        for zone in found.open_zones
    )


@pytest.mark.parametrize("limit", [0.001, 0.05, 0.2, 0.5])
def test_one_cut_short_says_what_is_proved_and_in_which_zones_points_may_be_missing(limit: float) -> None:
    expected = exact_frontier(SPIKE, AXES)
    found = frontier(SPIKE, AXES, deterministic=True, time_limit=limit)
    shown = triples(found)
    assert found.points
    assert found.complete == (not found.open_zones)
    assert all(point.amounts in expected for point in found.points if point.status == OPTIMAL)
    assert all(point in shown or in_open_zone(SPIKE, found, point) for point in expected)
    for point in found.points:
        assert violations(SPIKE, point.schedule) == []
        # Bounds: none that is no worse on the other axes is below.
        for at in range(3):
            rivals = [p for p in expected if all(p[j] <= point.amounts[j] for j in range(3) if j != at)]
            assert all(KNOWN[AXES[at]].value(SPIKE, p[at]) >= point.bounds[at] for p in rivals)


@pytest.mark.parametrize("grid_ms", [1.5, 6.0])
def test_a_grid_leaves_no_schedule_better_by_more_than_it_on_the_later_axes(grid_ms: float) -> None:
    expected = exact_frontier(SPIKE, AXES)
    found = frontier(SPIKE, AXES, resolution=grid_ms, workers=1)
    assert found.complete
    assert set(triples(found)) <= set(expected)
    sums, gaps = round(2 * 1000 * grid_ms), round(1000 * grid_ms)  # the mean TTFT of two requests counts twice
    for x, y, z in expected:
        assert any(a <= x and b <= y + sums and c <= z + gaps for a, b, c in triples(found))
    assert len(found.points) < len(expected)


def test_limits_that_nothing_obeys_are_infeasible_on_three_axes_too() -> None:
    found = frontier(WAITING, AXES, limits={"max_tbt": 0.005}, workers=1)
    assert (found.status, found.points, found.open_zones) == (INFEASIBLE, (), ())


def test_axes_are_two_or_three_and_all_different() -> None:
    with pytest.raises(InputError, match="two or three"):
        frontier(WAITING, ("makespan",))
    with pytest.raises(InputError, match="two or three"):
        frontier(WAITING, ("makespan", "max_tbt", "mean_ttft", "mean_e2e"))
    with pytest.raises(InputError, match="3 different"):
        frontier(WAITING, ("makespan", "max_tbt", "throughput"))


def test_a_grid_in_ms_leaves_shares_alone() -> None:
    # Three requests at once, one per iteration: SLOs of 1, 2 and 3 ms can all be met; with equal ones of 1 ms one is.
    requests = [(0, 4, 1), (0, 4, 1), (0, 4, 1)]
    found = frontier(build(requests, 4), ("makespan", "slo_attainment", "mean_ttft"), resolution=5.0, workers=1)
    assert [point.values for point in found.points] == [(3.0, 1.0, 2.0)]
