"""The pathologies of known-trouble.md, part A, and of policies.md, that the engines' schedulers show, in numbers.

Requests are (arrival, prompt, outputs), r0, r1, ...; iterations of 1 ms unless a cost is given.
"""

from __future__ import annotations

import pytest

from heuristics.simulator import simulate
from instances.check import require_valid
from instances.metrics import metric, per_request
from instances.replay import replay
from tests.judges.build import base_and_tokens, build


def measured(instance, policy, *names):
    """Return metrics of a policy's schedule, checked for the engine that it runs on; `ttft` means all of them."""
    run = simulate(instance, policy)
    require_valid(run.instance, run.schedule)
    ttfts = [row["ttft_ms"] for row in per_request(run.instance, run.schedule)]
    found = [ttfts if name == "ttft" else metric(run.instance, run.schedule, name) for name in names]
    return found[0] if len(found) == 1 else found


def tokens_of_r0(instance, policy):
    run = simulate(instance, policy)
    return [time / 1000 for time in replay(run.instance, run.schedule).token_times["r0"]]


# A1: steady arrivals and a stream, r0. Front of (sum of TTFT, max gap): (4,4), (5,3), (6,2), (7,1).

A1 = build([(0, 2, 4), (1, 4, 1), (2, 4, 1), (3, 4, 1)], 4)


@pytest.mark.parametrize("policy", ["vllm-v0", "sarathi-vllm"])
def test_prefill_batches_starve_running_decodes(policy):
    assert tokens_of_r0(A1, policy) == [1, 5, 6, 7]
    assert measured(A1, policy, "ttft", "max_tbt") == [[1, 1, 1, 1], 4]


@pytest.mark.parametrize("policy", ["vllm-v0-chunked", "sarathi"])
def test_decodes_first_never_stall(policy):
    assert tokens_of_r0(A1, policy) == [1, 2, 3, 4]
    assert measured(A1, policy, "ttft", "max_tbt") == [[1, 2, 2, 2], 1]


def test_turns_share_the_pain_and_are_worse_than_either():
    # A prompt, a decode, a prompt, ...: sum of TTFT 10 at a gap of 2, where 6 is possible.
    for policy in ("simple-chunking", "lightllm:max_waiting_iters=1"):
        assert tokens_of_r0(A1, policy) == [1, 2, 4, 6]
        assert measured(A1, policy, "ttft", "max_tbt") == [[1, 2, 3, 4], 2]


def test_waiting_for_the_batch_to_end_starves_the_newcomers():
    # faster-transformer by its rule; lightllm since r0 ends before its ten decodes are over.
    for policy in ("faster-transformer", "lightllm"):
        assert measured(A1, policy, "ttft", "max_tbt") == [[1, 4, 4, 4], 1]


def test_fewest_outputs_first_starves_a_stream_as_long_as_short_ones_come():
    # r0 has 3 left, every newcomer 1.
    assert tokens_of_r0(A1, "fastserve-srpt:max_batch_size=1") == [1, 5, 6, 7]


# A2: one long prompt; cost 2 + tokens. Front of (sum of TTFT, max gap): (17,17), (18,15), ..., (24,7), (26,3).


def spike(budget):
    return build([(0, 1, 4), (3, 12, 1)], budget, base_and_tokens(2))


@pytest.mark.parametrize(
    ("policy", "sum_ttft", "gap"),
    [
        ("vllm-v0", 17, 17),  # 14 ms of prefill, then 3 of a decode
        ("sarathi-vllm", 17, 17),
        ("sarathi", 18, 15),  # prompt and decode together: 2 + 12 + 1
        ("vllm-v0-chunked", 18, 15),
        ("fastserve-fcfs", 18, 15),
        ("orca-paper", 18, 15),
        ("sarathi:chunk_size=5", 24, 7),  # three iterations of 1 + 4 tokens
        ("lightllm", 26, 3),  # the stream ends first
        ("faster-transformer", 26, 3),
        ("simple-chunking", 20, 17),  # a turn of decodes before: dominated
    ],
)
def test_a_long_prompt_costs_a_gap_or_its_own_ttft(policy, sum_ttft, gap):
    ttfts, found = measured(spike(16), policy, "ttft", "max_tbt")
    assert (sum(ttfts), found) == (sum_ttft, gap)


# A7: a heavy request at the head of the queue.

A7 = build([(0, 4, 4), (1, 8, 1), (2, 2, 1)], 16, num_kv_blocks=10)


@pytest.mark.parametrize("policy", ["vllm-v0", "vllm-v0-chunked", "sarathi", "sarathi-vllm", "fastserve-fcfs"])
def test_the_queue_stops_at_the_first_that_does_not_fit(policy):
    assert measured(A7, policy, "ttft", "makespan") == [[1, 4, 3], 5]


def test_a_strict_peak_test_delays_one_that_would_fit_exactly():
    # lightllm: 8 + 2 tokens would fit the pool of 10, but the test counts a token more for each: r2 waits for r1's end.
    assert measured(A7, "lightllm", "ttft", "makespan") == [[1, 4, 4], 6]


# A8: a long prompt monopolises the prefill. Front of (sum of TTFT, max TTFT): (7, 5), (11, 4).

A8 = build([(0, 16, 1), (1, 2, 1), (2, 2, 1)], 4)


