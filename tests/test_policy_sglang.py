"""sglang: the worked tables of policies.md §5.9 (see tests/judges/tables.py for the notation)."""

from __future__ import annotations

from tests.judges.tables import free_blocks, loads, play, rows, table

LOAD = "A(P10,O4)@1 B(P5,O2)@1 C(P3,O2)@3"
STALL = "A(P3,O6)@1 B(P20,O2)@3"
RATIO_OF_HALF = "chunked_prefill_size=-1,init_new_token_ratio=0.5,min_new_token_ratio_factor=1"
RATIO_OF_A_TENTH = "chunked_prefill_size=-1,init_new_token_ratio=0.1,min_new_token_ratio_factor=1"


def test_prefill_batches_hold_no_decodes():
    # 5-a: Ck = 8. Iteration 2: the last 2 of A leave 6 tokens, B's 5 fit. Iteration 3: C first, A and B stand still.
    assert table(play(loads(LOAD), "sglang", 8)) == rows("""
        A p8 p2* .   d*  d* d*#
        B .  p5* .   d*# -  -
        C -  -   p3* d*# -  -
    """)


def test_mixed_chunks_hold_all_decodes_behind_the_prefills():
    # 5-b
    run = play(loads(LOAD), "sglang:enable_mixed_chunk=true", 8)
    assert table(run) == rows("""
        A p8 p2* d*  d*  d*#
        B .  p5* d*# -   -
        C -  -   p3* d*# -
    """)
    assert [list(d["scheduled"]) for d in run.decisions] == [["A"], ["A", "B"], ["C", "A", "B"], ["C", "A"], ["A"]]


def test_chunks_run_back_to_back():
    # 5-c, default
    assert table(play(loads(STALL), "sglang", 8)) == rows("""
        A p3* d* .  .  .   d*  d* d* d*#
        B -   -  p8 p8 p4* d*# -  -  -
    """)


def test_mixed_chunks_are_cut_by_the_running_requests():
    # 5-c, mixed: each chunk is 8 - 1.
    assert table(play(loads(STALL), "sglang:enable_mixed_chunk=true", 8)) == rows("""
        A p3* d* d* d* d*  d*#
        B -   -  p7 p7 p6* d*#
    """)


def test_an_interval_lets_a_decode_batch_run_after_every_prefill_batch():
    # 5-c, interval = 1
    assert table(play(loads(STALL), "sglang:prefill_decode_interval=1", 8)) == rows("""
        A p3* d* .  d* .  d* .   d*  d*#
        B -   -  p8 .  p8 .  p4* d*# -
    """)


def test_a_full_batch_stays_full_until_it_shrinks():
    # 5-d: pool 30. A: 6 + 8 + 1 = 15 < 30, then B: 15 < 15 fails. After A's end one free pass, then B 15 < 30 and
    # C 4 + 4 + 1 = 9 < 15.
    run = play(loads("A(P6,O8) B(P6,O8) C(P4,O4)"), f"sglang:{RATIO_OF_HALF}", 32, num_kv_blocks=30)
    assert table(run) == rows("""
        A p6* d* d* d* d* d* d* d*# -   -  -  -   -  -  -  -
        B .   .  .  .  .  .  .  .   p6* d* d* d*  d* d* d* d*#
        C .   .  .  .  .  .  .  .   p4* d* d* d*# -  -  -  -
    """)


def test_a_full_flag_that_does_not_stick_lets_the_next_one_try_again_in_every_pass():
    # The same load. Iteration 2: A holds 6 and may add 7 / 2: B 15 < 24 - 3.5; then C 9 < 20.5 - (6 + 1 + 8) fails.
    # Iteration 3: A and B hold 12 and may add 7 / 2 each: C 9 < 18 - 7. Whoever was admitted lets the others wait.
    run = play(loads("A(P6,O8) B(P6,O8) C(P4,O4)"), f"sglang:{RATIO_OF_HALF},sticky_full=false", 32, num_kv_blocks=30)
    assert table(run) == rows("""
        A p6* .   .   d* d* d*  d* d* d* d*#
        B .   p6* .   d* d* d*  d* d* d* d*#
        C .   .   p4* d* d* d*# -  -  -  -
    """)


def test_the_request_with_the_fewest_outputs_is_retracted():
    # 5-e: pool 20. Iteration 3: 6 + 8 + 1 = 15 < 17 - 10 * 0.1. Iteration 9: 2 needed, 1 there; B (6 outputs) loses
    # 11. It comes back when 12 + 2 + 1 = 15 < 20.
    run = play(loads("A(P2,O12)@1 B(P6,O8)@3"), f"sglang:{RATIO_OF_A_TENTH}", 32, num_kv_blocks=20)
    assert table(run) == rows("""
        A p2* d* .   d* d* d* d* d* d* d* d* d* d*# -    -
        B -   -  p6* d* d* d* d* d* x  .  .  .  .   p12* d*#
    """)
    assert free_blocks(run) == [18, 17, 11, 9, 7, 5, 3, 1, 11, 10, 9, 8, 20, 8, 20]


def test_longest_output_first():
    # 5-f: the pass before iteration 4 is blocked by the full flag, C's seat is free one iteration late.
    run = play(loads("A(P4,O2) B(P4,O6) C(P4,O3)"), "sglang:schedule_policy=lof", 8, max_num_seqs=2)
    assert table(run) == rows("""
        A .   .  .   .  p4* d*# -
        B p4* d* d*  d* .   d*  d*#
        C p4* d* d*# -  -   -   -
    """)
