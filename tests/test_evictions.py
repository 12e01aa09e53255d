"""Evictions in the exact solver: values by hand, what may be left out, and whether more of them could help."""

from __future__ import annotations

import random

import pytest

from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.instance import Instance
from instances.objectives import OBJECTIVES as KNOWN
from instances.request import Progress
from instances.request import Request as R
from instances.schedule import Iteration
from solver.bounds import Bounds
from solver.evictions import evicting_problem, problem_for
from solver.incumbent import most_evictions
from solver.model import accepts, solve
from solver.result import INFEASIBLE, OPTIMAL, Result
from tests.judges.build import build, schedule
from tests.judges.command import chunkfront
from tests.judges.exhaustive import OBJECTIVES, exact_optimum
from tests.judges.random_instances import tiny_instance

MS = 10**9  # ps
PAIR = build([(0, 4, 6)] * 2, 8, num_kv_blocks=10, preemption="recompute")
"""known-trouble A9: without eviction one runs after the other, 12 iterations."""
TURNS = build([(0, 1, 8), (2, 1, 1), (4, 1, 1)], 8, max_num_seqs=1, preemption="swap")
"""One seat; two short requests come while a long one runs."""


def solved(instance: Instance, minimize: str = "makespan", **named: object) -> Result:
    return solve(instance, minimize, workers=1, **named)  # type: ignore[arg-type]


def test_one_eviction_lets_two_requests_share_a_pool() -> None:
    # Both start, r1 leaves after two tokens; r0 ends at 6, r1 prefills 6 tokens and decodes three times: 10.
    result = solved(PAIR)
    assert (result.status, result.value) == (OPTIMAL, 10)
    assert result.schedule is not None
    assert most_evictions(result.schedule) == 1
    assert violations(PAIR, result.schedule) == []


@pytest.mark.parametrize(("allowed", "total", "more"), [(0, 15, True), (1, 13, True), (2, 12, False)])
def test_each_eviction_more_serves_a_short_request_earlier(allowed: int, total: int, more: bool) -> None:
    # Iterations of 1 ms. Twice: r1 2..3, r2 4..5, r0 in the 8 others until 10: 10 + 1 + 1. Once: r0 0..2 and 5..11,
    # 11 + 1 + 1. Never: r1, r2, then r0 5..13, 13 + 1 + 1. Below 12, r0 (8 iterations) has at most 9: one eviction.
    result = solved(TURNS, "mean_e2e", max_preemptions=allowed)
    assert (result.status, result.amount) == (OPTIMAL, total * 1000)
    assert result.more_preemptions_could_help is more


def test_a_swap_costs_what_it_moves() -> None:
    # One seat, taken by r0 with 1 KV token and 4 decodes to go; 1 ms, out 2 ms and in 3 ms per token. Evicting r0 at
    # once: r1's token at 1 + 2, r0's next at 3 + 1 + 3, three more until 10. Later it holds more. If r1 waits: 5.
    cost = CostModel((Piece(base_ps=MS),), swap_out_ps=2 * MS, swap_in_ps=3 * MS)
    running = R("r0", 1, 5, progress=Progress(1, 1))
    instance = build([running, R("r1", 1, 1)], 4, cost, max_num_seqs=1, preemption="swap")
    assert solved(instance, "max_ttft").value == 3
    assert solved(instance, "makespan", limits={"max_ttft": 3.0}).value == 10
    assert solved(instance, "makespan", limits={"max_ttft": 4.999}).value == 10
    assert solved(instance, "makespan").value == 5


def test_a_prefill_again_may_be_cheaper_than_decodes_even_where_nothing_is_scarce() -> None:
    # 1 ms + 1 per prefill token + 10 per decode. Never evicted: 3 + 21 at best. In turns: r0 2, r1 2 while r0 is out,
    # then 2 tokens each again, 3 + 3: makespan 10. A third eviction each is useless: nobody is in the way.
    instance = build([(0, 1, 2)] * 2, 8, CostModel.linear(MS, MS, 10 * MS), preemption="recompute")
    assert solved(instance, max_preemptions=0).value == 24
    assert solved(instance).value == 10


def test_a_prefix_hit_counts_again() -> None:
    # Pool of 6. r1 starts with 3 cached tokens and 1 chunk token; evicted with one token out, it prefills 2 tokens.
    instance = build([R("r0", 2, 4), R("r1", 4, 3, cached_tokens=3)], 2, num_kv_blocks=6, preemption="recompute")
    for name in ("makespan", "mean_e2e", "mean_ttft"):
        assert solved(instance, name).amount == exact_optimum(instance, name)


