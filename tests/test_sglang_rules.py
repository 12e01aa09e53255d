"""sglang: its rules one by one (queue orders, priorities, sizes, ratio, retraction)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from heuristics.new_token_ratio import NewTokenRatio
from instances.check import violations
from tests.judges.tables import loads, play, rows, table

STALL = "A(P3,O6)@1 B(P20,O2)@3"
RATIO_OF_A_TENTH = "chunked_prefill_size=-1,init_new_token_ratio=0.1,min_new_token_ratio_factor=1"


# Queue orders.


def test_longest_prefix_first():
    # B has 2 to prefill, 4 of 6 are left for A.
    load = loads("A(P6,O1) B(P6,O1)", B={"cached_tokens": 4})
    assert table(play(load, "sglang", 6)) == {"A": "p6*# -", "B": ". p2*#"}
    assert table(play(load, "sglang:schedule_policy=lpm", 6)) == {"A": "p4 p2*#", "B": "p2*# -"}


def test_a_long_queue_is_not_searched_for_prefixes():
    many = " ".join(f"A{i}(P6,O1)" for i in range(128))
    first = [next(iter(play(loads(text + " B(P6,O1)", B={"cached_tokens": 4}), "sglang:schedule_policy=lpm", 6)
                       .decisions[0]["scheduled"])) for text in (many, many[len("A0(P6,O1) "):])]  # fmt: skip
    assert first == ["A0", "B"]  # 129 in the queue, then 128


def test_highest_response_ratio_next():
    # After A's 4 tokens: B 4/8, C 4/2, D (just there) 0/2.
    load = loads("A(P4,O1)@1 B(P8,O1)@1 C(P2,O1)@1 D(P2,O1)@2")
    assert table(play(load, "sglang:schedule_policy=hrrn", 4)) == rows("""
        A p4*# -    -  -
        B .    p2   p4 p2*#
        C .    p2*# -  -
        D -    .    .  p2*#
    """)


def test_shortest_prefill_first():
    run = play(loads("A(P6,O1) B(P2,O1)"), "sglang:schedule_policy=shortest-prefill-first", 6)
    assert table(run) == {"A": "p4 p2*#", "B": "p2*# -"}


def test_a_random_order_is_that_of_its_seed():
    load = loads(" ".join(f"{name}(P2,O1)" for name in "ABCDE"))
    orders = [
        ["".join(d["scheduled"]) for d in play(load, f"sglang:schedule_policy=random,seed={seed}", 2).decisions]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == list("ABCDE") for order in orders)


# Priorities: smaller is more urgent.


def urgent(gap, knobs):
    load = loads("A(P4,O5)@1 B(P2,O2)@3", A={"priority": gap})
    return table(play(load, f"sglang:enable_priority_scheduling=true{knobs}", 8, max_num_seqs=1))


def test_a_much_more_urgent_request_takes_a_seat():
    # 11 > 10: A loses its KV, comes back with 4 + 2 tokens, after a free pass that notices B's end.
    assert urgent(11, "") == {"A": "p4* d* x . p6* d* d*#", "B": "- - p2* d*# - - -"}


def test_a_slightly_more_urgent_one_waits():
    waits = {"A": "p4* d* d* d* d*# - -", "B": "- - . . . p2* d*#"}
    assert urgent(10, "") == waits
    assert urgent(11, ",disable_priority_preemption=true") == waits
    assert urgent(10, ",priority_scheduling_preemption_threshold=9")["A"].split()[2] == "x"


def test_priorities_order_the_queue():
    load = loads("A(P4,O1) B(P4,O1)", A={"priority": 1})
    assert table(play(load, "sglang", 4)) == {"A": "p4*# -", "B": ". p4*#"}
    assert table(play(load, "sglang:enable_priority_scheduling=true", 4)) == {"A": ". p4*#", "B": "p4*# -"}


# Sizes.


def test_chunks_are_whole_pages():
    # A: 11 tokens are 3 pages of 4 > 10, so 2 pages; then its 3 tokens cost a page, B's page fits in the other 6.
    load = loads("A(P11,O1) B(P3,O1)")
    assert table(play(load, "sglang", 10, block_size=4)) == {"A": "p8 p3*#", "B": ". p3*#"}
    assert table(play(load, "sglang", 10)) == {"A": "p10 p1*#", "B": ". p3*#"}


def test_the_chunk_size_cuts_prompts_below_the_budget():
    assert table(play(loads("A(P11,O1)"), "sglang:chunked_prefill_size=4", 16)) == {"A": "p4 p4 p3*#"}
    assert table(play(loads("A(P11,O1)"), "sglang:chunked_prefill_size=99", 16)) == {"A": "p11*#"}
    assert table(play(loads("A(P11,O1)"), "sglang:chunked_prefill_size=4", 16, enable_chunked_prefill=False)) == {
        "A": "p11*#"
    }


def test_the_first_prompt_of_a_batch_may_exceed_the_prefill_tokens():
    # 6 > 4. Then B 2 of 4, C: 1 < 2 left. With 3: C: 1 is not below the 1 that is left.
    load = loads("A(P6,O1) B(P2,O1) C(P1,O1)")
    whole = "sglang:chunked_prefill_size=-1,max_prefill_tokens"
    assert table(play(load, f"{whole}=4", 16)) == {"A": "p6*# -", "B": ". p2*#", "C": ". p1*#"}
    assert table(play(load, f"{whole}=3", 16))["C"] == ". . p1*#"


def test_a_prefill_batch_may_be_limited_to_so_many_requests():
    run = play(loads("A(P2,O1) B(P2,O1)"), "sglang:prefill_max_requests=1", 16)
    assert table(run) == {"A": "p2*# -", "B": ". p2*#"}


def test_running_requests_may_be_fewer_than_seats():
    run = play(loads("A(P2,O2) B(P2,O2)"), "sglang:max_running_requests=1", 16, max_num_seqs=2)
    assert table(run) == {"A": "p2* d*# - -", "B": ". . p2* d*#"}


# New-token ratio and retraction.


def test_a_conservative_ratio_keeps_the_second_request_out():
    # 5-e with 0.1 * 5: 6 + 8 + 1 = 15 < 17 - 10 * 0.5 = 12 fails; nobody is retracted.
    run = play(loads("A(P2,O12)@1 B(P6,O8)@3"), f"sglang:{RATIO_OF_A_TENTH},schedule_conservativeness=5", 32,
               num_kv_blocks=20)  # fmt: skip
    assert table(run)["A"] == "p2*" + " d*" * 10 + " d*#" + " -" * 8
    assert table(run)["B"] == "- -" + " ." * 10 + " p6*" + " d*" * 6 + " d*#"


def test_the_ratio_falls_to_its_floor_and_jumps_after_a_retraction():
    ratio = NewTokenRatio(0.7, 0.14, 600)
    ratio.decay(300)
    assert ratio.value == Fraction(7, 10) * (1 + Fraction(14, 100)) / 2
    ratio.decay(10**6)
    assert ratio.value == Fraction("0.098")
    ratio.retracted(emitted=6, declared=99, headroom=20)
    assert ratio.value == Fraction(26, 100)
    ratio.retracted(emitted=7, declared=12, headroom=20)
    assert ratio.value == 1
    ratio.reset()
    assert ratio.value == Fraction("0.7")


def test_older_versions_retract_until_there_is_room_for_twenty_steps():
    # Pool 14, estimates of 1 output each. Iteration 4: 12 held, 3 needed. One eviction gives room for two requests.
    load, optimistic = loads("A(P2,O6) B(P2,O6) C(P2,O6)"), "sglang:init_new_token_ratio=0,clip_max_new_tokens=1"
    for knobs, victims in (("", ["C"]), (",retract_decode_steps=20", ["C", "B"])):
        run = play(load, optimistic + knobs, 16, num_kv_blocks=14)
        assert [d["preempted"] for d in run.decisions][:4] == [[], [], [], victims]


def test_a_retracted_request_goes_to_the_back_of_the_queue():
    # 5-e with C, which waits from 5 on. After A's end C is the first: 4 + 4 + 1; then B, 12 + 2 + 1 < 20 - 9, is not.
    load = loads("A(P2,O12)@1 B(P6,O8)@3 C(P4,O4)@5")
    run = play(load, f"sglang:{RATIO_OF_A_TENTH}", 32, num_kv_blocks=20)
    assert table(run) == rows("""
        A p2* d* .   d* d* d* d* d* d* d* d* d* d*# -   -  -  -   -    -
        B -   -  p6* d* d* d* d* d* x  .  .  .  .   .   .  .  .   p12* d*#
        C -   -  -   -  .  .  .  .  .  .  .  .  .   p4* d* d* d*# -    -
    """)


def test_of_equal_outputs_the_longest_prompt_is_retracted():
    # Pool 16. After three iterations 15 are held, 3 more are needed; all have emitted 3.
    optimistic = "sglang:init_new_token_ratio=0,clip_max_new_tokens=1"
    run = play(loads("A(P4,O6) B(P3,O6) C(P2,O6)"), optimistic, 16, num_kv_blocks=16)
    assert next(d["preempted"] for d in run.decisions if d["preempted"]) == ["A"]


# What the instance forbids.


def test_where_batches_may_not_be_mixed_mixed_chunks_are_off():
    mixed = play(loads(STALL), "sglang:enable_mixed_chunk=true", 8, mixed_batches=False)
    assert table(mixed) == table(play(loads(STALL), "sglang", 8))


def test_where_preemption_is_forbidden_it_retracts_nevertheless_and_the_checker_says_so():
    run = play(loads("A(P2,O12)@1 B(P6,O8)@3"), f"sglang:{RATIO_OF_A_TENTH}", 32, num_kv_blocks=20, preemption="none")
    instance = replace(run.instance, engine=replace(run.instance.engine, preemption="none"))
    assert {v.rule for v in violations(instance, run.schedule)} == {"eviction"}


def test_decodes_beyond_the_token_budget_wait():
    run = play(loads("A(P1,O3) B(P1,O3) C(P1,O3)"), "sglang", 2)
    assert table(run) == rows("""
        A p1* .   d* d*# -  -
        B p1* .   d* d*# -  -
        C .   p1* .  .   d* d*#
    """)
