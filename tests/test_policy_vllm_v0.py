"""vllm-v0 and vllm-v0-chunked: the worked tables of policies.md §3 and §4, their knobs, and what they show."""

from __future__ import annotations

from heuristics.policy import Setup
from heuristics.registry import make_policy
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.request import Progress, Request
from tests.judges.tables import free_blocks, loads, play, rows, table

LOAD = "A(P10,O3)@1 B(P5,O2)@1 C(P3,O2)@2"
FOUR = "A(P20,O2) B(P4,O3) C(P20,O2) D(P4,O2)"
LIMITED = "vllm-v0-chunked:max_num_partial_prefills=2,max_long_partial_prefills=1,long_prefill_token_threshold=6"


def test_prompts_have_batches_of_their_own():
    # Ex 3-a: K = 16. A and B (15 tokens) together; C's prefill stops both; then all decode.
    assert table(play(loads(LOAD), "vllm-v0", 16, block_size=4)) == rows("""
        A p10* .   d*  d*#
        B p5*  .   d*# -
        C -    p3* d*# -
    """)


def test_a_new_prompt_stalls_a_stream():
    # Ex 3-b: K = 32.
    assert table(play(loads("A(P3,O6)@1 B(P20,O2)@3"), "vllm-v0", 32)) == rows("""
        A p3* d* .    d*  d* d* d*#
        B -   -  p20* d*# -  -  -
    """)


def test_a_prompt_above_the_rest_of_the_budget_stops_the_queue():
    # K = 12: A(10) leaves 2, B needs 5; C(3) behind it comes with B.
    assert table(play(loads("A(P10,O1) B(P5,O1) C(P2,O1)"), "vllm-v0", 12)) == rows("""
        A p10*# -
        B .     p5*#
        C .     p2*#
    """)


def test_the_watermark_is_left_free_while_something_runs():
    # 10 blocks of 1, a watermark of 30 % = 3. A takes 4, B's 4 would leave 2; it enters when A has gone.
    load = loads("A(P4,O1) B(P4,O1)")
    assert table(play(load, "vllm-v0:watermark=0.3", 8, num_kv_blocks=10))["B"] == ". p4*#"
    assert table(play(load, "vllm-v0:watermark=0.2", 8, num_kv_blocks=10))["B"] == "p4*#"


