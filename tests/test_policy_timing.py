"""Policies of the literature that go by time, numbers per class and phases: WAIT, RAD, SLAI (papers.md 1.9, 1.10)."""

from __future__ import annotations

import pytest

from heuristics.class_counts import class_counts
from heuristics.registry import make_policy
from heuristics.simulator import simulate
from instances.check import require_valid
from instances.errors import InputError
from instances.metrics import metric
from instances.replay import replay
from instances.request import Progress, Request
from tests.judges.build import base_and_tokens, build
from tests.judges.tables import loads, play, rows, table


def test_wait_lets_requests_in_by_twos_and_a_single_one_when_its_patience_ends():
    # B completes the pair at 2; C comes at 3 and waits for 4 ms. A class with threshold 1 does not wait.
    requests = [(0, 1, 2), (2, 1, 2), (3, 1, 1), Request("own", 1, 1, 500, group="solo")]
    instance = build(requests, 8)
    run = simulate(instance, "wait:threshold=2,thresholds=solo:1,patience_ms=4")
    require_valid(instance, run.schedule)
    first = {name: times[0] / 1000 for name, times in replay(instance, run.schedule).token_times.items()}
    assert first == {"r0": 3, "r1": 3, "r2": 8, "own": 1.5}


def test_a_threshold_of_one_is_greedy_admission():
    instance = build([(0, 3, 3), (0.5, 2, 2), (2, 4, 1)], 6)
    assert simulate(instance, "wait:threshold=1").schedule.iterations == simulate(instance, "orca").schedule.iterations


@pytest.mark.parametrize("text", ["chat", "chat:0", ":3", "a:1/a:2", "a:x", "a:-1"])
def test_numbers_per_class_are_checked(text):
    with pytest.raises(InputError, match=r"thresholds.*CLASS:NUMBER"):
        class_counts(text, "thresholds")
    with pytest.raises(InputError, match="budgets"):
        make_policy(f"class-budget:budgets={text}")


def test_rad_runs_tiles_of_prefill_until_enough_decode():
    run = play(loads("A(P4,O3) B(P2,O3) C(P2,O2)"), "rad:tile=2,decode_batch=2", 8)
    assert table(run) == rows("""
        A p2 p2* .   d* d*# -   -
        B .  .   p2* d* d*# -   -
        C .  .   .   .  .   p2* d*#""")


def test_slai_runs_a_decode_at_its_last_moment_and_the_shortest_prefill_first():
    # A's second token is due at 1 + 4 = 5: urgent at 4, when two iterations of 1 ms would end at 6. C (2) passes B (3
    # left). In iteration 4 B leaves one token of the budget: A fills it, or waits until it is urgent.
    requests = loads("A(P1,O4) B(P6,O1)@2 C(P2,O1)@3")
    assert table(play(requests, "slai:tbt_ms=4", 3)) == rows("""
        A p1* .  .   d*  d* d*#
        B -   p3 p1  p2*# - -
        C -   -  p2*# -  -  -""")
    assert table(play(requests, "slai:tbt_ms=4,fill=false", 3))["A"] == "p1* . . . d* d* d*#"


def test_slai_keeps_gaps_within_their_limit_and_beats_decode_first_in_ttft():
    # A stream under a steady load of prompts of half a budget: every iteration is 2 + 4 ms.
    stream = Request("s", 1, 12, tbt_slo_us=18_000, progress=Progress(1, 1, 0))
    prompts = [Request(f"p{i}", 4, 1, 5000 * i) for i in range(8)]
    instance = build([stream, *prompts], 4, base_and_tokens(2))
    values = {}
    for policy in ("slai", "greedy-chunked"):
        run = simulate(instance, policy)
        require_valid(instance, run.schedule)
        values[policy] = metric(instance, run.schedule, "mean_ttft"), metric(instance, run.schedule, "max_tbt")
    assert values["slai"][0] < values["greedy-chunked"][0]
    assert values["slai"][1] <= 18
