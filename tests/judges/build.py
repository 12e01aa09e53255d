"""Instances in one line, for tests: requests as (arrival in ms, prompt, outputs), as known-trouble.md writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Request
from instances.schedule import Iteration, Schedule
from instances.units import PS_PER_MS, US_PER_MS

LINEAR = CostModel.linear(PS_PER_MS, PS_PER_MS, PS_PER_MS)
"""1 ms per iteration, 1 ms per token of either kind."""


def build(
    requests: Sequence[tuple[float, int, int] | Request], budget: int, cost: CostModel | None = None, **engine: Any
) -> Instance:
    """Return an instance of requests r0, r1, ...; unit cost unless one is given.

    Parameters
    ----------
    requests
        Triples (arrival in ms, prompt tokens, output tokens), or whole requests.
    budget
        max_num_batched_tokens.
    cost
        A cost model.
    engine
        Other fields of EngineLimits.
    """
    made = [
        r if isinstance(r, Request) else Request(f"r{i}", r[1], r[2], round(r[0] * US_PER_MS))
        for i, r in enumerate(requests)
    ]
    return Instance("built", tuple(made), EngineLimits(budget, **engine), cost or CostModel.unit())


def base_and_tokens(base_ms: int, token_ms: int = 1) -> CostModel:
    """Return the cost "base + token_ms per token"."""
    return CostModel.linear(base_ms * PS_PER_MS, token_ms * PS_PER_MS, token_ms * PS_PER_MS)


def schedule(*rows: tuple[float, float, dict[str, int], Sequence[str]] | Iteration) -> Schedule:
    """Return a schedule of rows (start in ms, duration in ms, prefill, decode), or of whole iterations."""
    iterations = [
        row
        if isinstance(row, Iteration)
        else Iteration(round(row[0] * US_PER_MS), round(row[1] * US_PER_MS), row[2], tuple(row[3]))
        for row in rows
    ]
    return Schedule("built", "test", tuple(iterations))
