"""Attacks: what they find is proved, reproducible and no milder for being small."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from chunkfront.attack import judge as judging
from chunkfront.attack import search as searching
from chunkfront.attack.genes import Genes, Ranges, changed, drawn, smaller
from chunkfront.attack.judge import Question, Verdict, judge
from chunkfront.attack.search import Attack, Find
from chunkfront.validate.loading import load_policy
from heuristics.simulator import simulate
from instances.check import violations
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Schedule
from solver.model import solve
from solver.result import OPTIMAL
from tests.judges.build import base_and_tokens, build
from tests.judges.command import chunkfront

SMALL = Ranges(requests=2, arrival=8, prompt=12, output=4, budget=12)
STALLS = Question(load_policy("prefill-first"), "max_tbt", no_worse=("makespan",))


def attacked(seed: int, evaluations: int = 24) -> Find:
    """Return what an attack on prefill-first's stalls finds."""
    return Attack(STALLS, SMALL, seed=seed, evaluations=evaluations, time_limit=600.0).run()


@pytest.fixture(scope="module")
def find() -> Find:
    """One attack for all tests that only look at its find."""
    return attacked(seed=3)


def test_an_attack_on_prefill_first_finds_a_stall_of_five_times_the_optimum_and_proves_it(find: Find) -> None:
    verdict = find.verdict
    assert verdict is not None
    assert find.finished
    assert verdict.ratio >= 5
    mine = simulate(verdict.instance, "prefill-first").schedule
    best = verdict.optimum.schedule
    assert best is not None
    assert violations(verdict.instance, mine) == violations(verdict.instance, best) == []
    own, least = amounts(verdict.instance, mine), amounts(verdict.instance, best)
    assert verdict.ratio == Fraction(own["max_tbt"], least["max_tbt"])
    assert least["makespan"] <= own["makespan"]
    again = solve(verdict.instance, "max_tbt", {"makespan": own["makespan"] / 1000}, workers=2)
    assert (again.status, again.amount) == (OPTIMAL, least["max_tbt"])


def test_the_same_seed_finds_the_same_and_another_one_something_else(find: Find) -> None:
    again, other = attacked(seed=3), attacked(seed=4)
    assert find.verdict is not None
    assert again.verdict is not None
    assert (again.verdict.instance, again.verdict.ratio) == (find.verdict.instance, find.verdict.ratio)
    assert (again.verdict.schedule, again.judged) == (find.verdict.schedule, find.judged)
    assert other.verdict is not None
    assert other.verdict.instance != find.verdict.instance


def test_shrinking_keeps_the_ratio(find: Find) -> None:
    assert find.verdict is not None
    assert find.verdict.ratio >= find.first_ratio >= 5


def test_stopped_by_the_user_it_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def twelve(*question: Any) -> Verdict | None:
        calls.append(question)
        if len(calls) > 12:
            raise KeyboardInterrupt
        return judge(*question)

    monkeypatch.setattr(searching, "judge", twelve)
    stopped = attacked(seed=3)
    assert (stopped.interrupted, stopped.finished) == (True, False)
    assert stopped.verdict is not None


def size(genes: Genes) -> int:
    """Return the sum of all numbers of an instance, requests counted."""
    return sum(1 + sum(row) for row in genes.requests) + sum(
        (genes.budget, genes.seats, genes.base, genes.prefill, genes.decode)
    )


def test_every_simpler_instance_is_valid_and_smaller_and_every_change_stays_within_the_ranges() -> None:
    rng = random.Random(0)
    for _ in range(60):
        genes = changed(drawn(rng, SMALL), rng, SMALL)
        assert 1 <= len(genes.requests) <= SMALL.requests
        for arrival, prompt, output in genes.requests:
            assert 0 <= arrival <= SMALL.arrival
            assert 1 <= prompt <= SMALL.prompt
            assert 1 <= output <= SMALL.output
        assert 1 <= genes.budget <= SMALL.budget
        for simpler in smaller(genes):
            assert size(simpler) < size(genes)
            assert simpler.instance("simpler").requests


def test_a_kv_pool_always_holds_the_largest_request() -> None:
    rng, ranges = random.Random(0), Ranges(requests=3, prompt=9, output=5, kv=6, preemption="swap")
    pools = set()
    for _ in range(40):
        instance = changed(drawn(rng, ranges), rng, ranges).instance("pool")
        pools.add(instance.engine.num_kv_blocks)
        assert instance.engine.preemption == "swap"
    assert len(pools) > 4
    with pytest.raises(InputError, match="none, recompute, swap, got 'maybe'"):
        Ranges(preemption="maybe")


