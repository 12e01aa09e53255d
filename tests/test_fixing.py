"""Choices held fixed: read off schedules, and held by the solver exactly as an enumeration of schedules holds them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from heuristics.simulator import simulate
from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Iteration, Schedule
from instances.units import PS_PER_MS
from solver.choices import FREEDOMS, choices_of, fix
from solver.model import solve
from solver.result import OPTIMAL
from tests.judges.batches import Batch, Batches, State
from tests.judges.build import base_and_tokens, build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import random_schedule

MONOTONE = ("makespan", "mean_ttft", "max_ttft", "mean_e2e", "max_e2e", "weighted_e2e")
SUBSETS = {
    mode: [kinds for size in range(len(known) + 1) for kinds in combinations(known, size)]
    for mode, known in FREEDOMS.items()
}
TOO_MANY = 4_000
"""Instances with more sequences of batches are left out of the random test."""


def sequences(instance: Instance) -> Iterator[list[Batch]]:
    """Yield every sequence of batches of an instance, with at most one eviction per request."""
    batches = Batches(instance)

    def go(state: State, way: list[Batch]) -> Iterator[list[Batch]]:
        if batches.is_goal(state):
            yield way
            return
        for batch in batches.batches(state):
            yield from go(batch.after, [*way, batch])

    return go(batches.initial(), [])


def at_once(instance: Instance, way: list[Batch], not_before: dict[str, int]) -> Schedule:
    """Return the batches, each as early as the one before, arrivals and `not_before` (per request) let it."""
    now, rows = instance.origin_us, []
    for batch in way:
        every = {r.id: move for r, move in zip(instance.requests, batch.moves, strict=True)}
        moves = {name: move for name, move in every.items() if move.tokens}
        start = max([now, batch.release, *(not_before.get(name, 0) for name in moves)])
        prefill = {name: move.tokens for name, move in moves.items() if move.chunk}
        decode = tuple(name for name in moves if name not in prefill)
        evict, restore = (tuple(name for name, move in every.items() if getattr(move, what))
                          for what in ("evicted", "restored"))  # fmt: skip
        rows.append(Iteration(start, batch.duration, prefill, decode, evict, restore))
        now = start + batch.duration
    return Schedule(instance.name, "enumeration", tuple(rows))


def chosen(instance: Instance, found: Schedule) -> dict[str, dict]:
    """Return choices by the words of `solver.choices`, straight from the rows."""
    left = {r.id: r.prefill_left for r in instance.requests}
    ended: dict[str, int] = {name: -1 for name, tokens in left.items() if not tokens}
    result: dict[str, dict] = {kind: {} for known in FREEDOMS.values() for kind in known}
    for k, row in enumerate(found.iterations):
        for name in row.evict:
            result["preemptions"][name] = result["preemptions"].get(name, 0) + 1
            if instance.engine.preemption == "recompute" and name not in ended:
                left[name] = instance.request(name).prompt_tokens - instance.request(name).cached_tokens
        for name, tokens in row.prefill.items():
            if instance.request(name).progress is None:
                result["admissions"].setdefault(name, row.start_us)
            result["chunks"].setdefault(name, []).append(tokens)
            left[name] -= tokens
            if not left[name] and name not in ended:
                ended[name] = result["order"][name] = k
        for name in row.decode:
            result["decodes"].setdefault(name, []).append(k - ended[name])
    return result


def alike(mine: dict[str, dict], other: dict[str, dict], kinds: tuple[str, ...]) -> bool:
    """Return whether `other` chooses as `mine` does."""
    order = mine["order"]
    kept = all(other["order"][a] <= other["order"][b] for a in order for b in order if order[a] < order[b])
    return all(kept if kind == "order" else mine[kind] == other[kind] for kind in kinds)


def best_alike(instance: Instance, reference: Schedule, kinds: tuple[str, ...]) -> dict[str, int]:
    """Return the best amount of every monotone objective among the schedules that choose as `reference` does."""
    mine = chosen(instance, reference)
    not_before = mine["admissions"] if "admissions" in kinds else {}
    best: dict[str, int] = {}
    for way in sequences(instance):
        other = at_once(instance, way, not_before)
        if alike(mine, chosen(instance, other), kinds):
            reached = amounts(instance, other)
            best = {name: min(reached[name], best.get(name, reached[name])) for name in MONOTONE}
    return best


def check(instance: Instance, reference: Schedule, kinds: tuple[str, ...], objectives: tuple[str, ...]) -> None:
    """Assert that the solver proves what the enumeration finds."""
    best = best_alike(instance, reference, kinds)
    for name in objectives:
        result = solve(instance, name, fixing=fix(instance, reference, kinds), workers=1, time_limit=60)
        assert (result.status, result.amount) == (OPTIMAL, best[name]), (name, kinds)
        assert result.schedule is not None
        assert alike(chosen(instance, reference), chosen(instance, result.schedule), kinds)


def test_choices_are_read_off_a_schedule() -> None:
    # B's first chunk starts at 1, in the second iteration; A ends its prefill before B does (iterations 1 and 3);
    # A pauses in iteration 2, so its one decode is its second iteration after the end of its prefill.
    instance = build([(0, 4, 2), (0, 3, 1)], 4)
    made = schedule(
        (0, 1, {"r0": 3}, ()), (1, 1, {"r0": 1, "r1": 1}, ()), (2, 1, {"r1": 1}, ()), (3, 1, {"r1": 1}, ("r0",))
    )
    choices = choices_of(instance, made)
    assert choices.ends == {"r0": 1, "r1": 3}
    assert choices.chunks == {"r0": (3, 1), "r1": (1, 1, 1)}
    assert choices.admissions == {"r0": 0, "r1": 1000}
    assert choices.decodes == {"r0": (2,)}
    assert fix(instance, made, ["order"]).pairs() == [("r0", "r1")]


def test_a_freedom_that_is_unknown_or_cannot_be_held_is_refused() -> None:
    instance = build([(0, 2, 2), (0, 2, 2)], 4, preemption="recompute")
    rows = [Iteration(0, 1000, {"r0": 2, "r1": 2}), Iteration(1000, 1000, {}, ("r0",), ("r1",)),
            Iteration(2000, 1000, {"r1": 3})]  # fmt: skip
    assert choices_of(instance, schedule(*rows)).evictions == {"r1": 1}
    for kind in ("colour", "decodes"):
        with pytest.raises(InputError, match=rf"order, preemptions \(engine.preemption is recompute\), got '{kind}'"):
            fix(instance, schedule(*rows), [kind])


def test_an_eviction_that_is_held_costs_what_it_costs() -> None:
    # Nothing is scarce, 1 ms per iteration: both prompts in one iteration, both decodes in the next, over at 2. With
    # r1 evicted once it needs a second prefill, beside which r0 decodes: r1 is away in the second, over at 3.
    instance = build([(0, 2, 2), (0, 2, 2)], 4, preemption="recompute")
    made = schedule(Iteration(0, 1000, {"r0": 2, "r1": 2}), Iteration(1000, 1000, {}, ("r0",), ("r1",)),
                    Iteration(2000, 1000, {"r1": 3}))  # fmt: skip
    amount = {kinds: solve(instance, fixing=fix(instance, made, kinds), workers=1).amount
              for kinds in ((), ("order",), ("preemptions",))}  # fmt: skip
    assert amount == {(): 2000, ("order",): 2000, ("preemptions",): 3000}


def test_the_order_of_prefills_alone_costs_what_a_long_prompt_in_front_costs() -> None:
    # 1 ms per token: the prompt of 8 first gives TTFTs 8 and 9, the short one first 1 and 9; sums 17 and 10.
    instance = build([(0, 8, 1), (0, 1, 1)], 8, base_and_tokens(0))
    first_come = simulate(instance, "prefill-first").schedule
    assert amounts(instance, first_come)["mean_ttft"] == 17_000
    values = {
        kinds: solve(instance, "mean_ttft", fixing=fix(instance, first_come, kinds), workers=1).amount
        for kinds in ((), ("order",), ("chunks",))
    }
    assert values == {(): 10_000, ("order",): 17_000, ("chunks",): 10_000}


def test_admission_times_are_held_to_the_microsecond() -> None:
    # r1 starts at 4 ms although it could start at once; nothing else is held, so r0 still ends first, at 2.
    instance = build([(0, 2, 1), (0, 2, 1)], 4, base_and_tokens(0))
    late = schedule((0, 2, {"r0": 2}, ()), (4, 2, {"r1": 2}, ()))
    result = solve(instance, "mean_ttft", fixing=fix(instance, late, ["admissions"]), workers=1)
    assert (result.status, result.amount) == (OPTIMAL, 8000)
    assert result.schedule is not None
    assert choices_of(instance, result.schedule).admissions == {"r0": 0, "r1": 4000}


@pytest.mark.parametrize("kinds", SUBSETS["none"], ids="+".join)
def test_two_requests_with_pauses_and_late_starts_are_held_as_by_enumeration(kinds: tuple[str, ...]) -> None:
    # r0 pauses for r1's first chunk, r1 starts half a millisecond late and is cut 1 + 2, in two pieces of cost.
    cost = CostModel((Piece(base_ps=PS_PER_MS, prefill_ps=PS_PER_MS), Piece(base_ps=3 * PS_PER_MS)), kind="pieces")
    instance = build([(0, 2, 3), (1, 3, 1)], 3, cost)
    made = schedule(
        (0, 3, {"r0": 2}, ()), (3.5, 3, {"r1": 1}, ()), (6.5, 3, {"r1": 2}, ("r0",)), (9.5, 3, {}, ("r0",))
    )
    check(instance, made, kinds, ("makespan", "mean_ttft", "mean_e2e"))


def check_random(seed: int, *, every_feature: bool) -> bool:
    """Check random choices of a random schedule of the instance of a seed; False where it is too large."""
    rng = random.Random(f"fixing {seed}")
    requests, unit = 2 if every_feature else 3, rng.choice((3, 500))
    instance = tiny_instance(seed, every_feature=every_feature, requests=requests, tokens=3, unit_us=unit)
    if sum(1 for _, _ in zip(range(TOO_MANY), sequences(instance), strict=False)) == TOO_MANY:
        return False
    reference = random_schedule(instance, rng)
    if reference is None:
        return False
    check(instance, reference, rng.choice(SUBSETS[instance.engine.preemption][1:]), (rng.choice(MONOTONE),))
    return True


def test_random_choices_are_held_as_by_enumeration() -> None:
    assert sum(check_random(seed, every_feature=False) for seed in range(20)) >= 10


def test_random_choices_under_every_feature_and_with_evictions_are_held_as_by_enumeration() -> None:
    assert sum(check_random(seed, every_feature=True) for seed in range(14)) >= 7


@pytest.mark.slow
def test_many_random_choices_are_held_as_by_enumeration() -> None:
    assert sum(check_random(seed, every_feature=seed % 3 > 0) for seed in range(100, 800)) >= 300


def test_preemptions_may_be_held_where_the_model_knows_none() -> None:
    instance = build([(0, 3, 4), (1, 5, 3), (2, 2, 5)], 4, preemption="recompute")
    reference = simulate(instance, "static").schedule
    held = fix(instance, reference, ("preemptions",))
    result = solve(instance, "mean_e2e", fixing=held, max_preemptions=0, workers=1, time_limit=60)
    free = solve(instance, "mean_e2e", max_preemptions=0, workers=1, time_limit=60)
    assert (result.status, result.amount) == (OPTIMAL, free.amount)
