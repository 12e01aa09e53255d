"""Decodes dearer than a prefill: where requests may be evicted, the end of a prefill may emit instead of a decode."""

from __future__ import annotations

import random

import pytest

from instances.instance import Instance
from instances.objectives import amount_key
from solver.model import solve
from tests.judges.exhaustive import exact_optimum


def document(rows: list[tuple[int, int, int, int]], budget: int, preemption: str, cost: dict[str, object]) -> Instance:
    """Return the instance of (arrival, prompt, output, weight)."""
    return Instance.from_dict({
        "format": "chunkfront/instance@1",
        "name": "dear",
        "requests": [
            {"id": f"r{n}", "arrival_ms": arrival, "prompt_tokens": prompt, "output_tokens": output, "weight": weight}
            for n, (arrival, prompt, output, weight) in enumerate(rows)
        ],
        "engine": {"max_num_batched_tokens": budget, "preemption": preemption},
        "cost": cost,
    })  # fmt: skip


def instance_of(seed: int) -> Instance:
    """Return a random instance that may evict, whose decodes are dearer than a prefill of the whole context."""
    rng = random.Random(f"dear {seed}")
    rows = [(rng.choice((0, 0, 1, 3)), rng.choice((1, 1, 2)), rng.choice((1, 2, 2)), 1) for _ in range(2 + seed % 2)]
    cost = {
        "kind": "linear", "iteration_ms": rng.choice((0, 0, 1)), "prefill_ms_per_token": 1,
        "decode_ms_per_seq": rng.choice((3.5, 5, 10)),
    }  # fmt: skip
    return document(rows, rng.choice((3, 5)), "recompute", cost)


@pytest.mark.parametrize("seed", range(16))
def test_the_largest_gap_of_instances_with_dear_decodes_is_that_of_exhaustive_search(seed: int) -> None:
    instance = instance_of(seed)
    best = exact_optimum(instance, "max_tbt")
    if best is None:
        return
    result = solve(instance, "max_tbt", time_limit=30, workers=2)
    assert result.status == "OPTIMAL"
    assert result.amount == best
    for objective in ("makespan", "mean_e2e"):
        result = solve(instance, objective, {"max_tbt": best / 1000}, time_limit=30, workers=2)
        assert result.status == "OPTIMAL"
        assert result.amount == exact_optimum(instance, amount_key(objective), {"max_tbt": best})


def test_a_request_that_is_evicted_need_not_decode() -> None:
    cost = {"kind": "linear", "prefill_ms_per_token": 1, "decode_ms_per_seq": 10}
    instance = document([(0, 1, 1, 1), (0, 1, 2, 1)], 5, "recompute", cost)
    assert solve(instance, "max_tbt", time_limit=30, workers=2).amount == 3000
    assert solve(instance, "makespan", {"max_tbt": 5}, time_limit=30, workers=2).amount == 4000


@pytest.mark.parametrize("weight", [10**5, 10**6, 10**9])
def test_large_weights_leave_the_optimum_right(weight: int) -> None:
    cost = {"kind": "linear", "iteration_ms": 50, "prefill_ms_per_token": 10, "decode_ms_per_seq": 1}
    instance = document([(8, 3, 1, 1), (15, 4, 3, weight), (3, 3, 2, weight // 1000)], 4, "none", cost)
    result = solve(instance, "weighted_e2e", time_limit=60, workers=2)
    assert result.status == "OPTIMAL"
    assert result.amount == exact_optimum(instance, "weighted_e2e")
