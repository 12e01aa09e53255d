"""Model: one CP-SAT model, an objective under caps over a number of iterations. Reads as a table of contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ortools.sat.python import cp_model

from instances.objectives import OBJECTIVES
from solver import cuts
from solver.choices import Fixing
from solver.evicting import constraints_for, variables_for
from solver.fixing import Fixings
from solver.horizon import Horizon
from solver.narrowing import add_windows
from solver.objectives import Objectives
from solver.pooled.windows import Window
from solver.problem import Problem
from solver.run import Progress

ANY = 2**62
"""Passed as a bound by those who look for any schedule: nothing better is wanted."""


class Model:
    """One CP-SAT model: an objective under caps, over a number of iterations.

    Parameters
    ----------
    problem, size
        What, and how many iterations.
    name
        Objective.
    caps
        Largest amounts allowed in µs, the objective's own included.
    no_pause, fixing
        As for `solve`.
    windows
        Of first tokens, for all schedules wanted.
    """

    def __init__(
        self,
        problem: Problem,
        size: Horizon,
        name: str,
        caps: Mapping[str, int],
        *,
        no_pause: bool = False,
        fixing: Fixing | None = None,
        windows: Mapping[int, Window] | None = None,
    ) -> None:
        self.problem = problem = problem.scaled_for(name, caps)
        self.size = size
        self.name = name
        self.caps = caps
        self.variables = variables_for(problem, size.iterations, max(0, problem.ticks(size.end_us)))
        self.model = self.variables.model
        gap = problem.ticks(caps["max_tbt"]) if "max_tbt" in caps else None
        self.objectives = Objectives(self.variables, complete=size.complete, longest_gap=gap)
        self.constraints = constraints_for(self.variables, complete=size.complete, no_pause=no_pause)
        self.constraints.add_all()
        if fixing is None:
            self.constraints.add_dominance()
        else:
            Fixings(self.constraints, fixing).add_all()
        cuts.add_all(self.constraints, self.objectives, name, caps)
        add_windows(self.variables, self.objectives, windows or {})
        self.amount = self.objectives.amount(name)
        for other, cap in caps.items():
            self.model.add(self.objectives.amount(other) <= problem.amount_ticks(other, cap))
        self.model.minimize(self.amount)
        self._search_forward()

    def _search_forward(self) -> None:
        """Tell the workers that follow a strategy to decide iteration by iteration, decodes and large chunks first."""
        for k in range(self.size.iterations):
            rows = [self.variables.decode, self.variables.units]
            wanted = [row[job.index][k] for row in rows for job in self.problem.jobs]
            self.model.add_decision_strategy(wanted, cp_model.CHOOSE_FIRST, cp_model.SELECT_MAX_VALUE)

    def bound_from_below(self, bound: int | None) -> None:
        """Add a bound on the objective that is proved already, in µs (rounded up to ticks); for `ANY` drop it."""
        if bound == ANY:
            self.model.clear_objective()  # type: ignore[no-untyped-call]
        elif bound is not None:
            tick = self.problem.amount_us(self.name, 1)
            self.model.add(self.amount >= -(-bound // tick))

    def lower_bound(self, solver: cp_model.CpSolver, status: int) -> int:
        """Return the bound that CP-SAT proved, in ticks."""
        if status == cp_model.OPTIMAL:
            return int(solver.value(self.amount))
        return max(0, -int(-solver.best_objective_bound // 1))

    def teller(self, tell: Progress | None) -> Callable[[int, int], None] | None:
        """Return what tells value and bound of a search in the objective's unit."""
        if tell is None:
            return None
        known = OBJECTIVES[self.name]

        def told(value: int, bound: int) -> None:
            best, least = (
                known.value(self.problem.instance, self.problem.amount_us(self.name, x)) for x in (value, bound)
            )
            tell(f"{self.name}: found {best:g} {known.unit}, bound {least:g} {known.unit}")

        return told

    def gap_limits(self, solver: cp_model.CpSolver) -> dict[str, int]:
        """Return the largest gap per request in µs that the solution promises."""
        limits: dict[str, int] = {}
        if "max_tbt" in self.caps or self.name == "max_tbt":
            top = self.problem.amount_us("max_tbt", int(solver.value(self.objectives.max_tbt)))
            limits = {job.request.id: top for job in self.problem.jobs}
        if "slo_attainment" in self.caps or self.name == "slo_attainment":
            for i, met in self.objectives.met.items():
                request = self.problem.jobs[i].request
                if request.tbt_slo_us is not None and solver.value(met):
                    limits[request.id] = min(request.tbt_slo_us, limits.get(request.id, request.tbt_slo_us))
        return limits
