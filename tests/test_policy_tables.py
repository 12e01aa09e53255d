"""Worked tables: whole runs of the policies, cell by cell (see tests/judges/tables.py for the notation)."""

from __future__ import annotations

from heuristics.simulator import simulate
from instances.check import require_valid
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from tests.judges.tables import loads, play, rows, table

LOAD = "A(P10,O3)@1 B(P5,O2)@1 C(P3,O2)@2"
STALL = "A(P3,O6)@1 B(P20,O2)@3"


def test_greedy_chunked_gives_decodes_their_token_and_chunks_the_rest():
    # policies.md 7.1-a
    assert table(play(loads(LOAD), "greedy-chunked", 8)) == rows("""
        A p8 p2* d*  d*#
        B .  p5* d*# -
        C -  p1  p2* d*#
    """)


def test_greedy_chunked_lets_a_stream_run_through_a_long_prompt():
    # policies.md 7.1-b
    assert table(play(loads(STALL), "greedy-chunked", 8)) == rows("""
        A p3* d* d* d* d*  d*#
        B -   -  p7 p7 p6* d*#
    """)


def test_prefill_budget_first_cuts_decodes_only_where_the_budget_is_short():
    assert table(play(loads(STALL), "greedy-chunked:decode_first=false", 8)) == rows("""
        A p3* d* .  .  d*  d*  d* d*#
        B -   -  p8 p8 p4* d*# -  -
    """)


def test_prefill_first_stalls_the_stream():
    # policies.md 3-b (whole prompts) and 5-c, default (chunks of 8 run back to back)
    assert table(play(loads(STALL), "prefill-first:whole=true", 32)) == rows("""
        A p3* d* .    d*  d* d* d*#
        B -   -  p20* d*# -  -  -
    """)
    assert table(play(loads(STALL), "prefill-first", 8)) == rows("""
        A p3* d* .  .  .   d*  d* d* d*#
        B -   -  p8 p8 p4* d*# -  -  -
    """)


def test_prefill_first_never_mixes():
    # policies.md 3-a
    assert table(play(loads(LOAD), "prefill-first:whole=true", 16)) == rows("""
        A p10* .   d*  d*#
        B p5*  .   d*# -
        C -    p3* d*# -
    """)


def test_orca_prefills_whole_beside_the_decodes():
    # policies.md 7.3-a
    assert table(play(loads(LOAD), "orca", 16)) == rows("""
        A p10* d*  d*#
        B p5*  d*# -
        C -    p3* d*#
    """)


def test_orca_reserves_what_is_declared_and_admits_when_somebody_has_finished():
    # policies.md 7.3-b: declared caps of 13 reserve 4 blocks of 4 each, the pool has 8.
    load = loads("A(P4,O3,M13) B(P4,O2,M13) C(P4,O2,M13)")
    assert table(play(load, "orca", 64, block_size=4, num_kv_blocks=8)) == rows("""
        A p4* d*  d*# -
        B p4* d*# -   -
        C .   .   p4* d*#
    """)


def test_static_starts_the_next_batch_when_the_last_one_has_finished():
    # policies.md 7.4-a and 7.4-b
    assert table(play(loads(LOAD), "static", 16)) == rows("""
        A p10* d*  d*# -   -
        B p5*  d*# -   -   -
        C -    .   .   p3* d*#
    """)
    load = loads("A(P4,O3,M13) B(P4,O2,M13) C(P4,O2,M13)")
    assert table(play(load, "static", 64, block_size=4, num_kv_blocks=8)) == rows("""
        A p4* d*  d*# -   -
        B p4* d*# -   -   -
        C .   .   .   p4* d*#
    """)


def test_static_runs_all_prefills_of_a_batch_before_its_decodes():
    # K = 8: two iterations of prefills, A waits for B's.
    assert table(play(loads("A(P6,O2) B(P6,O2)"), "static", 8)) == rows("""
        A p6* .   d*#
        B .   p6* d*#
    """)


