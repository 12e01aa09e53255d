"""The interval formulation: where it holds, its rows and prices, and that it proves what all others prove."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.generate import rounds_instance
from instances.instance import Instance
from instances.objectives import OBJECTIVES as KNOWN
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from solver import search
from solver.frontier import frontier
from solver.intervals.lagrange import Lagrangian
from solver.intervals.rows import Family, families, separation
from solver.intervals.setting import Rounds, Span, rounds_of
from solver.model import solve
from solver.problem import Problem
from solver.result import INFEASIBLE, OPTIMAL
from solver.run import Clock
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import OBJECTIVES, exact_frontier, exact_optimum
from tests.judges.plain_model import plain_optimum

MS = 1000


def drawn(seed: int) -> Instance:
    """Return a small instance that the formulation holds for: tight pool, maybe blocks, seats, a tight budget."""
    rng = random.Random(f"intervals {seed}")
    while True:
        requests = [
            Request(
                f"r{i}", rng.randint(1, 4), rng.randint(1, 5), weight=rng.choice((1, 1, 3)),
                cached_tokens=0, ttft_slo_us=rng.choice((None, 2 * MS, 3 * MS)),
                e2e_slo_us=rng.choice((None, 4 * MS, 6500)), tbt_slo_us=rng.choice((None, None, 999, MS)),
            )
            for i in range(rng.randint(2, 3))
        ]
        requests = [replace(r, cached_tokens=rng.randint(0, r.prompt_tokens - 1)) for r in requests]
        if rng.random() < 0.3:
            requests.append(replace(requests[0], id="twin"))
        block = rng.choice((1, 1, 1, 2, 3))
        top = max(-(-r.peak_kv_tokens // block) for r in requests)
        chunked = rng.random() < 0.4
        all_at_once = sum(r.prefill_left for r in requests)
        try:
            return build(
                requests, all_at_once if chunked else rng.choice((all_at_once, 4, 5)),
                CostModel((Piece(base_ps=rng.choice((1, 3)) * PS_PER_MS),)),
                num_kv_blocks=rng.choice((top, top, top + 1, top + 3)), block_size=block,
                max_num_seqs=rng.choice((None, None, 1, 2)), enable_chunked_prefill=chunked,
            )
        except InputError:  # a prompt above the budget
            continue


def check(seed: int, monkeypatch: pytest.MonkeyPatch, objectives: tuple[str, ...]) -> None:
    """Assert that intervals, general model, plain model and exhaustive search prove the same, under a limit too."""
    instance, rng = drawn(seed), random.Random(seed)
    assert rounds_of(Problem(instance), no_pause=True) is not None
    for name in objectives:
        other = rng.choice([o for o in OBJECTIVES if o != name])
        least = exact_optimum(instance, other, no_pause=True)
        assert least is not None
        top = least + rng.choice((-1, 0, 1, least // 4, least)) if other != "slo_attainment" else least
        for amounts in ({}, {other: max(0, top)}):
            limits = {key: KNOWN[key].value(instance, amount) for key, amount in amounts.items()}
            expected = exact_optimum(instance, name, amounts, no_pause=True)
            status, plain, _ = plain_optimum(instance, name, amounts, no_pause=True)
            found = solve(instance, name, limits, no_pause=True, workers=1, explain=False)
            with monkeypatch.context() as patch:
                patch.setattr(search, "by_intervals", lambda *asked: False)
                general = solve(instance, name, limits, no_pause=True, workers=1, explain=False)
            if expected is None:
                assert (found.status, general.status, status) == (INFEASIBLE, INFEASIBLE, "INFEASIBLE")
                continue
            assert (found.status, found.amount, found.bound_amount) == (OPTIMAL, expected, expected)
            assert (general.amount, plain) == (expected, expected)
            assert found.schedule is not None
            assert violations(instance, found.schedule, no_pause=True) == []


@pytest.mark.parametrize("seed", range(6))
def test_intervals_general_model_plain_model_and_exhaustive_search_agree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("mean_e2e", OBJECTIVES[seed % len(OBJECTIVES)])
    check(seed, monkeypatch, tuple(dict.fromkeys(names)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_intervals_agree_with_all_judges_on_200_instances(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch, tuple(OBJECTIVES))


def feasible_starts(rounds: Rounds) -> list[tuple[int, ...]]:
    """Return all starts that keep the engine's limits, by enumeration."""
    limits = [family for family in families(rounds) if family.needed]
    ranges = [range(rounds.last_start(span) + 1) for span in rounds.spans]
    return [starts for starts in product(*ranges) if all(keeps(family, starts) for family in limits)]


