"""Redundant constraints: they cut off no schedule, only bad bounds. Each carries its proof."""

from __future__ import annotations

from collections.abc import Mapping

from ortools.sat.python import cp_model

from solver.constraints import Constraints
from solver.objectives import Objectives
from solver.problem import Job


def add_all(constraints: Constraints, objectives: Objectives, caps: Mapping[str, int]) -> None:
    """Add every cut that applies under `caps` (µs)."""
    cuts = Cuts(constraints, objectives, caps)
    cuts.add_gap_windows()


class Cuts:
    """Adds cuts to a model.

    Parameters
    ----------
    constraints, objectives
        Of the model.
    caps
        Largest amounts allowed, in µs.
    """

    def __init__(self, constraints: Constraints, objectives: Objectives, caps: Mapping[str, int]) -> None:
        self.v = constraints.v
        self.model = self.v.model
        self.problem = self.v.problem
        self.constraints = constraints
        self.objectives = objectives
        self.caps = caps
        self.steps = range(self.v.iterations)

    def add_gap_windows(self) -> None:
        """Add: w iterations in a row hold a decode of every request that stays in phase decode throughout.

        Proof: a gap that closes in iteration l and opened in k holds the iterations k+1..l, each at least as long as
        the shortest, so l - k <= w = ⌊G / shortest⌋. If the prefill is done before k and the request is unfinished
        after k+w-1, its next token from k-1 on comes by k-1+w.
        """
        gap, shortest = self.caps.get("max_tbt"), self.problem.shortest_us
        if gap is None or not shortest:
            return
        window = gap // shortest
        for job in self.problem.jobs:
            if job.decodes:
                first = 1 if job.left else 0  # before the first iteration no waiting prefill is done
                for k in range(first, len(self.steps) - window + 1):
                    self._window(job, k, window)

    def _window(self, job: Job, k: int, window: int) -> None:
        decodes = sum(self.v.decode[job.index][k : k + window])
        last = k + window - 1
        row = self.model.add(decodes + self.v.finished_before(job, last) + (1 - self.v.used[last]) >= 1)
        flag = self.v.done_before(job, k)
        if isinstance(flag, cp_model.IntVar):
            row.only_enforce_if(flag)
