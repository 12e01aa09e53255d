"""The checker: every rule of model.md §2-4 alone, one schedule accepted and one rejected; then against the judge."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from instances.check import RULES, InvalidSchedule, require_valid, violations
from instances.cost_model import CostModel, Piece
from instances.instance import Instance
from instances.request import Progress, Request
from instances.schedule import Iteration, Schedule
from instances.units import PS_PER_MS
from tests.judges.build import LINEAR, base_and_tokens, build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import is_legal, mutated, random_schedule


class Case(NamedTuple):
    """A rule alone: `good` obeys every rule, `bad` breaks only `rule`, at the place and with the numbers given."""

    name: str
    rule: str
    instance: Instance
    good: Schedule
    bad: Schedule
    iteration: int | None
    request: str | None
    value: int | None
    limit: int | None


ONE = build([(0, 3, 1)], 4)
TWO = build([(0, 2, 2), (0, 2, 2)], 4)
PAIR = {"r0": 2, "r1": 2}
BOTH = ("r0", "r1")
SWAP = build([(0, 2, 2), (0, 2, 2)], 4, preemption="swap")
RECOMPUTE = build([(0, 2, 2), (0, 2, 2)], 4, preemption="recompute")


def row(start: float, prefill: dict[str, int], *decode: str, ms: float = 1, **moves: tuple[str, ...]) -> Iteration:
    """Return an iteration that starts at `start` ms and lasts `ms`."""
    return Iteration(round(start * 1000), round(ms * 1000), prefill, decode, **moves)


def plan(*rows: Iteration) -> Schedule:
    return schedule(*rows)


TWO_GOOD = plan(row(0, PAIR), row(1, {}, *BOTH))
SWAP_GOOD = plan(row(0, PAIR), row(1, {}, "r0", evict=("r1",)), row(2, {}, "r1", restore=("r1",)))

CASES = [
    Case("no token", "non-empty", ONE, plan(row(0, {"r0": 3})), plan(row(0, {}), row(1, {"r0": 3})), 0, None, 0, 1),
    Case("budget", "token-budget", build([(0, 3, 2), (0, 3, 1)], 4), plan(
        row(0, {"r0": 3}), row(1, {"r1": 3}, "r0")), plan(row(0, {"r0": 3, "r1": 3}), row(1, {}, "r0")),
        0, None, 6, 4),
    Case("order", "time-order", TWO, TWO_GOOD, plan(row(0, PAIR), row(0.999, {}, *BOTH)), 1, None, 0.999, 1.0),
    Case("arrival", "arrival", build([(2, 3, 1)], 4), plan(row(2, {"r0": 3})), plan(row(1.999, {"r0": 3})),
         0, "r0", 1.999, 2.0),
    Case("idle first", "arrival", build([(0, 3, 1), (5, 1, 1)], 4), plan(row(0.5, {"r0": 3}), row(7, {"r1": 1})),
         plan(row(0.5, {"r0": 3}), row(4.5, {"r1": 1})), 1, "r1", 4.5, 5.0),
    Case("unknown", "known-request", ONE, plan(row(0, {"r0": 3})), plan(row(0, {"r0": 3, "x": 1})), 0, "x", None, None),
    Case("twice", "once", TWO, TWO_GOOD, plan(row(0, PAIR), row(1, {}, "r0", "r1", "r1")), 1, "r1", 2, 1),
    Case("target", "prefill-target", ONE, plan(row(0, {"r0": 3})), plan(row(0, {"r0": 4})), 0, "r0", 4, 3),
    Case("finish", "completion", TWO, TWO_GOOD, plan(row(0, PAIR), row(1, {}, "r0")), None, "r1", 1, 2),
    Case("whole prefill", "chunk", build([(0, 4, 1)], 4, enable_chunked_prefill=False), plan(row(0, {"r0": 4})),
         plan(row(0, {"r0": 2}), row(1, {"r0": 2})), 0, "r0", 2, 0),
    Case("quantum", "chunk", build([(0, 5, 1)], 4, chunk_quantum=2), plan(row(0, {"r0": 4}), row(1, {"r0": 1})),
         plan(row(0, {"r0": 3}), row(1, {"r0": 2})), 0, "r0", 3, 2),
    Case("sizes", "chunk", build([(0, 5, 1)], 4, chunk_sizes=(1, 3)), plan(row(0, {"r0": 3}), row(1, {"r0": 2})),
         plan(row(0, {"r0": 2}), row(1, {"r0": 3})), 0, "r0", 2, 1),
    Case("end above the largest size", "chunk", build([(0, 4, 1)], 4, chunk_sizes=(1, 3)),
         plan(row(0, {"r0": 3}), row(1, {"r0": 1})), plan(row(0, {"r0": 4})), 0, "r0", 4, 3),
    Case("chunk cap", "chunk", build([(0, 4, 1)], 4, max_chunk_tokens=2), plan(row(0, {"r0": 2}), row(1, {"r0": 2})),
         plan(row(0, {"r0": 1}), row(1, {"r0": 3})), 1, "r0", 3, 2),
    Case("seats count paused residents", "seats", build([(0, 1, 2), (0, 1, 2), (0, 1, 1)], 4, max_num_seqs=2),
         plan(row(0, {"r0": 1, "r1": 1}), row(1, {}, *BOTH), row(2, {"r2": 1})),
         plan(row(0, {"r0": 1, "r1": 1}), row(1, {"r2": 1}), row(2, {}, *BOTH)), 1, None, 3, 2),
    Case("seats count finishing requests", "seats", build([(0, 1, 1), (0, 1, 1)], 4, max_num_seqs=1),
         plan(row(0, {"r0": 1}), row(1, {"r1": 1})), plan(row(0, {"r0": 1, "r1": 1})), 0, None, 2, 1),
    Case("pool, finishing request included", "kv-pool", build([(0, 3, 1), (0, 3, 1)], 8, num_kv_blocks=5),
         plan(row(0, {"r0": 3, "r1": 2}), row(1, {"r1": 1})), plan(row(0, {"r0": 3, "r1": 3})), 0, None, 6, 5),
    Case("pool in pages", "kv-pool", build([(0, 5, 1)] * 2, 16, num_kv_blocks=3, block_size=4),
         plan(row(0, {"r0": 5, "r1": 4}), row(1, {"r1": 1})), plan(row(0, {"r0": 5, "r1": 5})), 0, None, 4, 3),
    Case("prefix hits hold KV from the first chunk", "kv-pool",
         build([Request("hit", 8, 1, cached_tokens=7), Request("r1", 3, 1)], 8, num_kv_blocks=10),
         plan(row(0, {"hit": 1, "r1": 2}), row(1, {"r1": 1})), plan(row(0, {"hit": 1, "r1": 3})), 0, None, 11, 10),
    Case("partial prefills", "partial-prefills", build([(0, 4, 1)] * 2, 4, max_partial_prefills=1),
         plan(row(0, {"r0": 3}), row(1, {"r0": 1, "r1": 3}), row(2, {"r1": 1})),
         plan(row(0, {"r0": 2, "r1": 2}), row(1, {"r0": 2, "r1": 2})), 0, None, 2, 1),
    Case("mixing", "mixed-batch", build([(0, 2, 2), (0, 2, 1)], 4, mixed_batches=False),
         plan(row(0, {"r0": 2}), row(1, {"r1": 2}), row(2, {}, "r0")), plan(row(0, {"r0": 2}), row(1, {"r1": 2}, "r0")),
         1, None, None, None),
    Case("phase decode", "phase", TWO, TWO_GOOD, plan(row(0, PAIR), row(1, {"r1": 1}, "r0"), row(2, {}, "r1")),
         1, "r1", None, None),
    Case("phase prefill", "phase", TWO, TWO_GOOD,
         plan(row(0, {"r0": 2}, "r1"), row(1, {"r1": 2}, "r0"), row(2, {}, "r1")), 0, "r1", None, None),
    Case("finished", "phase", ONE, plan(row(0, {"r0": 3})), plan(row(0, {"r0": 3}), row(1, {}, "r0")),
         1, "r0", None, None),
    Case("duration", "duration", build([(0, 3, 1)], 4, base_and_tokens(2)), plan(row(0, {"r0": 3}, ms=5)),
         plan(row(0, {"r0": 3}, ms=5.001)), 0, None, 5.001, 5.0),
    Case("eviction forbidden", "eviction", TWO, TWO_GOOD, plan(
        row(0, {"r0": 1}), row(1, {"r1": 2}, evict=("r0",)), row(2, {"r0": 2}), row(3, {}, *BOTH)),
        1, "r0", None, None),
    Case("eviction of a waiting request", "eviction", RECOMPUTE, TWO_GOOD,
         plan(row(0, {"r0": 2}, evict=("r1",)), row(1, {"r1": 2}), row(2, {}, *BOTH)), 0, "r1", None, None),
    Case("no work in the iteration of the eviction", "eviction", RECOMPUTE, TWO_GOOD,
         plan(row(0, PAIR), row(1, {"r1": 3}, "r0", evict=("r1",)), row(2, {"r1": 3})), 1, "r1", None, None),
    Case("swapped out", "phase", SWAP, SWAP_GOOD, plan(row(0, PAIR), row(1, {}, "r0", evict=("r1",)), row(2, {}, "r1"),
         row(3, {}, "r1", restore=("r1",))), 2, "r1", None, None),
    Case("restore in a later iteration", "restore", SWAP, SWAP_GOOD,
         plan(row(0, PAIR), row(1, {}, "r0", evict=("r1",), restore=("r1",)), row(2, {}, "r1", restore=("r1",))),
         1, "r1", None, None),
    Case("restore without swap", "restore", RECOMPUTE, TWO_GOOD, plan(row(0, PAIR, restore=("r1",)), row(1, {}, *BOTH)),
         0, "r1", None, None),
]  # fmt: skip


COUNTED = {"token-budget", "time-order", "arrival", "prefill-target", "seats", "kv-pool", "partial-prefills"}
"""Rules whose message says both numbers."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_schedule_that_obeys_the_rule_is_accepted(case: Case) -> None:
    assert violations(case.instance, case.good) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_schedule_that_breaks_one_rule_is_rejected_for_it_alone(case: Case) -> None:
    found = violations(case.instance, case.bad)
    assert {v.rule for v in found} == {case.rule}
    first = found[0]
    assert (first.iteration, first.request, first.value, first.limit) == (
        case.iteration, case.request, case.value, case.limit
    )  # fmt: skip
    for part in (case.iteration, case.request, *((case.value, case.limit) if case.rule in COUNTED else ())):
        assert part is None or str(part) in first.message