def keeps(family: Family, starts: tuple[int, ...]) -> bool:
    """Return whether starts keep all rows of a family, counted round by round."""
    used: dict[int, int] = {}
    for start, offset, profile in zip(starts, family.offsets, family.profiles, strict=True):
        for t, demand in enumerate(profile.tolist(), start=start + offset):
            used[t] = used.get(t, 0) + demand
    return max(used.values(), default=0) <= family.capacity


def slot_instance(rng: random.Random, requests: int, rounds: int) -> Instance:
    """Return requests of random prompts and outputs under a random pool."""
    drawn = [(0, rng.randint(1, 3), rng.randint(1, rounds)) for _ in range(requests)]
    peak = max(p + o - 1 for _, p, o in drawn)
    return build(drawn, 99, num_kv_blocks=rng.randint(peak, peak + 4), enable_chunked_prefill=False)


@pytest.mark.parametrize(("requests", "longest", "block"), [(2, 9, 0), (2, 9, 1), (3, 5, 0), (3, 5, 1), (4, 3, 0)])
def test_every_schedule_keeps_the_separation_rows_at_any_mark(requests: int, longest: int, block: int) -> None:
    rng, seen = random.Random(f"{requests} {longest} {block}"), 0
    for _ in range(12):
        instance = slot_instance(rng, requests, longest)
        rounds, pool = rounds_of(Problem(instance), no_pause=True), instance.engine.num_kv_blocks
        assert rounds is not None
        assert pool is not None
        schedules = feasible_starts(rounds)
        schedules = rng.sample(schedules, min(len(schedules), 150))
        for group, mark in product((2, 3), range(1, pool + 1)):
            family = separation(rounds.spans, pool, group, mark)
            if family is not None:
                seen += 1
                assert all(keeps(family, starts) for starts in schedules), (group, mark, instance)
    assert seen > 5


def test_the_ends_of_two_large_requests_are_peaks_minus_pool_apart() -> None:
    # pool 10, peaks 8 and 9: whoever ends first leaves 2 or 1 tokens, so the other needs 8 + 9 - 10 = 7 rounds more
    instance = build([(0, 1, 8), (0, 1, 9)], 99, num_kv_blocks=10, enable_chunked_prefill=False)
    rounds = rounds_of(Problem(instance), no_pause=True)
    assert rounds is not None
    ends = {(a + 8, b + 9) for a, b in feasible_starts(rounds)}
    assert min(abs(a - b) for a, b in ends) == 7
    family = separation(rounds.spans, 10, 2, 5)
    assert family is not None
    # so the windows are as long as they can be: half of 2·8 - 10 and 2·9 - 10, on both sides
    assert [len(profile) for profile in family.profiles] == [6, 8]
    assert not keeps(family, (0, 5))
    assert keeps(family, (0, 6))


@pytest.mark.parametrize("seed", range(6))
def test_prices_prove_no_more_than_the_optimum_and_exclude_no_optimum(seed: int) -> None:
    instance = slot_instance(random.Random(seed), 3, 5)
    rounds = rounds_of(Problem(instance), no_pause=True)
    assert rounds is not None
    costs = [np.arange(rounds.last_start(s) + 1, dtype=np.int64) + s.rounds for s in rounds.spans]
    schedules = {starts: sum(int(c[s]) for c, s in zip(costs, starts, strict=True))
                 for starts in feasible_starts(rounds)}
    best = min(schedules.values())
    relaxed = Lagrangian(families(rounds), costs)
    rng = np.random.default_rng(seed)
    shape = len(relaxed.families), relaxed.width
    for prices in (relaxed.improve(Clock(2.0), best), rng.random(shape), np.zeros(shape)):
        proof = relaxed.proof(prices, best)
        assert proof.bound <= best
        for starts, cost in schedules.items():
            assert cost > best or all(s in kept for s, kept in zip(starts, proof.allowed, strict=True))


def test_prices_lift_the_bound_above_the_volume() -> None:
    # 2502.07115, Model 1, seed 1: the best sum of ends is 332, the volumes alone give 200
    rounds = rounds_of(Problem(rounds_instance(1, 8)), no_pause=True)
    assert rounds is not None
    costs = [np.arange(rounds.last_start(s) + 1, dtype=np.int64) + s.rounds for s in rounds.spans]
    relaxed = Lagrangian(families(rounds), costs)
    assert 300 <= relaxed.proof(relaxed.improve(Clock(30.0), 332), 332).bound <= 332