def test_a_policy_that_evicts_is_compared_with_an_optimum_that_may_evict_as_often() -> None:
    # known-trouble A9: r1 leaves once, both policy and optimum are over after 10 iterations.
    instance = build([(0, 4, 6)] * 2, 8, num_kv_blocks=10, preemption="recompute")
    for evictions, ratio in ((1, Fraction(1)), (0, None)):
        verdict = judge(instance, Question(load_policy("vllm-v1"), "makespan", max_preemptions=evictions))
        assert (verdict and verdict.ratio) == ratio


def test_a_climb_ends_where_nothing_simpler_is_left() -> None:
    # One request of one token: no gap, so the optimum is 0 and nothing has a ratio; few instances are there to judge.
    ranges = Ranges(requests=1, arrival=0, prompt=1, output=1, budget=1, base=1, prefill=1, decode=0)
    found = Attack(STALLS, ranges, seed=0, evaluations=50, time_limit=600.0).run()
    assert (found.verdict, found.finished) == (None, True)
    assert found.judged <= 4


def test_a_ratio_out_of_reach_is_seen_without_a_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    # Orca runs one prompt of 4 at 1 ms per token: 4 ms, which is the bound too. A ratio of 2 cannot be reached.
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr(judging, "solve", refuse)
    question = Question(load_policy("orca"), "makespan")
    instance = build([(0, 4, 1)], 4, base_and_tokens(0))
    assert judge(instance, question, Fraction(2)) is None
    with pytest.raises(AssertionError, match="solved"):
        judge(instance, question, Fraction(1))


def test_a_verdict_has_the_exact_ratio() -> None:
    # A decodes (3 ms each: base 2, token 1) when B's prompt of 4 comes: prefill-first makes A wait 6 + 3 = 9 ms, and
    # all is over at 4 + 6 + 3 + 3 = 16. One after the other it is over at 16 too, with gaps of 3.
    instance = build([(0, 2, 3), (1, 4, 1)], 4, base_and_tokens(2))
    verdict = judge(instance, STALLS)
    assert verdict is not None
    assert (verdict.amount, verdict.optimum.amount) == (9000, 3000)
    assert verdict.ratio == 3
    assert verdict.limits == {"makespan": 16.0}


def test_what_is_not_comparable_has_no_verdict() -> None:
    instance = build([(0, 2, 3), (1, 4, 1)], 4, base_and_tokens(2))
    strict = Question(load_policy("prefill-first"), "max_tbt", limits={"max_ttft": 1.0})
    assert judge(instance, strict) is None
    with pytest.raises(InputError, match=r"makespan.*got 'slo_attainment'"):
        Question(load_policy("prefill-first"), "slo_attainment")


def test_the_command_writes_instance_schedules_and_proof_that_agree(tmp_path: Path) -> None:
    out = tmp_path / "worst.json"
    options = ("--requests", 2, "--arrival", 8, "--prompt", 12, "--output", 4, "--budget", 12, "--seed", 3)
    outcome = chunkfront(
        "attack", "--policy", "prefill-first", *options, "--evaluations", 16, "--time-limit", 600, "--out", out,
        "--json",
    )  # fmt: skip
    document = outcome.document
    assert (outcome.code, document["status"], document["no_worse"]) == (0, "OPTIMAL", ["makespan"])
    instance = Instance.read(out)
    assert instance.to_dict() == document["found"]
    for key, metric, file in (
        ("value", "policy_schedule", "worst.policy.json"), ("optimum", "optimal_schedule", "worst.optimum.json"),
    ):  # fmt: skip
        made = Schedule.read(tmp_path / file)
        assert made.to_dict() == document[metric]
        assert violations(instance, made) == []
        assert amounts(instance, made)["max_tbt"] == document[key] * 1000
    assert document["bound"] == document["optimum"]
    assert document["ratio"] == pytest.approx(document["value"] / document["optimum"])
    assert (tmp_path / "worst.proof.json").exists()


def test_a_limit_that_no_run_keeps_leaves_nothing_to_say() -> None:
    outcome = chunkfront("attack", "--policy", "orca", "--limit", "makespan=0.001", "--evaluations", 5)
    assert outcome.code == 3
    assert "No instance was comparable" in outcome.out


def test_a_scheduler_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    code = "class Bad:\n    def schedule(self, state):\n        return 1 / 0\n"
    (tmp_path / "bad.py").write_text(code, encoding="utf-8")
    outcome = chunkfront("attack", "--policy", f"{tmp_path / 'bad.py'}:Bad", "--evaluations", 5)
    assert outcome.code == 2
    assert "ZeroDivisionError" in outcome.err
    assert "line 3" in outcome.err
