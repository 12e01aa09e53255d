"""The rolling-horizon policy: what it sees, what it gains, and that it always has an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heuristics.registry import make_policy
from heuristics.simulator import simulate
from instances.check import require_valid
from instances.generate import random_instance
from instances.instance import Instance
from instances.metrics import metric
from instances.request import Progress, Request
from solver.model import solve
from solver.rolling import RollingHorizon, snapshot
from tests.judges.build import base_and_tokens, build


def value(instance: Instance, policy: object, name: str) -> float:
    run = simulate(instance, policy)
    require_valid(run.instance, run.schedule)
    return metric(instance, run.schedule, name)


def test_it_is_found_by_name_and_is_no_part_of_all_policies():
    policy = make_policy("rolling-horizon:objective=makespan,time_limit=0.5")
    assert isinstance(policy, RollingHorizon)
    assert policy.spec == "rolling-horizon:objective=makespan,time_limit=0.5"
    assert not policy.clairvoyant


def test_with_everything_there_at_once_it_is_optimal():
    # Prompts 4, 8, 4 with budget 8: the two short ones first, TTFT 1, 2, 1; greedy in order gives 1, 2, 2.
    instance = build([(0, 4, 1), (0, 8, 1), (0, 4, 1)], 8)
    assert value(instance, "rolling-horizon:objective=mean_ttft", "mean_ttft") == 4 / 3
    assert value(instance, "greedy-chunked", "mean_ttft") == 5 / 3


@pytest.mark.parametrize("objective", ["makespan", "mean_e2e", "mean_ttft"])
def test_where_all_is_known_it_reaches_the_optimum_of_random_instances(objective):
    compared = 0
    for seed in range(60):
        drawn = random_instance(seed, requests=(2, 3), progress=False, cost_kinds=("unit",))
        known = tuple(replace(r, arrival_us=0, max_output_tokens=None) for r in drawn.requests)
        instance = replace(drawn, requests=known)
        best = solve(instance, objective, time_limit=10, workers=1)
        if best.status != "OPTIMAL":
            continue
        compared += 1
        assert value(instance, f"rolling-horizon:objective={objective},time_limit=5", objective) == best.value, seed
        if compared == 10:
            break
    assert compared == 10


def test_the_future_is_not_seen():
    # Waiting for B would be better (model.md, example 1: (17, 7) with a start at 4): it cannot know that B comes.
    alone = build([(0, 1, 2)], 8, base_and_tokens(5))
    both = build([(0, 1, 2), (10, 1, 1)], 8, base_and_tokens(5))
    policy = "rolling-horizon:objective=makespan"
    first = [simulate(instance, policy).schedule.iterations[0] for instance in (alone, both)]
    assert first[0] == first[1]
    assert first[0].start_us == 0


def test_true_outputs_are_not_seen_before_they_show():
    # One after the other (pool 9). By its cap x takes 6 iterations: y first. By the truth it takes 1: x first.
    for outputs in (1, 6):
        instance = build([Request("x", 4, outputs, max_output_tokens=6), Request("y", 4, 2)], 4, num_kv_blocks=9)
        first = simulate(instance, "rolling-horizon").schedule.iterations[0]
        assert first.prefill == {"y": 4}


def test_a_snapshot_is_the_state_of_the_moment():
    # Two iterations of 2 + 4 tokens: r0 has emitted at 6 and waits with its decode; r1 has computed 3 of 5.
    seen = []

    class Watched(RollingHorizon):
        def schedule(self, state):
            known = [*state.running, *state.waiting]
            seen.append(snapshot(known, self._engine, state))
            return super().schedule(state)

    requests = [Request("r0", 4, 3, e2e_slo_us=20_000), Request("r1", 5, 2, 3000, e2e_slo_us=2000)]
    instance = build(requests, 4, base_and_tokens(2), num_kv_blocks=20, preemption="recompute")
    simulate(instance, Watched())
    assert seen[0].requests == (replace(requests[0], max_output_tokens=None),)
    assert seen[1].requests[0] == Request("r0", 4, 3, e2e_slo_us=14_000, progress=Progress(4, 1, 0))
    assert seen[1].requests[1] == Request("r1", 5, 2)  # its level is missed already
    assert seen[1].engine.preemption == "none"


def test_on_any_instance_it_finishes_within_all_limits():
    fallbacks = 0
    for seed in range(25):
        instance = random_instance(seed, requests=(2, 4), preemption=("none", "recompute"), progress=False)
        policy = RollingHorizon(time_limit=0.3)
        run = simulate(instance, policy)
        require_valid(instance, run.schedule)
        fallbacks += policy.fallbacks
        assert policy.solves == len(run.schedule.iterations)
    assert fallbacks < 10


def test_without_an_answer_it_is_greedy_chunked():
    class Silent(RollingHorizon):
        def _first_batch(self, state):
            return None

    for seed in range(30):
        instance = random_instance(seed, requests=(2, 4), progress=False)
        silent = simulate(instance, Silent()).schedule.iterations
        assert silent == simulate(instance, "greedy-chunked").schedule.iterations
