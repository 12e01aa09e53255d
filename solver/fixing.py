"""Choices that are held fixed, as constraints of the model: one method per freedom (`solver.choices`).

They cut off schedules, unlike everything else that is added beside the rules of the model; so a symmetry between
requests, or a dominance rule that exchanges choices, must not be used in a model that holds some.
"""

from __future__ import annotations

from itertools import pairwise

from ortools.sat.python import cp_model

from solver.choices import Choices, Fixing
from solver.constraints import Constraints
from solver.problem import Job


class Fixings:
    """Adds the choices that are held to the model of `constraints`.

    Parameters
    ----------
    constraints
        Of a complete model.
    fixing
        What is held.
    """

    def __init__(self, constraints: Constraints, fixing: Fixing) -> None:
        self.constraints = constraints
        self.v = constraints.v
        self.model = self.v.model
        self.problem = self.v.problem
        self.choices: Choices = fixing.choices
        self.fixing = fixing
        self.steps = constraints.steps

    def add_all(self) -> None:
        """Add every freedom that is held."""
        for kind in sorted(self.fixing.kinds):
            getattr(self, f"add_{kind}")()

    def add_order(self) -> None:
        """Add: begun[b][k] <= begun[a][k] where the first token of a came before that of b."""
        index = {job.request.id: job.index for job in self.problem.jobs}
        for earlier, later in self.fixing.pairs():
            for k in self.steps:
                self.model.add(self.v.begun[index[later]][k] <= self.v.begun[index[earlier]][k])

    def add_chunks(self) -> None:
        """Add: the units done at the end of k are a sum of the first chunks, and no iteration goes on by more than one.

        ``total_units[k] = Σ_n units_n reached[n][k]``, with reached[n] decreasing in n, increasing in k, and
        ``Σ_n reached[n][k] - Σ_n reached[n][k-1] <= 1``. The last chunk is reached exactly when the prefill is done;
        what it holds beyond whole units is the remainder, which goes with its end.
        """
        for job in self.problem.jobs:
            if not job.left:
                continue
            units = [size // job.unit for size in self.choices.chunks[job.request.id]]
            before: list[cp_model.IntVar] | None = None
            for k in self.steps:
                reached = [self.model.new_bool_var(f"chunk_{job.index}_{n}_{k}") for n in range(len(units))]
                total = sum(size * flag for size, flag in zip(units, reached, strict=True))
                self.model.add(self.v.total_units[job.index][k] == total)
                self.model.add(self.v.done[job.index][k] == reached[-1])
                for first, second in pairwise(reached):
                    self.model.add_implication(second, first)
                for earlier, later in zip(before or (), reached, strict=False):
                    self.model.add_implication(earlier, later)
                self.model.add(sum(reached) - sum(before or ()) <= 1)
                before = reached

    def add_admissions(self) -> None:
        """Add: the iteration with the first chunk of i starts at its time t, ``end[k] - cost[k] = t``.

        That it does not start earlier is a release date (`Job.release`). That it starts no later is said by the piece
        that makes its duration: ``end[k] <= t + cost[k]`` for one of the pieces.
        """
        for job in self.problem.jobs:
            if job.request.id not in self.choices.admissions:
                continue
            start = self.problem.ticks(job.release)
            started = self.v.started[job.index]
            for k in self.steps:
                starts = self.model.new_bool_var(f"starts_{job.index}_{k}")
                self.model.add(starts == started[k] - (started[k - 1] if k else 0))
                longest = [self.model.new_bool_var(f"piece_{job.index}_{k}_{p}") for p in range(len(self.costs))]
                self.model.add_bool_or(*longest, starts.negated())
                for cost, flag in zip(self.costs, longest, strict=True):
                    self.model.add(self.v.end[k] <= start + cost[k]).only_enforce_if(flag, starts)

    @property
    def costs(self) -> list[list[cp_model.LinearExpr | int]]:
        """What each piece charges per iteration."""
        return self.constraints.costs

    def add_decodes(self) -> None:
        """Add: decode[k] = Σ ends[k - q] over the places q of the decodes after the end of the prefill."""
        for job in self.problem.jobs:
            if job.decodes:
                places = self.choices.decodes[job.request.id]
                for k in self.steps:
                    self.model.add(self.v.decode[job.index][k] == self._due(job, places, k))

    def add_preemptions(self) -> None:
        """Add: Σ evict = evictions, per request."""
        rows = self.v.evict  # none where no schedule of the model evicts
        for job in self.problem.jobs:
            count = self.choices.evictions.get(job.request.id, 0)
            self.model.add((sum(rows[job.index]) if rows else 0) == count)

    def _due(self, job: Job, places: tuple[int, ...], k: int) -> cp_model.LinearExpr | int:
        """Return whether a decode of `job` is due in iteration k."""
        if not job.left:
            return int(k + 1 in places)
        return sum(self.v.ends[job.index][k - place] for place in places if k >= place)
