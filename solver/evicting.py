"""Which variables and rules a problem is modelled with: without eviction, with swap, with recompute."""

from __future__ import annotations

from solver.constraints import Constraints
from solver.evictions import RecomputeProblem, SwapProblem
from solver.problem import Problem
from solver.recompute_rules import RecomputeConstraints
from solver.recomputing import RecomputeVariables
from solver.swapping import SwapConstraints, SwapVariables
from solver.variables import Variables


def variables_for(problem: Problem, iterations: int, horizon: int) -> Variables:
    """Return the variables of a model of `problem`; parameters as for `Variables`."""
    if isinstance(problem, RecomputeProblem):
        return RecomputeVariables(problem, iterations, horizon)
    if isinstance(problem, SwapProblem):
        return SwapVariables(problem, iterations, horizon)
    return Variables(problem, iterations, horizon)


def constraints_for(variables: Variables, *, complete: bool, no_pause: bool) -> Constraints:
    """Return the rules for `variables`; parameters as for `Constraints`."""
    kind = Constraints
    if isinstance(variables, RecomputeVariables):
        kind = RecomputeConstraints
    elif isinstance(variables, SwapVariables):
        kind = SwapConstraints
    return kind(variables, complete=complete, no_pause=no_pause)
