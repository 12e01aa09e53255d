"""Heuristics in the plane of a frontier, on the waiting example of model.md §8.

A (arrives 0, prompt 1, output 2) and B (arrives 10, prompt 1, output 1); an iteration lasts 5 ms + 1 ms per token.
Its frontier (makespan, max TBT) is {(17, 7), (18, 6)} ms.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chunkfront.compare import (
    ComparedPolicy,
    PolicyRun,
    Rules,
    compare_with_frontier,
    first_dominating,
    hypervolumes,
    ratio_away,
)
from chunkfront.gaps import compare_with_optima, gap_to_bound
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.metrics import amounts, report
from instances.objectives import OBJECTIVES
from instances.request import Request
from instances.schedule import Iteration, Schedule
from instances.units import PS_PER_MS
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, Frontier, FrontierPoint, Result

COST = CostModel.linear(5 * PS_PER_MS, PS_PER_MS, PS_PER_MS)
WAITING = Instance("waiting", (Request("A", 1, 2), Request("B", 1, 1, arrival_us=10_000)), EngineLimits(8), COST)


def schedule(*iterations: Iteration) -> Schedule:
    return Schedule("waiting", "by hand", iterations)


# A alone at once (6, 12), then B: ends at 18, A's gap is 6. On the frontier.
EAGER = schedule(Iteration(0, 6_000, {"A": 1}), Iteration(6_000, 6_000, {}, ("A",)), Iteration(12_000, 6_000, {"B": 1}))
# A starts at 4, so that its decode rides with B's prefill at 10: ends at 17, the gap is 7. On the frontier.
PATIENT = schedule(Iteration(4_000, 6_000, {"A": 1}), Iteration(10_000, 7_000, {"B": 1}, ("A",)))
# As PATIENT, but A starts at 0: ends at 17, and the gap is 17 - 6 = 11.
PAUSING = schedule(Iteration(0, 6_000, {"A": 1}), Iteration(10_000, 7_000, {"B": 1}, ("A",)))
# EAGER, all of it 3 ms later from the second iteration on: ends at 21, the gap is 9.
LATE = schedule(Iteration(0, 6_000, {"A": 1}), Iteration(9_000, 6_000, {}, ("A",)), Iteration(15_000, 6_000, {"B": 1}))


def run(name: str, found: Schedule, instance: Instance = WAITING) -> PolicyRun:
    return PolicyRun(name, found, report(instance, found))


def point(found: Schedule, axes: tuple[str, str] = ("makespan", "max_tbt"), status: str = OPTIMAL) -> FrontierPoint:
    exact = amounts(WAITING, found)
    reached = tuple(exact[axis] for axis in axes)
    values = tuple(OBJECTIVES[axis].value(WAITING, exact[axis]) for axis in axes)
    return FrontierPoint(values, values, reached, status, found, report(WAITING, found))


FRONTIER = Frontier(("makespan", "max_tbt"), ("ms", "ms"), (point(PATIENT), point(EAGER)), complete=True)


def placed(found: Schedule, frontier: Frontier = FRONTIER, rules: Rules | None = None) -> ComparedPolicy:
    (policy,) = compare_with_frontier(WAITING, [run("p", found)], frontier, rules)
    return policy


def test_the_frontier_of_the_example_is_that_of_the_model() -> None:
    assert [p.values for p in FRONTIER.points] == [(17.0, 7.0), (18.0, 6.0)]


def test_a_heuristic_on_a_point_is_dominated_by_nothing_and_has_no_excess() -> None:
    policy = placed(EAGER)
    assert (policy.values, policy.comparable, policy.dominated_by) == ((18.0, 6.0), True, None)
    assert policy.excess == {"makespan": 0.0, "max_tbt": 0.0}


def test_excess_is_measured_along_each_axis_against_the_points_no_worse_on_the_other() -> None:
    # (17, 11): the best gap with makespan <= 17 is 7, so 11 / 7 - 1; the best makespan with gap <= 11 is 17.
    policy = placed(PAUSING)
    assert policy.values == (17.0, 11.0)
    assert policy.excess == {"makespan": 0.0, "max_tbt": pytest.approx(4 / 7)}
    assert policy.dominated_by == 0


def test_the_first_dominating_point_is_named() -> None:
    # (21, 9) is dominated by both points; makespan 21 / 17 - 1, gap 9 / 6 - 1.
    policy = placed(LATE)
    assert policy.dominated_by == 0
    assert policy.excess == {"makespan": pytest.approx(4 / 17), "max_tbt": pytest.approx(0.5)}


def test_equal_values_do_not_dominate_each_other() -> None:
    assert first_dominating([(5, 5)], (5, 5)) is None
    assert first_dominating([(6, 4), (5, 5)], (5, 6)) == 1


def test_one_microsecond_decides() -> None:
    # No float decides: 2**53 and 2**53 + 1 are the same double.
    assert first_dominating([(2**53, 1)], (2**53 + 1, 1)) == 0


def test_where_the_frontier_is_open_there_is_no_excess() -> None:
    # Only (18, 6) is known: nothing known has a makespan <= 17, so there is no best gap to measure from.
    cut = replace(FRONTIER, points=(point(EAGER),), complete=False)
    policy = placed(PATIENT, cut)
    assert policy.excess == {"makespan": None, "max_tbt": None}
    assert policy.dominated_by is None


def test_a_heuristic_better_than_an_unproved_point_has_no_negative_excess() -> None:
    # The only point is (21, 9), not proved; the heuristic at (18, 6) beats it on both axes.
    cut = replace(FRONTIER, points=(point(LATE, status=FEASIBLE),), complete=False)
    assert placed(EAGER, cut).excess == {"makespan": None, "max_tbt": None}


def test_a_schedule_that_breaks_a_rule_is_not_comparable_and_the_rule_is_named() -> None:
    overlapping = schedule(*EAGER.iterations[:2], replace(EAGER.iterations[2], start_us=11_000))
    policy = placed(overlapping)
    assert not policy.comparable
    assert policy.reason is not None
    assert "time-order" in policy.reason
    assert policy.dominated_by is None
    assert policy.excess == {"makespan": None, "max_tbt": None}


def test_a_policy_over_a_limit_is_not_comparable_and_both_numbers_are_named() -> None:
    policy = placed(PAUSING, rules=Rules(limits={"max_tbt": 10.5}))
    assert policy.reason == "breaks the limit on max_tbt: 11 ms, allowed 10.5 ms"


def test_a_policy_that_meets_a_limit_exactly_is_comparable() -> None:
    assert placed(PAUSING, rules=Rules(limits={"max_tbt": 11.0})).comparable


def test_throughput_below_its_limit_is_not_comparable() -> None:
    # Three tokens in 18 ms are 166.7 tokens/s; in 17 ms 176.5.
    rules = Rules(limits={"throughput": 170.0})
    assert not placed(EAGER, rules=rules).comparable
    assert placed(PATIENT, rules=rules).comparable


def test_a_pausing_schedule_is_not_comparable_with_an_optimum_without_pauses() -> None:
    # A is prefilled by 6 ms and does not decode while B runs alone.
    paused = schedule(
        Iteration(0, 6_000, {"A": 1}), Iteration(10_000, 6_000, {"B": 1}), Iteration(16_000, 6_000, {}, ("A",))
    )
    assert placed(paused).comparable
    policy = placed(paused, rules=Rules(no_pause=True))
    assert not policy.comparable
    assert "no-pause" in (policy.reason or "")


def test_more_evictions_than_allowed_are_not_comparable() -> None:
    # One request of prompt 1 and output 3, evicted twice, each time recomputed in full (1 ms per iteration).
    engine = EngineLimits(8, preemption="recompute")
    instance = Instance("evicted", (Request("a", 1, 3), Request("b", 4, 1)), engine, CostModel.unit())
    found = Schedule("evicted", "by hand", (
        Iteration(0, 1_000, {"a": 1}),
        Iteration(1_000, 1_000, {"b": 1}, (), ("a",)),
        Iteration(2_000, 1_000, {"a": 2}),
        Iteration(3_000, 1_000, {"b": 1}, (), ("a",)),
        Iteration(4_000, 1_000, {"a": 3, "b": 2}),
    ))  # fmt: skip
    empty = Frontier(("makespan", "max_tbt"), ("ms", "ms"), (), complete=False)
    (once,) = compare_with_frontier(instance, [run("p", found, instance)], empty, Rules(max_preemptions=1))
    (twice,) = compare_with_frontier(instance, [run("p", found, instance)], empty, Rules(max_preemptions=2))
    assert once.reason == "evicts 'a' 2 times, --max-preemptions is 1"
    assert twice.comparable


def test_a_policy_that_failed_is_a_row_with_the_reason() -> None:
    (policy,) = compare_with_frontier(WAITING, [PolicyRun("p", failure="stuck in iteration 3")], FRONTIER)
    assert (policy.values, policy.comparable, policy.reason) == ((None, None), False, "stuck in iteration 3")


def test_a_schedule_that_leaves_requests_unserved_has_no_values() -> None:
    # b is swapped out and in, which recompute does not know: under the instance's rules it never gets a token.
    engine = EngineLimits(8, preemption="recompute")
    instance = Instance("swapped", (Request("a", 1, 1), Request("b", 4, 1)), engine, CostModel.unit())
    found = Schedule("swapped", "by hand", (
        Iteration(0, 1_000, {"b": 2}),
        Iteration(1_000, 1_000, {"a": 1}, (), ("b",)),
        Iteration(2_000, 1_000, {"b": 2}, (), (), ("b",)),
    ))  # fmt: skip
    empty = Frontier(("makespan", "max_tbt"), ("ms", "ms"), (), complete=False)
    (policy,) = compare_with_frontier(instance, [run("p", found, instance)], empty)
    assert (policy.values, policy.comparable) == ((None, None), False)
    assert "restore" in (policy.reason or "")
    (gaps,) = compare_with_optima(instance, [run("p", found, instance)], ("makespan",), {}).policies
    assert (gaps.values, gaps.gaps) == ({"makespan": None}, {"makespan": None})


def test_on_a_maximised_axis_excess_is_what_is_missing() -> None:
    # 3 tokens in 18 ms instead of 17: (3/17 - 3/18) / (3/17) = 1/18.
    assert ratio_away(WAITING, "throughput", 18_000, 17_000) == pytest.approx(1 / 18)


def test_the_gap_of_a_policy_is_measured_from_the_bound_that_is_proved() -> None:
    # Makespan 21, proved bound 17: (21 - 17) / 21.
    result = Result(FEASIBLE, "makespan", value=18.0, bound=17.0, amount=18_000, bound_amount=17_000)
    assert gap_to_bound(WAITING, 21_000, result) == pytest.approx(4 / 21)


def test_the_gap_on_a_maximised_objective_is_a_share_of_the_bound() -> None:
    # Throughput 3/21 against 3/17: (3/17 - 3/21) / (3/17) = 4/21.
    result = Result(OPTIMAL, "throughput", bound_amount=17_000)
    assert gap_to_bound(WAITING, 21_000, result) == pytest.approx(4 / 21)


def test_without_a_bound_there_is_no_gap() -> None:
    assert gap_to_bound(WAITING, 21_000, Result(INFEASIBLE, "makespan")) is None


def test_a_comparison_leaves_the_gaps_of_incomparable_policies_open_but_shows_their_values() -> None:
    results = {"makespan": Result(OPTIMAL, "makespan", value=17.0, bound=17.0, amount=17_000, bound_amount=17_000)}
    runs = [run("late", LATE), run("eager", EAGER), PolicyRun("failed", failure="why")]
    done = compare_with_optima(WAITING, runs, ("makespan",), results, Rules(limits={"max_tbt": 8}))
    late, eager, failed = done.policies
    assert late.values == {"makespan": 21.0}
    assert late.gaps == {"makespan": None}
    assert eager.gaps == {"makespan": pytest.approx(1 / 18)}
    assert (failed.values, failed.reason) == ({"makespan": None}, "why")


def test_hypervolume_of_the_worked_example() -> None:
    # Points (17, 7), (18, 6); heuristics (18, 6), (21, 9). Worst (21, 9), best (17, 6); a tenth of the spread further:
    # reference (21.4, 9.3). Frontier: 3.4 * 3.3 - (0 .. 1) x (6 .. 7) = (18 - 17) * (9.3 - 7) + (21.4 - 18) * (9.3 - 6)
    # = 2.3 + 11.22 = 13.52. Heuristics: (18, 6) dominates (21, 9), so 3.4 * 3.3 = 11.22.
    compared = compare_with_frontier(WAITING, [run("eager", EAGER), run("late", LATE)], FRONTIER)
    area = hypervolumes(FRONTIER, compared)
    assert area is not None
    assert area["reference"] == pytest.approx([21.4, 9.3])
    assert (area["frontier"], area["policies"]) == (pytest.approx(13.52), pytest.approx(11.22))
    assert area["ratio"] == pytest.approx(11.22 / 13.52)


def test_hypervolume_turns_maximised_axes_round() -> None:
    # Throughput 3/17 and 3/18 per ms; the only heuristic lies on the second point, so it covers less than all.
    axes = ("throughput", "max_tbt")
    frontier = Frontier(axes, ("tokens/s", "ms"), (point(EAGER, axes), point(PATIENT, axes)), complete=True)
    area = hypervolumes(frontier, compare_with_frontier(WAITING, [run("eager", EAGER)], frontier))
    assert area is not None
    assert area["reference"][0] < 3000 / 18
    assert 0 < area["ratio"] < 1


def test_hypervolume_of_one_point_with_the_heuristic_on_it_is_one() -> None:
    frontier = replace(FRONTIER, points=(point(EAGER),))
    area = hypervolumes(frontier, compare_with_frontier(WAITING, [run("eager", EAGER)], frontier))
    assert area is not None
    assert area["ratio"] == 1.0


def test_without_points_there_is_no_hypervolume() -> None:
    assert hypervolumes(replace(FRONTIER, points=()), ()) is None
