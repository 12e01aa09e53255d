"""The bundled instances: what they are, and that they show what their descriptions say."""

from __future__ import annotations

from importlib.resources import files

import pytest

from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.bundled import bundled_names, load_bundled
from instances.check import violations
from instances.errors import InputError
from instances.instance import Instance
from instances.make_bundled import make_all
from instances.metrics import metric
from instances.objectives import OBJECTIVES
from solver.frontier import frontier
from solver.model import solve
from solver.result import INFEASIBLE

NAMES = bundled_names()
OURS = ("static", "orca", "prefill-first", "greedy-chunked", "preemptive-srpt", "preemptive-mlfq")
"""Policies that evict only where the instance allows it."""


def test_names_are_those_of_the_files_and_of_their_makers() -> None:
    assert sorted(make_all()) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_what_its_maker_makes(name: str) -> None:
    text = (files("instances") / "data" / f"{name}.json").read_text(encoding="utf-8")
    assert text == make_all()[name].to_json()
    assert load_bundled(name) == Instance.from_json(text)


@pytest.mark.parametrize("name", NAMES)
def test_an_instance_says_what_it_is_and_which_axes_to_show(name: str) -> None:
    instance = load_bundled(name)
    assert instance.name == name
    assert instance.description
    assert instance.axes is not None
    assert set(instance.axes) <= set(OBJECTIVES)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"interference.*got 'nope'"):
        load_bundled("nope")


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_serves_every_bundled_instance_or_evicts_where_it_may_not(name: str) -> None:
    # Policies of engines that always evict under pressure do so here too: not comparable, but no other fault.
    instance = load_bundled(name)
    for policy in policy_names():
        broken = {violation.rule for violation in violations(instance, simulate(instance, policy).schedule)}
        assert not broken or "eviction" in broken, (policy, broken)
        if policy in OURS:
            assert not broken, policy


def test_the_toy_instance_is_the_lesson() -> None:
    # Budget 256, four decodes: chunks of 252, 4 + 25.2 = 29.2 ms; the eighth has the last 236 tokens, 27.6 ms.
    schedule = simulate(load_bundled("interference-toy"), "greedy-chunked").schedule
    assert [it.duration_us for it in schedule.iterations[:8]] == [29_200] * 7 + [27_600]


def test_static_and_continuous_batches_use_five_eighths_and_five_sixths_of_the_seats() -> None:
    instance = load_bundled("utilisation")
    shares = [metric(instance, simulate(instance, name).schedule, "slot_utilisation") for name in ("static", "orca")]
    assert shares == [5 / 8, pytest.approx(5 / 6)]


def test_the_kv_pool_binds_under_pressure() -> None:
    # Serving all four at once would take more blocks than the pool has.
    instance = load_bundled("kv-pressure")
    engine = instance.engine
    assert engine.num_kv_blocks is not None
    assert sum(engine.blocks(r.peak_kv_tokens) for r in instance.requests) > engine.num_kv_blocks


def test_the_tight_slos_cannot_all_be_met() -> None:
    assert solve(load_bundled("tight-slos"), limits={"slo_attainment": 1.0}, time_limit=60).status == INFEASIBLE


def test_prefix_hits_leave_few_tokens_to_prefill() -> None:
    requests = {r.id: r for r in load_bundled("prefix-hits").requests}
    assert (requests["hot"].prompt_tokens, requests["hot"].prefill_left) == (700, 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_frontier_is_proved_within_two_minutes(name: str) -> None:
    instance = load_bundled(name)
    assert instance.axes is not None
    found = frontier(instance, instance.axes, time_limit=120)
    assert found.complete
    assert found.points