def test_the_table_has_a_case_for_every_rule() -> None:
    checked = {case.rule for case in CASES}
    assert len(RULES) <= len(checked)
    assert checked == {
        "known-request", "once", "non-empty", "token-budget", "chunk", "time-order", "arrival", "phase", "seats",
        "prefill-target", "kv-pool", "partial-prefills", "mixed-batch", "eviction", "restore", "duration", "completion",
    }  # fmt: skip


def test_pausing_is_legal_and_no_pause_forbids_it() -> None:
    paused = plan(row(0, PAIR), row(1, {}, "r0"), row(2, {}, "r1"))
    assert violations(TWO, paused) == []
    found = violations(TWO, paused, no_pause=True)
    assert [(v.rule, v.iteration, v.request) for v in found] == [("no-pause", 1, "r1")]
    assert violations(TWO, TWO_GOOD, no_pause=True) == []


def test_a_swapped_out_request_does_not_pause() -> None:
    assert violations(SWAP, SWAP_GOOD, no_pause=True) == []


def test_idling_is_legal_anywhere() -> None:
    assert violations(TWO, plan(row(17.25, PAIR), row(400, {}, *BOTH))) == []


def test_an_evicted_request_prefills_its_emitted_tokens_again() -> None:
    # P = 2, one token emitted: the re-prefill has 3 tokens and its end emits the second and last
    good = plan(row(0, PAIR), row(1, {}, "r0", evict=("r1",)), row(2, {"r1": 2}), row(3, {"r1": 1}))
    assert violations(RECOMPUTE, good) == []
    short = plan(row(0, PAIR), row(1, {}, "r0", evict=("r1",)), row(2, {"r1": 2}), row(3, {}, "r1"))
    assert {(v.rule, v.request) for v in violations(RECOMPUTE, short)} == {("phase", "r1"), ("completion", "r1")}


