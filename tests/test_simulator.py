"""The simulator: every limit is enforced, and nothing goes on for ever."""

from __future__ import annotations

import pytest

from heuristics.policy import Batch, EngineState, PolicyError
from heuristics.simulator import MAX_IDLE_PASSES, simulate
from instances.check import violations
from instances.instance import Instance
from tests.judges.build import build
from tests.judges.scripted import Decision, OneByOne, Scripted, evict, named, work


def refusal(instance: Instance, *decisions: Decision) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        simulate(instance, Scripted(*decisions))
    return caught.value


def test_the_policy_of_the_guide_runs():
    run = simulate(build([(0, 5, 2), (3, 2, 1)], 4), OneByOne())
    # r0: 4 + 1 prefill tokens, a decode at 2..3; then r1.
    assert [d["scheduled"] for d in run.decisions] == [{"r0": 4}, {"r0": 1}, {"r0": 1}, {"r1": 2}]
    assert run.policy == "OneByOne"


# One test per rule: the smallest batch that breaks it, and where, whom, what and how much the error names.


@pytest.mark.parametrize(
    ("rule", "request_id", "value", "limit", "instance", "decisions"),
    [
        ("token-budget", None, 5, 4, build([(0, 3, 1), (0, 2, 1)], 4), [work(r0=3, r1=2)]),
        ("prefill-target", "r0", 3, 2, build([(0, 2, 1)], 4), [work(r0=3)]),
        ("chunk", "r0", 0, 1, build([(0, 2, 1)], 4), [work(r0=0)]),
        ("chunk", "r0", 3, 2, build([(0, 5, 1)], 4, chunk_quantum=2), [work(r0=3)]),
        ("chunk", "r0", 3, 0, build([(0, 4, 1)], 4, enable_chunked_prefill=False), [work(r0=3)]),
        ("chunk", "r0", 3, 2, build([(0, 5, 1)], 4, max_chunk_tokens=2), [work(r0=3)]),
        ("chunk", "r0", 2, 1, build([(0, 5, 1)], 4, chunk_sizes=(1, 3)), [work(r0=2)]),
        ("phase", "r0", 2, 1, build([(0, 2, 3)], 4), [work(r0=2), work(r0=2)]),
        ("seats", None, 2, 1, build([(0, 1, 2), (0, 1, 2)], 4, max_num_seqs=1), [work(r0=1), work(r0=1, r1=1)]),
        ("kv-pool", None, 5, 4, build([(0, 3, 1), (0, 2, 1)], 8, num_kv_blocks=4), [work(r0=3, r1=2)]),
        ("kv-pool", None, 3, 2, build([(0, 3, 1), (0, 1, 1)], 8, num_kv_blocks=2, block_size=2), [work(r0=3, r1=1)]),
        ("partial-prefills", None, 2, 1, build([(0, 3, 1)] * 2, 4, max_partial_prefills=1), [work(r0=2, r1=2)]),
        ("mixed-batch", None, None, None, build([(0, 1, 2), (0, 1, 1)], 4, mixed_batches=False),
         [work(r0=1), work(r0=1, r1=1)]),
    ],
)  # fmt: skip
def test_a_batch_beyond_a_limit_is_refused(rule, request_id, value, limit, instance, decisions):
    error = refusal(instance, *decisions)
    assert (error.rule, error.request, error.value, error.limit) == (rule, request_id, value, limit)
    assert error.iteration == len(decisions) - 1
    assert error.policy == "Scripted"
    assert str(error).startswith(f"policy Scripted, iteration {error.iteration}, rule {rule}: ")


def test_a_request_stands_once_in_a_batch():
    error = refusal(build([(0, 4, 1)], 8), lambda s: Batch([(s.waiting[0], 1), (s.waiting[0], 2)]))
    assert (error.rule, error.request) == ("once", "r0")


def test_requests_of_another_run_and_finished_ones_are_unknown():
    seen = []

    def remember(state: EngineState) -> Batch:
        seen.append(state.waiting[0])
        return Batch([(state.waiting[0], 1)])

    error = refusal(build([(0, 1, 1), (0, 1, 1)], 4), remember, lambda _: Batch([(seen[0], 1)]))
    assert (error.rule, error.request) == ("known-request", "r0")
    assert "finished" in str(error)
    error = refusal(build([(0, 1, 1)], 4), lambda _: Batch([(seen[0], 1)]))
    assert error.rule == "known-request"
    error = refusal(build([(0, 1, 1)], 4), lambda _: Batch([("r0", 1)]))  # type: ignore[list-item]
    assert error.rule == "known-request"
    assert "'r0'" in str(error)


