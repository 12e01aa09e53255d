"""Sarathi-Serve's schedulers and Vidur's deviations: the worked tables of policies.md §7 and §8, and their knobs."""

from __future__ import annotations

import pytest

from heuristics.lightllm import PeakTest
from heuristics.plan import Plan
from heuristics.policy import Batch, PolicyError
from heuristics.registry import make_policy
from heuristics.simulator import simulate
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from tests.judges.scripted import Scripted
from tests.judges.tables import free_blocks, loads, play, rows, table

LOAD = "A(P10,O3)@1 B(P5,O2)@1 C(P3,O2)@2"
STALL = "A(P3,O6)@1 B(P20,O2)@3"
PAIR = "A(P4,O6) B(P4,O6)"
CAPPED = "A(P4,O3) B(P4,O2) C(P4,O2)"


def test_sarathi_decodes_first_and_fills_up_with_chunks():
    # 7.1-a (= Ex 2-a) and 7.1-b; the chunk budget is a knob, the token budget may be larger.
    for policy, budget in (("sarathi", 8), ("sarathi:chunk_size=8", 64)):
        assert table(play(loads(LOAD), policy, budget, block_size=4)) == rows("""
            A p8 p2* d*  d*#
            B .  p5* d*# -
            C -  p1  p2* d*#
        """)
        assert table(play(loads(STALL), policy, budget)) == rows("""
            A p3* d* d* d* d*  d*#
            B -   -  p7 p7 p6* d*#
        """)


def test_sarathi_preempts_one_step_earlier_than_vllm_v1():
    # 7.1-c: 6 blocks of 2. In iteration 3 A needs no block, but none is free.
    run = play(loads(PAIR), "sarathi", 16, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d* d* d* d*# -   -  -  -
        B p4* d* x  .  .  .   p6* d* d* d*#
    """)
    assert free_blocks(run)[:7] == [2, 0, 3, 2, 2, 6, 3]
    by_need = play(loads(PAIR), "sarathi:one_free_block=false", 16, block_size=2, num_kv_blocks=6)
    assert table(by_need) == table(play(loads(PAIR), "vllm-v1", 16, block_size=2, num_kv_blocks=6))


def test_sarathis_victim_is_the_latest_arrival_not_the_latest_admission():
    # 5 blocks of 4: A 1, D 1, B 3, full. Iteration 2: B goes, C enters, D finishes. Iteration 3: B comes back, full
    # again. Iteration 4: the last arrival is C, the last admission B.
    load = loads("A(P1,O4)@1 D(P1,O2)@1 B(P9,O4)@1 C(P1,O3)@2")
    victims = {
        policy: [d["preempted"] for d in play(load, policy, 64, block_size=4, num_kv_blocks=5).decisions][:4]
        for policy in ("sarathi", "vllm-v0-chunked")
    }
    assert victims == {"sarathi": [[], ["B"], [], ["C"]], "vllm-v0-chunked": [[], ["B"], [], ["B"]]}


def test_decodes_above_the_chunk_budget_run_and_prefills_get_nothing():
    # Three decode, Cz = 2: all three run (K = 8); the newcomer waits until only one of them is left.
    decoding = tuple(Request(n, 1, o, progress=Progress(1, 1, 0)) for n, o in (("A", 3), ("B", 3), ("C", 4)))
    run = play((*decoding, Request("D", 2, 1)), "sarathi:chunk_size=2", 8)
    assert table(run) == rows("""
        A d* d*# -   -
        B d* d*# -   -
        C d* d*  d*# -
        D .  .   p1  p1*#
    """)


@pytest.mark.parametrize(("load", "engine", "knobs", "rule", "iteration"), [
    # 7.1-c: B, preempted after 2 tokens in iteration 3, is known to end with its 6th, in 10; the original goes on.
    (PAIR, {"num_kv_blocks": 6, "block_size": 2}, "watermark=0", "emission", 9),
    # 6 blocks of 1. B's prompt of 4 is booked beside A's token. A takes the last block in 2, and evicts B in 3.
    ("A(P1,O4) B(P4,O1)", {"num_kv_blocks": 6}, "chunk_size=2,watermark=0", "prefill-target", 2),
])  # fmt: skip
def test_where_a_bug_of_the_original_strikes_a_compatible_run_stops(load, engine, knobs, rule, iteration):
    play(loads(load), f"sarathi:{knobs}", 16, **engine)  # by the clean rules all is well
    with pytest.raises(PolicyError) as caught:
        play(loads(load), f"sarathi:{knobs},bug_compatible=true", 16, **engine)
    assert (caught.value.rule, caught.value.iteration, caught.value.request) == (rule, iteration, "B")


def test_a_compatible_run_stops_at_a_negative_chunk():
    # Three decodes above the chunk size of 2, all there at time 0, and a prompt of which 1 of 9 tokens is done.
    streams = [Request(f"d{k}", 1, 3, progress=Progress(1, 1)) for k in range(3)]
    requests = (*streams, Request("p", 9, 1, progress=Progress(1, 0)))
    instance = Instance("i", requests, EngineLimits(16), CostModel.unit())
    assert simulate(instance, "sarathi:chunk_size=2").schedule.iterations[0].prefill == {}
    with pytest.raises(PolicyError, match="-1 tokens are left of the chunk budget"):
        simulate(instance, "sarathi:chunk_size=2,bug_compatible=true")


def test_dynamic_chunk_sizes_shrink_with_a_prompts_progress():
    # Sizes 96, 64, 32 for 40 tokens each: 96 tokens, then (stage 96 // 40 = 2) 32 and the rest.
    knobs = "dynamic_chunks=true,high_chunk_size=96,low_chunk_size=32,chunk_schedule_stages=3"
    policy = f"sarathi:{knobs},chunk_schedule_max_tokens=120"
    assert make_policy(policy).sizes() == [96, 64, 32]
    assert table(play(loads("A(P140,O1)"), policy, 512)) == {"A": "p96 p32 p12*#"}
    with pytest.raises(InputError, match="low_chunk_size: expected an integer <= high_chunk_size 96, got 128"):
        make_policy("sarathi:dynamic_chunks=true,high_chunk_size=96,low_chunk_size=128")


def test_sarathi_vllm_prefills_in_batches_of_their_own():
    # 7.2-a = Ex 3-a.
    assert table(play(loads(LOAD), "sarathi-vllm", 16, block_size=4)) == rows("""
        A p10* .   d*  d*#
        B p5*  .   d*# -
        C -    p3* d*# -
    """)


def test_sarathi_vllm_thrashes():
    # 7.2-b: six recomputed tokens are thrown away for one token gained.
    run = play(loads(PAIR), "sarathi-vllm", 16, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d* .   d* d* d*# -   -  -
        B p4* d* x  p6* x  .  .   p7* d* d*#
    """)
    assert free_blocks(run)[2] == 3


