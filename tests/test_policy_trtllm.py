"""trtllm: the worked tables of policies.md §6.8 (see tests/judges/tables.py for the notation), and its rules alone."""

from __future__ import annotations

from tests.judges.tables import free_blocks, loads, play, rows, table

LOAD = "A(P10,O3)@1 B(P5,O2)@1 C(P3,O2)@2"
WHOLE = "trtllm:context_chunking_policy=none"
MAX_UTILIZATION = "trtllm:context_chunking_policy=none,capacity_scheduler_policy=max_utilization"


def test_whole_contexts_run_beside_generations():
    # 6-a
    run = play(loads(LOAD), WHOLE, 16, block_size=4)
    assert table(run) == rows("""
        A p10* d*  d*#
        B p5*  d*# -
        C -    p3* d*#
    """)
    assert list(run.decisions[1]["scheduled"]) == ["C", "A", "B"]


def test_a_cut_chunk_is_rounded_down_to_units_even_to_nothing():
    # 6-b: iteration 2: A 2, B 5, 1 token left for C: no unit of 4.
    assert table(play(loads(LOAD), "trtllm:chunk_unit_size=4", 8)) == rows("""
        A p8 p2* d*  d*#
        B .  p5* d*# -
        C -  .   p3* d*#
    """)


def test_equal_progress_shares_the_budget_unit_by_unit():
    # 6-c: iteration 2: A + 4, B + 1, C + 3 = 8.
    run = play(loads(LOAD), "trtllm:context_chunking_policy=equal_progress", 8, block_size=4)
    assert table(run) == rows("""
        A p4 p4  p2* d* d*#
        B p4 p1* d*# -  -
        C -  p3* d*# -  -
    """)
    # Unfinished chunks, chunks that end a prefill, decodes.
    assert [list(d["scheduled"]) for d in run.decisions[1:3]] == [["A", "B", "C"], ["A", "B", "C"]]


def test_guaranteed_no_evict_reserves_all_declared_outputs():
    # 6-d: ceil(10 / 2) = 5 blocks each, the pool has 9. vllm-v1 runs both and evicts B once: 7 iterations.
    load = loads("A(P4,O6) B(P4,O6)")
    assert table(play(load, WHOLE, 16, block_size=2, num_kv_blocks=9)) == rows("""
        A p4* d* d* d* d* d*# -   -  -  -  -  -
        B .   .  .  .  .  .   p4* d* d* d* d* d*#
    """)
    assert table(play(load, "vllm-v1", 16, block_size=2, num_kv_blocks=9)) == rows("""
        A p4* d* d* d* d* d*# -
        B p4* d* d* d* d* x   p9*#
    """)


def test_max_utilization_pauses_the_one_started_last():
    # 6-e: as vLLM V1's Ex 2-c.
    run = play(loads("A(P4,O6) B(P4,O6)"), MAX_UTILIZATION, 16, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d* d* d* d*# -   -  -
        B p4* d* d* x  .  .   p7* d* d*#
    """)
    assert free_blocks(run) == [2, 0, 0, 2, 2, 6, 2, 2, 6]


def test_a_pause_takes_everybody_behind_out_of_the_pass():
    # 6-f: iteration 4: A needs a block, B is paused, C behind it is not considered though it would fit.
    run = play(loads("A(P6,O5)@1 B(P4,O4)@1 C(P2,O2)@3"), MAX_UTILIZATION, 16, block_size=2, num_kv_blocks=7)
    assert table(run) == rows("""
        A p6* d* d* d* d*# -    -
        B p4* d* d* x  .   p7*# -
        C -   -  .  .  .   p2*  d*#
    """)
    assert free_blocks(run)[:2] == [2, 0]


def test_a_static_batch_runs_to_its_end():
    # 6-g
    assert table(play(loads(LOAD), f"{WHOLE},capacity_scheduler_policy=static_batch", 16)) == rows("""
        A p10* d*  d*# -   -
        B p5*  d*# -   -   -
        C -    .   .   p3* d*#
    """)


def test_rounding_to_units_wastes_budget_beside_a_decode():
    # 6-h: 7 tokens are left, 4 are used.
    assert table(play(loads("A(P3,O6)@1 B(P20,O2)@3"), "trtllm", 8, block_size=4)) == rows("""
        A p3* d* d* d* d* d*# -   -
        B -   -  p4 p4 p4 p4  p4* d*#
    """)
