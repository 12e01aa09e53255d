"""The pieces that policies are built from: Plan, promises, queues, orders."""

from __future__ import annotations

import pytest

from heuristics.engine import Engine
from heuristics.orders import order_key
from heuristics.passes import chunk_cap, make_room, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch
from heuristics.promises import Promises, all_can_finish, can_return
from heuristics.queues import Fifo, OrderedQueue
from heuristics.state import UNLIMITED, RequestState
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.request import Progress, Request


def engine(*requests: Request, budget: int = 8, **limits: object) -> tuple[Engine, list[RequestState]]:
    """Return an engine at which the requests have just arrived, and their states."""
    made = Engine(EngineLimits(budget, **limits), CostModel.unit())  # type: ignore[arg-type]
    states = [RequestState(request, index) for index, request in enumerate(requests)]
    for state in states:
        made.arrive(state)
    return made, states


def half(name: str, prompt: int, done: int, output: int = 1) -> Request:
    return Request(name, prompt, output, progress=Progress(done))


def decoding(name: str, prompt: int, emitted: int, output: int) -> Request:
    return Request(name, prompt, output, progress=Progress(prompt, emitted))


def left(plan: Plan) -> tuple[int, int, int]:
    return plan.budget, plan.seats, plan.blocks


def test_a_plan_without_limits_has_only_a_budget():
    made, _ = engine(Request("a", 4, 1))
    assert left(Plan(made)) == (8, UNLIMITED, UNLIMITED)


def test_taking_and_dropping_a_request_are_inverse():
    made, states = engine(Request("new", 6, 1), half("half", 7, 2), decoding("old", 3, 2, 4), max_num_seqs=4,
                          num_kv_blocks=9, block_size=2, max_partial_prefills=2)  # fmt: skip
    plan = Plan(made)
    # 2 and 4 tokens held: 1 + 2 of 9 blocks.
    assert left(plan) == (8, 2, 6)
    for request, tokens in zip(states, (3, 4, 1), strict=True):
        plan.take(request, tokens)
    # 3 new tokens: 2 blocks; 6 instead of 2: 2 more; 5 instead of 4: 1 more. One seat.
    assert left(plan) == (0, 1, 1)
    for request in states:
        plan.drop(request)
    assert left(plan) == (8, 2, 6)
    assert (plan.tokens, plan.restored) == ({}, [])


def test_evicting_gives_back_seat_blocks_and_tokens_and_sparing_undoes_it():
    made, (old,) = engine(decoding("old", 3, 2, 4), max_num_seqs=1, num_kv_blocks=5, preemption="recompute")
    plan = Plan(made)
    plan.take(old, 1)
    plan.evict(old)
    assert left(plan) == (8, 1, 5)
    assert (plan.tokens, plan.evicted) == ({}, [old])
    plan.spare(old)
    assert left(plan) == (8, 0, 1)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({}, 5), ({"budget": 4}, 4), ({"max_chunk_tokens": 3}, 3), ({"budget": 4, "chunk_quantum": 3}, 3),
     ({"chunk_sizes": (2, 4)}, 4), ({"budget": 4, "enable_chunked_prefill": False}, 0)],
)  # fmt: skip
def test_a_chunk_has_the_largest_shape_that_the_engine_allows(limits, expected):
    made, (request,) = engine(Request("a", 5, 1), **limits)
    assert Plan(made).chunk(request) == expected


def test_unfinished_prefills_leave_room_only_for_those_that_end():
    made, (old, short, long) = engine(half("old", 9, 1), Request("short", 2, 1), Request("long", 9, 1),
                                      max_partial_prefills=1)  # fmt: skip
    plan = Plan(made)
    assert [plan.chunk(r) for r in (old, short, long)] == [8, 2, 0]
    plan.evict(old)
    assert plan.chunk(long) == 8


def test_batches_are_not_mixed_where_the_engine_forbids_it():
    made, (old, new) = engine(decoding("old", 3, 1, 4), Request("new", 2, 1), mixed_batches=False)
    plan = Plan(made)
    plan.take(old, 1)
    assert (plan.tokens_for(old), plan.tokens_for(new)) == (1, 0)
    plan.drop(old)
    plan.take(new, 2)
    assert (plan.tokens_for(old), plan.tokens_for(new)) == (0, 2)


def test_whole_prefills_are_cut_only_where_no_iteration_holds_them():
    made, (fits, long) = engine(Request("fits", 8, 1), Request("long", 9, 1))
    plan = Plan(made)
    plan.budget = 5
    assert (whole_prefill(plan, fits), whole_prefill(plan, long)) == (0, 5)


def test_a_cap_below_the_smallest_chunk_is_raised_to_it():
    assert chunk_cap(EngineLimits(8, chunk_quantum=4), 3) == 4
    assert chunk_cap(EngineLimits(8, chunk_sizes=(2, 6)), 1) == 2
    assert chunk_cap(EngineLimits(8), 3) == 3
    assert chunk_cap(EngineLimits(8), 0) == UNLIMITED
    assert chunk_cap(EngineLimits(8, enable_chunked_prefill=False), 3) == UNLIMITED


def test_the_banker_finds_an_order_where_there_is_one():
    assert all_can_finish(10, [(4, 9), (4, 6)])  # 4 + 6 <= 10, then 9
    assert not all_can_finish(10, [(4, 9), (4, 7)])  # 9 + 4 and 4 + 7 both exceed it
    assert all_can_finish(12, [(3, 12), (3, 6), (3, 9)])  # 6 + 6, then 9 + 3, then 12
    assert not all_can_finish(11, [(3, 12), (3, 6), (3, 9)])
    assert all_can_finish(0, [])


