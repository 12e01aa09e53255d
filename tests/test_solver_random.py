"""The solver against two judges that share no code with it, on random tiny instances: value and feasibility."""

from __future__ import annotations

import random

import pytest

from heuristics.policy import PolicyError
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.metrics import amounts
from instances.request import Progress, Request
from solver.incumbent import most_evictions
from solver.model import accepts, solve
from solver.result import INFEASIBLE, OPTIMAL, Result
from tests.judges.build import base_and_tokens, build
from tests.judges.exhaustive import OBJECTIVES, exact_optimum
from tests.judges.plain_model import plain_optimum
from tests.judges.random_instances import tiny_instance
from tests.judges.trials import Trial, trials
from tests.judges.walks import mutated, random_schedule

MS = 1000


def solved(trial: Trial) -> Result:
    """Return the solver's answer; one worker keeps it cheap and repeatable."""
    return solve(
        trial.instance, trial.objective, trial.limits, no_pause=trial.no_pause, workers=1, time_limit=60
    )


def check_solver(trial: Trial) -> None:
    """Assert that the solver proves the judge's optimum, with a schedule that shows it."""
    result = solved(trial)
    if trial.optimum is None:
        assert result.status == INFEASIBLE
        return
    assert (result.status, result.amount, result.bound_amount) == (OPTIMAL, trial.optimum, trial.optimum)
    assert result.schedule is not None
    assert violations(trial.instance, result.schedule, no_pause=trial.no_pause) == []
    shown = amounts(trial.instance, result.schedule)
    assert shown[trial.objective] == trial.optimum
    assert all(shown[name] <= limit for name, limit in trial.limit_amounts.items())


def check_plain_model(trial: Trial) -> None:
    """Assert that the plain model proves the same."""
    status, amount, bound = plain_optimum(
        trial.instance, trial.objective, trial.limit_amounts, no_pause=trial.no_pause
    )
    if trial.optimum is None:
        assert status == "INFEASIBLE"
    else:
        assert (status, amount, bound) == ("OPTIMAL", trial.optimum, trial.optimum)


def check_policies(seed: int, every_feature: bool) -> None:
    """Assert that every policy's schedule is valid where it runs, and that none beats an optimum."""
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=3)
    best = {name: exact_optimum(instance, name, max_preemptions=None) for name in OBJECTIVES}
    for policy in policy_names():
        try:
            run = simulate(instance, policy)
        except PolicyError:
            continue
        assert violations(run.instance, run.schedule) == []
        if run.instance != instance and violations(instance, run.schedule):
            continue  # an engine that does what the instance forbids: not comparable
        reached = amounts(instance, run.schedule)
        for name, amount in best.items():
            assert amount is not None, policy
            assert reached[name] >= amount, (policy, name)


@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_solver_plain_model_and_exhaustive_search_agree(seed: int, every_feature: bool) -> None:
    for trial in trials(seed, every_feature=every_feature):
        check_plain_model(trial)
        check_solver(trial)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_solver_plain_model_and_exhaustive_search_agree_on_300_linear_instances(seed: int) -> None:
    for trial in trials(seed, every_feature=False):
        check_plain_model(trial)
        check_solver(trial)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2500))
def test_solver_plain_model_and_exhaustive_search_agree_on_500_instances_of_every_kind(seed: int) -> None:
    for trial in trials(seed, every_feature=True):
        check_plain_model(trial)
        check_solver(trial)


@pytest.mark.parametrize("every_feature", [False, True])
def test_no_policy_beats_an_optimum(every_feature: bool) -> None:
    for seed in range(40):
        check_policies(seed, every_feature)


@pytest.mark.slow
@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("block", range(10))
def test_no_policy_beats_an_optimum_at_length(block: int, every_feature: bool) -> None:
    for seed in range(3000 + 100 * block, 3100 + 100 * block):
        check_policies(seed, every_feature)


# what random instances found, kept small


def test_a_chunk_quantum_above_the_prompt_leaves_a_table_of_one_entry() -> None:
    # the prompt of 2 is one chunk, though no multiple of 3: cost 1 + F(2) with attention 2·(1 + 2)
    cost = CostModel((Piece(base_ps=10**9, prefill_context_ps=2 * 10**9),))
    result = solve(build([(0, 2, 1)], 4, cost, chunk_quantum=3), "makespan", workers=1)
    assert (result.status, result.value) == (OPTIMAL, 7)