def test_a_whole_prefill_again_must_fit_the_budget() -> None:
    # No chunks, K = 4: prompts of 4 fit, but not 4 + 1 tokens again. So nobody who has emitted is evicted: 12 as ever.
    whole = build([(0, 4, 6)] * 2, 4, num_kv_blocks=10, enable_chunked_prefill=False, preemption="recompute")
    assert solved(whole).value == exact_optimum(whole, "makespan") / 1000
    wider = build([(0, 4, 6)] * 2, 8, num_kv_blocks=10, enable_chunked_prefill=False, preemption="recompute")
    assert solved(wider).value == 10


def test_residents_at_time_0_that_cannot_all_stay_are_solved_with_an_eviction() -> None:
    # Two decoding residents hold 3 + 3 of 6 tokens and need one more each: without eviction nobody can go on.
    running = [R(f"r{i}", 3, 3, progress=Progress(3, 1)) for i in range(2)]
    instance = build(running, 8, num_kv_blocks=6, preemption="swap")
    assert solved(instance, max_preemptions=0).status == INFEASIBLE
    result = solved(instance)
    assert (result.status, result.amount) == (OPTIMAL, exact_optimum(instance, "makespan"))


@pytest.mark.parametrize(
    "instance",
    [
        build([(0, 3, 3)], 2, num_kv_blocks=6, preemption="recompute"),  # one request alone
        build([(0, 3, 3), (1, 2, 2)], 2, preemption="swap"),  # nothing is scarce
        build([(0, 3, 3), (1, 2, 2)], 2, preemption="recompute"),  # nor is a decode dearer than a chunk
    ],
)
def test_useless_evictions_are_not_modelled_and_said_to_be_useless(instance: Instance) -> None:
    assert problem_for(instance, 1).evictions == 0
    result = solved(instance, "mean_e2e")
    assert result.more_preemptions_could_help is False
    assert "no larger number helps (proved)" in result.notes[0]
    assert result.amount == exact_optimum(instance, "mean_e2e", max_preemptions=None)


@pytest.mark.parametrize(
    "instance",
    [
        build([(0, 1, 2)] * 2, 8, CostModel.linear(MS, MS, 2 * MS), preemption="recompute"),  # a decode costs more
        build([(0, 1, 2)] * 2, 8, mixed_batches=False, preemption="recompute"),
        build([(0, 1, 2)] * 2, 8, CostModel((Piece(MS, 0, 0, MS),), capture_sizes=(4,)), preemption="recompute"),
        build([(0, 1, 2)] * 2, 8, max_num_seqs=1, preemption="swap"),
        build([(0, 1, 2)] * 2, 8, num_kv_blocks=3, preemption="swap"),
        build([(0, 2, 2)] * 2, 8, max_partial_prefills=1, preemption="swap"),
    ],
)
def test_evictions_are_modelled_where_they_may_help(instance: Instance) -> None:
    assert problem_for(instance, 1).evictions == 1
    assert problem_for(instance, 0).evictions == 0


def test_no_pause_makes_leaving_the_pool_a_way_to_pause() -> None:
    instance = build([(0, 3, 3), (1, 2, 2)], 2, preemption="swap")
    assert problem_for(instance, 1, no_pause=True).evictions == 1


def test_a_value_at_a_bound_for_any_number_of_evictions_cannot_be_improved() -> None:
    # Seats for one, both prompts fill K: 2 iterations at least, whoever is evicted.
    instance = build([(0, 4, 1)] * 2, 4, max_num_seqs=1, preemption="recompute")
    result = solved(instance)
    assert (result.value, result.more_preemptions_could_help) == (2, False)


def test_an_engine_that_does_not_evict_has_nothing_to_say() -> None:
    result = solved(build([(0, 2, 2)] * 2, 4))
    assert (result.notes, result.more_preemptions_could_help) == ((), None)


def test_the_command_takes_the_bound_and_says_what_it_means(tmp_path) -> None:
    path = tmp_path / "turns.json"
    path.write_text(TURNS.to_json())
    for allowed, value, more in ((0, 5, True), (2, 4, False)):
        command = ("solve", path, "--minimize", "mean_e2e", "--max-preemptions", allowed)
        document = chunkfront(*command, "--json").document
        assert (document["value"], document["more_preemptions_could_help"]) == (value, more)
        said = " ".join(chunkfront(*command).out.split())
        assert f"(--max-preemptions {allowed}); {'a larger number could help' if more else 'no larger number'}" in said
    found = chunkfront("frontier", path, "--axes", "mean_e2e,makespan", "--max-preemptions", 1, "--json").document
    assert found["points"][0]["values"][0] == 13 / 3
    assert found["more_preemptions_could_help"] is True


