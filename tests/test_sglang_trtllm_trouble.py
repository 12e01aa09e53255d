"""The pathologies of known-trouble.md, part A, as sglang and trtllm show them, with their numbers.

Requests are (arrival, prompt, outputs), r0, r1, ...; iterations of 1 ms.
"""

from __future__ import annotations

import pytest

from instances.metrics import metric
from instances.replay import replay
from tests.judges.build import build
from tests.judges.measures import checked, ends, ttfts

MAX_UTILIZATION = "trtllm:capacity_scheduler_policy=max_utilization"
V2 = "trtllm:capacity_scheduler_policy=v2"
EQUAL = "trtllm:context_chunking_policy=equal_progress"
OPTIMISTIC = "sglang:init_new_token_ratio=0"


def values(instance, policy, *names):
    schedule = checked(instance, policy)
    return tuple(metric(instance, schedule, name) for name in names)


def tokens_at(instance, policy, name):
    return [time / 1000 for time in replay(instance, checked(instance, policy)).token_times[name]]


# A1: steady arrivals starve a stream; the front (sum of TTFT, max gap) is (4,4) (5,3) (6,2) (7,1).

A1 = build([(0, 2, 4), (1, 4, 1), (2, 4, 1), (3, 4, 1)], 4)


def test_sglang_starves_a_stream_while_prompts_arrive():
    assert tokens_at(A1, "sglang", "r0") == [1, 5, 6, 7]
    assert (sum(ttfts(A1, "sglang")), *values(A1, "sglang", "max_tbt")) == (4, 4)


def test_mixed_chunks_lie_at_the_other_end_of_the_front():
    mixed = "sglang:enable_mixed_chunk=true"
    assert tokens_at(A1, mixed, "r0") == [1, 2, 3, 4]
    assert (sum(ttfts(A1, mixed)), *values(A1, mixed, "max_tbt")) == (7, 1)


def test_an_interval_halves_the_stall_and_makes_the_prompts_queue():
    # Prefills at 0, 2, 4, 6: TTFT 1, 2, 3, 4, off the front (10 > 6 at a gap of 2).
    interval = "sglang:prefill_decode_interval=1"
    assert ttfts(A1, interval) == [1, 2, 3, 4]
    assert values(A1, interval, "max_tbt") == (2,)


# A6: a strict comparison refuses an exact fit.


def test_an_exact_fit_is_refused_by_strict_tests_and_by_reservations():
    # Three prompts of 5 in 16 tokens. sglang charges 5 + 1 output + 1: 7 + 7, then 7 < 2 fails. guaranteed_no_evict
    # claims 6 each: 18. Pages as they are used: one iteration.
    instance = build([(0, 5, 1)] * 3, 15, num_kv_blocks=16, preemption="recompute")
    assert ttfts(instance, "sglang") == ttfts(instance, "trtllm") == [1, 1, 2]
    assert ttfts(instance, MAX_UTILIZATION) == ttfts(instance, V2) == [1, 1, 1]


@pytest.mark.parametrize("policy", ["sglang", "trtllm", MAX_UTILIZATION, V2])
def test_a_request_that_fills_the_pool_exactly_is_served(policy):
    assert ends(build([(0, 13, 4)], 16, num_kv_blocks=4, block_size=4), policy) == [4]


# A7: a heavy request at the head of the queue; 10 KV tokens.

A7 = build([(0, 4, 4), (1, 8, 1), (2, 2, 1)], 16, num_kv_blocks=10, preemption="recompute")


def test_reservations_make_the_light_request_wait_for_the_heavy_one_even_after_the_first_has_finished():
    # r0 claims 8, r1 9 (sglang: 4 + 4 + 1 and 8 + 0 + 1 of the clipped estimate): r1 at 4, r2 behind it at 5.
    for policy in ("sglang", "trtllm"):
        assert ttfts(A7, policy) == [1, 4, 4], policy
        assert values(A7, policy, "makespan") == (6,)


def test_without_reservations_the_head_blocks_until_the_first_has_finished():
    assert ttfts(A7, MAX_UTILIZATION) == [1, 4, 3]


def test_v2_skips_ahead():
    assert ttfts(A7, V2) == [1, 4, 1]


# A8: a long prompt monopolises the prefill; the front (sum, max of TTFT) is (7,5) (11,4).

A8 = build([(0, 16, 1), (1, 2, 1), (2, 2, 1)], 4)


def test_chunks_in_order_of_arrival_make_short_prompts_queue():
    for policy in ("sglang", "trtllm"):
        assert ttfts(A8, policy) == [4, 4, 3], policy


def test_equal_progress_lies_at_the_other_end_of_the_front():
    # Units of 2: the long one has 4, 6 beside r1, 8 beside r2, then 12 and 16.
    assert ttfts(A8, f"{EQUAL},chunk_unit_size=2") == [5, 1, 1]


# A9: KV pressure. Reservation never evicts and fills the pool badly; without it requests thrash.


def pair(**engine):
    return build([(0, 4, 6)] * 2, 8, num_kv_blocks=10, **engine)


def test_reservations_serve_one_after_the_other():
    # Declared 4 + 6 each, the pool holds 10.
    for policy in ("sglang", "trtllm"):
        assert values(pair(), policy, "makespan", "mean_e2e", "max_tbt", "preemptions") == (12, 18 / 2, 1, 0), policy


