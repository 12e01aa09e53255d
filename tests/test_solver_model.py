"""solve(): limits of what is accepted, and the answers that the rooms of the solver give together."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.check import violations
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from solver.bounds import Bounds, earliest_iterations, latest_iterations, srpt_total
from solver.model import solve
from solver.problem import Problem
from solver.result import OPTIMAL

MS = 10**9  # ps
LADDER = Path(__file__).parents[2] / "shared" / "bench" / "ladder"


def test_weights_that_would_overflow_are_refused_with_the_sum_that_fits() -> None:
    requests = tuple(Request(f"r{i}", 9000, 9000, weight=10**9, arrival_us=i) for i in range(4))
    instance = Instance("heavy", requests, EngineLimits(8), CostModel.linear(9 * MS, MS, MS))
    with pytest.raises(InputError, match=r"weight.*at most"):
        solve(instance, "weighted_e2e", time_limit=1)


def test_running_decodes_bound_the_worst_gap() -> None:
    # Four decodes of 1 ms and 2 ms per iteration: whoever comes last has waited for 2 + 4 ms since 0 at least.
    running = tuple(Request(f"r{i}", 1, 3, progress=Progress(1, 1)) for i in range(4))
    problem = Problem(Instance("four", running, EngineLimits(8), CostModel.linear(2 * MS, MS, MS)))
    assert Bounds(problem).max_tbt == 6000


def test_srpt_serves_the_shortest_remaining_first() -> None:
    # Lengths 10 at 0, 2 at 1: the second runs 1..3 (flow 2), the first ends at 12 (flow 12).
    assert srpt_total([(0, 10), (1, 2)]) == 14


def test_the_precedence_graph_gives_earliest_and_latest_iterations() -> None:
    # Prompt 5, budget 4: two chunks, then two decodes. In 6 iterations the first chunk may wait until the third.
    problem = Problem(Instance("one", (Request("a", 5, 3),), EngineLimits(4), CostModel.unit()))
    earliest, latest = earliest_iterations(problem), latest_iterations(problem, 6)
    assert [earliest[0, *node] for node in (("chunk", 1), ("chunk", 2), ("decode", 1), ("decode", 2))] == [1, 2, 3, 4]
    assert [latest[0, *node] for node in (("chunk", 1), ("chunk", 2), ("decode", 1), ("decode", 2))] == [3, 4, 5, 6]


@pytest.mark.parametrize(("window", "value"), [("a", 662.564), ("b", 657.259), ("c", 756.429)])
def test_the_least_makespan_of_real_windows_is_proved(window: str, value: float) -> None:
    # design/exact.md has 657.271 for window b, with costs rounded per 64 tokens instead of exactly.
    path = LADDER / f"code-03-{window}-linear.json"
    if not path.exists():
        pytest.skip("../shared is absent")
    instance = Instance.read(path)
    result = solve(instance, "makespan", {"max_tbt": 35.0}, time_limit=60)
    assert (result.status, result.value) == (OPTIMAL, value)
    assert result.schedule is not None
    assert violations(instance, result.schedule) == []
