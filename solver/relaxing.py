"""What the pooled relaxation gives a search: a bound, schedules, a place to look for better ones, and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from instances.replay import replay
from solver.answer import Answer
from solver.bounds import Bounds
from solver.horizon import Horizon, complete_horizon
from solver.incumbent import Candidate, Incumbents
from solver.pooled.follow import pooled
from solver.pooled.relax import relaxer
from solver.pooled.windows import Window, around, windows
from solver.problem import Problem
from solver.run import Clock

WINDOW_SHARE = 0.25
"""Share of the time left for the windows of first tokens."""
NEAR_SHARE = 0.2
"""Share of the time left for each model of what is near the relaxed optimum."""
NEAR = (1, 2)
"""How near: first tokens that many of the longest iterations earlier or later."""
FEW = 2
"""Iterations that these models have beside those of the best schedule known."""
NEAR_GAP = 2_000
"""Where the bound is within one in so many of the best schedule known, nothing is looked for near it."""


class Searching(Protocol):
    """What asks for an optimum; see `solver.search.Search`."""

    problem: Problem
    bounds: Bounds
    incumbents: Incumbents
    windows: Mapping[int, Window]

    def run(
        self, name: str, limits: Mapping[str, int], answer: Answer, size: Horizon, clock: Clock, *,
        conclusive: bool = True,
    ) -> Answer:
        """Build and solve one model."""


def by_relaxation(search: Searching, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> None:
    """Bound the optimum in place, follow relaxed paths and look near them; narrow down what may be better still."""
    relaxations = relaxer(search.problem, name, limits)
    if relaxations is None:
        return
    try:
        best, relaxed = pooled(relaxations, search.incumbents, limits, answer.best, clock)
    except KeyboardInterrupt:
        answer.improve(search.incumbents.best(name, limits), relaxations.proved, name)
        raise
    answer.improve(best, relaxed.bound, name)
    if answer.best is not None and not answer.proved:
        _look_near(search, relaxed.first_tokens, name, limits, answer, clock)
    if answer.best is not None and not answer.proved and relaxed.decided:
        search.windows = windows(relaxations, answer.best.amounts[name], clock.part(WINDOW_SHARE * clock.left_s))


def _look_near(
    search: Searching, relaxed: Mapping[int, int], name: str, limits: Mapping[str, int], answer: Answer, clock: Clock
) -> None:
    """Solve models of the schedules whose first tokens come about when they do in the relaxation, or in the best."""
    problem = search.problem
    full = problem.engine.largest_chunk
    longest = max(piece.base_us + piece.prefill_us(full) for piece in problem.cost.pieces)
    for width in NEAR:
        best = answer.best
        assert best is not None, "there is something to improve"
        if answer.proved or (best.amounts[name] - (answer.bound or 0)) * NEAR_GAP <= best.amounts[name]:
            return
        search.windows = around(relaxed or _first_tokens(problem, best), width * longest)
        size = replace(
            complete_horizon(problem, search.bounds, {**limits, name: best.amounts[name]}),
            iterations=len(best.schedule.iterations) + FEW,
        )
        try:
            found = search.run(name, limits, answer, size, clock.share(NEAR_SHARE), conclusive=False)
        finally:
            search.windows = {}
        answer.improve(found.best, 0, name)


def _first_tokens(problem: Problem, known: Candidate) -> dict[int, int]:
    """Return when the first tokens of a schedule come, per job, in µs from the origin."""
    times = replay(problem.instance, known.schedule).token_times
    return {
        job.index: times[job.request.id][0] - problem.instance.origin_us for job in problem.jobs
        if not job.request.starts_in_decode
    }
