"""Amounts, values and limits of the objectives of model.md §6."""

from __future__ import annotations

from fractions import Fraction

import pytest

from instances.errors import InputError
from instances.objectives import OBJECTIVES, limit_amounts, objective
from tests.judges.build import build


def test_a_limit_on_a_mean_is_the_floor_of_its_multiple() -> None:
    three = build([(0, 1, 1)] * 3, 3)
    assert limit_amounts(three, {"mean_ttft": 1.5}) == {"mean_ttft": 4500}
    assert limit_amounts(three, {"mean_ttft": 1.0001}) == {"mean_ttft": 3000}


@pytest.mark.parametrize("name", ["mean_ttft", "mean_e2e", "weighted_e2e", "makespan", "slo_attainment", "throughput"])
@pytest.mark.parametrize("count", [1, 3, 6, 7])
def test_a_printed_value_is_a_limit_that_its_own_schedule_obeys(name: str, count: int) -> None:
    # 4/3 ms prints as 1.3333333333333333, below 4/3; 5/6 as 0.8333333333333334, above 5/6
    instance = build([(0, 1, 1)] * count, count)
    known = OBJECTIVES[name]
    for amount in range(1, count + 1) if name == "slo_attainment" else range(1000, 1000 + 40 * count, 7):
        assert known.limit_amount(instance, known.value(instance, amount)) == amount
        if not known.maximise:
            just_below = known.value(instance, amount) - 1e-6
            assert known.limit_amount(instance, just_below) == amount - 1


def test_slo_limits_bound_from_below() -> None:
    four = build([(0, 1, 1)] * 4, 4)
    assert limit_amounts(four, {"slo_attainment": 0.75}) == {"slo_attainment": 1}  # one may miss
    assert limit_amounts(four, {"slo_attainment": 0.76}) == {"slo_attainment": 0}


def test_throughput_limits_bound_the_makespan() -> None:
    # 6 outputs at 1000 tokens/s or more: 6 ms at most; the tighter of two limits holds
    instance = build([(0, 1, 3)] * 2, 4)
    assert limit_amounts(instance, {"throughput": 1000}) == {"makespan": 6000}
    assert limit_amounts(instance, {"throughput": 1000, "makespan": 5.5}) == {"makespan": 5500}


def test_values_are_exact_multiples() -> None:
    three = build([(0, 1, 1)] * 3, 3)
    assert OBJECTIVES["mean_ttft"].value_of(three, 4000) == Fraction(4, 3)
    assert OBJECTIVES["slo_attainment"].value_of(three, 1) == Fraction(2, 3)


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"latency": 1}, "latency"), ({"max_tbt": float("nan")}, "max_tbt"), ({"makespan": float("inf")}, "makespan"),
        ({"slo_attainment": 1.5}, "slo_attainment"), ({"max_ttft": -1}, "max_ttft"), ({"throughput": 0}, "throughput"),
        ({"makespan": True}, "makespan"),
    ],
)  # fmt: skip
def test_a_meaningless_limit_is_refused_by_name(limits: dict[str, float], what: str) -> None:
    with pytest.raises(InputError, match=what):
        limit_amounts(build([(0, 1, 1)], 1), limits)


def test_an_unknown_objective_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"makespan.*latency"):
        objective("latency")
