"""Shrinking: small, valid, still showing the fault, and the same every time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chunkfront.validate.conformance import examine, findings
from chunkfront.validate.shrinking import shrink, simpler
from chunkfront.validate.suite import instance_of, suite
from instances.instance import Instance
from tests.judges.mutants import IgnoresPool, LooksAhead, OverBudget

NAMES = ["code", "kv-pressure", "random:12", "random:31"]


def total(instance: Instance) -> int:
    return sum(r.prompt_tokens + r.output_tokens for r in instance.requests)


FACTS: dict[str, Callable[[Instance], bool]] = {
    "two requests": lambda i: len(i.requests) >= 2,
    "tokens": lambda i: total(i) >= 11,
    "a long prompt": lambda i: any(r.prompt_tokens > i.engine.max_num_batched_tokens for r in i.requests),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fact", FACTS)
def test_the_result_shows_the_fact_and_nothing_simpler_does(name: str, fact: str) -> None:
    instance, happens = instance_of(name), FACTS[fact]
    if not happens(instance):
        pytest.skip(f"{name} does not show it")
    small = shrink(instance, happens)
    assert happens(small)
    assert not any(happens(candidate) for candidate in simpler(small))
    assert small == shrink(instance, happens)


def test_two_requests_shrink_to_two_of_one_token_at_once() -> None:
    # Nothing but their number counts: one token in, one out, no time, no limit but the budget that must be there.
    small = shrink(instance_of("kv-pressure"), FACTS["two requests"])
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens) for r in small.requests] == [(0, 1, 1)] * 2
    assert (small.engine.max_num_batched_tokens, small.engine.num_kv_blocks) == (1, None)


def test_a_long_prompt_shrinks_to_two_tokens_against_a_budget_of_one() -> None:
    small = shrink(instance_of("code"), FACTS["a long prompt"])
    assert [(r.prompt_tokens, r.output_tokens) for r in small.requests] == [(2, 1)]
    assert small.engine.max_num_batched_tokens == 1


def test_without_time_the_instance_stays_as_it_is() -> None:
    instance = instance_of("code")
    assert shrink(instance, lambda _: True, seconds=-1) == instance


@pytest.mark.parametrize(("mutant", "rule", "requests", "budget"), [
    # One token of r0 and one of two of r1 fill the budget of 2; the mutant gives r1 both.
    (OverBudget, "token-budget", [(0, 1, 1), (0, 2, 1)], 2),
    # Each alone has a peak of 1 + 2 - 1 = 2 blocks, which is the pool; the second iteration has both of them.
    (IgnoresPool, "kv-pool", [(0, 1, 2), (0, 1, 2)], 2),
    # At 1 ms r0 decodes and r1 has a token left, unless the mutant knows that r2 is about to come.
    (LooksAhead, "knows-future", [(0, 1, 2), (0, 2, 1), (1001, 1, 1)], 2),
])  # fmt: skip
def test_a_fault_is_shrunk_to_what_it_needs(
    mutant: type, rule: str, requests: list[tuple[int, int, int]], budget: int
) -> None:
    keys = ["edge:last-one-late", "edge:pool-of-one-peak", "edge:single-outputs", "chat"]
    (fault,) = examine(mutant, list(suite(keys))).faults
    small = fault.instance
    assert (fault.finding.rule, small.name) == (rule, f"shrunk-{rule}")
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens) for r in small.requests] == requests
    assert small.engine.max_num_batched_tokens == budget
    # The instance is a file that shows the same fault again.
    assert (fault.check, fault.finding) in list(findings(mutant, Instance.from_json(small.to_json())))
