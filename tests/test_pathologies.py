"""The rest of known-trouble.md, part A, and pathologies of the literature's policies, each with its numbers.

What the other files on trouble leave out: limits hit exactly, cost shapes that fool a chunk size, one-token outputs,
overhead, what is not modelled, and policies that wait, thrash or overtake.
"""

from __future__ import annotations

import pytest

from heuristics.policy import PolicyError
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.check import require_valid
from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.generate import rounds_instance
from instances.instance import Instance
from instances.metrics import metric, report
from instances.replay import replay
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from tests.judges.build import base_and_tokens, build

EVERY_POLICY = ["wait:threshold=1" if name == "wait" else name for name in policy_names()]


def run(instance, policy):
    """Return the schedule, checked for the engine that the policy runs on."""
    result = simulate(instance, policy)
    require_valid(result.instance, result.schedule)
    return result.schedule


def values(instance, policy, *names):
    schedule = run(instance, policy)
    return [metric(instance, schedule, name) for name in names]


def tokens_at(instance, policy, name):
    return [time / 1000 for time in replay(instance, run(instance, policy)).token_times[name]]


# A4, A5, A6: limits hit exactly, by every policy. (Prompts of the whole pool need it to themselves.)


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a4_a_prompt_of_exactly_the_budget_takes_one_iteration(policy):
    instance = build([(0, 8, 1)], 8, enable_chunked_prefill=False)
    assert values(instance, policy, "makespan") == [1]


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a5_a_request_that_fills_the_pool_at_its_end_is_served(policy):
    # 14 + 3 - 1 = 16 = 10 + 7 - 1.
    assert values(build([(0, 14, 3)], 32, num_kv_blocks=16), policy, "makespan") == [3]
    assert values(build([(0, 10, 7)], 32, num_kv_blocks=16), policy, "makespan") == [7]


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a6_pages_are_charged_whole_and_equality_is_allowed(policy):
    # 13 + 4 - 1 = 16 tokens in 4 blocks of 4.
    assert values(build([(0, 13, 4)], 16, num_kv_blocks=4, block_size=4), policy, "makespan") == [4]


@pytest.mark.parametrize("policy", ["greedy-chunked", "orca", "static", "mc-sf", "sorted-f", "smallest-volume-first"])
def test_a6_three_prompts_that_fit_by_tokens_do_not_fit_by_pages(policy):
    # 3 * 5 = 15 <= 16 tokens, but two blocks of 4 each: two at a time.
    assert values(build([(0, 5, 1)] * 3, 15, num_kv_blocks=16), policy, "makespan") == [1]
    assert values(build([(0, 5, 1)] * 3, 15, num_kv_blocks=4, block_size=4), policy, "makespan") == [2]


# A19: a cost with steps, and a cliff behind the last captured size.


def decoding(count, **cost):
    piece = Piece(base_ps=PS_PER_MS, decode_ps=PS_PER_MS)
    residents = [Request(f"d{i}", 1, 2, progress=Progress(1, 1, 0)) for i in range(count)]
    return build(residents, 16, CostModel((piece,), **cost))


def test_a19_one_decode_above_a_captured_size_pays_for_the_next_size():
    # 1 ms and 1 ms per padded sequence: 4 run as 4, 5 run as 8.
    lasts = {n: values(decoding(n, capture_sizes=(1, 2, 4, 8)), "greedy-chunked", "makespan")[0] for n in (3, 4, 5, 8)}
    assert lasts == {3: 5, 4: 5, 5: 9, 8: 9}


def test_a19_beyond_the_last_captured_size_is_a_cliff():
    # 8 run captured: 9 ms; 9 run eager: 10 ms and 20 ms of launches. In two batches they would take 9 + 2 ms.
    sizes = {"capture_sizes": (1, 2, 4, 8), "eager_ps": 20 * PS_PER_MS}
    assert values(decoding(8, **sizes), "greedy-chunked", "makespan") == [9]
    assert values(decoding(9, **sizes), "greedy-chunked", "makespan") == [30]
    smaller = build(decoding(9, **sizes).requests, 8, decoding(9, **sizes).cost)
    assert values(smaller, "greedy-chunked", "makespan") == [11]


# A20: equal chunks take longer and longer.


def test_a20_equal_chunks_break_a_limit_that_their_first_one_keeps():
    # Attention: F(c) = c (c + 1) / 2 ms. Chunks of 4: 10 ms, then 26; any split adds up to 36. A decode beside them
    # (no cost of its own) feels the second one.
    cost = CostModel((Piece(prefill_context_ps=PS_PER_MS, decode_ps=0, base_ps=0),))
    alone = build([(0, 8, 1)], 8, cost)
    lasts = [it.duration_us / 1000 for it in run(alone, "greedy-chunked:chunk=4").iterations]
    assert lasts == [10, 26]
    assert [it.duration_us / 1000 for it in run(alone, "greedy-chunked").iterations] == [36]
    stream = Request("s", 1, 3, progress=Progress(1, 1, 0))
    beside = build([stream, (0, 8, 1)], 9, cost)
    assert values(beside, "greedy-chunked:chunk=4", "max_tbt") == [26]
    # a limit on the time of an iteration cuts the later chunk shorter: 10 for 1..4, 11 for 5..6, 15 for 7..8
    cut = run(beside, "greedy-chunked:stall_ms=15,chunk=4")
    assert [it.duration_us / 1000 for it in cut.iterations if it.prefill][:2] == [10, 11]


