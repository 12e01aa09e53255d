"""The bundled worst cases: each shows what its proof says, and the documentation's table is theirs."""

from __future__ import annotations

from fractions import Fraction

import pytest

from chunkfront.attack.table import worst_table
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.bundled import WORST, load_bundled, worst_names, worst_proof
from instances.check import violations
from instances.errors import InputError
from instances.metrics import amounts
from instances.objectives import OBJECTIVES, limit_amounts
from instances.schedule import Schedule
from solver.model import solve
from solver.result import OPTIMAL
from tests.judges.command import ROOT, chunkfront

NAMES = worst_names()
QUICK = [name for name in NAMES if "prefill-first" in name or "vllm-v1" in name]


@pytest.mark.parametrize("name", NAMES)
def test_a_worst_case_shows_the_ratio_that_its_proof_claims(name: str) -> None:
    instance, proof = load_bundled(name), worst_proof(name)
    metric = proof["metric"]
    mine = simulate(instance, proof["policy"]).schedule
    best = Schedule.from_dict(proof["optimal_schedule"])
    assert mine.iterations == Schedule.from_dict(proof["policy_schedule"]).iterations
    assert violations(instance, mine) == violations(instance, best) == []
    own, least = amounts(instance, mine), amounts(instance, best)
    assert [OBJECTIVES[metric].value(instance, x[metric]) for x in (own, least)] == [proof["value"], proof["optimum"]]
    assert Fraction(own[metric], least[metric]) == Fraction(*proof["exact_ratio"]) > 1
    assert all(least[other] <= own[other] for other in proof["no_worse"])
    assert all(least[other] <= cap for other, cap in limit_amounts(instance, proof["limits"]).items())
    assert (proof["status"], proof["bound"], proof["finished"]) == ("OPTIMAL", proof["optimum"], True)


def proves_again(name: str) -> None:
    """Assert that the solver proves the optimum of a worst case."""
    instance, proof = load_bundled(name), worst_proof(name)
    result = solve(instance, proof["metric"], proof["limits"], time_limit=120.0)
    assert (result.status, result.value) == (OPTIMAL, proof["optimum"])


@pytest.mark.parametrize("name", QUICK)
def test_the_optimum_of_a_worst_case_is_proved_again(name: str) -> None:
    proves_again(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_of_every_worst_case_is_proved_again(name: str) -> None:
    proves_again(name)


def test_prefill_first_stalls_a_stream_five_times_longer_than_it_had_to() -> None:
    assert worst_proof("worst/prefill-first-max_tbt")["ratio"] >= 5


def test_every_built_in_policy_has_its_worst_cases() -> None:
    policies = {name.removeprefix(WORST).rpartition("-")[0] for name in NAMES}
    assert policies == set(policy_names())


def test_the_table_of_the_documentation_is_the_table_of_the_proofs() -> None:
    assert worst_table() in (ROOT / "docs" / "worst.md").read_text(encoding="utf-8")


def test_commands_take_a_worst_case_by_its_name() -> None:
    outcome = chunkfront("simulate", "worst/prefill-first-max_tbt", "--policy", "prefill-first", "--json")
    assert outcome.document["metrics"]["max_tbt_ms"] == worst_proof("worst/prefill-first-max_tbt")["value"]


def test_an_unknown_worst_case_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"worst/prefill-first-max_tbt.*got 'worst/nope'"):
        worst_proof("worst/nope")
