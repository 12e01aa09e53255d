"""FastServe's policies: the worked examples of policies.md §9, swapping, levels and starvation."""

from __future__ import annotations

from heuristics.simulator import simulate
from instances.check import require_valid
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from tests.judges.tables import loads, play, rows, table

THREE = "A(P4,O3) B(P4,O2) C(P4,O2)"


def test_fcfs_fills_its_batch_under_two_caps():
    # §9.1: two requests; then also six tokens (A's decode and B's prompt are 5).
    assert table(play(loads(THREE), "fastserve-fcfs:max_batch_size=2", 64)) == rows("""
        A p4* d*  d*# -
        B p4* d*# -   -
        C .   .   p4* d*#
    """)
    assert table(play(loads(THREE), "fastserve-fcfs:max_batch_size=2,max_tokens_per_batch=6", 64)) == rows("""
        A p4* d*  d*# -   -
        B .   p4* d*# -   -
        C .   .   .   p4* d*#
    """)


def test_fcfs_swaps_out_the_last_one_and_loses_nothing():
    # 6 blocks of 2. In iteration 4 both need a fourth block: B goes, with 6 tokens. C is small enough for the 2 blocks
    # that A leaves, but those swapped out come first.
    run = play(loads("A(P4,O6)@1 B(P4,O6)@1 C(P1,O1)@5"), "fastserve-fcfs", 64, block_size=2, num_kv_blocks=6)
    assert table(run) == rows("""
        A p4* d* d* d* d* d*# -    -  -
        B p4* d* d* x  .  .   d*   d* d*#
        C -   -  -  -  .  .   p1*# -  -
    """)
    assert [i.restore for i in run.schedule.iterations if i.restore] == [("B",)]


def test_srpt_takes_the_fewest_outputs_left_in_every_step():
    # §9.2: one request; A has 3 left when B comes with 2.
    run = play(loads("A(P4,O5)@1 B(P2,O2)@3"), "fastserve-srpt:max_batch_size=1", 64)
    assert table(run) == rows("""
        A p4* d* .   .   d* d* d*#
        B -   -  p2* d*# -  -  -
    """)
    # §9.2: two requests, ten tokens: B's prompt does not get in beside A's.
    run = play(loads("A(P10,O2) B(P4,O3)"), "fastserve-srpt:max_batch_size=2,max_tokens_per_batch=10", 64)
    assert table(run) == rows("""
        A p10* d*# -  -
        B .    p4* d* d*#
    """)


def test_srpt_goes_by_the_truth_or_by_the_caps():
    load = loads("A(P4,O3,M3) B(P4,O1,M9)")
    assert table(play(load, "fastserve-srpt:max_batch_size=1", 64))["B"] == "p4*# - - -"
    assert table(play(load, "fastserve-srpt:max_batch_size=1,oracle=false", 64))["B"] == ". . . p4*#"


def test_srpt_swaps_out_longer_ones_only_where_room_is_short():
    # One seat in the second run: A has to leave it, and comes back.
    load = loads("A(P4,O5)@1 B(P2,O2)@3")
    roomy = play(load, "fastserve-srpt:max_batch_size=1", 64)
    tight = play(load, "fastserve-srpt:max_batch_size=1", 64, max_num_seqs=1)
    assert [d["preempted"] for d in roomy.decisions] == [[]] * 7
    assert [d["preempted"] for d in tight.decisions] == [[], [], ["A"], [], [], [], []]
    assert [d["scheduled"] for d in tight.decisions] == [d["scheduled"] for d in roomy.decisions]


def timed(requests, policy, cost=None, **engine):
    """Return the (start in ms, tokens) of every iteration; a token of a prefill, and a decode, take 1 ms each."""
    limits = EngineLimits(64, preemption="swap", **engine)
    cost = CostModel.linear(0, PS_PER_MS, PS_PER_MS) if cost is None else cost
    run = simulate(Instance("mlfq", requests, limits, cost), policy)
    require_valid(run.instance, run.schedule)
    return [(d["start_ms"], d["scheduled"]) for d in run.decisions]


def decodes(name, *starts):
    return [(start, {name: 1}) for start in starts]


def test_mlfq_lets_a_short_newcomer_pass():
    # §9.3-a: q0 = 4. A joins Q2 (16 covers its 10 ms), B joins Q0.
    requests = (Request("A", 10, 6), Request("B", 3, 2, 12_000))
    assert timed(requests, "fastserve-mlfq:quantum_ms=4,max_batch_size=1") == [
        (0, {"A": 10}), *decodes("A", 10, 11), (12, {"B": 3}), *decodes("B", 15), *decodes("A", 16, 17, 18),
    ]  # fmt: skip


def test_without_skip_join_the_long_prompt_starts_on_the_top_level():
    # A is demoted once its 10 ms exceed 4; with B arriving at 5 the order is the same, at 0 B is behind A.
    requests = (Request("A", 10, 2), Request("B", 3, 1))
    first = {
        skip: timed(requests, f"fastserve-mlfq:quantum_ms=4,max_batch_size=1,skip_join={skip}")[0][1]
        for skip in ("true", "false")
    }
    assert first == {"true": {"B": 3}, "false": {"A": 10}}


