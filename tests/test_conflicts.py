"""Infeasible with a reason: the conflict is small, every member matters, and what is needed is the judge's value."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from instances.errors import InputError
from instances.instance import Instance
from instances.objectives import OBJECTIVES as KNOWN
from instances.request import Progress, Request
from solver.frontier import frontier
from solver.limits import LOOSEST, user_limits
from solver.model import solve
from solver.result import INFEASIBLE, ConflictingLimit
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import exact_optimum
from tests.judges.random_instances import tiny_instance

SPIKE = build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2))
"""A stream of four tokens, and a prompt of 12 at 3 ms; cost 2 + tokens."""


def conflict_of(instance: Instance, limits: dict[str, float], **options: object) -> dict[str, ConflictingLimit]:
    result = solve(instance, "makespan", limits, workers=1, **options)  # type: ignore[arg-type]
    assert result.status == INFEASIBLE
    return {member.limit: member for member in result.conflict}


def test_two_metrics_conflict_and_each_is_told_what_it_must_be() -> None:
    # Two prompts of 4 on a budget of 8, unit cost: the first tokens of both at 1 ms. With 6 decodes each the last is
    # out at 7 ms at the earliest. A gap limit of 0.5 ms is hopeless alone; nothing else is part of the conflict.
    instance = build([(0, 4, 7), (0, 4, 7)], 8)
    found = conflict_of(instance, {"max_tbt": 0.5, "max_ttft": 3.0})
    assert set(found) == {"max_tbt"}
    only = found["max_tbt"]
    assert (only.value, only.unit, only.needed, only.bound) == (0.5, "ms", 1.0, 1.0)
    assert only.matters
    assert only.proved
    assert only.alone


def test_a_stall_limit_against_a_first_token() -> None:
    # The prompt of 12 in one iteration beside a decode lasts 2 + 13: a gap of 15 with the decode in it. Mean TTFT is
    # least (Σ 3 + 14) if the prompt runs alone from 3 to 17, and the stream waits 3..17 and 3 more: 17.
    found = conflict_of(SPIKE, {"mean_ttft": 8.5, "max_tbt": 10.0})
    assert {"mean_ttft", "max_tbt"} <= set(found)
    assert (found["max_tbt"].needed, found["max_tbt"].proved) == (17.0, True)
    assert found["mean_ttft"].needed == exact_optimum(SPIKE, "mean_ttft", {"max_tbt": 10_000}) / 2000
    assert all(member.matters for member in found.values())


def test_the_seats_are_part_of_a_conflict_and_how_many_are_needed_is_said() -> None:
    # Three requests of one prompt token and two outputs, one seat: one after the other, 6 ms. Two seats: four
    # iterations (4 ms), three seats: 2 ms.
    instance = build([(0, 1, 2)] * 3, 8, max_num_seqs=1)
    found = conflict_of(instance, {"makespan": 3.0})
    assert set(found) == {"max_num_seqs", "makespan"}
    seats, makespan = found["max_num_seqs"], found["makespan"]
    assert (seats.kind, seats.value, seats.needed, seats.bound, seats.proved) == ("engine", 1, 3, 3, True)
    assert (makespan.kind, makespan.needed) == ("metric", 6.0)


def test_budget_and_pool_are_loosened_to_the_token() -> None:
    # Prompts of 4 and 3, all first tokens within 1 ms: both whole prompts in one iteration need a budget of 7 and
    # a pool of 7 tokens. Each is to blame while the other is large enough.
    budget = conflict_of(build([(0, 4, 1), (0, 3, 1)], 5), {"max_ttft": 1.0})
    assert (budget["max_num_batched_tokens"].needed, budget["max_num_batched_tokens"].proved) == (7, True)
    pool = conflict_of(build([(0, 4, 1), (0, 3, 1)], 9, num_kv_blocks=4), {"max_ttft": 1.0})
    assert set(pool) == {"num_kv_blocks", "max_ttft"}
    assert (pool["num_kv_blocks"].needed, pool["max_ttft"].needed) == (7, 2.0)


@pytest.mark.parametrize(
    ("engine", "needed"),
    [
        # Two prompts of 3 and 2 tokens on a budget of 5, both first tokens due at 1 ms, unless ...
        ({"max_chunk_tokens": 2}, 3),
        ({"chunk_sizes": (1, 2)}, None),
    ],
)
def test_chunk_limits_are_part_of_a_conflict(engine: dict[str, object], needed: object) -> None:
    found = conflict_of(build([(0, 3, 1), (0, 2, 1)], 5, **engine), {"max_ttft": 1.0})
    (name,) = engine
    assert set(found) == {name, "max_ttft"}
    assert (found[name].needed, found[name].proved) == (needed, True)


def test_a_quantum_needs_to_be_one_of_its_divisors() -> None:
    # Prompt 7, budget 6: chunks of 4 and 3, or of 6 and 1: two iterations. Beside it a prompt of 5: 12 tokens in two
    # iterations need full ones: 6 and 1 + 5, with 6 a multiple of 2 but not of 4.
    found = conflict_of(build([(0, 7, 1), (0, 5, 1)], 6, chunk_quantum=4), {"makespan": 2.0})
    assert found["chunk_quantum"].needed == 2
    # A budget of 7 takes the prompt of 7 whole.
    assert set(found) == {"chunk_quantum", "makespan", "max_num_batched_tokens"}
    assert found["max_num_batched_tokens"].needed == 7


def test_switches_and_no_pause_are_turned_round() -> None:
    # A decode and a prompt of 4 share an iteration only where batches may be mixed: 1 ms instead of 2.
    running = Request("a", 1, 2, progress=Progress(1, 1))
    mixed = conflict_of(build([running, Request("b", 4, 1)], 8, mixed_batches=False), {"makespan": 1.0})
    assert (mixed["mixed_batches"].value, mixed["mixed_batches"].needed) == (False, True)
    # A budget of 4: first token of b at 1 ms means that the running one pauses.
    paused = conflict_of(build([running, Request("b", 4, 1)], 4), {"max_ttft": 1.0}, no_pause=True)
    assert (paused["no_pause"].kind, paused["no_pause"].needed) == ("option", False)
    # Prompts of 3, 3 and 2 on a budget of 4: no two fit whole, so three iterations; in chunks two full ones.
    # A budget of 5 takes 3 + 2 together.
    whole = conflict_of(build([(0, 3, 1), (0, 3, 1), (0, 2, 1)], 4, enable_chunked_prefill=False), {"makespan": 2.0})
    needed = {"enable_chunked_prefill": True, "max_num_batched_tokens": 5, "makespan": 3.0}
    assert {name: member.needed for name, member in whole.items()} == needed


def test_limits_that_conflict_elsewhere_too_cannot_be_mended_alone() -> None:
    # Two hopeless limits: whichever is shown, loosening it alone does not help.
    instance = build([(0, 4, 3)], 8)
    (only,) = conflict_of(instance, {"max_tbt": 0.5, "max_ttft": 0.5}).values()
    assert not only.alone
    assert (only.needed, only.proved, only.matters) == (1.0, True, True)


def test_residents_that_block_each_other_need_a_larger_pool() -> None:
    # Two residents hold 2 + 2 of 4 KV tokens, each still needs one: nobody can go on, and nobody may be evicted.
    stuck = [Request(f"r{i}", 3, 1, progress=Progress(2)) for i in range(2)]
    found = conflict_of(build(stuck, 8, num_kv_blocks=4), {})
    assert set(found) == {"num_kv_blocks"}
    assert (found["num_kv_blocks"].needed, found["num_kv_blocks"].proved) == (5, True)


def test_without_time_only_heuristics_and_counting_speak() -> None:
    result = solve(SPIKE, "makespan", {"max_tbt": 0.001, "max_ttft": 16.0}, time_limit=1e-9)
    assert result.status == INFEASIBLE  # below what any decode takes: seen without a search
    found = {member.limit: member for member in result.conflict}
    assert all(member.matters is None for member in found.values())
    assert found["max_ttft"].needed is None
    gap, least = found["max_tbt"], exact_optimum(SPIKE, "max_tbt", {"max_ttft": 16_000})
    assert least is not None
    assert gap.bound <= least / 1000 <= gap.needed  # a decode takes 3 ms, some heuristic keeps 16 ms


def test_a_frontier_without_points_has_the_same_conflict() -> None:
    instance = build([(0, 1, 2)] * 3, 8, max_num_seqs=1)
    found = frontier(instance, ("mean_ttft", "max_tbt"), limits={"makespan": 3.0}, workers=1)
    assert found.status == INFEASIBLE
    assert {m.limit: m.needed for m in found.conflict} == {"max_num_seqs": 3, "makespan": 6.0}


def test_feasible_problems_have_no_conflict() -> None:
    assert solve(SPIKE, "makespan", {"max_tbt": 17.0}, workers=1).conflict == ()


def check_conflict(seed: int) -> int:
    """Compare a random infeasible problem's conflict with the judge; return how many members there were."""
    rng = random.Random(f"conflict {seed}")
    instance = tiny_instance(seed, every_feature=False, requests=3, tokens=3, unit_us=1)
    names = rng.sample(["makespan", "max_tbt", "mean_ttft", "max_ttft", "mean_e2e"], 2)
    caps = {name: (exact_optimum(instance, name) or 0) + rng.choice((-1, 0, 0, 1)) for name in names}
    if min(caps.values()) < 0:
        return 0
    limits = {name: KNOWN[name].value(instance, cap) for name, cap in caps.items()}
    no_pause = rng.random() < 0.3
    result = solve(instance, "max_e2e", limits, no_pause=no_pause, workers=1)
    infeasible = exact_optimum(instance, "max_e2e", caps, no_pause=no_pause) is None
    assert (result.status == INFEASIBLE) is infeasible
    members = {member.limit for member in result.conflict}

    def judged(dropped: str | None, changed: ConflictingLimit | None = None) -> bool:
        """Return whether the conflict is feasible without one member, or with another value of it."""
        left = {name: cap for name, cap in caps.items() if name in members and name != dropped}
        engine = {name: loosest(instance) for name, loosest in LOOSEST.items()
                  if (name not in members or name == dropped) and getattr(instance.engine, name) is not None}
        if changed is not None and changed.kind == "engine":
            engine[changed.limit] = changed.needed
        if changed is not None and changed.kind == "metric":
            left[changed.limit] = KNOWN[changed.limit].limit_amount(instance, changed.needed)
        relaxed = replace(instance, engine=replace(instance.engine, **engine))
        pauseless = "no_pause" in members - {dropped, changed.limit if changed else None}
        return exact_optimum(relaxed, "max_e2e", left, no_pause=pauseless) is not None

    if infeasible:
        assert members
        assert not judged(None)
    for member in result.conflict:
        assert (member.matters, member.proved) == (True, True)
        assert judged(member.limit)
        assert judged(None, member)
        if member.kind == "metric" and member.alone:
            others = {name: cap for name, cap in caps.items() if name != member.limit}
            least = exact_optimum(instance, member.limit, others, no_pause=no_pause)
            assert least is not None
            assert member.needed == KNOWN[member.limit].value(instance, least)
    return len(members)


def test_random_conflicts_are_irreducible_and_what_is_needed_is_exact() -> None:
    assert sum(check_conflict(seed) > 0 for seed in range(20)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(7000, 7100))
def test_random_conflicts_at_length(seed: int) -> None:
    check_conflict(seed)


def test_only_limits_that_limit_something_are_considered() -> None:
    instance = build([(0, 4, 2)], 100, max_num_seqs=5, num_kv_blocks=50, chunk_quantum=1)
    assert user_limits(instance, {}, no_pause=False) == []
    with pytest.raises(InputError):
        solve(instance, "makespan", {"nonsense": 1.0})
