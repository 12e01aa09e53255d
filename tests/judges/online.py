"""What an online policy must not look at: the future and true output lengths; and promises that change nothing.

All on the same seeded instances, with every limit of model.md. `attempt` runs a policy and returns None where it may
fail; what counts as an excuse is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from heuristics.recorder import Run
from instances.generate import random_instance
from instances.instance import Instance

Attempt = Callable[..., Run | None]


def drawn(seed: int) -> Instance:
    """Return an instance of one to five requests."""
    return random_instance(
        seed, requests=(1, 5), preemption=("none", "recompute", "swap"), cost_kinds=("linear", "unit", "pieces")
    )


def assert_repeats_change_nothing(attempt: Attempt, policy: str, seeds: Iterable[int]) -> None:
    """Assert that a policy decides the same when it is asked before every iteration."""
    for seed in seeds:
        instance = drawn(seed)
        fast, slow = attempt(instance, policy), attempt(instance, policy, step_by_step=True)
        assert (fast is None) == (slow is None), f"seed {seed}"
        if fast is not None and slow is not None:
            assert fast.decisions == slow.decisions, f"seed {seed}"
            assert fast.schedule == slow.schedule, f"seed {seed}"


def assert_no_future(attempt: Attempt, policy: str, seeds: Iterable[int], at_least: int) -> None:
    """Assert that without the later arrivals the decisions before them are the same, in more than `at_least` runs."""
    compared = 0
    for seed in seeds:
        instance = drawn(seed)
        cut = sorted(r.arrival_us for r in instance.requests)[len(instance.requests) // 2]
        early = tuple(r for r in instance.requests if r.arrival_us < cut)
        if not early:
            continue
        runs = attempt(instance, policy), attempt(replace(instance, requests=early), policy)
        if None in runs:
            continue
        before = [[d for d in run.decisions if round(d["start_ms"] * 1000) < cut] for run in runs if run is not None]
        assert before[0] == before[1], f"seed {seed}"
        compared += bool(before[0])
    assert compared > at_least


def assert_no_truth(attempt: Attempt, policy: str, seeds: Iterable[int], at_least: int) -> None:
    """Assert that longer outputs change nothing before they show, in more than `at_least` runs where they do show."""
    compared = 0
    for seed in seeds:
        instance = drawn(seed)
        declared = tuple(replace(r, output_tokens=r.declared_output_tokens) for r in instance.requests)
        try:
            longer = replace(instance, requests=declared)
        except ValueError:  # by its cap it could never fit
            continue
        true, other = attempt(instance, policy), attempt(longer, policy)
        if true is None or other is None:
            continue
        early_ends = [k for k, (a, b) in enumerate(zip(true.decisions, other.decisions, strict=False))
                      if a["finished"] != b["finished"]]  # fmt: skip
        until = early_ends[0] if early_ends else len(true.decisions)
        assert true.decisions[:until] == other.decisions[:until], f"seed {seed}"
        compared += bool(early_ends)
    assert compared > at_least
