"""Every case of ../shared/cases/reference.json: the exhaustive judge and the solver find exactly the listed values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instances.check import violations
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import metric, report
from instances.objectives import OBJECTIVES
from solver.model import solve
from solver.result import OPTIMAL
from tests.judges.exhaustive import exact_frontier

FILE = Path(__file__).parents[2] / "shared" / "cases" / "reference.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else []
FRONTIERS = [pytest.param(c, f, id=f"{c['id']}-{'-'.join(f['axes'])}") for c in CASES for f in c["frontiers"]]
ERRORS = [pytest.param(c, id=c["id"]) for c in CASES if "error" in c]

pytestmark = pytest.mark.skipif(not CASES, reason=f"no {FILE.name} in ../shared/cases")


INSTANCES = [pytest.param(c, id=c["id"]) for c in CASES if c["frontiers"]]


def in_units(instance: Instance, axes: list[str], amounts: tuple[int, ...]) -> list[float]:
    """Return exact amounts in the units of the axes."""
    return [OBJECTIVES[axis].value(instance, amount) for axis, amount in zip(axes, amounts, strict=True)]


@pytest.mark.parametrize(("case", "frontier"), FRONTIERS)
def test_exhaustive_search_finds_the_listed_frontier(case: dict[str, Any], frontier: dict[str, Any]) -> None:
    instance = Instance.from_dict(case["instance"])
    points = exact_frontier(instance, frontier["axes"])
    found = [in_units(instance, frontier["axes"], point) for point in points]
    assert found == frontier["values_ms"]


@pytest.mark.parametrize("case", ERRORS)
def test_a_hopeless_request_is_named_with_both_numbers(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Instance.from_dict(case["instance"])
    assert repr(case["error"]["request"]) in str(caught.value)
    for number in case["error"]["numbers"]:
        assert str(number) in str(caught.value)


@pytest.mark.parametrize(("case", "frontier"), FRONTIERS)
def test_the_solver_proves_the_listed_frontier(case: dict[str, Any], frontier: dict[str, Any]) -> None:
    solver_frontier = pytest.importorskip("solver.frontier").frontier
    instance = Instance.from_dict(case["instance"])
    found = solver_frontier(instance, tuple(frontier["axes"]), workers=2, time_limit=120)
    assert found.complete
    assert found.open_intervals == ()
    assert [list(point.values) for point in found.points] == frontier["values_ms"]
    for point in found.points:
        assert point.status == OPTIMAL
        assert point.bounds == point.values
        assert violations(instance, point.schedule) == []
        recomputed = report(instance, point.schedule)
        assert recomputed == point.metrics
        shown = [metric(instance, point.schedule, axis) for axis in frontier["axes"]]
        assert shown == list(point.values)


@pytest.mark.parametrize("case", INSTANCES)
def test_each_end_of_a_frontier_is_the_optimum_of_its_axis(case: dict[str, Any]) -> None:
    instance = Instance.from_dict(case["instance"])
    for frontier in case["frontiers"]:
        for place, axis in enumerate(frontier["axes"]):
            best = min(values[place] for values in frontier["values_ms"])
            assert solve(instance, axis, workers=2).value == best