def test_static_batches_waste_slots_and_continuous_admission_does_not():
    # The lesson: outputs 2, 1, 2 on two slots. Static: {A,B}, {A}, {C}, {C}; continuous: {A,B}, {A,C}, {C}.
    load = loads("A(P1,O2) B(P1,O1) C(P1,O2)")
    assert table(play(load, "static", 8, max_num_seqs=2))["C"] == ". . p1* d*#"
    assert table(play(load, "orca", 8, max_num_seqs=2))["C"] == ". p1* d*#"


def test_a_prefill_above_the_budget_is_cut_even_by_whole_prefill_policies():
    for policy in ("orca", "static", "prefill-first:whole=true"):
        assert table(play(loads("A(P10,O1)"), policy, 4)) == {"A": "p4 p4 p2*#"}


def test_the_figure_of_dai_et_al():
    # papers.md 1.8, Fig. 8: A, B, C decode with 2, 4, 3 left; D and E (P1, O2) come during batch 1; budget 4, Orca 5.
    decoding = [Request(n, 1, left + 1, progress=Progress(1, 1, 0)) for n, left in (("A", 2), ("B", 4), ("C", 3))]
    arriving = [Request(n, 1, 2, 500) for n in ("D", "E")]

    def batches(policy: str, budget: int) -> list[str]:
        run = simulate(Instance("fig8", (*decoding, *arriving), EngineLimits(budget), CostModel.unit()), policy)
        require_valid(run.instance, run.schedule)
        return [" ".join(r.id + ("p" if r in record.prefills else "") for r, _ in record.tokens)
                for record in run.records]  # fmt: skip

    assert batches("orca", 5) == ["A B C", "A B C Dp Ep", "B C D E", "B"]
    assert batches("greedy-chunked", 4) == ["A B C", "A B C Dp", "B C D Ep", "B E"]
    assert batches("static", 4) == ["A B C", "A B C", "B C", "B", "Dp Ep", "D E"]
    assert batches("prefill-first", 4) == ["A B C", "Dp Ep", "A B C D", "B C E", "B"]


def test_srpt_evicts_a_longer_request_and_recomputes_it():
    # One seat. At iteration 3 A has 1 + 5 tokens left, B 2 + 2: B takes the seat. A prefills its 4 + 2 tokens again.
    run = play(loads("A(P4,O7)@1 B(P2,O2)@3"), "preemptive-srpt", 8, max_num_seqs=1)
    assert table(run) == rows("""
        A p4* d* x   .   p6* d* d* d* d*#
        B -   -  p2* d*# -   -  -  -  -
    """)


def test_srpt_goes_by_the_declared_cap_unless_it_has_an_oracle():
    # B declares 9 outputs and makes 2: 2 + 9 is more than A's 6.
    load = loads("A(P4,O7)@1 B(P2,O2,M9)@3")
    assert table(play(load, "preemptive-srpt", 8, max_num_seqs=1))["B"] == "- - . . . . . p2* d*#"
    assert table(play(load, "preemptive-srpt:oracle=true", 8, max_num_seqs=1))["B"] == "- - p2* d*# - - - - -"


def test_mlfq_lets_a_newcomer_pass_and_demotes_by_attained_time():
    # policies.md 9.3-a with q0 = 4, one seat, prefill and decode 1 ms per token, here with swap: A joins the level
    # whose quantum covers its 10 ms (16), B the top one. At 12 B takes A's seat; A comes back for the rest.
    instance = Instance(
        "mlfq",
        (Request("A", 10, 6), Request("B", 3, 2, 12_000)),
        EngineLimits(16, max_num_seqs=1, preemption="swap"),
        CostModel.linear(0, PS_PER_MS, PS_PER_MS),
    )
    run = simulate(instance, "preemptive-mlfq:quantum_ms=4")
    require_valid(instance, run.schedule)
    assert [(d["start_ms"], d["scheduled"], d["preempted"]) for d in run.decisions] == [
        (0, {"A": 10}, []), (10, {"A": 1}, []), (11, {"A": 1}, []), (12, {"B": 3}, ["A"]), (15, {"B": 1}, []),
        (16, {"A": 1}, []), (17, {"A": 1}, []), (18, {"A": 1}, []),
    ]  # fmt: skip
    assert [i.restore for i in run.schedule.iterations] == [()] * 5 + [("A",)] + [()] * 2