def test_vidur_counts_a_batch_of_prompts_as_padded():
    # 8-a: at most 18 tokens; A and B would be 2 * 10.
    load = loads("A(P10,O3)@1 B(P5,O2)@1 C(P3,O2)@2")
    assert table(play(load, "sarathi-vllm:padded=true,max_tokens_in_batch=18", 64)) == rows("""
        A p10* .   d*  d*#
        B .    p5* d*# -
        C -    p3* d*# -
    """)
    assert table(play(load, "sarathi-vllm:max_tokens_in_batch=18", 64))["B"] == "p5* . d*# -"


def test_orca_reserves_the_longest_request_for_every_one():
    # 7.3-a: max_model_len 16 is 4 blocks each, three of them in 12; 7.3-b: two in 8.
    assert table(play(loads(LOAD), "orca:max_model_len=16", 64, block_size=4, num_kv_blocks=12)) == rows("""
        A p10* d*  d*#
        B p5*  d*# -
        C -    p3* d*#
    """)
    assert table(play(loads(CAPPED), "orca:max_model_len=16", 64, block_size=4, num_kv_blocks=8)) == rows("""
        A p4* d*  d*# -
        B p4* d*# -   -
        C .   .   p4* d*#
    """)
    assert table(play(loads(CAPPED), "orca", 64, block_size=4, num_kv_blocks=8))["C"] == "p4* d*# -"


def test_faster_transformer_runs_a_batch_to_its_end():
    # 7.4-a and 7.4-b
    policy = "faster-transformer:max_model_len=16"
    assert table(play(loads(LOAD), policy, 64, block_size=4, num_kv_blocks=12)) == rows("""
        A p10* d*  d*# -   -
        B p5*  d*# -   -   -
        C -    .   .   p3* d*#
    """)
    assert table(play(loads(CAPPED), policy, 64, block_size=4, num_kv_blocks=8)) == rows("""
        A p4* d*  d*# -   -
        B p4* d*# -   -   -
        C .   .   .   p4* d*#
    """)