# A21, A22: what is not modelled is refused by name.


@pytest.mark.parametrize("field", ["data_parallel_size", "decode_num_kv_blocks", "pipeline_parallel_size"])
def test_a21_a22_ranks_and_second_pools_are_refused_and_not_ignored(field):
    document = build([(0, 4, 1)], 8).to_dict()
    document["engine"][field] = 2
    with pytest.raises(InputError, match=field):
        Instance.from_dict(document)


# A23: one output token.


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a23_one_output_needs_no_decode_and_has_no_tpot(policy):
    instance = build([(0, 4, 1), (10, 4, 3)], 4)
    schedule = run(instance, policy)
    found = report(instance, schedule)
    first_end = tokens_at(instance, policy, "r0")
    assert len(first_end) == 1
    assert "r0" not in {name for it in schedule.iterations for name in it.decode}
    # tokens 1 ms apart: mean TPOT 1, not 0.5
    assert found["mean_tpot_ms"] == 1
    assert sum(map(len, replay(instance, schedule).token_times.values())) == 4


# A26: overhead is charged per iteration.


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_a26_an_overhead_counts_in_every_iteration(policy):
    # Five iterations of 10 ms, and of 10 + 2 ms: 60, where charging it in between only would give 58.
    for overhead, expected in ((0, 50), (2, 60)):
        cost = CostModel.linear((10 + overhead) * PS_PER_MS, 0, 0)
        assert values(build([(0, 4, 5)], 4, cost), policy, "makespan") == [expected]


# Policies of the literature.


def test_waiting_for_others_breaks_work_conservation():
    # One request, nobody to come: it waits for its patience of 50 ms in an idle engine.
    instance = build([(0, 4, 2)], 8)
    assert tokens_at(instance, "wait:patience_ms=50", "r0") == [51, 52]
    assert tokens_at(instance, "greedy-chunked", "r0") == [1, 2]


def test_a_small_protection_thrashes_and_a_large_one_does_not():
    # Thirty (5, 20) against 60 tokens; cost 2 + tokens, so what is computed again costs time. Foresight evicts nobody.
    instance = build([(0, 5, 20)] * 30, 200, base_and_tokens(2), num_kv_blocks=60)
    names = "preemptions", "recomputed_tokens", "makespan", "mean_e2e"
    thrash, calm = (values(instance, f"alpha-protection:alpha={alpha}", *names) for alpha in (0.05, 0.5))
    foreseen = values(instance, "mc-benchmark", *names)
    assert thrash[0] > 5 * calm[0] > 0
    assert all(t > c > f for t, c, f in zip(thrash, calm, foreseen, strict=True))
    assert foreseen[:2] == [0, 0]


def test_first_come_first_served_makes_short_ones_wait_for_long_ones():
    # papers.md 2.2: MC-Benchmark has about 1.8 times the total latency of MC-SF. Here, seed 0 of Model 1 with n = 8.
    instance = rounds_instance(0, 8)
    assert values(instance, "mc-sf", "mean_e2e") == [256 / 8]
    assert values(instance, "mc-benchmark", "mean_e2e")[0] > 1.8 * 256 / 8


def test_shortest_first_starves_a_long_one_while_short_ones_come():
    # Pool 6: a short one ends with 5 tokens, the long one needs 2 at once. The next short one comes in time, always.
    requests = [(0, 2, 5), *((k, 4, 2) for k in range(0, 20, 2))]
    instance = build(requests, 8, num_kv_blocks=6)
    assert tokens_at(instance, "mc-sf", "r0")[0] > 20
    assert tokens_at(instance, "mc-benchmark", "r0")[0] == 1


def test_tiles_of_prefill_alone_stall_a_lone_stream():
    # RAD with room for two decodes: while a prompt of 8 is prefilled in tiles of 2, the stream stands still for 4.
    stream = Request("s", 1, 6, progress=Progress(1, 1, 0))
    instance = build([stream, (0, 8, 1)], 8)
    assert values(instance, "rad:tile=2,decode_batch=2", "max_tbt") == [5]
    assert values(instance, "greedy-chunked:chunk=2", "max_tbt") == [1]


def test_a_deadline_that_full_iterations_cannot_keep_is_missed_by_slai_as_by_everybody():
    # Every iteration lasts 2 + 4 ms; 3 ms cannot be kept, 18 can.
    stream = Request("s", 1, 8, progress=Progress(1, 1, 0))
    instance = build([stream, *((0, 4, 1) for _ in range(4))], 4, base_and_tokens(2))
    assert values(instance, "slai:tbt_ms=3", "max_tbt")[0] == 6
    assert 6 < values(instance, "slai:tbt_ms=18", "max_tbt")[0] <= 18


def test_residents_that_hold_what_each_of_them_needs_are_an_error_and_no_free_time():
    # A10, also: 4 + 4 tokens of 8 held, each needs one more for good; nothing can be evicted, nothing is awaited.
    residents = [Request(name, 4, 3, progress=Progress(4, 1, 0)) for name in ("a", "b")]
    for policy in ("greedy-chunked", "mc-sf", "wait", "rad", "slai"):
        with pytest.raises(PolicyError, match="schedules nothing and nothing is awaited"):
            simulate(build(residents, 8, num_kv_blocks=8), policy)