def test_nested_layers_add_up_to_the_profile() -> None:
    for values in ([3, 4, 5], [5, 1, 1], [1, 1, 2, 2, 1], [2, 5, 3, 1, 4], [0, 2, 0]):
        family = Family(9, (-2,), (np.array(values),))
        total = [0] * len(values)
        for offset, length, height in family.layers(0):
            for t in range(offset + 2, offset + 2 + length):
                total[t] += height
        assert total == values


WHOLE = [(0.0, 3, 4), (0.0, 2, 3)]


@pytest.mark.parametrize(
    ("instance", "no_pause", "holds"),
    [
        (build(WHOLE, 9, num_kv_blocks=8, enable_chunked_prefill=False), True, True),
        # chunks are of no use while the budget is enough for both prompts at once
        (build(WHOLE, 5, num_kv_blocks=8), True, True),
        (build(WHOLE, 4, num_kv_blocks=8), True, False),
        (build(WHOLE, 4, num_kv_blocks=8, enable_chunked_prefill=False), True, True),
        (build(WHOLE, 9, num_kv_blocks=8, max_chunk_tokens=2), True, False),
        (build(WHOLE, 9, num_kv_blocks=8), False, False),
        (build(WHOLE, 9, base_and_tokens(1), num_kv_blocks=8), True, False),
        (build(WHOLE, 9, num_kv_blocks=8, mixed_batches=False), True, False),
        (build([(0, 3, 4), (1, 2, 3)], 9, num_kv_blocks=8), True, False),
        (build([Request("r0", 3, 4, progress=Progress(3, 1, 0))], 9, num_kv_blocks=8), True, False),
    ],
)
def test_where_the_formulation_holds(instance: Instance, no_pause: bool, holds: bool) -> None:
    assert (rounds_of(Problem(instance), no_pause=no_pause) is not None) == holds


def test_standing_still_for_an_arrival_is_why_arrivals_must_be_equal() -> None:
    # r0 holds 1 + j; r1 (5 tokens, one round) arrives at 5 ms. Pool 10: r0, after five rounds, waits until 5 ms is
    # over with it ... it stands still once before its sixth token, so that 5 + 5 fit: E2E 11 - 0 and 6 - 5, sum 12.
    # As intervals r1 would wait for the end of r0: 10 + 6
    instance = build([(0, 1, 10), (5, 5, 1)], 9, num_kv_blocks=10, enable_chunked_prefill=False)
    assert exact_optimum(instance, "mean_e2e", no_pause=True) == 12 * MS
    assert solve(instance, "mean_e2e", no_pause=True, workers=1).amount == 12 * MS


def test_spans_know_their_peaks() -> None:
    assert Span(0, Request("r0", 3, 4), 3, 4).peak == 6


def test_a_frontier_over_intervals_is_that_of_exhaustive_search() -> None:
    instance = build([(0, 2, 4), (0, 1, 5), (0, 3, 2)], 9, num_kv_blocks=6, enable_chunked_prefill=False)
    found = frontier(instance, ("makespan", "mean_ttft"), no_pause=True, workers=1)
    assert found.complete
    assert [point.amounts for point in found.points] == exact_frontier(
        instance, ("makespan", "mean_ttft"), no_pause=True
    )


def test_eight_requests_of_the_slot_model_are_proved() -> None:
    # design/exact.md: 253, 332, 230, 371 for seeds 0 to 3
    for seed, total in ((0, 253), (3, 371)):
        result = solve(rounds_instance(seed, 8), "mean_e2e", no_pause=True, workers=2)
        assert (result.status, result.amount) == (OPTIMAL, total * MS)


def test_the_slot_model_is_drawn_in_the_order_of_the_issue() -> None:
    rng = random.Random(7)
    pool = rng.randint(30, 50)
    prompts = [rng.randint(1, 5) for _ in range(12)]
    outputs = [rng.randint(1, pool - s) for s in prompts]
    instance = rounds_instance(7, 12)
    assert instance.engine.num_kv_blocks == pool
    assert [(r.prompt_tokens - 1, r.output_tokens) for r in instance.requests] == list(
        zip(prompts, outputs, strict=True)
    )


def test_deterministic_mode_gives_the_same_answer_twice() -> None:
    # half a unit of work does not suffice for nine requests' proof: annealing, prices and models are all cut short
    asked = {"no_pause": True, "deterministic": True, "time_limit": 0.5}
    first, second = (solve(rounds_instance(5, 9), "mean_e2e", **asked) for _ in range(2))
    assert first.schedule == second.schedule
    assert (first.amount, first.bound_amount) == (second.amount, second.bound_amount)
