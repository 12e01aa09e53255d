"""Too large: what is refused, with which size and advice, and what is answered all the same."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest

from instances.check import violations
from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.units import PS_PER_MS
from solver import size
from solver.build import Model
from solver.frontier import frontier
from solver.horizon import Horizon
from solver.model import solve
from solver.problem import Problem
from solver.result import FEASIBLE, OPTIMAL
from solver.size import LARGEST_WORK, estimated_size, model_units
from tests.judges.build import base_and_tokens, build
from tests.judges.command import chunkfront, start

LADDER = Path(__file__).parents[2] / "shared" / "bench" / "ladder"
SPIKE = build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2))


def test_a_model_that_is_too_large_is_refused_with_its_size_and_the_rest_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Σ TTFT of 17 ms is the optimum; without a model the best heuristic and a bound are left.
    optimum = solve(SPIKE, "mean_e2e", {"max_tbt": 12.0}, workers=1)
    assert (optimum.status, optimum.notes) == (OPTIMAL, ())
    monkeypatch.setattr(size, "LARGEST_MODEL", 10)
    monkeypatch.setattr("solver.relaxing.relaxer", lambda *_: None)  # the relaxation would prove it without a model
    refused = solve(SPIKE, "mean_e2e", {"max_tbt": 12.0}, workers=1)
    assert refused.status == FEASIBLE
    assert refused.schedule is not None
    assert violations(SPIKE, refused.schedule) == []
    assert refused.bound is not None
    assert refused.value is not None
    assert optimum.value is not None
    assert refused.bound <= optimum.value <= refused.value
    (note,) = refused.notes
    assert re.search(r"2 requests over \d+ iterations make about \d+ literals, at most 10 fit", note)
    assert "chunk_quantum" in note


def test_a_frontier_whose_models_are_too_large_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "LARGEST_MODEL", 10)
    found = frontier(SPIKE, ("mean_ttft", "max_tbt"), workers=1, time_limit=20)
    assert not found.complete
    assert found.points
    assert any("No exact model was built" in note for note in found.notes)


def test_an_instance_beyond_reach_is_refused_before_any_work(tmp_path: Path) -> None:
    huge = build([(0, 64, 2001)] * 51, 64)  # 51 chunks and 51 x 2000 decodes
    with pytest.raises(InputError, match=r"51 requests with 102,051 chunks and decodes, at most 100,000.*simulate"):
        solve(huge, "makespan")
    path = tmp_path / "huge.json"
    path.write_text(huge.to_json())
    for command in ("solve", "frontier", "compare"):
        outcome = chunkfront(command, path)
        assert outcome.code == 2
        assert "too large for the exact solver" in outcome.err
    assert LARGEST_WORK < 102_051


@pytest.mark.parametrize("iterations", [20, 60])
def test_the_estimate_grows_with_what_is_built(iterations: int) -> None:
    # Context makes cost tables of decodes; a model holds at least one variable per literal that was estimated for them.
    cost = CostModel.linear(5 * PS_PER_MS, PS_PER_MS, PS_PER_MS)
    problem = Problem(build([(0, 40, 30), (7, 50, 20)], 16, cost, chunk_quantum=8))
    model = Model(problem, Horizon(iterations, 10**7), "mean_e2e", {}).model
    units = model_units(problem, iterations)
    assert units >= estimated_size(problem, iterations)
    assert len(model.proto.variables) <= 3 * units
    assert len(model.proto.constraints) <= 10 * units


def test_tables_that_are_looked_up_count_with_their_length() -> None:
    # A prompt of 1000 tokens whose cost is no straight line has a table of 1000 entries in every iteration.
    def problem(context_ps: int) -> Problem:
        piece = Piece(5 * PS_PER_MS, PS_PER_MS, context_ps, PS_PER_MS)
        return Problem(build([(0, 1000, 1)], 64, CostModel((piece,))))

    plain, context = problem(0), problem(10**9)
    assert model_units(plain, 50) == estimated_size(plain, 50) + 50**2 // 30
    assert model_units(context, 50) == model_units(plain, 50) + 50 * 1001 // 10


@pytest.mark.slow
def test_the_largest_windows_stay_below_2_gib() -> None:
    path = LADDER / "code-24-a-context.json"
    if not path.exists():
        pytest.skip("../shared is absent")
    if sys.platform != "linux":
        pytest.skip("ru_maxrss is in KiB on Linux only")
    process = start("solve", path, "--minimize", "mean_e2e", "--time-limit", 120, "--workers", 2, "--json")
    process.communicate(timeout=600)
    assert process.returncode == 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20