def test_without_preemption_a_rank_only_orders():
    instance = Instance(
        "mlfq",
        (Request("A", 10, 6), Request("B", 3, 2, 12_000)),
        EngineLimits(16, max_num_seqs=1),
        CostModel.linear(0, PS_PER_MS, PS_PER_MS),
    )
    for policy in ("preemptive-mlfq:quantum_ms=4", "preemptive-srpt"):
        run = simulate(instance, policy)
        require_valid(instance, run.schedule)
        assert [list(d["scheduled"]) for d in run.decisions] == [["A"]] * 6 + [["B"]] * 2


def test_a_request_that_cannot_come_back_gets_the_blocks_of_one_that_can():
    # Chunking off, K = 8, 12 KV tokens, all held at time 0. p knows 5 + 4 tokens, too many to prefill again; u knows 5.
    # u is first in every order but cannot evict p; so p evicts u, finishes, and u prefills its 5 tokens again.
    residents = (Request("u", 4, 3, progress=Progress(4, 1)), Request("p", 5, 6, progress=Progress(5, 4)))
    for policy in ("greedy-chunked", "orca:reserve_peak=false", "prefill-first", "static", "preemptive-srpt",
                   "preemptive-mlfq"):  # fmt: skip
        run = play(residents, policy, 8, num_kv_blocks=12, enable_chunked_prefill=False)
        assert table(run) == rows("""
            u x  .   p5* d*#
            p d* d*# -   -
        """), policy


def test_mlfq_demotes_nobody_amid_a_prefill():
    # One seat, two levels, a quantum of half an iteration: A ends its prefill before it falls behind B, and so does B.
    # On the lowest level A came first: it prefills its 4 + 1 tokens again and finishes, then B does.
    knobs = "quantum_ms=0.5,levels=2,skip_join=false"
    run = play(loads("A(P4,O2) B(P4,O2)"), f"preemptive-mlfq:{knobs}", 2, max_num_seqs=1)
    assert table(run) == rows("""
        A p2 p2* x  .   p2 p2 p1*# -  -  -
        B .  .   p2 p2* x  .  .    p2 p2 p1*#
    """)


def test_mlfq_promotes_who_has_starved():
    # A quantum of 1 ms, then first come first served; B, C, ... keep coming, each on the top level. A is demoted after
    # its second iteration and the newcomers have the seat. At 5 ms it has waited 3: back up, behind E, before F.
    load = "A(P1,O4)@1 B(P1,O1)@3 C(P1,O1)@4 D(P1,O1)@5 E(P1,O1)@6 F(P1,O1)@7"
    knobs = "quantum_ms=1,levels=2,skip_join=true"
    starved = play(loads(load), f"preemptive-mlfq:{knobs},starvation_ms=0", 8, max_num_seqs=1, preemption="swap")
    patient = play(loads(load), f"preemptive-mlfq:{knobs},starvation_ms=3", 8, max_num_seqs=1, preemption="swap")
    assert table(starved)["A"] == "p1* d* x . . . . d* d*#"
    assert table(patient)["A"] == "p1* d* x . . . d* d*# -"


def test_too_many_unfinished_prefills_at_time_0_are_brought_down_first():
    # One may be left unfinished after an iteration, K = 4, and d decodes: c must end, with 3 of the 4 tokens.
    residents = tuple(
        Request(name, prompt, outputs, progress=Progress(done, emitted))
        for name, prompt, outputs, done, emitted in (("d", 1, 3, 1, 1), ("a", 9, 1, 1, 0), ("c", 5, 1, 2, 0))
    )
    for policy in ("greedy-chunked", "greedy-chunked:chunk=1", "prefill-first:chunk=1", "orca", "static", "vllm-v1",
                   "preemptive-srpt:chunk=1", "preemptive-mlfq"):  # fmt: skip
        run = play(residents, policy, 4, max_partial_prefills=1, preemption="none")
        assert table(run)["c"] == "p3*#" + " -" * (len(run.records) - 1), policy
