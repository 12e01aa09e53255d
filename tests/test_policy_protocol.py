"""The protocol: what a policy sees and is told, what its batches stand for, and what a run leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heuristics.policy import FOREVER, Batch, EngineState
from heuristics.simulator import simulate
from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.metrics import metric
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from tests.judges.build import build
from tests.judges.scripted import OneByOne, Scripted, evict, named, work

# What a policy sees.


def test_a_policy_sees_arrived_requests_only_and_no_true_output_length():
    seen = []

    def look(state: EngineState) -> Batch:
        seen.append([r.id for r in state.waiting])
        request = (state.running or state.waiting)[0]
        assert not hasattr(request, "output_tokens")
        assert request.max_output_tokens == 9
        return Batch([(request, 1)])

    requests = [Request("r0", 1, 2, 0, 9), Request("r1", 1, 1, 1000, 9)]
    simulate(build(requests, 4), Scripted(look))
    assert seen == [["r0"], ["r1"], ["r1"]]


def test_the_state_cannot_be_written_by_accident():
    def write(state: EngineState) -> Batch:
        state.waiting[0].computed += 1  # type: ignore[misc]
        return Batch([])

    with pytest.raises(AttributeError):
        simulate(build([(0, 1, 1)], 4), Scripted(write))


def test_an_oracle_is_for_those_who_say_that_they_are_clairvoyant():
    class Seer(OneByOne):
        def start(self, setup):
            self.setup = setup

    class Clairvoyant(Seer):
        clairvoyant = True

    class Prophet(Clairvoyant):
        knows_future = True

    instance = build([Request("r0", 1, 2, 0, 9), Request("r1", 1, 1, 5000)], 4)
    blind, seer, prophet = Seer(), Clairvoyant(), Prophet()
    for policy in (blind, seer, prophet):
        simulate(instance, policy)
    assert blind.setup.oracle is None
    with pytest.raises(PermissionError):
        seer.setup.oracle.requests()
    assert prophet.setup.oracle.requests() == instance.requests


def test_residents_at_time_0_are_running_from_the_start():
    told = []

    class Told(OneByOne):
        def arrived(self, request):
            told.append((request.id, request.resident, request.computed, request.emitted, request.decoding))

    half = Request("half", 6, 1, progress=Progress(prefilled=2))
    decoding = Request("decoding", 3, 4, progress=Progress(3, 2, -1500))
    run = simulate(build([Request("new", 1, 1), half, decoding], 8), Told())
    # A decode of a request with g = 2 emitted tokens holds 3 + 2 - 1 = 4 before it.
    assert told == [("half", True, 2, 0, False), ("decoding", True, 4, 2, True), ("new", False, 0, 0, False)]
    assert run.decisions[0]["running"] == ["half", "decoding"]
    assert not violations(run.instance, run.schedule)


def test_cached_tokens_take_blocks_with_the_first_chunk():
    hit = Request("r0", 6, 1, cached_tokens=4)
    run = simulate(build([hit], 1, num_kv_blocks=8), OneByOne())
    assert [d["free_blocks_after"] for d in run.decisions] == [3, 2]


def test_recompute_keeps_the_prefix_hit_and_swap_keeps_everything():
    requests = [Request("r0", 6, 3, cached_tokens=4), Request("r1", 1, 1)]
    script = [work(r0=2), work(r0=1), evict("r0", r1=1)]
    run = simulate(build(requests, 8, preemption="recompute"), Scripted(*script, work(r0=4)))
    # Evicted with 6 + 2 known tokens; 4 of them are a hit again, and the re-prefill emits the third token.
    assert run.decisions[-1] == {
        "start_ms": 3.0, "scheduled": {"r0": 4}, "preempted": [], "emitted": ["r0"], "finished": ["r0"],
        "running": ["r0"], "free_blocks_after": None,
    }  # fmt: skip
    assert metric(run.instance, run.schedule, "recomputed_tokens") == 4
    back = lambda s: Batch([(named(s, "r0"), 1)], restore=[named(s, "r0")])  # noqa: E731
    run = simulate(build(requests, 8, preemption="swap"), Scripted(*script, back))
    assert run.decisions[-1]["finished"] == ["r0"]
    assert not violations(run.instance, run.schedule)


def test_swaps_are_charged_by_the_tokens_moved():
    # 1 ms per iteration, 0.5 ms out and 0.25 ms in per token; r0 holds 2 + 1 tokens when it goes and comes back.
    cost = CostModel((Piece(base_ps=PS_PER_MS),), swap_out_ps=PS_PER_MS // 2, swap_in_ps=PS_PER_MS // 4)
    back = lambda s: Batch([(named(s, "r0"), 1)], restore=[named(s, "r0")])  # noqa: E731
    instance = build([(0, 2, 3), (0, 1, 1)], 8, cost, preemption="swap")
    run = simulate(instance, Scripted(work(r0=2), work(r0=1), evict("r0", r1=1), back))
    assert [i.duration_us for i in run.schedule.iterations] == [1000, 1000, 2500, 1750]
    assert not violations(instance, run.schedule)


# Repeats.


def test_a_repeated_batch_stops_at_arrivals_finishes_and_its_own_bounds():
    asked = []

    def decode_all(state: EngineState) -> Batch:
        asked.append(state.iteration)
        new = [(r, r.remaining) for r in state.waiting]
        return Batch([*((r, 1) for r in state.running), *new], repeat=1 if new else FOREVER)

    run = simulate(build([(0, 1, 4), (0, 1, 9), (6, 1, 2)], 8), Scripted(decode_all))
    # Asked at the start, after the admission, when r0 has finished (4), at r2's arrival (6), after it, at its end (8).
    assert asked == [0, 1, 4, 6, 7, 8]
    assert [len(d["scheduled"]) for d in run.decisions] == [2, 2, 2, 2, 1, 1, 2, 2, 1]

    limits = [lambda s: Batch([(s.waiting[0], 1)]), lambda s: Batch([(s.running[0], 1)], repeat=3),
              lambda s: Batch([(s.running[0], 1)], repeat=FOREVER, until_us=s.now_us + 1500),
              lambda s: Batch([(s.running[0], 1)], repeat=FOREVER)]  # fmt: skip
    script = Scripted(*limits)
    run = simulate(build([(0, 1, 9)], 8), script)
    # 1 prefill; 3 decodes; 2 until 1.5 ms have passed; the last 3.
    assert (script.passes, len(run.records)) == (4, 9)


def test_a_repeated_batch_stops_before_the_pool_is_too_small():
    def as_many_as_fit(state: EngineState) -> Batch:
        if state.waiting:
            return Batch([(r, r.remaining) for r in state.waiting])
        return Batch([(r, 1) for r in state.running[: state.free_blocks]], repeat=FOREVER)

    # 7 blocks of 1. After three iterations both hold 3 and one block is free: r0 alone takes it and finishes with 4.
    run = simulate(build([(0, 1, 4), (0, 1, 6)], 8, num_kv_blocks=7), Scripted(as_many_as_fit))
    assert [list(d["scheduled"]) for d in run.decisions] == [["r0", "r1"]] * 3 + [["r0"]] + [["r1"]] * 3
    assert not violations(run.instance, run.schedule)


def test_ran_is_told_how_often_and_how_long_a_batch_ran():
    spans = []

    class Watching(Scripted):
        def ran(self, batch, iterations, start_us, end_us):
            spans.append((iterations, start_us, end_us))

    simulate(build([(0, 1, 4)], 8), Watching(lambda s: Batch([((s.running or s.waiting)[0], 1)], repeat=FOREVER)))
    assert spans == [(1, 0, 1000), (3, 1000, 4000)]


# What is left behind.


def test_decisions_have_the_form_of_simulate_json():
    run = simulate(build([(0, 2, 2), (0, 4, 1), (0, 1, 1)], 4, num_kv_blocks=8), "greedy-chunked")
    # Iteration 1: r0 whole, 2 of r1. Iteration 2: r0's last token, r1's last 2, then r2's 1: all finish.
    assert run.decisions == [
        {"start_ms": 0.0, "scheduled": {"r0": 2, "r1": 2}, "preempted": [], "emitted": ["r0"], "finished": [],
         "running": ["r0", "r1"], "free_blocks_after": 4},
        {"start_ms": 1.0, "scheduled": {"r0": 1, "r1": 2, "r2": 1}, "preempted": [], "emitted": ["r0", "r1", "r2"],
         "finished": ["r0", "r1", "r2"], "running": ["r0", "r1", "r2"], "free_blocks_after": 0},
    ]  # fmt: skip
    assert [list(d["scheduled"]) for d in run.decisions] == [["r0", "r1"], ["r0", "r1", "r2"]]


def test_emitted_is_sorted_as_strings_and_finished_in_running_order():
    run = simulate(build([(0, 1, 1)] * 11, 16), "greedy-chunked")
    only = run.decisions[0]
    assert only["emitted"] == ["r0", "r1", "r10", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"]
    assert only["finished"] == [f"r{i}" for i in range(11)]


def test_the_schedule_names_instance_and_policy():
    run = simulate(build([(0, 1, 1)], 4), "orca:skip_ahead=true")
    assert (run.schedule.instance, run.schedule.producer) == ("built", "orca:skip_ahead=true")


def test_the_same_run_again_gives_the_same_schedule():
    instance = build([(0, 3, 4), (1, 5, 2), (1, 2, 3)], 4, num_kv_blocks=12)
    policy = simulate(instance, "preemptive-mlfq")
    assert policy.schedule == simulate(instance, "preemptive-mlfq").schedule


def test_an_object_that_is_no_policy_is_named():
    with pytest.raises(InputError, match=r"policy: expected a policy's name or a heuristics.policy.Policy, got 3"):
        simulate(build([(0, 1, 1)], 4), 3)  # type: ignore[arg-type]


def test_a_policy_may_run_on_an_engine_that_does_more_than_the_instance_allows():
    class Evicts(Scripted):
        def engine(self, limits: EngineLimits) -> EngineLimits:
            return replace(limits, preemption="recompute")

    instance = build([(0, 1, 2), (0, 1, 1)], 4)
    run = simulate(instance, Evicts(work(r0=1), evict("r0", r1=1), work(r0=2)))
    assert run.instance.engine.preemption == "recompute"
    assert not violations(run.instance, run.schedule)
    assert [v.rule for v in violations(instance, run.schedule)] == ["eviction"]