def test_mlfq_demotes_by_the_time_on_a_level():
    # §9.3-b: at 4 A has had 4, not more: it is in front of B once more, then goes down.
    requests = (Request("A", 2, 8), Request("B", 2, 3, 4_000))
    assert timed(requests, "fastserve-mlfq:quantum_ms=4,max_batch_size=1") == [
        (0, {"A": 2}), *decodes("A", 2, 3, 4), (5, {"B": 2}), *decodes("B", 7, 8), *decodes("A", 9, 10, 11, 12),
    ]  # fmt: skip


def test_mlfq_brings_a_batch_back_in_reversed_order():
    # §9.3-c: an iteration of decodes takes 1 however many they are, prompts 1 per token: 1 + n / 2 + 1 for n prompt
    # tokens (4: 4, 2 beside a decode: 3), 1 for a captured batch of up to two decodes.
    cost = CostModel((Piece(PS_PER_MS, PS_PER_MS // 2),), (2,), PS_PER_MS)
    found = timed(
        tuple(Request(name, 2, 3) for name in "ABC"), "fastserve-mlfq:quantum_ms=4,max_batch_size=2", cost
    )
    assert [(start, " ".join(tokens)) for start, tokens in found] == [
        (0, "A B"), (4, "B A"), (5, "C A"), (8, "C B"), (9, "C"),
    ]  # fmt: skip


def test_mlfq_swaps_out_the_lowest_level_for_a_newcomer():
    # 16 tokens of KV, q0 = 4: A (Q2) holds 12 when B, which needs 5, comes: A goes, and comes back after B.
    requests = (Request("A", 10, 6), Request("B", 5, 1, 12_000))
    for proactive in ("true", "false"):
        policy = f"fastserve-mlfq:quantum_ms=4,max_batch_size=1,proactive={proactive}"
        instance = Instance("swap", requests, EngineLimits(64, num_kv_blocks=16, preemption="swap"),
                            CostModel.linear(0, PS_PER_MS, PS_PER_MS))  # fmt: skip
        run = simulate(instance, policy)
        require_valid(instance, run.schedule)
        moves = [(i.evict, i.restore) for i in run.schedule.iterations]
        assert moves[3:5] == [(("A",), ()), ((), ("A",))], proactive


def moves(pool, proactive, *newcomers):
    """Return who works, goes and comes back beside A, which decodes in 2 steps from 2 to 4 tokens, down to Q1."""
    requests = (Request("A", 2, 4, progress=Progress(2, 1, 0)), *newcomers)
    limits = EngineLimits(64, num_kv_blocks=pool, preemption="swap")
    knobs = f"max_batch_size=1,quantum_ms=1,proactive={proactive}"
    run = simulate(Instance("moves", requests, limits, CostModel.unit()), f"fastserve-mlfq:{knobs}")
    require_valid(run.instance, run.schedule)
    return [
        " ".join([*i.prefill, *i.decode, *("-" + r for r in i.evict), *("+" + r for r in i.restore)])
        for i in run.schedule.iterations
    ]


def test_proactive_swapping_keeps_a_block_free_per_batch_member():
    # In iteration 3 A holds 4, C takes 2: of 6 blocks none is left, of 7 one.
    newcomer = Request("C", 2, 1, 1_000)
    assert moves(6, "true", newcomer) == ["A", "A", "C -A", "A +A"]
    assert moves(7, "true", newcomer) == moves(6, "false", newcomer) == ["A", "A", "C", "A"]


def test_proactive_swapping_brings_back_ahead_of_need():
    # 7 blocks: A's 4 have to go for C's 4. While N runs, there is room for A again.
    newcomers = (Request("C", 4, 1, 1_000), Request("N", 1, 1, 3_000))
    assert moves(7, "true", *newcomers) == ["A", "A", "C -A", "N +A", "A"]
    assert moves(7, "false", *newcomers) == ["A", "A", "C -A", "N", "A +A"]


def test_mlfq_brings_the_starved_to_the_front():
    # One request at a time, 1 ms each. A (prompt 1, then decodes) has used up 1 ms and falls to Q1; a newcomer per ms
    # keeps Q0 busy. With a look every 4 iterations for 2 ms, A (last at 2) is in front at 4.
    load = loads("A(P1,O3)@1 " + " ".join(f"N{k}(P1,O1)@{k}" for k in range(3, 9)))
    knobs = "quantum_ms=1,max_batch_size=1"
    never = play(load, f"fastserve-mlfq:{knobs},starvation_iterations=0", 8)
    looks = play(load, f"fastserve-mlfq:{knobs},starvation_iterations=4,starvation_ms=2", 8)
    assert table(never)["A"] == "p1* d* . . . . . . d*#"
    assert table(looks)["A"] == "p1* d* . . d*# - - - -"
