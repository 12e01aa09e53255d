"""Windows of first tokens as constraints of the model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from solver.objectives import Objectives
from solver.pooled.windows import Window
from solver.variables import Variables


def add_windows(variables: Variables, objectives: Objectives, windows: Mapping[int, Window]) -> None:
    """Add: first tokens come within their windows, and in the order that disjoint windows give.

    Windows hold for every schedule that the model looks for (see `solver.pooled.windows`).

    Parameters
    ----------
    variables, objectives
        Of the model.
    windows
        Per index of a job.
    """
    model, problem = variables.model, variables.problem
    known = {i: window for i, window in windows.items() if i in objectives.first_token}
    for i, window in known.items():
        model.add(objectives.first_token[i] <= min(variables.horizon, problem.ticks(window.latest)))
        for k in range(variables.iterations):
            model.add(variables.end[k] >= problem.ticks(window.earliest) * variables.begun[i][k])
    for first, second in permutations(known, 2):
        if known[first].latest <= known[second].earliest:
            for k in range(variables.iterations):
                model.add_implication(variables.begun[second][k], variables.begun[first][k])
            if (first, second) in variables.orders:
                model.add(variables.orders[first, second] == 1)
