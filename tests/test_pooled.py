"""The pooled relaxation: its bounds hold, its schedules are valid, and it is close on real windows."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import amount_key
from solver.evictions import problem_for
from solver.incumbent import Incumbents
from solver.pooled.beam import Beam
from solver.pooled.labels import Relaxation
from solver.pooled.relax import AIMS, Relaxer
from solver.pooled.windows import windows
from solver.run import Clock, Settings
from solver.search import Search
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import exact_optimum, witnesses
from tests.judges.random_instances import tiny_instance


def check_bounds(instance: Instance, gap_us: int | None) -> int:
    """Assert that no bound exceeds the exhaustive optimum, with a cutoff and without; return how many applied."""
    limits = {} if gap_us is None else {"max_tbt": gap_us}
    applied = 0
    for name in sorted(AIMS):
        relaxer = Relaxer(problem_for(instance, 1), name, gap_us)
        if not relaxer.pool.applies:
            continue
        optimum = exact_optimum(instance, amount_key(name), limits)
        if optimum is None:
            continue
        for best in (None, optimum, optimum + 1):
            bound = relaxer.solve(best, Clock(20)).bound
            assert bound <= optimum, (name, best)
        applied += 1
    return applied


MS = 1000
US = 10**6
"""1 µs in ps."""
LADDER = Path(__file__).parents[2] / "shared" / "bench" / "ladder"


def drawn(seed: int, *, every_feature: bool) -> tuple[Instance, int | None]:
    """Return a random instance and a gap limit near its best one."""
    rng = random.Random(f"pooled {seed}")
    tokens, unit = 3 if every_feature else 4, rng.choice((3, 500))
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=tokens, unit_us=unit)
    best = exact_optimum(instance, "max_tbt")
    slack = rng.choice((None, 0, 1, 2, 4))
    return instance, None if slack is None or best is None else best + best * slack // 4


def cheap_decodes(seed: int) -> tuple[Instance, int | None]:
    """Return a random instance whose decodes cost little beside the base, so that all who wait are charged them."""
    rng = random.Random(f"cheap {seed}")
    instance, _ = drawn(seed, every_feature=False)
    token, context = rng.choice((7, 40, 210)), rng.choice((0, 0, 3))
    piece = Piece(
        base_ps=rng.choice((1, 2)) * MS * US, prefill_ps=rng.choice((100, 350)) * US,
        prefill_context_ps=rng.choice((0, 5)) * US, decode_ps=token * US, decode_context_ps=context * US,
    )  # fmt: skip
    instance = replace(instance, cost=CostModel((piece,), kind="pieces"))
    best = exact_optimum(instance, "max_tbt")
    slack = rng.choice((None, 0, 1, 2, 4))
    return instance, None if slack is None or best is None else best + best * slack // 4


@pytest.mark.parametrize("seed", range(25))
def test_no_bound_exceeds_the_optimum_where_all_are_charged_the_decodes(seed: int) -> None:
    instance, gap_us = cheap_decodes(seed)
    relaxer = Relaxer(problem_for(instance, 1), "mean_e2e", gap_us)
    assert all(member.token_ps > 0 for member in relaxer.pool.members if member.decodes)
    check_bounds(instance, gap_us)


@pytest.mark.parametrize("seed", [*range(15), 395])
def test_windows_hold_every_optimal_schedule_where_all_are_charged_the_decodes(seed: int) -> None:
    check_windows(*cheap_decodes(seed))


@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_no_bound_exceeds_the_optimum_that_exhaustive_search_finds(seed: int, every_feature: bool) -> None:
    check_bounds(*drawn(seed, every_feature=every_feature))


def check_windows(instance: Instance, gap_us: int | None) -> int:
    """Assert that optimal schedules keep the windows of all that is better than a µs more; return how many applied."""
    limits = {} if gap_us is None else {"max_tbt": gap_us}
    applied = 0
    for name in ("mean_ttft", "mean_e2e"):
        relaxer = Relaxer(problem_for(instance, 1), name, gap_us)
        if not relaxer.pool.applies:
            continue
        found = witnesses(instance, (name,), limits)
        best = min((point for point, _, _ in found), default=None)
        if best is None:
            continue
        relaxer.take_apart(Clock(20))
        narrow = windows(relaxer, best[0] + 1, Clock(20))
        for point, batches, ends in found:
            for batch, end in zip(batches, ends, strict=True) if point == best else ():
                for emission in batch.emissions:
                    if emission.number == 1 and emission.request in narrow:
                        window = narrow[emission.request]
                        assert window.earliest <= end - instance.origin_us <= window.latest, (name, emission)
                        applied += 1
    return applied


@pytest.mark.parametrize("seed", range(15))
def test_windows_hold_every_optimal_schedule(seed: int) -> None:
    check_windows(*drawn(seed, every_feature=False))


@pytest.mark.parametrize("seed", range(12))
def test_a_beam_is_no_better_than_the_relaxed_optimum_and_reaches_it_if_it_is_wide(seed: int) -> None:
    instance, gap_us = drawn(seed, every_feature=False)
    for name in sorted(AIMS):
        relaxer = Relaxer(problem_for(instance, 1), name, gap_us)
        if not relaxer.pool.applies:
            continue
        exact = Relaxation(relaxer.pool, relaxer.sets, relaxer.aim)
        assert exact.run(lambda: False)
        found = [
            Beam(Relaxation(relaxer.pool, relaxer.sets, relaxer.aim), width).run(lambda: False) for width in (1, 10_000)
        ]
        assert not found[0] or found[0][0][-1].estimate >= exact.path[-1].estimate
        assert found[1][0][-1].estimate == exact.path[-1].estimate


def test_an_interrupt_keeps_the_schedules_and_the_bound_of_the_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    if not LADDER.is_dir():
        pytest.skip("needs ../shared/bench/ladder")
    instance = Instance.read(LADDER / "code-08-b-linear.json")
    looks = iter(range(10**6))

    def stop() -> bool:
        if next(looks) == 60:  # the beams are done by then
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(Relaxer, "_stop", lambda self, clock: stop)
    monkeypatch.setattr("solver.pooled.follow.BEAMS", ((30, None),))
    monkeypatch.setattr("solver.pooled.late.MOST_SPLITS", 0)
    search = Search(instance, Settings(workers=1), Clock(60))
    before = search.incumbents.best("mean_e2e", {"max_tbt": 35 * MS})
    alone = search.bounds.amount("mean_e2e")
    answer = search.optimum("mean_e2e", {"max_tbt": 35 * MS})
    assert search.interrupted
    assert answer.best is not None
    assert before is not None
    assert answer.best.amounts["mean_e2e"] < before.amounts["mean_e2e"]
    assert answer.bound is not None
    assert alone < answer.bound <= answer.best.amounts["mean_e2e"]


@pytest.mark.parametrize("seed", [473, 1163, 105])
def test_bounds_hold_where_an_earlier_version_broke(seed: int) -> None:
    # 105: all live requests end before an arrival; 473: decodes while waiting are no needed iterations; 1163: a first
    # token that an arrival delays does not pay for waiting once more.
    assert check_bounds(*drawn(seed, every_feature=False))


def test_the_relaxation_follows_the_optimum_of_a_single_request() -> None:
    # 5 tokens, at most 2 an iteration: three iterations of 1 + 2, 1 + 2, 1 + 1 ms, then one decode of 1 + 1 ms.
    instance = build([(0, 5, 2)], budget=2, cost=base_and_tokens(1))
    for name, amount in (("mean_ttft", 8 * MS), ("mean_e2e", 10 * MS), ("makespan", 10 * MS)):
        relaxed = Relaxer(problem_for(instance, 1), name, None).solve(None, Clock(20))
        assert relaxed.schedules
        assert {amounts(instance, schedule)[name] for schedule in relaxed.schedules} == {amount}
        assert relaxed.bound == (amount - 2 if name == "makespan" else amount)  # 2 µs per request for rounding


@pytest.mark.parametrize("window", ["code-12-a-linear mean_e2e", "code-10-a-context mean_ttft",
                                    "code-12-a-linear makespan"])
def test_a_beam_over_many_requests_beats_every_policy(window: str) -> None:
    window, objective = window.split()
    if not LADDER.is_dir():
        pytest.skip("needs ../shared/bench/ladder")
    instance = Instance.read(LADDER / f"{window}.json")
    problem = problem_for(instance, 1)
    known = Incumbents(problem)
    known.add_heuristics()
    best = known.best(objective, {"max_tbt": 35 * MS})
    assert best is not None
    schedules = Relaxer(problem, objective, 35 * MS).beam(best.amounts[objective], 300, Clock(60))
    assert schedules
    assert not any(violations(instance, schedule) for schedule in schedules)
    shown = [amounts(instance, schedule) for schedule in schedules]
    assert max(each["max_tbt"] for each in shown) <= 35 * MS
    assert min(each[objective] for each in shown) < best.amounts[objective]


@pytest.mark.parametrize("window", ["code-03-b-linear", "code-04-a-context", "code-06-a-linear"])
def test_real_windows_are_bounded_and_planned_within_two_per_cent(window: str) -> None:
    if not LADDER.is_dir():
        pytest.skip("needs ../shared/bench/ladder")
    instance = Instance.read(LADDER / f"{window}.json")
    relaxed = Relaxer(problem_for(instance, 1), "mean_ttft", 35 * MS).solve(None, Clock(60))
    assert relaxed.schedules
    assert not any(violations(instance, schedule) for schedule in relaxed.schedules)
    shown = min((amounts(instance, schedule) for schedule in relaxed.schedules), key=lambda each: each["mean_ttft"])
    assert shown["max_tbt"] <= 35 * MS
    assert 0.98 * shown["mean_ttft"] <= relaxed.bound <= shown["mean_ttft"]
