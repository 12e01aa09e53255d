"""The pathologies of known-trouble.md, part A, with their numbers, as the policies show them.

Requests are (arrival, prompt, outputs), r0, r1, ...; iterations of 1 ms unless a cost is given.
"""

from __future__ import annotations

import pytest

from instances.metrics import metric, per_request
from instances.replay import replay
from tests.judges.build import base_and_tokens, build
from tests.judges.measures import checked, ttfts


def max_gap(instance, policy):
    return metric(instance, checked(instance, policy), "max_tbt")


def makespan(instance, policy):
    return metric(instance, checked(instance, policy), "makespan")


def tokens_at(instance, policy, name):
    return [time / 1000 for time in replay(instance, checked(instance, policy)).token_times[name]]


# A1: steady arrivals starve a stream under prefill-first.

A1 = build([(0, 2, 4), (1, 4, 1), (2, 4, 1), (3, 4, 1)], 4)


def test_prefill_first_starves_running_decodes():
    assert tokens_at(A1, "prefill-first", "r0") == [1, 5, 6, 7]
    assert sum(ttfts(A1, "prefill-first")) == 4
    assert max_gap(A1, "prefill-first") == 4


def test_decode_first_never_stalls_and_pays_in_ttft():
    assert tokens_at(A1, "greedy-chunked", "r0") == [1, 2, 3, 4]
    assert ttfts(A1, "greedy-chunked") == [1, 2, 2, 2]
    assert max_gap(A1, "greedy-chunked") == 1


# A2: one long prompt; cost 2 + tokens.


def spike(budget):
    return build([(0, 1, 4), (3, 12, 1)], budget, base_and_tokens(2))


def test_a_whole_prompt_beside_a_decode_is_one_long_gap():
    # 2 + 12 + 1 = 15.
    assert ttfts(spike(16), "orca") == [3, 15]
    assert max_gap(spike(16), "orca") == 15


def test_chunks_bound_the_gap_and_delay_the_newcomer():
    # Three iterations of 1 + 4 tokens: 7 each.
    assert ttfts(spike(5), "greedy-chunked") == [3, 21]
    assert max_gap(spike(5), "greedy-chunked") == 7


def test_a_chunk_cap_does_what_a_smaller_budget_does():
    assert checked(spike(16), "greedy-chunked:chunk=4").iterations == checked(spike(5), "greedy-chunked").iterations


# A3: splitting for nothing costs a base per iteration: 12 + 4 * ceil(12 / K).


@pytest.mark.parametrize(("budget", "expected"), [(12, 16), (6, 20), (5, 24), (4, 24), (3, 28)])
def test_every_needless_chunk_costs_a_base(budget, expected):
    assert makespan(build([(0, 12, 1)], budget, base_and_tokens(4)), "greedy-chunked") == expected
    assert makespan(build([(0, 12, 1)], 12, base_and_tokens(4)), f"greedy-chunked:chunk={budget}") == expected


# A7: a heavy request at the head of the queue; 10 KV tokens.

A7 = build([(0, 4, 4), (1, 8, 1), (2, 2, 1)], 16, num_kv_blocks=10)


@pytest.mark.parametrize("policy", ["greedy-chunked", "orca", "prefill-first"])
def test_strict_order_blocks_a_light_request_behind_a_heavy_one(policy):
    assert ttfts(A7, policy) == [1, 4, 3]
    assert makespan(A7, policy) == 5


@pytest.mark.parametrize("policy", ["greedy-chunked", "orca"])
def test_skipping_ahead_serves_the_light_one_and_delays_nobody(policy):
    assert ttfts(A7, f"{policy}:skip_ahead=true") == [1, 4, 1]
    assert makespan(A7, f"{policy}:skip_ahead=true") == 5


# A8: a long prompt monopolises the prefill.

A8 = build([(0, 16, 1), (1, 2, 1), (2, 2, 1)], 4)


def test_short_prompts_queue_behind_all_chunks_of_a_long_one():
    assert ttfts(A8, "greedy-chunked") == [4, 4, 3]


def test_a_static_cap_serves_the_short_ones_and_slows_the_long_one_even_when_alone():
    assert ttfts(A8, "greedy-chunked:chunk=2") == [8, 1, 1]
    # vLLM's threshold spares a request that is alone: L has 4, then 6 and 8 beside the others, then 12 and 16.
    assert ttfts(A8, "vllm-v1:long_prefill_token_threshold=2") == [5, 1, 1]