def test_only_what_can_be_prefilled_again_can_return():
    assert not can_return(EngineLimits(8), 1)
    assert can_return(EngineLimits(8, enable_chunked_prefill=False, preemption="swap"), 99)
    assert can_return(EngineLimits(8, preemption="recompute"), 99)
    assert can_return(EngineLimits(8, enable_chunked_prefill=False, preemption="recompute"), 8)
    assert not can_return(EngineLimits(8, enable_chunked_prefill=False, preemption="recompute"), 9)
    assert not can_return(EngineLimits(4, chunk_sizes=(6,), preemption="recompute"), 5)


def promises(made: Engine, reserve: str) -> Promises:
    return Promises(Plan(made), lambda r: r.max_output_tokens, reserve)


@pytest.mark.parametrize(
    ("preemption", "reserve", "enters"),
    [
        ("none", "all", False),  # peaks 5 + 6 > 10
        ("none", "pinned", False),
        ("none", "order", True),  # old needs one more block, then new has 10
        ("recompute", "all", False),
        ("recompute", "pinned", True),  # known tokens 4 + 3 <= 10
        ("recompute", "order", True),
    ],
)
def test_who_may_enter_depends_on_what_is_reserved(preemption, reserve, enters):
    made, (_, new) = engine(decoding("old", 3, 1, 3), Request("new", 3, 4), num_kv_blocks=10, preemption=preemption)
    assert promises(made, reserve).may_enter(new, 3) is enters


def test_the_sum_of_peaks_may_fill_the_pool_exactly():
    made, (_, new) = engine(decoding("old", 3, 1, 3), Request("new", 3, 4), num_kv_blocks=11)
    assert promises(made, "all").may_enter(new, 3)


def test_an_overbooked_pool_lets_only_safe_growth_through():
    # Peaks 9 and 6 on 10 blocks, 4 held each: b first; a token for a leaves one free, and b needs two.
    made, (a, b) = engine(decoding("a", 4, 1, 6), decoding("b", 4, 1, 3), num_kv_blocks=10)
    watch = promises(made, "all")
    assert watch.overbooked
    assert not watch.may_grow(a, 1)
    assert watch.may_grow(b, 1)


def test_where_declared_caps_allow_no_order_the_one_closest_to_its_peak_may_try():
    made, (a, b) = engine(decoding("a", 4, 1, 6), decoding("b", 4, 1, 5), num_kv_blocks=9)
    watch = promises(made, "all")
    assert (watch.may_grow(a, 1), watch.may_grow(b, 1)) == (False, True)


def test_nobody_is_evicted_in_vain():
    made, (a, b) = engine(decoding("a", 4, 1, 6), decoding("b", 4, 1, 5), num_kv_blocks=12, preemption="recompute")
    watch = promises(made, "pinned")
    plan = watch.plan
    assert not make_room(plan, watch, [a, b], lambda: False)
    assert (plan.evicted, plan.blocks) == ([], 4)
    assert make_room(plan, watch, [b, a], lambda: plan.blocks >= 8)
    assert plan.evicted == [b]


def test_a_fifo_takes_evicted_ones_back_at_the_front_or_at_the_back():
    made, (a, b, c) = engine(*(Request(n, 2, 1) for n in "abc"))
    for front, expected in ((True, [c, b, a]), (False, [a, c, b])):
        queue = Fifo(requeue_front=front)
        queue.push(a)
        for request in (b, c):
            queue.push(request)
        queue.follow(Batch([(b, 2), (c, 2)]))
        assert list(queue) == [a]
        # Of two evicted in one batch, first b and then c.
        queue.follow(Batch([], evict=[b, c] if front else [c, b]))
        assert list(queue) == expected
    assert len(made.waiting) == 3


def test_an_ordered_queue_keeps_the_order_of_its_key():
    _, (a, b, c) = engine(Request("a", 5, 1), Request("b", 2, 1), Request("c", 3, 1))
    queue = OrderedQueue(order_key("spf", lambda r: r.max_output_tokens))
    for request in (a, b, c):
        queue.push(request)
    assert list(queue) == [b, c, a]
    queue.remove(c)
    assert (list(queue), len(queue), c in queue) == ([b, a], 2, False)


@pytest.mark.parametrize(
    ("order", "expected"), [("fcfs", "abc"), ("srpt", "bca"), ("spf", "cba"), ("priority", "cab")]
)
def test_orders_have_their_keys(order, expected):
    # Tokens left: a 4 + 9, b 3 + 1, c 2 + 4.
    requests = [Request("a", 4, 9, 0), Request("b", 3, 1, 1), Request("c", 2, 4, 2, priority=-1)]
    _, states = engine(*requests)
    key = order_key(order, lambda r: r.max_output_tokens)
    assert "".join(r.id for r in sorted(states, key=key)) == expected


def test_evicted_requests_wait_in_front():
    made, (a, b, c) = engine(decoding("a", 2, 1, 3), decoding("b", 2, 1, 3), Request("c", 2, 1), preemption="recompute")
    made.begin([], [b, a], [])
    assert list(made.waiting) == [a, b, c]
    assert (a.computed, a.remaining, a.decoding, a.evictions, a.resident) == (0, 3, False, 1, False)