def test_a_decode_needs_a_free_block_even_where_it_needs_none():
    # 6 blocks of 2: full after iteration 2, where A's 6th token fits in its third block. By the conservative rule B is
    # preempted and thrashes (Ex 7.2-b); by need, B goes one iteration later, and A holds too much for it to come back.
    load = loads("A(P4,O6) B(P4,O6)")
    run = play(load, "vllm-v0", 16, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d* .   d* d* d*# -   -  -
        B p4* d* x  p6* x  .  .   p7* d* d*#
    """)
    assert free_blocks(run) == [2, 0, 3, 0, 2, 2, 6, 2, 2, 6]
    assert table(play(load, "vllm-v0:one_free_block=false", 16, block_size=2, num_kv_blocks=6)) == rows("""
        A p4* d* d* d* d* d*# -   -  -
        B p4* d* d* x  .  .   p7* d* d*#
    """)


def test_one_that_fills_the_pool_alone_goes_on_where_it_needs_no_block():
    # 2 blocks of 4. With 5 of 8 tokens A holds both; the engine would drop all its KV and prefill it again at once.
    assert table(play(loads("A(P5,O4)"), "vllm-v0", 8, block_size=4, num_kv_blocks=2)) == {"A": "p5* d* d* d*#"}


def test_where_preemption_is_swap_nobody_is_admitted_before_the_swapped_ones_are_back():
    # 6 blocks of 2, as above, with C (1 token) from iteration 4 on: there is a block for it, but B is first.
    load = loads("A(P4,O6)@1 B(P4,O6)@1 C(P1,O1)@4")
    run = play(load, "vllm-v0", 16, block_size=2, num_kv_blocks=6, preemption="swap")
    # it 3: B goes with 5 tokens (3 blocks). it 4: A's 7th token takes a block, 2 are left: too few for B. it 8: C.
    assert table(run) == rows("""
        A p4* d* d* d* d* d*# -  -    -  -  -
        B p4* d* x  .  .  .   d* .    d* d* d*#
        C -   -  -  .  .  .   .  p1*# -  -  -
    """)


def test_under_priority_an_urgent_arrival_preempts():
    # One seat. C is more urgent than A: A has to go in iteration 3, in which C starts at once (a pass that runs nobody
    # costs nothing). Under fcfs C waits.
    load = loads("A(P4,O5)@1 C(P4,O2)@3", A={"priority": 5})
    assert table(play(load, "vllm-v0:policy=priority", 16, max_num_seqs=1)) == rows("""
        A p4* d* x   .   p6* d* d*#
        C -   -  p4* d*# -   -  -
    """)
    assert table(play(load, "vllm-v0", 16, max_num_seqs=1))["C"] == "- - . . . p4* d*#"


def test_a_delay_factor_lets_prompts_gather():
    # The first prefill took 1 ms. With factor 3 nobody is admitted beside A before B, the oldest, has waited more
    # than 3 ms: B arrives at 1, C at 3, both enter at 5 (at 4, B has waited exactly 3).
    load = loads("A(P1,O9)@1 B(P1,O1)@2 C(P1,O1)@4")
    assert table(play(load, "vllm-v0:scheduler_delay_factor=3", 8)) == rows("""
        A p1* d* d* d* d* .    d* d* d* d*#
        B -   .  .  .  .  p1*# -  -  -  -
        C -   -  -  .  .  p1*# -  -  -  -
    """)


def test_with_one_partial_prefill_it_is_one_token_budget():
    # Ex 4-a = Ex 2-a.
    assert table(play(loads(LOAD), "vllm-v0-chunked", 8, block_size=4)) == rows("""
        A p8 p2* d*  d*#
        B .  p5* d*# -
        C -  p1  p2* d*#
    """)


def test_short_prompts_pass_a_long_one_under_the_limits_on_partial_prefills():
    # Ex 4-b: K = 8; slots 4, 4, 4, 8, 4, 8, 8, 8, 8.
    assert table(play(loads(FOUR), LIMITED, 8, max_num_seqs=8)) == rows("""
        A p4  p4 p4  p7  p1* d*# -  -   -
        B p4* d* d*# -   -   -   -  -   -
        C .   .  .   .   p4  p7  p8 p1* d*#
        D .   p3 p1* d*# -   -   -  -   -
    """)


def test_the_next_step_visits_decodes_then_ended_then_unfinished_prefills():
    # Ex 4-b, last column: B A D after iteration 2, D A after iteration 3.
    scheduled = [list(d["scheduled"]) for d in play(loads(FOUR), LIMITED, 8, max_num_seqs=8).decisions]
    assert scheduled[:5] == [["A", "B"], ["A", "B", "D"], ["B", "A", "D"], ["D", "A"], ["A", "C"]]


def test_two_long_ones_may_run_where_the_limit_says_so():
    longs = LIMITED.replace("long_partial_prefills=1", "long_partial_prefills=2")
    assert table(play(loads("A(P20,O1) C(P20,O1)"), longs, 8)) == rows("""
        A p4 p4 p4 p4 p4*#
        C p4 p4 p4 p4 p4*#
    """)


def test_the_automatic_threshold_is_4_percent_of_the_model_length():
    policy = make_policy("vllm-v0-chunked:max_num_partial_prefills=2,max_model_len=200")
    limits = EngineLimits(8)
    policy.start(Setup(limits, limits, CostModel.unit()))
    assert policy._threshold == 8


def test_admission_goes_on_beside_a_preemption_but_not_for_the_victim():
    # 6 blocks of 2. In iteration 3 A (no block needed, none free) makes B go: 3 blocks free, and C enters beside it.
    run = play(loads("A(P4,O6)@1 B(P4,O6)@1 C(P3,O1)@3"), "vllm-v0-chunked", 16, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d*   d* d* d*# -   -  -  -
        B p4* d* x    .  .  .   p6* d* d* d*#
        C -   -  p3*# -  -  -   -   -  -  -
    """)


def test_a_prompt_books_its_blocks_at_its_first_chunk():
    # 6 blocks of 1, K = 4: after A's first chunk 4 tokens have KV and 6 are booked: B's single one waits.
    assert table(play(loads("A(P6,O1)@1 B(P1,O1)@2"), "vllm-v0-chunked", 4, num_kv_blocks=6)) == rows("""
        A p4 p2*# -
        B -  .    p1*#
    """)


def test_chunks_are_whole_blocks_with_prefix_caching_unless_they_end_a_prompt():
    # K = 10, blocks of 4: A gets 8, the 2 left are no block for B. Then A's last 4, and B's 6 end it.
    load = loads("A(P12,O1) B(P6,O1)")
    assert table(play(load, "vllm-v0-chunked:block_aligned=true", 10, block_size=4)) == rows("""
        A p8 p4*#
        B .  p6*#
    """)
    assert table(play(load, "vllm-v0-chunked", 10, block_size=4))["A"] == "p10 p2*#"


def decoding(names, left):
    return tuple(Request(name, 1, left + 1, progress=Progress(1, 1, 0)) for name in names)


def order_of_work(run):
    return [" ".join(decision["scheduled"]) for decision in run.decisions]


def test_decodes_left_out_come_first_in_the_next_step():
    assert order_of_work(play(decoding("ABC", 2), "vllm-v0-chunked", 2)) == ["A B", "C A", "B C"]


def test_a_rest_below_a_block_starves_decodes_for_a_step():
    # K = 6, blocks of 4: after three decodes 3 tokens are left, which count as none.
    run = play(decoding("ABCD", 3), "vllm-v0-chunked:block_aligned=true", 6, block_size=4)
    assert order_of_work(run) == ["A B C", "D A B", "C D A", "B C D"]
    assert order_of_work(play(decoding("ABCD", 3), "vllm-v0-chunked", 6, block_size=4)) == ["A B C D"] * 3