@pytest.mark.parametrize("policy", ["vllm-v0-chunked", "sarathi", "simple-chunking"])
def test_short_prompts_queue_behind_all_chunks_of_a_long_one(policy):
    assert measured(A8, policy, "ttft") == [4, 4, 3]


def test_two_partial_prefills_get_the_short_ones_past_the_long_one():
    # Long means more than 4 left. r0 gets 4, then 2 and 2 beside the short ones, then 4 and 4: the point (7, 5).
    policy = "vllm-v0-chunked:max_num_partial_prefills=2,long_prefill_token_threshold=4"
    assert measured(A8, policy, "ttft") == [5, 1, 1]


# A9 and policies.md 7.2-b: preemption under KV pressure.


def pair(**engine):
    return build([(0, 4, 6)] * 2, 16, preemption="recompute", **engine)


@pytest.mark.parametrize("policy", ["vllm-v0", "vllm-v0-chunked", "sarathi", "sarathi-vllm", "simple-chunking"])
def test_evicting_the_newest_recomputes_its_tokens(policy):
    # 10 tokens of KV: full after the second iteration; r1 loses 5 and computes 4 + 2 later.
    found = measured(pair(num_kv_blocks=10), policy, "makespan", "preemptions", "recomputed_tokens", "max_tbt")
    assert found == [10, 1, 6, 5]


def test_swapping_loses_nothing():
    found = measured(pair(num_kv_blocks=10), "fastserve-fcfs", "makespan", "recomputed_tokens", "swapped_tokens")
    assert found == [10, 0, 5]


@pytest.mark.parametrize(
    ("policy", "makespan", "preemptions", "recomputed"),
    [
        ("vllm-v0", 10, 2, 13),
        ("sarathi-vllm", 10, 2, 13),
        ("simple-chunking", 10, 2, 13),
        ("sarathi", 10, 1, 6),
        ("vllm-v0-chunked", 10, 1, 6),
        ("sarathi-vllm:one_free_block=false", 9, 1, 7),
        ("vllm-v1", 9, 1, 7),
    ],
)
def test_prefill_first_and_a_cautious_decode_rule_together_thrash(policy, makespan, preemptions, recomputed):
    # 6 blocks of 2. A prefill batch readmits r1 (6 tokens) at once, and the next decode throws it out again: 6 + 7
    # tokens recomputed instead of 6. By what decodes need, r1 goes one iteration later, and once.
    instance = pair(num_kv_blocks=6, block_size=2)
    found = measured(instance, policy, "makespan", "preemptions", "recomputed_tokens")
    assert found == [makespan, preemptions, recomputed]


# Reservation: KV held for the longest request, whatever the requests are.


def test_reserving_the_longest_request_halves_the_batch():
    # 8 blocks of 4; peaks of 6 tokens are 2 blocks each, 16 tokens are 4: four at once, or two after two.
    instance = build([(0, 4, 3)] * 4, 64, num_kv_blocks=8, block_size=4)
    assert measured(instance, "orca", "makespan") == 3
    assert measured(instance, "orca:max_model_len=16", "makespan") == 6
    assert measured(instance, "faster-transformer:max_model_len=16", "makespan") == 6


# A10: no livelock. A11: the whole prompt is booked before its first chunk.


def test_a_prompt_that_does_not_fit_beside_the_running_one_waits():
    for policy in ("vllm-v0", "vllm-v0-chunked", "sarathi", "sarathi-vllm", "simple-chunking", "fastserve-fcfs"):
        instance = build([(0, 5, 4)] * 2, 8, num_kv_blocks=8, preemption="recompute")
        assert measured(instance, policy, "ttft", "makespan", "preemptions") == [[1, 5], 8, 0], policy
        assert measured(build([(0, 6, 1)] * 2, 4, num_kv_blocks=8), policy, "ttft") == [2, 4], policy


# A15: seats are residents. A16: fewer tokens than decodes. A17: the rest of the budget.


def test_seats_are_counted_by_residents():
    for policy in ("vllm-v0", "vllm-v0-chunked", "sarathi", "lightllm", "fastserve-mlfq", "fastserve-srpt"):
        assert measured(build([(0, 1, 3)] * 3, 8, max_num_seqs=2), policy, "makespan") == 6, policy


def test_prefill_batches_admit_more_decodes_than_the_budget_serves():
    # K = 2: two prompts, then the third (a gap for the first two), then two decodes at a time: a gap of 3.
    assert measured(build([(0, 1, 3)] * 3, 2), "vllm-v0", "ttft", "max_tbt", "makespan") == [[1, 1, 2], 3, 6]
    assert measured(build([(0, 1, 3)] * 3, 2), "sarathi", "ttft", "max_tbt", "makespan") == [[1, 1, 4], 1, 6]


def test_whole_prompts_waste_the_rest_of_the_budget_and_chunks_use_it():
    instance = build([(0, 4, 1), (0, 8, 1), (0, 4, 1)], 8)
    for policy in ("vllm-v0", "sarathi-vllm", "lightllm", "fastserve-fcfs", "orca-paper", "faster-transformer"):
        assert measured(instance, policy, "ttft") == [1, 2, 3], policy
    for policy in ("vllm-v0-chunked", "sarathi"):
        assert measured(instance, policy, "ttft") == [1, 2, 2], policy
