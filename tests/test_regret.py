"""Regret split by kind of decision: shares by hand, sums exact, intervals that hold the truth when time is short."""

from __future__ import annotations

import random

import pytest

from chunkfront.regret.lattice import Effort, Lattice
from chunkfront.regret.online import best_online
from chunkfront.regret.split import Figure, Regret, split_regret
from heuristics.simulator import simulate
from instances.bundled import load_bundled
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Iteration, Schedule
from solver.model import solve
from solver.result import FEASIBLE, OPTIMAL
from tests.judges.build import base_and_tokens, build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import random_schedule

ONE = Effort(workers=1)
SOLVE = Lattice.solve


def split(instance: Instance, made: Schedule, objective: str, **options: object) -> Regret:
    """Return the regret of a schedule, and see that its shares add up to the gap."""
    regret = split_regret(instance, made, objective, effort=ONE, **options)
    assert regret.gap.amount == regret.amount - regret.optimum.amount
    assert sum(share.cost.amount for share in regret.shares) + regret.interaction.amount == regret.gap.amount
    for share in regret.shares:
        assert 0 <= share.cost.low <= share.cost.amount <= share.cost.high
        assert 0 <= share.gain.low <= share.gain.amount <= share.gain.high <= regret.gap.high
        assert share.cost.amount <= regret.gap.amount
    return regret


def proved(amount: int) -> Figure:
    """Return a figure that is proved."""
    return Figure(amount, amount, amount)


def figures(regret: Regret) -> dict[str, tuple[Figure, Figure]]:
    """Return cost and gain by freedom."""
    return {share.freedom: (share.cost, share.gain) for share in regret.shares}


def test_the_wrong_order_is_the_whole_gap_and_late_admission_is_the_same_harm() -> None:
    # 1 ms per token, prompts of 8 and 1, the long one first: TTFTs 8 + 9 = 17, the best 1 + 9 = 10. The order alone
    # costs all 7. So do the admissions: who starts at 8 cannot come first. So the interaction is 7 - 14 = -7, and
    # mending either alone wins nothing.
    instance = build([(0, 8, 1), (0, 1, 1)], 8, base_and_tokens(0))
    regret = split(instance, simulate(instance, "prefill-first").schedule, "mean_ttft")
    assert (regret.amount, regret.optimum.amount, regret.optimum.status) == (17_000, 10_000, OPTIMAL)
    nothing = (proved(0), proved(0))
    assert figures(regret) == {
        "order": (proved(7000), proved(0)), "admissions": (proved(7000), proved(0)), "chunks": nothing,
        "decodes": nothing,
    }  # fmt: skip
    assert regret.interaction == proved(-7000)


def test_a_needless_cut_is_charged_to_the_chunk_sizes() -> None:
    # 4 ms per iteration, 1 ms per token: the prompt of 6 whole takes 10, in two chunks 14.
    instance = build([(0, 6, 1)], 6, base_and_tokens(4))
    regret = split(instance, schedule((0, 7, {"r0": 3}, ()), (7, 7, {"r0": 3}, ())), "makespan")
    assert figures(regret)["chunks"] == (proved(4000), proved(4000))
    assert (regret.gap, regret.interaction) == (proved(4000), proved(0))


def test_a_needless_pause_is_charged_to_who_decodes() -> None:
    # 1 ms per iteration: A could decode beside B's first chunk. Apart, all is over at 3 instead of 2.
    instance = build([(0, 1, 2), (0, 2, 1)], 2)
    made = schedule((0, 1, {"r0": 1}, ()), (1, 1, {"r1": 2}, ()), (2, 1, {}, ("r0",)))
    regret = split(instance, made, "makespan")
    cost, gain = figures(regret)["decodes"]
    assert (cost, gain.amount, regret.gap) == (proved(1000), 0, proved(1000))


def test_a_late_start_is_charged_to_the_admission() -> None:
    instance = build([(0, 1, 1)], 1)
    regret = split(instance, schedule((5, 1, {"r0": 1}, ())), "max_ttft")
    assert figures(regret)["admissions"] == (proved(5000), proved(5000))
    assert (regret.gap, regret.interaction) == (proved(5000), proved(0))


def test_limits_hold_for_the_optimum_too() -> None:
    # The optimum is as kind to running streams as the small chunks are, and still sooner done.
    instance = load_bundled("chat")
    made = simulate(instance, "greedy-chunked:chunk=64").schedule
    limit = amounts(instance, made)["max_tbt"] / 1000
    regret = split(instance, made, "makespan", limits={"max_tbt": limit}, time_limit=60.0)
    best = solve(instance, "makespan", {"max_tbt": limit}, workers=1)
    assert (regret.optimum.amount, regret.optimum.bound) == (best.amount, best.bound_amount)
    assert regret.gap.amount > 0


