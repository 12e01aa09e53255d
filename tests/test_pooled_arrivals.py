"""Bounds of the pooled relaxation that know arrivals, its queue when memory is short, and plans that wait."""

from __future__ import annotations

import random
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import pytest

from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import amount_key
from solver.evictions import problem_for
from solver.incumbent import Incumbents
from solver.pooled.relax import Relaxer
from solver.pooled.srpt import Srpt
from solver.run import Clock
from tests.judges.exhaustive import exact_optimum
from tests.test_pooled import LADDER, MS, cheap_decodes, check_windows, drawn

MEANS = ("mean_ttft", "mean_e2e", "weighted_e2e")


def later(instance: Instance, seed: int) -> Instance:
    """Return an instance whose requests that are not running arrive over a longer time."""
    rng = random.Random(f"late {seed}")
    span = rng.choice((2, 4, 8, 16)) * instance.cost.pieces[0].base_us
    return replace(instance, requests=tuple(
        request if request.progress is not None else replace(request, arrival_us=rng.randrange(span + 1))
        for request in instance.requests
    ))


def relaxers(instance: Instance, gap_us: int | None) -> list[tuple[str, Relaxer, int]]:
    """Return (objective, relaxations, exhaustive optimum) of the means, where they apply."""
    limits = {} if gap_us is None else {"max_tbt": gap_us}
    found = []
    for name in MEANS:
        relaxer = Relaxer(problem_for(instance, 1), name, gap_us)
        optimum = exact_optimum(instance, amount_key(name), limits)
        if relaxer.pool.applies and optimum is not None:
            found.append((name, relaxer, optimum))
    return found


def check(instance: Instance, gap_us: int | None) -> int:
    """Assert that no bound exceeds the optimum with late requests taken apart; return how often some were."""
    apart = 0
    for name, relaxer, optimum in relaxers(instance, gap_us):
        relaxer.take_apart(Clock(20))
        apart += bool(relaxer.late)
        for best in (None, optimum, optimum + 1):
            for exact in (False, True):
                assert relaxer.solve(best, Clock(20), exact=exact).bound <= optimum, (name, best, exact)
    return apart


# cheap 300: what rides on a request whose first token an arrival delays was counted beside that delay.
@pytest.mark.parametrize("seed", [*range(10), 300])
def test_no_bound_exceeds_the_optimum_where_requests_arrive_late(seed: int) -> None:
    for instance, gap_us in (
        drawn(seed, every_feature=False), drawn(seed, every_feature=True), cheap_decodes(seed)
    ):  # fmt: skip
        check(later(instance, seed), gap_us)


@pytest.mark.parametrize("seed", range(6))
def test_windows_hold_every_optimal_schedule_where_requests_arrive_late(seed: int) -> None:
    for instance, gap_us in (drawn(seed, every_feature=False), cheap_decodes(seed)):
        check_windows(later(instance, seed), gap_us)


def test_late_requests_are_taken_apart_on_some_of_these_instances() -> None:
    assert sum(check(later(instance, seed), gap) for seed in range(4) for instance, gap in [cheap_decodes(seed)])


@pytest.mark.parametrize("most", [5, 40])
def test_a_queue_that_gives_up_choices_proves_nothing_wrong(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.pooled.queue.MOST_STORED", most)
    shed = 0
    for seed in range(8):
        instance, gap_us = cheap_decodes(seed)
        for name, relaxer, optimum in relaxers(later(instance, seed), gap_us):
            search = relaxer._search(None)
            decided = search.run(lambda: False)
            shed += search.queue.gave_up
            assert search.bound is not None
            assert relaxer.amount(search.bound) <= optimum, name
            if decided:
                assert search.path
                assert relaxer.amount(search.path[-1].estimate) <= optimum
    assert shed


def one_by_one(jobs: list[tuple[int, int]], start: int) -> list[int]:
    """Return the completions of (release, length) under preemptive shortest remaining first, in order."""
    waiting, clock, heap, found = sorted(jobs), start, list[int](), list[int]()
    while waiting or heap:
        if not heap:
            clock = max(clock, waiting[0][0])
        while waiting and waiting[0][0] <= clock:
            heappush(heap, waiting.pop(0)[1])
        length = heappop(heap)
        until = waiting[0][0] if waiting else clock + length
        if clock + length <= until:
            clock += length
            found.append(clock)
        else:
            heappush(heap, length - (until - clock))
            clock = until
    return found


@pytest.mark.parametrize("seed", range(10))
def test_completions_are_those_of_the_schedule_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.pooled.srpt.TOGETHER", 1 << 40)
    instance = later(cheap_decodes(seed)[0], seed)
    relaxer = Relaxer(problem_for(instance, 1), "mean_ttft", None)
    pool, sets = relaxer.pool, relaxer.sets
    srpt = Srpt(pool, sets)
    for arrived in range(len(pool.arrivals) + 1):
        time = 0 if not arrived else pool.arrivals[arrived - 1]
        for done in range(1 << len(pool.members)):
            rest = [place for place in range(len(pool.members)) if not done >> place & 1]
            jobs = [
                (time if srpt.numbers[place] <= arrived else pool.members[place].arrival, int(srpt.lengths[place]))
                for place in rest
            ]
            one = [np.array([value]) for value in (sets.row(done), 0, time, arrived)]
            assert srpt.completions(*one)[0, : len(rest)].tolist() == one_by_one(jobs, time)


@pytest.mark.parametrize("window", ["code-12-a-linear", "code-06-c-context"])
def test_a_plan_that_waits_with_first_tokens_is_sooner_done_than_any_policy(window: str) -> None:
    if not LADDER.is_dir():
        pytest.skip("needs ../shared/bench/ladder")
    instance = Instance.read(Path(LADDER) / f"{window}.json")
    problem = problem_for(instance, 1)
    known = Incumbents(problem)
    known.add_heuristics()
    best = known.best("makespan", {"max_tbt": 35 * MS})
    assert best is not None
    schedules = Relaxer(problem, "makespan", 35 * MS).beam(best.amounts["makespan"], 100, Clock(60), 1)
    assert not any(violations(instance, schedule) for schedule in schedules)
    shown = [amounts(instance, schedule) for schedule in schedules]
    assert max(each["max_tbt"] for each in shown) <= 35 * MS
    assert min(each["makespan"] for each in shown) < 0.95 * best.amounts["makespan"]


def test_heuristics_stop_once_one_has_a_schedule_and_time_is_up() -> None:
    known = Incumbents(problem_for(cheap_decodes(0)[0], 1))
    known.add_heuristics(stop=lambda: True)
    assert len(known.found) == 1
