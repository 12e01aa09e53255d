"""trtllm: the worked tables of policies.md §6.8 (see tests/judges/tables.py for the notation), and its rules alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heuristics.context_chunks import equal_progress, first_come_first_served
from heuristics.policy import PolicyError
from heuristics.registry import make_policy
from heuristics.simulator import simulate
from instances.engine import EngineLimits
from instances.generate import random_instance
from instances.request import Progress, Request
from tests.judges.exhaustive import exact_frontier
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


# The rules one by one.


def test_a_reservation_counts_the_last_output_although_it_is_never_written():
    # Peaks of 8 would fit twice in 17; reserved are 9 each.
    load = loads("A(P4,O5) B(P4,O5)")
    assert table(play(load, "trtllm", 16, num_kv_blocks=17))["B"] == ". . . . . p4* d* d* d* d*#"
    assert table(play(load, "trtllm", 16, num_kv_blocks=18))["B"] == "p4* d* d* d* d*#"


def test_a_reservation_goes_by_the_declared_cap():
    # B declares 13 outputs: 4 + 13 > 18 - 9.
    assert table(play(loads("A(P4,O5) B(P4,O5,M13)"), "trtllm", 16, num_kv_blocks=18))["B"].split()[:6] == [
        ".", ".", ".", ".", ".", "p4*"
    ]  # fmt: skip


def test_a_request_of_the_whole_pool_is_served_alone():
    # 4 + 5 > 8: the claim counts as the pool.
    assert table(play(loads("A(P4,O5)"), "trtllm", 16, num_kv_blocks=8)) == {"A": "p4* d* d* d* d*#"}


def test_an_unfinished_context_holds_the_blocks_of_its_whole_prompt():
    # K = 4. A has 4 of its 6 tokens after iteration 1, but 6 of the 8 blocks. V2 takes pages as it uses them.
    load = loads("A(P6,O1) B(P6,O1)")
    assert table(play(load, "trtllm:capacity_scheduler_policy=max_utilization", 4, num_kv_blocks=8)) == rows("""
        A p4 p2*# -  -
        B .  .    p4 p2*#
    """)
    assert table(play(load, "trtllm:capacity_scheduler_policy=v2", 4, num_kv_blocks=8)) == rows("""
        A p4 p2*# -
        B .  p2   p4*#
    """)


def test_v2_passes_over_a_context_that_lacks_pages_only_with_chunking():
    # 10 pages. H's 8 do not fit beside A's 5, L's 2 do.
    load = loads("A(P4,O4)@1 H(P8,O1)@2 L(P2,O1)@3")
    v2 = "trtllm:capacity_scheduler_policy=v2"
    assert table(play(load, v2, 16, num_kv_blocks=10))["L"] == "- - p2*# - -"
    assert table(play(load, f"{v2},context_chunking_policy=none", 16, num_kv_blocks=10))["L"] == "- - . . p2*#"


def test_v2_swaps_where_the_engine_can():
    # 10 pages: iteration 3 lacks one for A. B comes back with its KV after A's end.
    run = play(loads("A(P4,O6) B(P4,O6)"), "trtllm:capacity_scheduler_policy=v2", 8, num_kv_blocks=10,
               preemption="swap")  # fmt: skip
    assert table(run) == rows("""
        A p4* d* d* d* d* d*# -  -  -  -
        B p4* d* x  .  .  .   d* d* d* d*#
    """)
    assert [i.restore for i in run.schedule.iterations] == [()] * 6 + [("B",)] + [()] * 3


def test_contexts_may_be_held_back_for_a_larger_batch():
    # A decode and B's 2 tokens are fewer than half of 8: B waits 2 iterations.
    load = loads("A(P1,O6)@1 B(P2,O2)@2")
    waiting = "trtllm:batch_wait_timeout_iters=2,batch_wait_max_tokens_ratio"
    assert table(play(load, f"{waiting}=0.5", 8))["B"] == "- . . p2* d*# -"
    assert table(play(load, f"{waiting}=0.25", 8))["B"] == "- p2* d*# - - -"


def test_a_whole_context_above_the_budget_blocks_generations_behind_it():
    # K = 6: beside B's decode there is no room for A's 6 tokens. guaranteed_no_evict lists generations first.
    residents = (Request("B", 1, 3, progress=Progress(1, 1)), Request("A", 7, 1, progress=Progress(1)),
                 Request("C", 1, 2, progress=Progress(1, 1)))  # fmt: skip
    assert table(play(residents, MAX_UTILIZATION, 6)) == {"B": "d* d*# - -", "A": ". . p6*# -", "C": ". . . d*#"}
    assert table(play(residents, WHOLE, 6)) == {"B": "d* d*# -", "A": ". . p6*#", "C": "d*# - -"}


def test_where_batches_may_not_be_mixed_contexts_go_first():
    assert table(play(loads("A(P3,O3)@1 B(P3,O2)@2"), "trtllm", 8, mixed_batches=False)) == rows("""
        A p3* .   d*  d*#
        B -   p3* d*# -
    """)


def test_a_context_that_fits_and_gets_no_chunk_is_looked_at_again_in_every_iteration():
    # Chunks of 3, or to the end. Beside A's decode 5 tokens are shared: B 2, C 2, D 1, no chunk. In iteration 5 D's
    # blocks are gone (A's 7 + 3 + 5 + 2 > 16): B gets 3.
    load = loads("A(P3,O6) B(P3,O1)@2 C(P5,O1)@2 D(P2,O1)@2", C={"cached_tokens": 2})
    policy = "trtllm:capacity_scheduler_policy=max_utilization,context_chunking_policy=equal_progress"
    run = play(load, policy, 6, num_kv_blocks=16, chunk_sizes=(3,))
    assert table(run) == rows("""
        A p3* d* d* d* d*   d*#
        B -   .  .  .  p3*# -
        C -   .  .  .  .    p3*#
        D -   .  .  .  .    p2*#
    """)


def test_only_pausing_policies_need_preemption():
    limits = EngineLimits(8)
    for capacity, mode in (("guaranteed_no_evict", "none"), ("static_batch", "none"), ("max_utilization", "recompute"),
                           ("v2", "recompute")):  # fmt: skip
        assert make_policy(f"trtllm:capacity_scheduler_policy={capacity}").engine(limits).preemption == mode
    swapping = EngineLimits(8, preemption="swap")
    assert make_policy("trtllm:capacity_scheduler_policy=v2").engine(swapping) == swapping


def test_residents_that_claim_more_than_the_pool_finish_one_after_the_other():
    # 9 blocks, 4 + 3 held, 2 free. A lacks 2 of its peak and gets them; B lacks 3 and waits.
    residents = (Request("A", 4, 3, progress=Progress(4, 1)), Request("B", 3, 4, progress=Progress(3, 1)))
    assert table(play(residents, "trtllm", 8, num_kv_blocks=9, preemption="none")) == rows("""
        A d* d*# -  -  -
        B .  .   d* d* d*#
    """)


@pytest.mark.parametrize("lengths", [[6, 1, 3], [20, 20], [3, 9, 2, 7], [1]])
@pytest.mark.parametrize("budget", [1, 5, 8, 16])
@pytest.mark.parametrize("unit", [1, 3, 4])
def test_shares_never_exceed_budget_or_lengths_and_cut_ones_are_whole_units(lengths, budget, unit):
    for rule in (first_come_first_served, equal_progress):
        sizes = rule(lengths, budget, unit)
        assert sum(sizes) <= budget
        assert all(size == length or (size < length and size % unit == 0)
                   for size, length in zip(sizes, lengths, strict=True))  # fmt: skip


def test_it_is_stuck_only_where_residents_of_time_0_cannot_finish_without_eviction():
    # By exhaustive search over the residents alone.
    drawn = [random_instance(seed, requests=(1, 5), preemption=("none", "recompute", "swap")) for seed in range(700)]
    stuck = [instance for instance in drawn if hangs(instance)]
    assert len(stuck) >= 2
    for instance in stuck:
        residents = tuple(r for r in instance.requests if r.progress is not None)
        rigid = replace(instance, requests=residents, engine=replace(instance.engine, preemption="none"))
        assert exact_frontier(rigid, ("makespan",)) == []


def hangs(instance):
    """Return whether the policy schedules nothing although nothing is awaited; any other error is raised."""
    try:
        simulate(instance, "trtllm")
    except PolicyError as error:
        if error.rule != "idle":
            raise
        return True
    return False


@pytest.mark.parametrize("engine", [{"max_num_seqs": 2}, {"num_kv_blocks": 9}])
def test_under_overlap_a_seat_and_blocks_come_free_one_iteration_late(engine):
    # A ends in iteration 1. In 2 its seat is still taken; or of 9 blocks, its 2 are, B holds 2 and is promised 4 more,
    # and C needs 2 + 1.
    load = loads("A(P2,O1) B(P2,O4) C(P2,O1)")
    assert table(play(load, "trtllm", 4, **engine))["C"] == ". p2*# - -"
    assert table(play(load, "trtllm:overlap=true", 4, **engine)) == rows("""
        A p2*# -  -     -
        B p2*  d* d*    d*#
        C .    .  p2*#  -
    """)
    alone = loads("A(P2,O1) B(P2,O1)")
    assert table(play(alone, "trtllm:overlap=true", 4, max_num_seqs=1))["B"] == ". p2*#"
