"""Swap in the model: requests that leave the pool and come back as they were."""

from __future__ import annotations

from functools import cached_property

from ortools.sat.python import cp_model

from instances.units import us_from_ps
from solver.constraints import Constraints
from solver.lookup import Expression
from solver.problem import Job, Problem
from solver.twins import order_twins
from solver.variables import Variables


class SwapVariables(Variables):
    """Variables of a model that swaps; chunks and decodes are those of `Variables`.

    Attributes
    ----------
    evict, restore
        ``evict[i][k]``, ``restore[i][k]``: job i leaves, comes back at the start of k.
    present
        ``present[i][k]``: after the compute of k job i is resident, or it is finished.
    """

    def __init__(self, problem: Problem, iterations: int, horizon: int) -> None:
        super().__init__(problem, iterations, horizon)
        self.evict = [self._flags("evict", job, constant=False) for job in problem.jobs]
        self.restore = [self._flags("restore", job, constant=False) for job in problem.jobs]
        self.present = [self._flags("present", job, constant=False) for job in problem.jobs]

    def started_before(self, job: Job, k: int) -> Expression:
        """Return whether job has started before iteration k."""
        return self.started[job.index][k - 1] if k else int(job.resident)

    def present_before(self, job: Job, k: int) -> Expression:
        """Return whether job is resident or finished before iteration k."""
        return self.present[job.index][k - 1] if k else int(job.resident)

    def resident(self, job: Job, k: int) -> Expression:
        """Return whether job holds a seat after the compute of k."""
        return self.present[job.index][k] - self.finished_before(job, k)

    def partial(self, job: Job, k: int) -> Expression:
        """Return at least 1 where job is resident with its prefill unfinished; it may be 0 elsewhere."""
        flag = self.model.new_bool_var(f"partial_{job.index}_{k}")
        self.model.add(flag >= self.present[job.index][k] - self.done[job.index][k])
        return flag

    def tokens_in_pool(self, job: Job, k: int) -> Expression:
        """Return the tokens held, less those that are away: at most all, and none of a job that is present."""
        away = self.model.new_int_var(0, job.peak, f"tokens_away_{job.index}_{k}")
        self.model.add(away <= self.tokens_held(job, k))
        self.model.add(away <= job.peak * (self.started[job.index][k] - self.present[job.index][k]))
        return super().tokens_in_pool(job, k) - away

    def ready(self, job: Job, k: int) -> Expression:
        """Return 1 where job is resident in k after evictions and restores, its prefill is complete, and it goes on."""
        return super().ready(job, k) + self.present[job.index][k] - 1

    @cached_property
    def tokens_gained(self) -> list[list[cp_model.IntVar]]:
        """``tokens_gained[i][k]``: tokens that job i has computed at the end of k, beyond those that it began with."""
        result = []
        for job in self.problem.jobs:
            row = []
            for k in range(self.iterations):
                gained = self.model.new_int_var(0, job.peak - job.held, f"tokens_gained_{job.index}_{k}")
                self.model.add(gained == self.tokens_held(job, k) - job.held)
                row.append(gained)
            result.append(row)
        return result

    def moving_time(self, k: int) -> Expression:
        """Add cost >= cost of the tokens held - (1 - moved)·largest, per move, and return the sum of the costs."""
        total: Expression = 0
        rates = ((self.problem.cost.swap_out_ps, self.evict), (self.problem.cost.swap_in_ps, self.restore))
        for rate, moved in rates:
            if rate:
                total += sum(self._moved_cost(job, k, rate, moved[job.index][k]) for job in self.problem.jobs)
        return total

    def _moved_cost(self, job: Job, k: int, rate: int, moved: cp_model.IntVar) -> Expression:
        table = [self.problem.ticks(us_from_ps(rate * tokens)) for tokens in range(job.held, job.peak + 1)]
        least, most = table[0], table[-1]
        if not k:  # nothing has been computed yet
            return least * moved
        cost = self.model.new_int_var(0, most, f"moved_{job.index}_{k}_{moved.index}")
        gained, rises = self.tokens_gained[job.index][k - 1], [value - least for value in table]
        (rise,) = self.curve(rises, [gained], f"rise_{moved.index}")
        self.model.add(cost >= least + rise - most * (1 - moved))
        self.model.add(cost >= least * moved)
        return cost


class SwapConstraints(Constraints):
    """The rules of a model that swaps."""

    v: SwapVariables

    def add_progress(self) -> None:
        """Add the rules without eviction, and who is present.

        present = present before - evict + restore + (started - started before); evict <= present before - finished
        before; restore <= started before - present before; whoever works is present; Σ evict <= evictions.
        """
        super().add_progress()
        v, model = self.v, self.model
        for job in self.problem.jobs:
            i = job.index
            for k in self.steps:
                begins = v.started[i][k] - v.started_before(job, k)
                before, present = v.present_before(job, k), v.present[i][k]
                model.add(present == before - v.evict[i][k] + v.restore[i][k] + begins)
                model.add(v.evict[i][k] <= before - v.finished_before(job, k))
                model.add(v.restore[i][k] <= v.started_before(job, k) - before)
                model.add(v.evict[i][k] + v.restore[i][k] <= v.used[k])
                model.add(v.prefills[i][k] <= present)
                model.add(v.decode[i][k] <= present)
            model.add(sum(v.evict[i]) <= self.problem.evictions)

    def add_dominance(self) -> None:
        """Add the order of twins."""
        order_twins(self.v)
