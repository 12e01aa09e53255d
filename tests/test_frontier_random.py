"""The solver's frontiers against exhaustive search on random tiny instances: complete, with a grid, and cut short."""

from __future__ import annotations

import random

import pytest

from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES as KNOWN
from solver.frontier import frontier
from solver.result import OPTIMAL, Frontier
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import OBJECTIVES, exact_frontier
from tests.judges.random_instances import tiny_instance


def check_frontier(seed: int, every_feature: bool) -> None:
    """Assert that a frontier of random axes and limits is complete and equal to the judge's."""
    rng = random.Random(f"frontier {seed}")
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=3, unit_us=1)
    axes = tuple(rng.sample(OBJECTIVES, 2))
    if rng.random() < 0.5 and "max_tbt" not in axes:
        axes = (axes[0], "max_tbt")
    expected = exact_frontier(instance, axes)
    found = frontier(instance, axes, workers=1, time_limit=120)
    assert found.complete
    assert sorted(point.amounts for point in found.points) == expected
    assert [point.values[0] for point in found.points] == sorted(point.values[0] for point in found.points)
    for point in found.points:
        assert point.status == OPTIMAL
        assert violations(instance, point.schedule) == []
        shown = amounts(instance, point.schedule)
        assert tuple(shown[axis] for axis in axes) == point.amounts


@pytest.mark.parametrize("every_feature", [False, True])
def test_frontiers_equal_those_of_exhaustive_search(every_feature: bool) -> None:
    for seed in range(10):
        check_frontier(seed, every_feature)


@pytest.mark.slow
@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("seed", range(5000, 5100))
def test_frontiers_equal_those_of_exhaustive_search_at_length(seed: int, every_feature: bool) -> None:
    check_frontier(seed, every_feature)


def between(instance: Instance, found: Frontier, point: tuple[int, ...]) -> bool:
    """Return whether a point lies in an interval that the frontier calls open."""
    values = {axis: KNOWN[axis].value(instance, amount) for axis, amount in zip(found.axes, point, strict=True)}
    return any(
        (gap["above"] is None or values[gap["axis"]] >= gap["above"])
        and (gap["below"] is None or values[gap["axis"]] <= gap["below"])
        for gap in found.open_intervals
    )


# Cost 2 + tokens: seven points, (17, 17) to (26, 3) (known-trouble A2)
SPIKE = build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2))


@pytest.mark.parametrize("time_limit", [0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0])
def test_a_frontier_cut_short_says_what_is_proved_and_where_points_may_be_missing(time_limit: float) -> None:
    expected = exact_frontier(SPIKE, ("mean_ttft", "max_tbt"))
    found = frontier(SPIKE, ("mean_ttft", "max_tbt"), workers=1, time_limit=time_limit)
    shown = [point.amounts for point in found.points]
    assert found.complete == (not found.open_intervals)
    assert not found.complete or shown == expected
    assert all(point.amounts in expected for point in found.points if point.status == OPTIMAL)
    assert all(point in shown or between(SPIKE, found, point) for point in expected)
    for point in found.points:
        assert violations(SPIKE, point.schedule) == []


@pytest.mark.parametrize("grid_ms", [1.0, 2.5, 6.0, 20.0])
def test_a_grid_leaves_no_schedule_better_by_more_than_it(grid_ms: float) -> None:
    expected = exact_frontier(SPIKE, ("mean_ttft", "max_tbt"))
    found = frontier(SPIKE, ("mean_ttft", "max_tbt"), resolution=grid_ms, workers=1)
    shown = [point.amounts for point in found.points]
    assert found.complete
    assert set(shown) <= set(expected)
    for x, y in expected:
        assert any(a <= x and b <= y + 1000 * grid_ms for a, b in shown)
    assert len(shown) < len(expected) or grid_ms == 1.0
