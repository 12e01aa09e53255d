"""The MIP baseline on HiGHS is exact: hand-made instances, and the exhaustive judge on random tiny ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_MS
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import exact_frontier, exact_optimum
from tests.judges.trials import trials

pytest.importorskip("highspy", reason="the MIP baseline needs highspy: pip install '.[benchmarks]'")

from benchmarks.epsilon import Optimum, epsilon_frontier
from benchmarks.mip import mip_optimum

MS = 1000
WAITING = build([(0, 1, 2), (10, 1, 1)], 8, base_and_tokens(5))
"""model.md, worked example 1."""


def by_mip(instance: Instance) -> Optimum:
    """Return what `epsilon_frontier` calls."""

    def optimum(name: str, limits: Mapping[str, int], seconds: float) -> tuple[str, int | None, int | None]:
        answer = mip_optimum(instance, name, limits, time_limit=seconds)
        return answer.status, answer.amount, answer.bound

    return optimum


@pytest.mark.parametrize(
    ("budget", "makespan"),
    # 12 prompt tokens at 4 + n ms: 12 + 4 ms per iteration, one iteration per `budget` tokens
    [(12, 16), (6, 20), (5, 24), (3, 28)],
)
def test_each_chunk_costs_its_base(budget: int, makespan: int) -> None:
    instance = build([(0, 12, 1)], budget, base_and_tokens(4))
    answer = mip_optimum(instance, "makespan")
    assert (answer.status, answer.amount, answer.bound) == ("OPTIMAL", makespan * MS, makespan * MS)


def test_waiting_on_purpose_gives_the_frontier_of_the_contract() -> None:
    # A decodes alone at 11..17 after B, or B joins at 10: see model.md §8
    points, complete = epsilon_frontier(by_mip(WAITING), ("makespan", "max_tbt"), 1, 60)
    assert complete
    assert points == [(17 * MS, 7 * MS), (18 * MS, 6 * MS)]


def test_a_coarse_grid_gives_fewer_points_and_still_ends() -> None:
    # below (17, 7) the limit falls by 3 ms to 4 ms, which no gap of base 5 + 1 can keep
    points, complete = epsilon_frontier(by_mip(WAITING), ("makespan", "max_tbt"), 3 * MS, 60)
    assert (points, complete) == ([(17 * MS, 7 * MS)], True)


def test_a_frontier_without_time_is_not_complete() -> None:
    assert epsilon_frontier(by_mip(WAITING), ("makespan", "max_tbt"), 1, 0) == ([], False)


def test_limits_that_exclude_each_other_are_infeasible() -> None:
    answer = mip_optimum(WAITING, "makespan", {"max_tbt": 6 * MS, "makespan": 17 * MS})
    assert (answer.status, answer.amount) == ("INFEASIBLE", None)


def test_rounded_context_costs_are_exact_to_the_microsecond() -> None:
    # F(c) = round(0.4 c + 0.3 c(c+1)/2) µs: F(2) = 2, F(4) = 5; decodes with L = 5, 6: round(1 + 0.3 L) = 3, 3.
    # Two chunks of 2 at base 10, then two decodes: (10+2) + (10+3) + (10+3) + (10+3) = 51 µs.
    piece = Piece(base_ps=10_000_000, prefill_ps=400_000, prefill_context_ps=300_000, decode_ps=1_000_000,
                  decode_context_ps=300_000)  # fmt: skip
    instance = build([(0, 4, 3)], 2, CostModel((piece,)))
    answer = mip_optimum(instance, "makespan")
    assert answer.amount == exact_optimum(instance, "makespan") == 51


def test_the_longer_piece_counts() -> None:
    # 4 prompt tokens: compute 4 x 2 ms against memory 5 ms -> 8 ms; the decode: compute 2 ms against memory 5 ms
    pieces = (Piece(prefill_ps=2 * PS_PER_MS, decode_ps=2 * PS_PER_MS), Piece(base_ps=5 * PS_PER_MS))
    assert mip_optimum(build([(0, 4, 2)], 4, CostModel(pieces)), "makespan").amount == 13 * MS


def test_gaps_count_from_the_last_token_before_time_0() -> None:
    # unit iterations: its next token comes at 1 ms, 4 ms after the last one
    running = Request("r0", 2, 3, progress=Progress(2, 1, -3 * MS))
    instance = Instance("running", (running,), EngineLimits(4), CostModel.unit())
    assert mip_optimum(instance, "max_tbt").amount == 4 * MS


def test_the_pool_counts_blocks() -> None:
    # two requests of peak 3 in blocks of 2 need 2 + 2 blocks at their end: with 3 blocks one waits for the other
    free = build([(0, 2, 2), (0, 2, 2)], 4, num_kv_blocks=4, block_size=2)
    tight = build([(0, 2, 2), (0, 2, 2)], 4, num_kv_blocks=3, block_size=2)
    for instance in (free, tight):
        assert mip_optimum(instance, "makespan").amount == exact_optimum(instance, "makespan")
    assert mip_optimum(free, "makespan").amount == 2 * MS
    assert mip_optimum(tight, "makespan").amount == 3 * MS


def test_what_the_program_does_not_hold_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"engine\.preemption"):
        mip_optimum(build([(0, 1, 1)], 1, preemption="swap"), "makespan")
    with pytest.raises(InputError, match="slo_attainment"):
        mip_optimum(build([(0, 1, 1)], 1), "slo_attainment")


def check_trials(seed: int, *, every_feature: bool) -> int:
    """Assert that it proves the exhaustive optimum (which the plain model proves in test_judges.py); count problems."""
    checked = 0
    for trial in trials(seed, every_feature=every_feature):
        try:
            answer = mip_optimum(trial.instance, trial.objective, trial.limit_amounts)
        except InputError:
            continue  # a feature that the program does not hold
        if not trial.no_pause:
            checked += 1
            expected = ("INFEASIBLE" if trial.optimum is None else "OPTIMAL", trial.optimum)
            assert (answer.status, answer.amount) == expected, (trial.objective, trial.limit_amounts)
    return checked


@pytest.mark.parametrize("every_feature", [False, True])
def test_it_agrees_with_exhaustive_search_on_random_instances(every_feature: bool) -> None:
    assert sum(check_trials(seed, every_feature=every_feature) for seed in range(11, 19)) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 220, 20))
@pytest.mark.parametrize("every_feature", [False, True])
def test_it_agrees_with_exhaustive_search_on_many_random_instances(first: int, every_feature: bool) -> None:
    assert sum(check_trials(seed, every_feature=every_feature) for seed in range(first, first + 20)) >= 10


@pytest.mark.parametrize("seed", [3, 4])
def test_its_frontiers_are_those_of_exhaustive_search(seed: int) -> None:
    instance = trials(seed, every_feature=False)[0].instance
    for axes in (("makespan", "max_tbt"), ("mean_e2e", "max_tbt")):
        points, complete = epsilon_frontier(by_mip(instance), axes, 1, 60)
        assert complete
        assert points == exact_frontier(instance, axes)


def test_the_number_of_threads_may_change_within_a_process() -> None:
    # HiGHS keeps its first number of threads for the process; another one used to end every later solve at once.
    instance = build([(0, 12, 1)], 12, base_and_tokens(4))
    assert [mip_optimum(instance, "makespan", threads=n).status for n in (2, 1, 2)] == ["OPTIMAL"] * 3