def test_a_gap_that_stays_open_behind_the_last_first_token_may_exceed_the_horizon() -> None:
    # K = 1, cost 3 per iteration: r2's two chunks fill 7..13, as max TTFT 6 demands; before them one of the two
    # running requests decodes, the other at 16 at the earliest: its gap is 16 - (-1)
    running = [Request(f"r{i}", 2, 2, progress=Progress(2, 1, -MS)) for i in range(2)]
    instance = build([*running, Request("r2", 2, 1, 7 * MS)], 1, CostModel((Piece(base_ps=3 * 10**9),)))
    limits = {"max_ttft": 6.0}
    expected = exact_optimum(instance, "max_tbt", {"max_ttft": 6 * MS})
    assert solve(instance, "max_tbt", limits, workers=1).amount == expected


def test_a_gap_limit_where_no_request_decodes_is_no_obstacle() -> None:
    # three prompts of 5, 2 and 3 tokens with one output each: nothing has a gap
    instance = build([(0, 5, 1), (1, 2, 1), (2, 3, 1)], 3, base_and_tokens(2))
    result = solve(instance, "mean_e2e", {"max_tbt": 1.0}, workers=1)
    assert (result.status, result.amount) == (OPTIMAL, exact_optimum(instance, "mean_e2e"))


HALF = build([(0, 1, 3), (15, 1, 1)], 8, base_and_tokens(5))
"""Cost 5 + tokens. Makespan 22 puts r0's third token into r1's iteration, 15..22; max TTFT 7 its first to 7."""


def test_the_best_gap_may_lie_between_ticks() -> None:
    # the second token halves the 15 ms between them, though every time in the instance is a multiple of 1 ms
    result = solve(HALF, "max_tbt", {"makespan": 22.0, "max_ttft": 7.0}, workers=1)
    assert (result.status, result.value) == (OPTIMAL, 7.5)


def test_a_gap_limit_between_ticks_is_kept_exactly() -> None:
    at_limit = solve(HALF, "makespan", {"max_ttft": 7.0, "max_tbt": 7.5}, workers=1)
    assert (at_limit.status, at_limit.value) == (OPTIMAL, 22)
    below = solve(HALF, "makespan", {"max_ttft": 7.0, "max_tbt": 7.499, "makespan": 23.9}, workers=1)
    assert below.status == INFEASIBLE


def test_a_tbt_slo_between_ticks_is_kept_exactly() -> None:
    slo = Request("r0", 1, 3, ttft_slo_us=7 * MS, tbt_slo_us=7500)
    instance = build([slo, Request("r1", 1, 1, 15 * MS)], 8, base_and_tokens(5))
    assert solve(instance, "makespan", {"slo_attainment": 1.0}, workers=1).value == 22


def test_every_metric_name_of_the_judge_is_an_objective_of_the_solver() -> None:
    instance = build([(0, 2, 2)], 2)
    for name in OBJECTIVES:
        assert solve(instance, name, workers=1).amount == exact_optimum(instance, name)


def check_acceptance(seed: int, every_feature: bool) -> None:
    """Assert that the model admits a legal schedule and its mutations exactly where the checker does.

    A request that is restored and evicted by one iteration is left out: the model has no such move, it only costs.
    """
    rng = random.Random(f"accepts {seed}")
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=3)
    legal = random_schedule(instance, rng, max_preemptions=2)
    if legal is None:
        return
    for plan in (legal, *(mutated(instance, legal, rng) for _ in range(6))):
        if any(set(row.restore) & set(row.evict) for row in plan.iterations):
            continue
        most = max(1, most_evictions(plan))
        assert accepts(instance, plan, max_preemptions=most) == (violations(instance, plan) == []), plan


@pytest.mark.parametrize("every_feature", [False, True])
def test_the_model_accepts_exactly_what_the_checker_accepts(every_feature: bool) -> None:
    for seed in range(15):
        check_acceptance(seed, every_feature)


@pytest.mark.slow
@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("block", range(10))
def test_the_model_accepts_exactly_what_the_checker_accepts_at_length(block: int, every_feature: bool) -> None:
    for seed in range(4000 + 50 * block, 4050 + 50 * block):
        check_acceptance(seed, every_feature)


def test_an_instance_that_cannot_be_served_is_refused_before_solving() -> None:
    with pytest.raises(InputError, match=r"'r0'.*10.*8"):
        build([(0, 10, 1)], 8, enable_chunked_prefill=False)