def test_simple_chunking_takes_turns():
    # 7.5-a (the empty decode turn after iteration 1 costs nothing) and 7.5-b
    for policy, budget in (("simple-chunking", 8), ("simple-chunking:chunk_size=8", 64)):
        assert table(play(loads(LOAD), policy, budget, block_size=4)) == rows("""
            A p8 p2* d* .   d*#
            B .  .   .  p5* d*#
            C -  .   .  p3* d*#
        """)
        assert table(play(loads(STALL), policy, budget)) == rows("""
            A p3* d* .  d* .  d* .   d*  d*#
            B -   -  p8 .  p8 .  p4* d*# -
        """)


def test_lightllm_admits_every_few_decodes():
    # 8.1-a: W = 3.
    assert table(play(loads("A(P3,O8)@1 B(P4,O3)@2"), "lightllm:max_waiting_iters=3", 64)) == rows("""
        A p3* d* d* d* .   d* d*  d* d*#
        B -   .  .  .  p4* d* d*# -  -
    """)


def peak_of_8_1_b(pool):
    """Return the peak of A (P3, O6, two tokens out) and the candidate B (P4, O4), and whether B may enter."""
    found = []

    def look(state):
        plan = Plan(state)
        outputs = {"A": 6, "B": 4}
        test = PeakTest(plan, lambda r: outputs[r.id])
        waiting = state.waiting[0]
        found.append((test.pair(state.running[0]), test.pair(waiting), test.peak([state.running[0], waiting]),
                      test.may_enter(waiting, 4)))  # fmt: skip
        return Batch([(r, 1) for r in state.running] or [(waiting, 4)])

    def one(state):
        request = (state.running or state.waiting)[0]
        return Batch([(request, 1 if request.decoding else 4)])

    requests = (Request("A", 3, 6, progress=Progress(3, 2, 0)), Request("B", 4, 4))
    simulate(Instance("peak", requests, EngineLimits(64, num_kv_blocks=pool), CostModel.unit()), Scripted(look, one))
    return found[0]


def test_lightllms_peak_test_is_strict():
    # 8.1-b: pairs (5, 3) and (5, 2); k = 1: 3 + 5 = 8, k = 2: 2 * 2 + 10 = 14.
    assert peak_of_8_1_b(14) == ((5, 3), (5, 2), 14, False)
    assert peak_of_8_1_b(15) == ((5, 3), (5, 2), 14, True)


def test_lightllm_runs_a_request_of_the_whole_pool_alone_and_a_prompt_above_its_cap_too():
    assert table(play(loads("A(P4,O3) B(P2,O1)"), "lightllm", 8, num_kv_blocks=6)) == rows("""
        A p4* d* d*# -
        B .   .  .   p2*#
    """)
    assert table(play(loads("A(P6,O1) B(P2,O1)"), "lightllm:max_tokens_in_batch=4", 8)) == rows("""
        A p6*# -
        B .    p2*#
    """)


def test_lightllm_looks_at_the_truth_or_at_the_caps():
    # 12 tokens. By the truth the peak of both is (4+1+0) + (4+1+0) = 10; by B's cap of 8 it is 5 + 5 and then 11,
    # by both caps 2 * 11.
    load = loads("A(P4,O2,M8) B(P4,O2,M8)")
    assert table(play(load, "lightllm", 8, num_kv_blocks=12))["B"] == "p4* d*#"
    assert table(play(load, "lightllm:oracle=false", 8, num_kv_blocks=12))["B"] == ". . p4* d*#"


def test_orca_paper_reserves_slots_by_the_declared_outputs_and_bounds_the_batch():
    load = loads("A(P4,O2,M6) B(P4,O2,M6) C(P4,O1,M1)")
    assert table(play(load, "orca-paper:slots=12", 64)) == rows("""
        A p4* d*# -
        B p4* d*# -
        C .   .   p4*#
    """)
    assert table(play(load, "orca-paper:max_batch_size=1", 64)) == rows("""
        A p4* d*# -   -   -
        B .   .   p4* d*# -
        C .   .   .   .   p4*#
    """)
    assert table(play(load, "orca-paper", 64))["C"] == "p4*# -"