def test_a_needless_eviction_is_charged_to_who_is_evicted() -> None:
    # Nothing is scarce, 1 ms per iteration: over at 2. r1, evicted once, is away in the second and prefilled again in
    # the third: over at 3. More than one eviction would not be comparable.
    instance = build([(0, 2, 2), (0, 2, 2)], 4, preemption="recompute")
    made = schedule(Iteration(0, 1000, {"r0": 2, "r1": 2}), Iteration(1000, 1000, {}, ("r0",), ("r1",)),
                    Iteration(2000, 1000, {"r1": 3}))  # fmt: skip
    regret = split(instance, made, "makespan")
    assert figures(regret) == {"order": (proved(0), proved(0)), "preemptions": (proved(1000), proved(1000))}
    assert regret.interaction == proved(0)
    with pytest.raises(InputError, match="--max-preemptions is 0"):
        split_regret(instance, made, "makespan", max_preemptions=0)


def test_shares_add_up_on_random_schedules_and_all_is_proved() -> None:
    names = ("makespan", "max_tbt", "mean_ttft", "max_ttft", "mean_e2e", "weighted_e2e", "slo_attainment")
    checked = 0
    for seed in range(15):
        rng = random.Random(seed)
        instance = tiny_instance(seed, every_feature=seed % 3 == 0, requests=2, tokens=3)
        made = random_schedule(instance, rng)
        if made is None:
            continue
        regret = split(instance, made, rng.choice(names))
        assert {f.status for s in regret.shares for f in (s.cost, s.gain)} == {OPTIMAL}
        checked += regret.gap.amount > 0
    assert checked >= 5


def test_cut_short_the_figures_are_intervals_that_hold_the_truth() -> None:
    instance = load_bundled("code")
    made = simulate(instance, "sarathi").schedule
    short, full = (split(instance, made, "mean_ttft", time_limit=limit) for limit in (0.05, 120.0))
    assert full.optimum.status == OPTIMAL
    assert short.optimum.status == FEASIBLE
    pairs = [(short.gap, full.gap), (short.interaction, full.interaction)]
    for some, all_ in zip(short.shares, full.shares, strict=True):
        pairs += [(some.cost, all_.cost), (some.gain, all_.gain)]
    for interval, truth in pairs:
        assert interval.low <= truth.low <= truth.high <= interval.high


def test_stopped_by_the_user_it_answers_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []

    def one_solve(self: Lattice, kinds: frozenset[str], time_limit: float) -> None:
        if solved:
            raise KeyboardInterrupt
        solved.append(kinds)
        SOLVE(self, kinds, time_limit)

    monkeypatch.setattr(Lattice, "solve", one_solve)
    instance = build([(0, 8, 1), (0, 1, 1)], 8, base_and_tokens(0))
    regret = split(instance, simulate(instance, "prefill-first").schedule, "mean_ttft")
    assert (regret.interrupted, regret.gap) == (True, proved(7000))
    assert figures(regret)["order"][0] == Figure(7000, 0, 7000)


def test_an_optimal_schedule_has_nothing_to_explain() -> None:
    instance = build([(0, 2, 2)], 2)
    regret = split(instance, simulate(instance, "orca").schedule, "mean_e2e")
    assert [regret.gap, regret.interaction] == [proved(0)] * 2
    assert set(figures(regret).values()) == {(proved(0), proved(0))}


def test_what_is_not_comparable_is_refused() -> None:
    instance = build([(0, 8, 1), (0, 1, 1)], 8, base_and_tokens(0))
    made = simulate(instance, "prefill-first").schedule
    with pytest.raises(InputError, match="throughput is the makespan"):
        split_regret(instance, made, "throughput")
    with pytest.raises(InputError, match="breaks the limit on max_ttft: 9 ms, allowed 5 ms"):
        split_regret(instance, made, "mean_ttft", {"max_ttft": 5.0})
    with pytest.raises(InputError, match="not comparable with an optimum: it breaks"):
        split_regret(instance, schedule((0, 8, {"r0": 8}, ())), "mean_ttft")


def test_not_knowing_who_comes_costs_a_rolling_re_solve_what_it_costs_everybody() -> None:
    # 1 ms per token, no base. A (8 tokens) is there at 0, B (1 token) comes at 1. Online A runs whole, 0..8, and B has
    # to wait: TTFTs 8 + 8 = 16. The optimum stops A after 1 token and runs B by 2: 9 + 1 = 10.
    instance = build([(0, 8, 1), (1, 1, 1)], 8, base_and_tokens(0))
    online = best_online(instance, "mean_ttft", {}, time_limit=20)
    assert (online.policy, online.amount) == ("rolling-horizon:objective=mean_ttft", 16_000)
    assert solve(instance, "mean_ttft", workers=1).amount == 10_000


def test_an_online_run_beyond_the_limits_is_not_comparable() -> None:
    instance = build([(0, 8, 1), (1, 1, 1)], 8, base_and_tokens(0))
    online = best_online(instance, "mean_ttft", {"max_ttft": 7.0}, time_limit=20)
    assert online.amount is None
    assert "breaks the limit on max_ttft" in str(online.reason)
