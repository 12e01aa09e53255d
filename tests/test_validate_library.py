"""The library of best-known values: complete, consistent with the checker and the policies, and provable again."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pytest

from chunkfront.compare import PolicyRun, Rules, broken_rule
from chunkfront.validate import library
from chunkfront.validate.distance import Distance, measure
from chunkfront.validate.library import METRICS, BestKnown, best_known, fingerprint, known_keys, known_results
from chunkfront.validate.suite import instance_of
from heuristics.greedy_chunked import GreedyChunked
from heuristics.policy import PolicyError
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.bundled import bundled_names
from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import OBJECTIVES
from solver.model import solve
from solver.result import FEASIBLE, OPTIMAL
from tests.judges.build import build
from tests.judges.exhaustive import exact_optimum
from tests.judges.mutants import CrashesOnSingleOutputs

ENTRIES = best_known()


def entry_id(entry: BestKnown) -> str:
    return f"{entry.instance}-{entry.metric}"


def test_all_bundled_instances_and_three_families_are_there_with_every_metric() -> None:
    assert {(e.instance, e.metric) for e in ENTRIES} == {(key, metric) for key in known_keys() for metric in METRICS}
    assert len(ENTRIES) == len(known_keys()) * len(METRICS)
    assert set(bundled_names()) <= set(known_keys())
    for family in ("serving:", "rounds:", "random:"):
        assert sum(key.startswith(family) for key in known_keys()) >= 5
    assert sum(e.status == OPTIMAL for e in ENTRIES) > 0.9 * len(ENTRIES)


def test_every_entry_belongs_to_the_instance_as_it_is_now_and_says_where_it_comes_from() -> None:
    for entry in ENTRIES:
        instance, objective = instance_of(entry.instance), OBJECTIVES[entry.metric]
        assert entry.fingerprint == fingerprint(instance), f"{entry.instance} has changed: run benchmarks.best_known"
        assert entry.value == objective.value(instance, entry.amount)
        assert entry.bound == objective.value(instance, entry.bound_amount)
        assert entry.status in (OPTIMAL, FEASIBLE)
        assert (entry.bound_amount == entry.amount) if entry.status == OPTIMAL else (entry.bound_amount < entry.amount)
        assert entry.checker == "valid"
        assert date.fromisoformat(entry.date).year >= 2026
        assert "ortools" in entry.solver
        assert entry.hardware
        assert entry.wall_s >= 0


@pytest.mark.parametrize("name", policy_names()[::5])
def test_no_policy_is_better_than_what_is_proved(name: str) -> None:
    compared = 0
    for key in known_keys():
        instance = instance_of(key)
        try:
            schedule = simulate(instance, name).schedule
        except PolicyError:  # a watermark that nobody fits above
            continue
        if not violations(instance, schedule):
            reached = amounts(instance, schedule)
            bounds = {e.metric: e.bound_amount for e in ENTRIES if e.instance == key}
            assert all(bounds[metric] <= reached[metric] for metric in METRICS), key
            compared += 1
    assert compared > 0.6 * len(known_keys())


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.wall_s < 0.1 and e.status == OPTIMAL][::8], ids=entry_id)
def test_what_is_quickly_proved_is_proved_again(entry: BestKnown) -> None:
    result = solve(instance_of(entry.instance), entry.metric, time_limit=60, workers=1)
    assert (result.status, result.amount) == (OPTIMAL, entry.amount)


def tokens(key: str) -> int:
    return sum(r.prompt_tokens + r.output_tokens for r in instance_of(key).requests)


SMALL = [key for key in known_keys() if key.startswith("random:") and tokens(key) <= 15]


def test_small_ones_of_every_kind_of_eviction_are_there() -> None:
    assert {instance_of(key).engine.preemption for key in SMALL} == {"none", "recompute", "swap"}


@pytest.mark.parametrize("key", SMALL)
def test_exhaustive_search_finds_what_the_library_says(key: str) -> None:
    for entry in (entry for entry in ENTRIES if entry.instance == key):
        best = exact_optimum(instance_of(key), entry.metric)
        assert best is not None
        assert entry.bound_amount <= best <= entry.amount


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=entry_id)
def test_everything_is_proved_again(entry: BestKnown) -> None:
    result = solve(instance_of(entry.instance), entry.metric, time_limit=60, workers=2)
    assert result.bound_amount is not None
    assert result.bound_amount <= entry.amount
    if entry.status == OPTIMAL:
        assert (result.status, result.amount) == (OPTIMAL, entry.amount)


def test_names_and_words_do_not_change_the_problem_and_numbers_do() -> None:
    chat = instance_of("chat")
    assert fingerprint(replace(chat, name="other", description="words", source=None, axes=None)) == fingerprint(chat)
    requests = (replace(chat.requests[0], prompt_tokens=chat.requests[0].prompt_tokens + 1), *chat.requests[1:])
    assert fingerprint(replace(chat, requests=requests)) != fingerprint(chat)
    assert known_results(replace(chat, requests=requests)) == {}
    assert set(known_results(chat)) == set(METRICS)


# Distance.


def known(instance: Instance, metric: str, value: int, bound: int) -> BestKnown:
    status = OPTIMAL if value == bound else FEASIBLE
    return BestKnown(instance.name, fingerprint(instance), metric, status, value / 1000, bound / 1000, value, bound,
                     0.1, "2026-12-01", "by hand", "paper", "valid")  # fmt: skip


@pytest.fixture
def distance(monkeypatch: pytest.MonkeyPatch) -> Distance:
    """Greedy chunking beside static batching on two instances whose optima are known by hand."""
    # 1 ms each. First: (2 tokens, 2 outputs), budget 2: 2 ms for everybody. Second: two such requests with one seat:
    # one after the other, 4 ms; what is known is a bound of 3 ms.
    one = replace(build([(0, 2, 2)], 2), name="one")
    two = replace(build([(0, 2, 2), (0, 2, 2)], 2, max_num_seqs=1), name="two")
    entries = (known(one, "makespan", 2000, 2000), known(two, "makespan", 4000, 3000))
    monkeypatch.setattr(library, "best_known", lambda: entries)
    return measure(GreedyChunked, "mine", [one, two], ["makespan"], ["static"])


def test_gaps_ratios_and_rows_by_hand(distance: Distance) -> None:
    assert distance.names == ("mine", "static")
    assert distance.gaps("mine", "makespan") == [0.0, 0.25]
    assert distance.ratios("mine", "makespan") == [1.0, 1.0]
    # Of `two`, 4 ms is the best that is known, and 3 ms is what is proved: the gap is somewhere within 0 .. 25 %.
    rows = [(row.instance, row.value, row.least_gap, row.gap, row.proved) for row in distance.rows()]
    assert rows == [("two", 4.0, 0.0, 0.25, False), ("one", 2.0, 0.0, 0.0, True)]
    assert {row.nearest for row in distance.rows()} == {"static"}


def test_who_is_not_comparable_has_no_gap_and_an_infinite_ratio() -> None:
    found = measure(CrashesOnSingleOutputs, "mine", [instance_of("random:14"), instance_of("chat")], ["makespan"],
                    ["greedy-chunked"])  # fmt: skip
    reasons = found.not_comparable()
    crashed = [r for r in found.comparisons if r.instance in reasons]
    assert all("ZeroDivisionError" in reason for reason in reasons.values())
    assert len(found.gaps("mine", "makespan")) == 2 - len(crashed)
    assert sum(math.isinf(ratio) for ratio in found.ratios("mine", "makespan")) == len(crashed)


def test_the_worst_comes_first_by_what_is_sure() -> None:
    keys = ["interference", "chat", "rounds:4:0", "serving:1"]
    found = measure(GreedyChunked, "mine", [instance_of(key) for key in keys], METRICS)
    sure = [row.least_gap for row in found.rows()]
    assert sure == sorted(sure, reverse=True)
    assert len(sure) == 4 * len(METRICS)
    assert all(0 <= row.least_gap <= row.gap <= 1 for row in found.rows())
    # The long prompt of `interference` stalls four streams for 209 ms, where 9 ms are proved possible: 200 / 209.
    assert (found.rows()[0].instance, found.rows()[0].metric) == ("interference", "max_tbt")
    assert found.rows()[0].gap == pytest.approx(200 / 209)


def test_a_schedule_that_fails_is_a_row_without_numbers() -> None:
    assert broken_rule(instance_of("chat"), PolicyRun("mine", failure="no luck"), Rules()) == "no luck"