def test_shortest_prefill_first_gets_past_the_long_one():
    # L has 4 of 16 when S1 arrives, 6 when S2 does: 4, 2 beside S1, 2 beside S2, then 8 in two iterations.
    assert ttfts(A8, "preemptive-srpt") == [5, 1, 1]


# A9: preemption under KV pressure.


def pair(**engine):
    return build([(0, 4, 6)] * 2, 8, num_kv_blocks=10, **engine)


def test_evicting_the_newest_beats_the_best_schedule_without_preemption():
    instance = pair(preemption="recompute")
    assert tokens_at(instance, "vllm-v1", "r0") == [1, 2, 3, 4, 5, 6]
    assert tokens_at(instance, "vllm-v1", "r1") == [1, 2, 7, 8, 9, 10]
    schedule = checked(instance, "vllm-v1")
    assert metric(instance, schedule, "preemptions") == 1
    assert (metric(instance, schedule, "makespan"), metric(instance, schedule, "mean_e2e")) == (10, 16 / 2)
    assert metric(instance, schedule, "max_tbt") == 5


@pytest.mark.parametrize("policy", ["greedy-chunked", "orca", "prefill-first", "static", "preemptive-srpt"])
def test_without_preemption_the_second_one_waits(policy):
    # Peaks 9 + 9 > 10: one after the other, 6 iterations each.
    schedule = checked(pair(), policy)
    assert (metric(pair(), schedule, "makespan"), metric(pair(), schedule, "mean_e2e")) == (12, 18 / 2)
    assert metric(pair(), schedule, "max_tbt") == 1
    assert metric(pair(), schedule, "preemptions") == 0


def test_three_at_once_evict_three_times():
    instance = build([(0, 4, 6)] * 3, 12, num_kv_blocks=12, preemption="recompute")
    schedule = checked(instance, "vllm-v1:reserve_full_isl=false")
    assert (metric(instance, schedule, "makespan"), metric(instance, schedule, "preemptions")) == (13, 3)
    assert makespan(build([(0, 4, 6)] * 3, 12, num_kv_blocks=12), "greedy-chunked") == 18


# A10: preempt and restart; the livelock itself is in test_simulator.py.


def test_evicting_the_newest_makes_progress_where_both_cannot_stay():
    instance = build([(0, 5, 4)] * 2, 8, num_kv_blocks=8, preemption="recompute")
    ends = [row["e2e_ms"] for row in per_request(instance, checked(instance, "vllm-v1"))]
    assert ends == [4, 8]


# A11: partial prefills that hold each other up; the dead end itself is in test_simulator.py.


@pytest.mark.parametrize("settings", ["", ":reserve_peak=false"])
def test_an_admission_looks_at_the_whole_prompt(settings):
    instance = build([(0, 6, 1)] * 2, 4, num_kv_blocks=8)
    assert ttfts(instance, f"greedy-chunked{settings}") == [2, 3 if settings else 4]


# A15: what max_num_seqs counts.


def test_seats_are_counted_by_residents():
    # Two run 3 iterations, then the third: 6. Batch members: 5; off by one: 9; zero as unlimited: 3.
    instance = build([(0, 1, 3)] * 3, 8, max_num_seqs=2)
    for policy in ("greedy-chunked", "orca", "prefill-first", "static", "vllm-v1", "preemptive-srpt"):
        assert makespan(instance, policy) == 6, policy


# A16: fewer tokens than running decodes.


@pytest.mark.parametrize("policy", ["greedy-chunked", "orca", "vllm-v1"])
def test_a_budget_below_the_decodes_is_served_in_order_and_never_empty(policy):
    instance = build([(0, 1, 3)] * 3, 2)
    assert [tokens_at(instance, policy, f"r{i}") for i in range(3)] == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert max_gap(instance, policy) == 1


# A17: the rest of the budget.

A17 = build([(0, 4, 1), (0, 8, 1), (0, 4, 1)], 8)


def test_the_next_chunk_is_cut_to_the_rest_of_the_budget():
    for policy in ("greedy-chunked", "prefill-first", "vllm-v1"):
        assert ttfts(A17, policy) == [1, 2, 2], policy


def test_whole_prefills_waste_the_rest_of_the_budget():
    for policy in ("orca", "prefill-first:whole=true", "static"):
        assert ttfts(A17, policy) == [1, 2, 3], policy


def test_the_short_ones_first_is_better_still():
    assert ttfts(A17, "greedy-chunked:order=spf") == [1, 2, 1]