@pytest.mark.parametrize("policy", [MAX_UTILIZATION, V2])
def test_a_pause_beats_the_reservation_and_costs_a_stall(policy):
    instance = pair(preemption="recompute")
    assert tokens_at(instance, policy, "r1") == [1, 2, 7, 8, 9, 10]
    assert values(instance, policy, "makespan", "mean_e2e", "max_tbt", "preemptions") == (10, 16 / 2, 5, 1)


def test_three_at_once_thrash():
    # 12 tokens. r2 is paused in iteration 2 (12 held), r1 in 4; r2's 5 tokens come back beside r1's 7 in 7, and go in
    # 8. V2 takes pages as they are used: r2 comes back in 4 too, and goes in 5.
    instance = build([(0, 4, 6)] * 3, 12, num_kv_blocks=12, preemption="recompute")
    assert values(instance, MAX_UTILIZATION, "makespan", "preemptions", "max_tbt") == (13, 3, 6)
    assert values(instance, V2, "makespan", "preemptions", "max_tbt") == (13, 4, 6)
    assert values(instance, "trtllm", "makespan", "preemptions", "max_tbt") == (18, 0, 1)


def test_the_less_sglang_expects_the_more_it_retracts():
    # 13 tokens. Reckoning with 0.7 of the outputs nobody is retracted. With nothing of the running ones' r3 (longest
    # wait: 16 ms); with one output of anybody r1 in 7, r3 in 10, r2 in 14. Denser, and every stream stalls.
    instance = build([(0, 1, 8), (4, 4, 6), (4, 2, 8), (3, 1, 7)], 16, num_kv_blocks=13, preemption="recompute")
    seen = [values(instance, policy, "makespan", "preemptions", "max_tbt")
            for policy in ("sglang", OPTIMISTIC, f"{OPTIMISTIC},clip_max_new_tokens=1")]  # fmt: skip
    assert seen == [(29, 0, 1), (25, 1, 16), (21, 3, 6)]


# The sticky full flag: a failed test is not repeated until the decode batch shrinks.


def test_the_full_flag_keeps_requests_out_although_there_is_room():
    # Pool 30, ratio 0.5. r1 fails beside r0 in the same batch (15 < 15) and is not looked at again until r0's end at
    # 8. Had it come one iteration later, it would have passed at once: 15 < 24 - 7 * 0.5.
    ratio = "sglang:init_new_token_ratio=0.5,min_new_token_ratio_factor=1"
    assert ttfts(build([(0, 6, 8), (0, 6, 8), (0, 4, 4)], 32, num_kv_blocks=30), ratio) == [1, 9, 9]
    assert ttfts(build([(0, 6, 8), (1, 6, 8), (1, 4, 4)], 32, num_kv_blocks=30), ratio)[:2] == [1, 1]


def test_a_seat_is_noticed_one_iteration_late():
    # One of two seats is free from 2 on; in that pass sglang still counts the finished request, trtllm does not.
    instance = build([(0, 1, 2), (0, 1, 9), (0, 1, 1)], 8, max_num_seqs=2)
    assert ttfts(instance, "sglang")[2] == 4
    assert ttfts(instance, "trtllm")[2] == 3


def test_seats_are_counted_by_residents():
    # A15: two run 3 iterations, then the third.
    for policy in ("sglang", "trtllm", MAX_UTILIZATION, V2):
        assert values(build([(0, 1, 3)] * 3, 8, max_num_seqs=2), policy, "makespan") == (6,), policy


# A10, A11, A17.


@pytest.mark.parametrize(("policy", "preemptions"), [("sglang", 0), ("trtllm", 0), (MAX_UTILIZATION, 0), (V2, 1)])
def test_where_both_cannot_stay_the_first_one_finishes_first(policy, preemptions):
    # A10. V2 lets r1 in by 3 tokens, and loses them in the next iteration.
    instance = build([(0, 5, 4)] * 2, 8, num_kv_blocks=8, preemption="recompute")
    assert ends(instance, policy) == [4, 8]
    assert values(instance, policy, "preemptions") == (preemptions,)


def test_no_partial_prefills_hold_each_other_up():
    # A11: r1's first chunk would do beside r0's last one. Only V2 looks at chunks; it is the optimum (sum 5) here.
    instance = build([(0, 6, 1)] * 2, 4, num_kv_blocks=8, preemption="recompute")
    for policy in ("sglang", "trtllm", EQUAL, MAX_UTILIZATION):
        assert ttfts(instance, policy) == [2, 4], policy
    assert ttfts(instance, V2) == [2, 3]


A17 = build([(0, 4, 1), (0, 8, 1), (0, 4, 1)], 8)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("sglang", [1, 2, 2]),
        ("trtllm", [1, 2, 2]),
        ("trtllm:context_chunking_policy=none", [1, 2, 3]),  # the rest of the budget is wasted twice
        ("trtllm:chunk_unit_size=8", [1, 2, 1]),  # r1 is cut to no unit at all, so r2 gets the rest: the optimum
        (EQUAL, [2, 2, 2]),  # 3 + 3 + 2, then 1 + 5 + 2
    ],
)
def test_what_becomes_of_the_rest_of_the_budget(policy, expected):
    assert ttfts(A17, policy) == expected