def test_a_prefix_hit_counts_again_after_an_eviction() -> None:
    hit = Request("hit", 4, 2, cached_tokens=3)
    instance = build([hit, Request("b", 1, 1)], 4, LINEAR, preemption="recompute")
    again = (row(0, {"hit": 1}, ms=2), row(2, {"b": 1}, ms=2, evict=("hit",)), row(4, {"hit": 2}, ms=3))
    assert violations(instance, plan(*again)) == []


def test_swap_costs_count_in_the_duration() -> None:
    # 2 KV tokens leave at 3 ms each: 1 + 6; they come back at 2 ms each with a decode: 1 + 4
    cost = CostModel((Piece(base_ps=PS_PER_MS),), swap_out_ps=3 * PS_PER_MS, swap_in_ps=2 * PS_PER_MS)
    instance = build([(0, 2, 2), (0, 2, 2)], 4, cost, preemption="swap")
    rows = [row(0, PAIR), row(1, {}, "r0", evict=("r1",), ms=7), row(8, {}, "r1", restore=("r1",), ms=5)]
    assert violations(instance, plan(*rows)) == []
    free = plan(rows[0], row(1, {}, "r0", evict=("r1",)), row(2, {}, "r1", restore=("r1",)))
    assert [(v.rule, v.value, v.limit) for v in violations(instance, free)] == [
        ("duration", 1.0, 7.0), ("duration", 1.0, 5.0),
    ]  # fmt: skip