@pytest.mark.parametrize(
    ("mode", "decisions", "message"),
    [
        ("none", [work(r0=1), evict("r0", r1=1)], "preemption is none"),
        ("recompute", [evict("r0", r1=1)], "'r0', which is not resident"),
        ("recompute", [work(r0=1), evict("r0", r0=1)], "and works on it"),
    ],
)
def test_an_impossible_eviction_is_refused(mode, decisions, message):
    error = refusal(build([(0, 1, 2), (0, 1, 2)], 4, preemption=mode), *decisions)
    assert (error.rule, error.request) == ("eviction", "r0")
    assert message in str(error)


def test_a_swapped_out_request_works_only_after_its_restore():
    instance = build([(0, 1, 2), (0, 1, 2)], 4, preemption="swap")
    error = refusal(instance, work(r0=1), evict("r0", r1=1), work(r0=1))
    assert (error.rule, error.request, error.iteration) == ("phase", "r0", 2)
    error = refusal(instance, lambda s: Batch([(named(s, "r0"), 1)], restore=[named(s, "r0")]))
    assert (error.rule, error.request) == ("restore", "r0")


def test_evictions_without_work_are_refused():
    error = refusal(build([(0, 1, 2)], 4, preemption="recompute"), work(r0=1), evict("r0"))
    assert (error.rule, error.iteration) == ("non-empty", 1)


def test_an_answer_that_is_no_batch_is_named():
    error = refusal(build([(0, 1, 1)], 4), lambda _: None)  # type: ignore[arg-type,return-value]
    assert "schedule returned None" in str(error)


# Nothing for ever.


def nothing(_: EngineState) -> Batch:
    return Batch([])


def test_an_empty_batch_with_nothing_awaited_is_an_error_not_a_free_step():
    # known-trouble A10
    error = refusal(build([(0, 1, 1), (2, 1, 1)], 4), work(r0=1), nothing)
    assert (error.rule, error.iteration) == ("idle", 1)
    assert "1 requests wait, 0 are resident" in str(error)


def test_an_empty_batch_waits_for_the_next_arrival():
    run = simulate(build([(0, 1, 1), (2, 1, 1)], 4), Scripted(nothing, work(r0=1, r1=1)))
    assert [d["start_ms"] for d in run.decisions] == [2.0]


def test_a_policy_may_wait_until_a_time_that_it_chooses():
    wait = lambda s: Batch([], until_us=3500)  # noqa: E731
    run = simulate(build([(0, 1, 1)], 4), Scripted(wait, work(r0=1)))
    assert [d["start_ms"] for d in run.decisions] == [3.5]


def test_a_pass_that_asks_to_be_asked_again_costs_no_time_but_not_for_ever():
    again = lambda s: Batch([], until_us=s.now_us)  # noqa: E731
    assert simulate(build([(0, 1, 1)], 4), Scripted(again, again, work(r0=1))).decisions[0]["start_ms"] == 0.0
    error = refusal(build([(0, 1, 1)], 4), again)
    assert (error.rule, error.limit) == ("idle", MAX_IDLE_PASSES)


def test_evictions_that_lead_nowhere_are_a_livelock():
    # known-trouble A10: two (0,5,4), 8 KV tokens; start one, throw it out for the other, and so on, no token ever.
    def take_turns(state: EngineState) -> Batch:
        return Batch([(state.waiting[-1], 4)], evict=state.running)

    error = refusal(build([(0, 5, 4)] * 2, 4, num_kv_blocks=8, preemption="recompute"), take_turns)
    assert error.rule == "livelock"
    assert "without an emitted token" in str(error)


def test_even_a_policy_that_evicts_in_every_pass_ends_if_tokens_come_out():
    # Each turn ends a (re-)prefill and emits; emitted tokens are never lost: 40 + 40 turns, 79 evictions.
    def take_turns(state: EngineState) -> Batch:
        request = state.waiting[-1] if state.waiting else state.running[0]
        evicted = [r for r in state.running if r is not request]
        return Batch([(request, request.remaining)], evict=evicted)

    run = simulate(build([(0, 5, 40)] * 2, 64, num_kv_blocks=44, preemption="recompute"), Scripted(take_turns))
    assert len(run.records) == 80
    assert not violations(run.instance, run.schedule)


def test_partial_prefills_that_fill_the_pool_are_a_dead_end_with_an_error():
    # known-trouble A11: two (0,6,1), K=4, 8 KV tokens: 2+2, 2+2, and both still need 2.
    def evenly(state: EngineState) -> Batch:
        share = min(2, state.free_blocks // 2)
        return Batch([(r, min(share, r.remaining)) for r in (*state.running, *state.waiting) if share])

    error = refusal(build([(0, 6, 1)] * 2, 4, num_kv_blocks=8), evenly)
    assert (error.rule, error.iteration) == ("idle", 2)