# The model's rules, one fixing each: a schedule that obeys, and one that does not.

SWAPPING = build([(0, 1, 3), (0, 1, 1)], 4, max_num_seqs=1, preemption="swap")
AWAY = Iteration(1000, 1000, {"r1": 1}, (), ("r0",))


def swapped(*rows: Iteration) -> bool:
    return accepts(SWAPPING, schedule((0, 1, {"r0": 1}, []), *rows))


def test_a_swapped_request_works_again_once_restored() -> None:
    back = (Iteration(2000, 1000, {}, ("r0",), (), ("r0",)), Iteration(3000, 1000, {}, ("r0",)))
    assert swapped(AWAY, *back)
    assert not swapped(AWAY, Iteration(2000, 1000, {}, ("r0",)), Iteration(3000, 1000, {}, ("r0",)))
    assert not swapped(Iteration(1000, 1000, {"r1": 1}), *back)  # two residents, one seat


def test_a_dropped_request_prefills_prompt_and_emitted_tokens_again() -> None:
    instance = build([(0, 2, 3), (0, 1, 1)], 4, max_num_seqs=1, preemption="recompute")
    start = [(0, 1, {"r0": 2}, []), AWAY]
    assert accepts(instance, schedule(*start, (2, 1, {"r0": 3}, []), (3, 1, {}, ["r0"])))
    assert accepts(instance, schedule(*start, (2, 1, {"r0": 1}, []), (3, 1, {"r0": 2}, []), (4, 1, {}, ["r0"])))
    assert not accepts(instance, schedule(*start, (2, 1, {"r0": 2}, []), (3, 1, {}, ["r0"]), (4, 1, {}, ["r0"])))
    assert not accepts(instance, schedule(*start, (2, 1, {}, ["r0"]), (3, 1, {}, ["r0"])))
    assert not accepts(instance, schedule(*start, (2, 1, {"r0": 3}, []), (3, 1, {}, ["r0"])), max_preemptions=0)


# The judges.


def random_problem(seed: int) -> tuple[Instance, str, dict[str, int]]:
    """Return a tiny instance whose engine evicts, an objective, and limits that may matter, as amounts."""
    rng = random.Random(f"evictions {seed}")
    requests, tokens = rng.choice(((3, 2), (2, 3)))
    while (instance := tiny_instance(seed, every_feature=True, requests=requests, tokens=tokens)).engine.preemption == (
        "none"
    ):
        seed += 1000
    objective, other = rng.sample(OBJECTIVES, 2)
    top = exact_optimum(instance, other) if other != "slo_attainment" and rng.random() < 0.5 else None
    return instance, objective, {} if top is None else {other: top + rng.choice((0, top // 8, top // 2))}


def check_evictions(seed: int) -> None:
    """Assert that any bound on evictions gives the judge's optimum, and that what more of them cannot do is true."""
    instance, objective, amounts = random_problem(seed)
    limits = {name: KNOWN[name].value(instance, amount) for name, amount in amounts.items()}
    for allowed in (0, 1, 2):
        expected = exact_optimum(instance, objective, amounts, max_preemptions=allowed)
        result = solve(instance, objective, limits, workers=1, max_preemptions=allowed, explain=False)
        assert result.amount == expected
        assert result.status == (INFEASIBLE if expected is None else OPTIMAL)
        if result.more_preemptions_could_help is False:
            assert expected == exact_optimum(instance, objective, amounts, max_preemptions=None)


@pytest.mark.parametrize("block", range(8))
def test_any_bound_on_evictions_gives_the_optimum_of_exhaustive_search(block: int) -> None:
    for seed in range(5 * block, 5 * block + 5):
        check_evictions(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_any_bound_on_evictions_gives_the_optimum_of_exhaustive_search_at_length(block: int) -> None:
    for seed in range(10_000 + 10 * block, 10_010 + 10 * block):
        check_evictions(seed)


def test_bounds_hold_for_any_number_of_evictions() -> None:
    for seed in range(30):
        instance, _, _ = random_problem(seed)
        bounds = Bounds(evicting_problem(instance, 1))
        for name in OBJECTIVES:
            best = exact_optimum(instance, name, max_preemptions=None)
            assert best is None or bounds.amount(name) <= best
