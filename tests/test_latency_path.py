"""The critical path of one request: parts by hand on a small schedule, sums exact on random ones."""

from __future__ import annotations

import random

import pytest

from chunkfront.regret.path import Part, latency_path
from chunkfront.regret.words import path_sentences
from instances.cost_model import CostModel
from instances.errors import InputError
from instances.replay import replay
from instances.schedule import Iteration
from instances.units import PS_PER_MS
from tests.judges.build import base_and_tokens, build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import random_schedule

STALL = build([(0, 2, 3), (1, 4, 1)], 6, base_and_tokens(2))
STALLED = schedule(
    (0, 4, {"r0": 2}, ()), (4, 6, {"r1": 4}, ()), (10, 3, {}, ("r0",)), (13, 3, {}, ("r0",))
)
"""2 ms per iteration and 1 ms per token: r0's prefill 0..4, r1's 4..10, then two decodes of 3 ms each."""


def test_a_stalled_request_names_whose_prefill_it_waited_for() -> None:
    path = latency_path(STALL, STALLED, "r0")
    assert (path.ttft_us, path.e2e_us) == (4000, 16_000)
    assert path.first == (Part("prefill", "base", None, 2000), Part("prefill", "prefill", "r0", 2000))
    assert path.last[2:] == (
        Part("paused", "base", None, 2000), Part("paused", "prefill", "r1", 4000),
        Part("decode", "base", None, 4000), Part("decode", "decode", "r0", 2000),
    )  # fmt: skip


def test_a_request_that_arrives_while_an_iteration_runs_waits_for_its_rest() -> None:
    # r1 arrives at 1, the iteration that runs ends at 4; its base (2) is no shorter than r0's chunk (2).
    path = latency_path(STALL, STALLED, "r1")
    assert path.first == path.last
    assert path.last[0] == Part("queued", "running", None, 3000)
    assert [part.us for part in path.last] == [3000, 2000, 4000]


def test_words_say_every_number_once_and_they_add_up() -> None:
    assert path_sentences(latency_path(STALL, STALLED, "r0")) == [
        "TTFT of r0: 4 ms = was prefilled in 4 ms (2 ms for base costs, 2 ms for its own prefill).",
        "E2E of r0: 16 ms = was prefilled in 4 ms (2 ms for base costs, 2 ms for its own prefill); "
        "was paused 6 ms (4 ms behind r1's prefill, 2 ms for base costs); "
        "decoded in 6 ms (4 ms for base costs, 2 ms for its own decodes).",
    ]
    assert path_sentences(latency_path(STALL, STALLED, "r1"))[0] == (
        "TTFT of r1: 9 ms = waited 3 ms for the iteration that ran already; "
        "was prefilled in 6 ms (4 ms for its own prefill, 2 ms for base costs)."
    )


def test_idle_time_names_the_arrival_that_ended_it() -> None:
    # r0 waits from 0 to 5 for nobody but r1, which arrives at 5 and runs beside it.
    instance = build([(0, 1, 1), (5, 1, 1)], 2)
    path = latency_path(instance, schedule((5, 1, {"r0": 1, "r1": 1}, ())), "r0")
    assert path.last[0] == Part("queued", "idle", "r1", 5000)
    assert path_sentences(path)[1].startswith("E2E of r0: 6 ms = waited 5 ms while the engine idled until r1 arrived;")


def test_chunks_of_others_between_ones_own_are_told_apart_from_those_beside() -> None:
    # r0's chunks run in the first and third millisecond, r1's alone in the second and beside the third.
    instance = build([(0, 3, 1), (0, 3, 1)], 2, base_and_tokens(0))
    made = schedule((0, 2, {"r0": 2}, ()), (2, 2, {"r1": 2}, ()), (4, 2, {"r0": 1, "r1": 1}, ()))
    parts = latency_path(instance, made, "r0").last
    assert parts == (
        Part("prefill", "prefill", "r0", 3000), Part("between chunks", "prefill", "r1", 2000),
        Part("prefill", "prefill", "r1", 1000),
    )  # fmt: skip


def test_an_evicted_request_sees_its_eviction_and_its_second_prefill() -> None:
    # r0 is evicted in the second iteration for r1's prefill of 4 and computes 3 tokens again in the third.
    cost = CostModel.linear(0, PS_PER_MS, PS_PER_MS)
    instance = build([(0, 2, 2), (0, 4, 1)], 4, cost, preemption="recompute", num_kv_blocks=4)
    made = schedule(
        Iteration(0, 2000, {"r0": 2}), Iteration(2000, 4000, {"r1": 4}, (), ("r0",)), Iteration(6000, 3000, {"r0": 3})
    )
    parts = latency_path(instance, made, "r0").last
    assert parts == (
        Part("prefill", "prefill", "r0", 2000), Part("evicted", "prefill", "r1", 4000),
        Part("prefill again", "prefill", "r0", 3000),
    )  # fmt: skip


def test_an_unknown_request_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"one of r0, r1, got 'r9'"):
        latency_path(STALL, STALLED, "r9")


def test_parts_add_up_to_every_latency_under_every_feature() -> None:
    checked = 0
    for seed in range(120):
        instance = tiny_instance(seed, every_feature=True)
        made = random_schedule(instance, random.Random(seed), idle_us=900)
        for request in instance.requests if made else ():
            path, times = latency_path(instance, made, request.id), replay(instance, made).token_times[request.id]
            assert sum(part.us for part in path.last) == path.e2e_us == times[-1] - request.arrival_us
            assert (path.first is None) == (path.ttft_us is None) == request.starts_in_decode
            assert path.first is None or sum(part.us for part in path.first) == path.ttft_us
            assert path.first is None or path.ttft_us == times[0] - request.arrival_us
            assert all(part.us > 0 for part in (*path.last, *(path.first or ())))
            checked += 1
    assert checked > 200
