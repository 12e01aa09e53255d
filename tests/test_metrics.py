"""Metrics of model.md §5: definitions, units, edge cases; schedules are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from instances.check import violations
from instances.instance import Instance
from instances.metrics import UNITS, amounts, json_key, metric, per_iteration, per_request, report
from instances.request import Progress, Request
from instances.roofline import roofline_cost
from instances.schedule import Iteration, Schedule
from tests.judges.build import LINEAR, build, schedule
from tests.judges.exhaustive import witnesses
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import as_schedule
from tests.judges.witness import amounts_of


def valid(instance: Instance, plan: Schedule) -> dict[str, Any]:
    """Return the report of a schedule that the checker accepts."""
    assert violations(instance, plan) == []
    return report(instance, plan)


# one request, tokens at 5, 6, 9 with arrival 2 (known-trouble A25), made of 1 ms iterations
A25 = build([(2, 1, 3)], 1)
A25_PLAN = schedule((4, 1, {"r0": 1}, ()), (5, 1, {}, ["r0"]), (8, 1, {}, ["r0"]))


def test_ttft_counts_from_arrival() -> None:
    assert metric(A25, A25_PLAN, "mean_ttft") == 3  # 5 - 2, not 5


def test_tbt_has_only_gaps_between_tokens() -> None:
    got = valid(A25, A25_PLAN)
    assert got["mean_tbt_ms"] == 2  # gaps 1 and 3; with the TTFT among them it would be 7/3
    assert got["max_tbt_ms"] == 3


def test_tpot_is_the_time_after_the_first_token_per_further_token() -> None:
    assert metric(A25, A25_PLAN, "mean_tpot") == 2  # (9 - 5) / 2


def test_e2e_and_normalised_latency() -> None:
    got = valid(A25, A25_PLAN)
    assert got["mean_e2e_ms"] == 7
    assert got["mean_normalised_latency_ms_per_token"] == pytest.approx(7 / 3)


def test_percentiles_interpolate_linearly() -> None:
    # gaps 1 and 3: p = 1 + 2p; by nearest rank p99 would be 3
    got = valid(A25, A25_PLAN)
    assert (got["p50_tbt_ms"], got["p90_tbt_ms"], got["p99_tbt_ms"]) == pytest.approx((2, 2.8, 2.98))


def test_gaps_are_pooled_and_tpot_is_per_request() -> None:
    # gaps 1, 1, 1, 1 of r0 and 5 of r1: pooled mean 9/5, mean of TPOT (1 + 5)/2
    instance = build([(0, 1, 5), (0, 1, 2)], 2)
    rows = [(0, 1, {"r0": 1, "r1": 1}, ())]
    rows += [(k, 1, {}, ["r0"]) for k in range(1, 5)]
    got = valid(instance, schedule(*rows, (5, 1, {}, ["r1"])))
    assert got["mean_tbt_ms"] == pytest.approx(1.8)
    assert got["mean_tpot_ms"] == 3


def test_a_gap_runs_across_a_preemption() -> None:
    # known-trouble A9: r1's tokens at 1, 2, 7, 8, 9, 10; the token at 1 was sent, so TTFT stays 1, and the gap is 5
    instance = build([(0, 4, 6), (0, 4, 6)], 8, num_kv_blocks=10, preemption="recompute")
    both = ["r0", "r1"]
    rows = [
        Iteration(0, 1000, {"r0": 4, "r1": 4}), Iteration(1000, 1000, {}, both),
        Iteration(2000, 1000, {}, ["r0"], evict=["r1"]), *(Iteration(k * 1000, 1000, {}, ["r0"]) for k in (3, 4, 5)),
        Iteration(6000, 1000, {"r1": 6}), *(Iteration(k * 1000, 1000, {}, ["r1"]) for k in (7, 8, 9)),
    ]  # fmt: skip
    got = valid(instance, schedule(*rows))
    assert got["max_ttft_ms"] == 1
    assert got["max_tbt_ms"] == 5
    assert (got["makespan_ms"], got["mean_e2e_ms"]) == (10, 8)
    assert got["preemptions"] == 1
    assert got["recomputed_tokens"] == 6  # P + g = 4 + 2


def test_swapped_tokens_count_those_that_leave() -> None:
    instance = build([(0, 2, 2), (0, 2, 2)], 4, num_kv_blocks=5, preemption="swap")
    rows = [
        Iteration(0, 1000, {"r0": 2, "r1": 2}), Iteration(1000, 1000, {}, ["r0"], evict=["r1"]),
        Iteration(2000, 1000, {}, ["r1"], restore=["r1"]),
    ]  # fmt: skip
    got = valid(instance, schedule(*rows))
    assert (got["preemptions"], got["swapped_tokens"], got["recomputed_tokens"]) == (1, 2, 0)


def test_one_output_token_has_no_gap_and_no_tpot() -> None:
    # known-trouble A23
    got = valid(build([(0, 4, 1)], 4), schedule((0, 1, {"r0": 4}, ())))
    assert (got["makespan_ms"], got["max_ttft_ms"], got["max_e2e_ms"]) == (1, 1, 1)
    for key in ("mean_tpot_ms", "max_tpot_ms", "p99_tpot_ms", "mean_tbt_ms", "max_tbt_ms", "p50_tbt_ms"):
        assert got[key] is None
    assert got["peak_kv_blocks"] == 4
    assert got["output_tokens"] == 1


def test_requests_without_tpot_are_left_out_of_its_average() -> None:
    # tokens 1 | 1, 2, 3: mean TPOT 1, not 0.5; 4 outputs in 3 ms
    instance = build([(0, 4, 1), (0, 4, 3)], 8)
    plan = schedule((0, 1, {"r0": 4, "r1": 4}, ()), (1, 1, {}, ["r1"]), (2, 1, {}, ["r1"]))
    got = valid(instance, plan)
    assert got["mean_tpot_ms"] == 1
    assert got["output_tokens"] == 4
    assert got["throughput_tokens_per_s"] == pytest.approx(4 / 0.003)


def test_no_gap_is_zero_as_an_amount() -> None:
    instance = build([(0, 4, 1)], 4)
    assert amounts(instance, schedule((0, 1, {"r0": 4}, ())))["max_tbt"] == 0


def test_rates_count_from_the_earliest_arrival_to_the_last_token() -> None:
    # arrivals 2 and 3, last token at 6: makespan 4 ms; 3 outputs, 5 + 3 tokens in all, 2 requests
    instance = build([(2, 2, 2), (3, 3, 1)], 8)
    got = valid(instance, schedule((2, 1, {"r0": 2}, ()), (3, 1, {"r1": 3}, ()), (5, 1, {}, ["r0"])))
    assert got["makespan_ms"] == 4
    assert got["throughput_tokens_per_s"] == pytest.approx(750)
    assert got["total_tokens_per_s"] == pytest.approx(2000)
    assert got["requests_per_s"] == pytest.approx(500)
    assert got["busy_share"] == pytest.approx(3 / 4)


RUNNING = build([Request("run", 4, 4, progress=Progress(4, 2, -1000)), Request("new", 2, 1)], 4)
RUNNING_PLAN = schedule((0, 1, {"new": 2}, ["run"]), (1, 1, {}, ["run"]))


def test_the_first_gap_of_a_running_request_counts_from_before_time_zero() -> None:
    got = valid(RUNNING, RUNNING_PLAN)  # last token at -1, then 1 and 2: gaps 2 and 1
    assert got["max_tbt_ms"] == 2
    assert got["mean_tbt_ms"] == 1.5


def test_a_running_request_has_no_ttft_and_no_tpot() -> None:
    got = valid(RUNNING, RUNNING_PLAN)
    assert (got["mean_ttft_ms"], got["mean_tpot_ms"]) == (1, None)  # those of `new` only
    rows = per_request(RUNNING, RUNNING_PLAN)
    assert rows[0]["ttft_ms"] is None
    assert rows[0]["tpot_ms"] is None
    assert rows[0]["e2e_ms"] == 2  # from time 0


def test_throughput_counts_only_what_is_emitted_after_time_zero() -> None:
    assert metric(RUNNING, RUNNING_PLAN, "throughput") == pytest.approx(3 / 0.002)


def test_means_are_null_where_nothing_has_the_quantity() -> None:
    instance = build([Request("run", 4, 4, progress=Progress(4, 3, 0))], 4)
    got = valid(instance, schedule((0, 1, {}, ["run"])))
    assert got["mean_ttft_ms"] is None
    assert amounts(instance, schedule((0, 1, {}, ["run"])))["mean_ttft"] == 0


def slo_instance(**slos: int) -> Instance:
    return build([Request("r0", 1, 3, 2000, **slos)], 1)


@pytest.mark.parametrize(
    ("slos", "met"),
    [
        ({}, 1), ({"ttft_slo_us": 3000}, 1), ({"ttft_slo_us": 2999}, 0), ({"tbt_slo_us": 3000}, 1),
        ({"tbt_slo_us": 2999}, 0), ({"e2e_slo_us": 7000}, 1), ({"e2e_slo_us": 6999}, 0),
        ({"ttft_slo_us": 3000, "e2e_slo_us": 6999}, 0),
    ],
)  # fmt: skip
def test_a_request_attains_when_it_keeps_all_its_limits(slos: dict[str, int], met: int) -> None:
    got = report(slo_instance(**slos), A25_PLAN)  # TTFT 3, gaps 1 and 3, E2E 7
    assert got["slo_attainment"] == met
    assert got["goodput_requests_per_s"] == pytest.approx(met / 0.007)


def test_the_tbt_slo_of_a_running_request_covers_its_first_gap() -> None:
    def attainment(slo: int) -> Any:
        run = Request("run", 4, 4, progress=Progress(4, 2, -1000), tbt_slo_us=slo)
        return metric(build([run, RUNNING.requests[1]], 4), RUNNING_PLAN, "slo_attainment")

    assert (attainment(2000), attainment(1999)) == (1, 0.5)


def test_a_running_request_has_no_ttft_slo() -> None:
    run = Request("run", 4, 4, progress=Progress(4, 2, -1000), ttft_slo_us=1)
    assert metric(build([run, RUNNING.requests[1]], 4), RUNNING_PLAN, "slo_attainment") == 1


def test_weights_weigh_e2e() -> None:
    # E2E 1 with weight 3, E2E 2 with weight 1: (3 + 2) / 4
    instance = build([Request("a", 4, 1, weight=3), Request("b", 4, 1)], 4)
    plan = schedule((0, 1, {"a": 4}, ()), (1, 1, {"b": 4}, ()))
    got = valid(instance, plan)
    assert got["weighted_e2e_ms"] == 1.25
    assert got["mean_e2e_ms"] == 1.5
    assert amounts(instance, plan)["weighted_e2e"] == 5000


def test_utilisation_of_static_groups_and_continuous_admission() -> None:
    # model.md §8.3: two slots, outputs 2, 1, 2
    instance = build([(0, 1, 2), (0, 1, 1), (0, 1, 2)], 2, max_num_seqs=2)
    static = schedule(
        (0, 1, {"r0": 1, "r1": 1}, ()), (1, 1, {}, ["r0"]), (2, 1, {"r2": 1}, ()), (3, 1, {}, ["r2"])
    )
    assert valid(instance, static)["slot_utilisation"] == 5 / 8
    continuous = schedule((0, 1, {"r0": 1, "r1": 1}, ()), (1, 1, {"r2": 1}, ["r0"]), (2, 1, {}, ["r2"]))
    assert valid(instance, continuous)["slot_utilisation"] == 5 / 6


def test_budget_utilisation_is_tokens_over_budget_and_iterations() -> None:
    instance = build([(0, 3, 2)], 4)  # 3 + 1 tokens in 2 iterations of 4
    got = valid(instance, schedule((0, 1, {"r0": 3}, ()), (1, 1, {}, ["r0"])))
    assert got["budget_utilisation"] == 0.5
    assert got["slot_utilisation"] is None  # seats without limit
    assert got["iterations"] == 2


def test_fairness_is_jains_index_of_normalised_latency() -> None:
    # E2E / O: 1 and 2 -> (1 + 2)² / (2 (1 + 4)) = 0.9
    instance = build([(0, 4, 1), (0, 4, 1)], 4)
    assert valid(instance, schedule((0, 1, {"r0": 4}, ()), (1, 1, {"r1": 4}, ())))["fairness"] == pytest.approx(0.9)


def test_recomputed_tokens_leave_prefix_hits_out() -> None:
    # 1 of 3 prompt tokens is a prefix hit: 2 + (P + g - 1 = 3) are prefilled, 2 were needed
    request = Request("hit", 3, 3, cached_tokens=1)
    instance = build([request, Request("b", 1, 1)], 4, preemption="recompute")
    rows = [
        Iteration(0, 1000, {"hit": 2}), Iteration(1000, 1000, {"b": 1}, evict=["hit"]),
        Iteration(2000, 1000, {"hit": 3}), Iteration(3000, 1000, {}, ["hit"]),
    ]  # fmt: skip
    assert valid(instance, schedule(*rows))["recomputed_tokens"] == 3


def test_iterations_list_tokens_by_phase_and_kv() -> None:
    instance = build([(0, 2, 2), (0, 3, 1)], 8, LINEAR, num_kv_blocks=4, block_size=2)
    plan = schedule((0, 3, {"r0": 2}, ()), (3, 5, {"r1": 3}, ["r0"]))
    assert violations(instance, plan) == []
    rows = per_iteration(instance, plan)
    assert [(r["prefill_tokens"], r["decode_tokens"], r["kv_blocks"], r["residents"]) for r in rows] == [
        (2, 0, 1, 1), (3, 1, 4, 2),  # ceil(3/2) + ceil(3/2), finishing requests included
    ]  # fmt: skip
    assert [r["flops_per_byte"] for r in rows] == [None, None]


def test_arithmetic_intensity_grows_with_the_batch_on_a_roofline() -> None:
    cost = roofline_cost("llama-3.1-8b", "h100")
    instance = Instance("roof", (Request("r0", 64, 2),), build([(0, 1, 1)], 64).engine, cost)
    first, second = cost.duration_us([(0, 64)], []), cost.duration_us([], [65])
    plan = Schedule("roof", "test", (Iteration(0, first, {"r0": 64}), Iteration(first, second, {}, ("r0",))))
    assert violations(instance, plan) == []
    prefill, decode = (row["flops_per_byte"] for row in per_iteration(instance, plan))
    assert prefill > 30 * decode  # 64 tokens share one pass over the weights


def test_every_metric_has_a_unit_and_a_key_with_it() -> None:
    assert set(report(A25, A25_PLAN)) == {json_key(name) for name in UNITS}
    assert json_key("mean_ttft") == "mean_ttft_ms"
    assert json_key("throughput") == "throughput_tokens_per_s"
    assert json_key("slo_attainment") == "slo_attainment"
    with pytest.raises(KeyError):
        metric(A25, A25_PLAN, "latency")


@pytest.mark.parametrize("seed", range(25))
def test_amounts_equal_those_of_the_judge(seed: int) -> None:
    instance = tiny_instance(seed, every_feature=True, requests=3, tokens=3, unit_us=3)
    for _, way, ends in witnesses(instance, ("mean_e2e",)):
        plan = as_schedule(instance, way, ends)
        assert violations(instance, plan) == []
        expected = amounts_of(instance, way, ends)
        assert {name: amounts(instance, plan)[name] for name in expected} == expected