def test_progress_is_the_state_at_time_zero() -> None:
    half, running = Request("half", 4, 1, progress=Progress(3)), Request("run", 2, 3, progress=Progress(2, 1, -500))
    instance = build([half, running], 2)
    assert violations(instance, plan(row(0, {"half": 1}, "run"), row(1, {}, "run"))) == []
    found = violations(instance, plan(row(0, {"half": 2}), row(1, {}, "run"), row(2, {}, "run")))
    assert [(v.rule, v.request, v.value, v.limit) for v in found] == [("prefill-target", "half", 2, 1)]


def test_residents_at_time_zero_take_seats_and_blocks() -> None:
    running = Request("run", 2, 3, progress=Progress(2, 1))  # holds 2 tokens
    decodes = (row(1, {}, "run"), row(2, {}, "run"))
    seats = build([running, Request("new", 1, 1)], 4, max_num_seqs=1)
    assert [v.rule for v in violations(seats, plan(row(0, {"new": 1}), *decodes))] == ["seats"]
    pool = build([running, Request("new", 3, 1)], 4, num_kv_blocks=4)
    assert [v.rule for v in violations(pool, plan(row(0, {"new": 3}), *decodes))] == ["kv-pool"]


def test_a7_a_prefill_that_overfills_the_pool_is_reported_with_both_numbers() -> None:
    # known-trouble B6: H prefilled beside A: 5 + 8 = 13 KV tokens, 10 fit
    instance = build([(0, 4, 4), (1, 8, 1), (2, 2, 1)], 16, num_kv_blocks=10)
    bad = plan(row(0, {"r0": 4}), row(1, {"r1": 8}, "r0"), row(2, {"r2": 2}, "r0"), row(3, {}, "r0"))
    assert [(v.iteration, v.value, v.limit) for v in violations(instance, bad)] == [(1, 13, 10)]


def test_an_empty_schedule_leaves_every_request_unfinished() -> None:
    assert [(v.rule, v.request) for v in violations(TWO, plan())] == [("completion", "r0"), ("completion", "r1")]


def test_require_valid_raises_with_the_violations() -> None:
    require_valid(TWO, TWO_GOOD)
    with pytest.raises(InvalidSchedule, match="r0") as caught:
        require_valid(TWO, plan())
    assert len(caught.value.violations) == 2


def verdicts(seed: int, every_feature: bool, **sizes: Any) -> list[tuple[bool, bool]]:
    """Return (checker's, judge's) verdict on a random legal schedule and on ten mutations of it."""
    rng = random.Random(seed)
    instance = tiny_instance(seed, every_feature=every_feature, **sizes)
    no_pause = rng.random() < 0.2
    legal = random_schedule(instance, rng, 2, no_pause=no_pause)
    if legal is None:
        return []
    plans = [legal, *(mutated(instance, legal, rng) for _ in range(10))]
    plans = [p for p in plans if not any(set(r.restore) & set(r.evict) for r in p.iterations)]
    return [(not violations(instance, p, no_pause=no_pause), is_legal(instance, p, no_pause)) for p in plans]


@pytest.mark.parametrize("every_feature", [False, True])
def test_checker_and_judge_agree_on_mutated_schedules(every_feature: bool) -> None:
    found = [v for seed in range(150) for v in verdicts(seed, every_feature, tokens=4)]
    assert all(checker == judge for checker, judge in found)
    accepted = sum(checker for checker, _ in found)
    assert 0.2 < accepted / len(found) < 0.8  # both kinds are there


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_checker_and_judge_agree_on_mutated_schedules_at_length(block: int) -> None:
    for seed in range(1000 + 1000 * block, 2000 + 1000 * block):
        assert all(checker == judge for checker, judge in verdicts(seed, seed % 3 > 0, tokens=5)), seed
