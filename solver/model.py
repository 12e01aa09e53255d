"""solve(): one optimum with its proof status. Reads as a table of contents; the rooms hold the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from instances.objectives import OBJECTIVES, objective
from solver import cuts
from solver.bounds import Bounds
from solver.constraints import Constraints
from solver.hints import extract, finish, hint, timed
from solver.horizon import PREFIX_METRICS, Horizon, complete_horizon, prefix_horizon
from solver.incumbent import Candidate, Incumbents
from solver.objectives import Objectives
from solver.problem import Problem
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Result
from solver.run import Clock, Progress, Settings, search
from solver.variables import Variables

LARGEST_MODEL = 3_000_000
"""Largest estimated number of literals of a model; a larger one is not built."""
GROWTH = 1.25
"""Models grow from this multiple of the fewest iterations, by this factor."""
TRIAL_SHARE = 0.15
"""Share of the time left for a small model that only looks for a better schedule."""


def solve(
    instance: Instance,
    minimize: str = "makespan",
    limits: Mapping[str, float] | None = None,
    *,
    no_pause: bool = False,
    time_limit: float = 60.0,
    workers: int | None = None,
    seed: int = 0,
    max_preemptions: int = 1,
    on_progress: Progress | None = None,
) -> Result:
    """Return the best schedule for one objective, with a proved bound.

    Parameters
    ----------
    instance
        The problem; the optimum knows all arrivals and output lengths (clairvoyant).
    minimize
        Name of an objective (`slo_attainment` and `throughput` are maximised).
    limits
        Metric name -> limit in the metric's unit: from above, `throughput` and `slo_attainment` from below.
    no_pause
        Demand that every resident whose prefill is complete decodes in every iteration.
    time_limit
        Seconds for everything, building included.
    workers, seed
        Of CP-SAT.
    max_preemptions
        Evictions allowed per request, where the instance allows preemption.
    on_progress
        Called with one line now and then.

    Raises
    ------
    InputError
        For an unknown objective, a bad limit, or an instance that this version cannot model.
    """
    search_ = Search(
        instance, Settings(workers, seed), Clock(time_limit), no_pause=no_pause, max_preemptions=max_preemptions,
        tell=on_progress,
    )  # fmt: skip
    return search_.result(minimize, limits)


@dataclass
class Answer:
    """What one search proved, in exact amounts (µs, sums of µs, a count).

    Parameters
    ----------
    best
        The best schedule known, None without one.
    bound
        No schedule within the limits has a smaller amount; None where the limits are proved infeasible.
    proved
        Whether `best` is optimal, or that there is none.
    """

    best: Candidate | None
    bound: int | None
    proved: bool


class Search:
    """All solves of one instance: they share the clock, the schedules found and the bounds.

    Parameters
    ----------
    instance, settings, clock
        What, how, and for how long.
    no_pause
        As for `solve`.
    tell
        Told one line now and then.
    """

    def __init__(
        self,
        instance: Instance,
        settings: Settings,
        clock: Clock,
        *,
        no_pause: bool = False,
        max_preemptions: int = 1,
        tell: Progress | None = None,
    ) -> None:
        require_modelled(instance)
        self.instance = instance
        self.settings = settings
        self.clock = clock
        self.no_pause = no_pause
        self.tell = tell
        self.problem = Problem(instance)
        self.bounds = Bounds(self.problem)
        self.incumbents = Incumbents(self.problem, no_pause)
        self.incumbents.add_heuristics(stop=lambda: not clock.left_s)
        self.interrupted = False
        self.notes: tuple[str, ...] = ()

    def result(self, minimize: str, limits: Mapping[str, float] | None) -> Result:
        """Return the answer for people."""
        wanted = objective(minimize)
        allowed = self.problem.limits(limits)
        answer = self.optimum(minimize, allowed)
        return _result(self, wanted.name, answer)

    def optimum(self, name: str, limits: Mapping[str, int], *, time_limit: float | None = None, at_least: int = 0) -> Answer:
        """Return the optimum of an objective under limits on amounts; a KeyboardInterrupt ends it with what is proved.

        Parameters
        ----------
        name
            Objective.
        limits
            Largest amounts allowed, in µs (a count for `slo_attainment`).
        time_limit
            Seconds, beside the clock.
        at_least
            A lower bound on the amount that is proved already.
        """
        key = amount_key(name)
        clock = Clock(min(self.clock.left_s, self.clock.left_s if time_limit is None else time_limit))
        bound = max(at_least, self.bounds.amount(key))
        if any(self.bounds.amount(other) > limit for other, limit in limits.items()):
            return Answer(None, None, True)
        best = self.incumbents.best(key, limits)
        answer = Answer(best, bound, best is not None and best.amounts[key] <= bound)
        try:
            if not answer.proved and PREFIX_METRICS.issuperset({key, *limits}):
                answer = self._prefix(key, limits, answer, clock)
            if not answer.proved:
                answer = self._complete(key, limits, answer, clock)
        except KeyboardInterrupt:
            self.interrupted = True
        return answer

    def _caps(self, name: str, limits: Mapping[str, int], best: Candidate | None) -> dict[str, int]:
        """Return the limits, with the best known amount as one more (better schedules obey it)."""
        caps = dict(limits)
        if best is not None:
            caps[name] = min(best.amounts[name], caps.get(name, best.amounts[name]))
        return caps

    def _prefix(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Try the prefix relaxation where it is smaller than the complete model."""

        def size(caps: Mapping[str, int]) -> Horizon | None:
            found = prefix_horizon(self.problem, self.bounds, caps)
            complete = complete_horizon(self.problem, self.bounds, caps)
            return found if found is not None and found.iterations < complete.iterations else None

        if size(self._caps(name, limits, answer.best)) is None:
            return answer
        # A short complete model finds good schedules, and they keep the prefix model small.
        count = int(GROWTH * self.bounds.fewest_iterations(self.problem.jobs)) + 2
        trial = replace(complete_horizon(self.problem, self.bounds, limits), iterations=count)
        answer = self._run(name, limits, answer, trial, _share(clock), conclusive=False)
        return self._grow(name, limits, answer, clock, size, self.bounds.fewest_prefill_iterations)

    def _complete(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Solve the complete model."""
        fewest = self.bounds.fewest_iterations(self.problem.jobs)

        def size(caps: Mapping[str, int]) -> Horizon:
            return complete_horizon(self.problem, self.bounds, caps)

        return self._grow(name, limits, answer, clock, size, fewest)

    def _grow(
        self,
        name: str,
        limits: Mapping[str, int],
        answer: Answer,
        clock: Clock,
        size_under: Callable[[Mapping[str, int]], Horizon | None],
        fewest: int,
    ) -> Answer:
        """Solve small models until a good schedule bounds the iterations that matter, then one that is conclusive."""
        count = int(GROWTH * fewest) + 2
        while clock.left_s and not answer.proved:
            needed = size_under(self._caps(name, limits, answer.best))
            if needed is None:
                return answer
            if needed.iterations <= GROWTH * count:
                return self._run(name, limits, answer, needed, clock)
            if estimated_size(self.problem, count) > LARGEST_MODEL:
                return answer
            before = answer.best
            small = replace(needed, iterations=count)
            answer = self._run(name, limits, answer, small, _share(clock), conclusive=False)
            if answer.best is before:
                count = int(GROWTH * count) + 1
        return answer

    def _run(
        self, name: str, limits: Mapping[str, int], answer: Answer, size: Horizon, clock: Clock, *, conclusive: bool = True
    ) -> Answer:
        """Build and solve one model, and return what it adds to `answer`.

        Parameters
        ----------
        size
            Of the model.
        conclusive
            Whether no schedule needs more iterations, so that bounds hold for all of them.
        """
        if estimated_size(self.problem, size.iterations) > LARGEST_MODEL or not clock.left_s:
            return answer
        caps = self._caps(name, limits, answer.best)
        if answer.best is not None and conclusive:
            # The last model looks for better ones alone: a hint would keep its workers near what is known already.
            caps[name] = min(caps[name], answer.best.amounts[name] - 1)
        built = Model(self.problem, size, name, caps, no_pause=self.no_pause)
        if answer.best is not None and not conclusive:
            hint(built.variables, answer.best.schedule)
        built.bound_from_below(answer.bound)
        solver, status = search(built.model, self.settings, clock.left_s, self.tell)
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT rejects the model: {built.model.validate()}")
        best, bound = answer.best, answer.bound
        if status == cp_model.INFEASIBLE:
            if not conclusive:
                return answer
            # Nothing within the limits is better than the best known; without one, nothing is within the limits.
            return Answer(best, None if best is None else best.amounts[name], True)
        if conclusive and bound is not None:
            proved = built.lower_bound(solver, status)
            bound = max(bound, built.problem.amount_us(name, proved))
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            found = self._candidate(built, solver, limits)
            if found is not None and (best is None or found.amounts[name] < best.amounts[name]):
                best = found
        return Answer(best, bound, bound is not None and best is not None and best.amounts[name] <= bound)

    def _candidate(self, built: Model, solver: cp_model.CpSolver, limits: Mapping[str, int]) -> Candidate | None:
        """Return the solution as a checked schedule that obeys the limits, None where a prefix cannot be finished."""
        batches = extract(built.variables, solver)
        if not built.size.complete:
            batches = finish(built.variables, batches)
        schedule = timed(built.variables, batches, built.gap_limits(solver))
        found = None if schedule is None else self.incumbents.add(schedule)
        if found is None or not found.obeys(limits):
            if built.size.complete:
                raise RuntimeError("the model accepted a schedule that the checker rejects; please report the instance")
            return None
        return found


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
    no_pause
        As for `solve`.
    """

    def __init__(
        self, problem: Problem, size: Horizon, name: str, caps: Mapping[str, int], *, no_pause: bool = False
    ) -> None:
        self.problem = problem = problem.scaled_for(name, caps)
        self.size = size
        self.name = name
        self.caps = caps
        self.variables = Variables(problem, size.iterations, max(0, problem.ticks(size.end_us)))
        self.model = self.variables.model
        gap = problem.ticks(caps["max_tbt"]) if "max_tbt" in caps else None
        self.objectives = Objectives(self.variables, complete=size.complete, longest_gap=gap)
        self.constraints = Constraints(self.variables, complete=size.complete, no_pause=no_pause)
        self.constraints.add_all()
        cuts.add_all(self.constraints, self.objectives, name, caps)
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
        """Add a bound on the objective that is proved already, in µs (rounded up to ticks)."""
        if bound is not None:
            tick = self.problem.amount_us(self.name, 1)
            self.model.add(self.amount >= -(-bound // tick))

    def lower_bound(self, solver: cp_model.CpSolver, status: int) -> int:
        """Return the bound that CP-SAT proved, in ticks."""
        if status == cp_model.OPTIMAL:
            return int(solver.value(self.amount))
        return max(0, -int(-solver.best_objective_bound // 1))

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


def amount_key(name: str) -> str:
    """Return the name under which an objective's amount is held: `throughput` is the makespan read the other way."""
    return "makespan" if name == "throughput" else name


def require_modelled(instance: Instance) -> None:
    """Raise InputError for what the model does not hold yet."""
    if instance.engine.preemption != "none":
        what = "none (the exact model does not evict yet)"
        raise InputError.expected(what, instance.engine.preemption, "engine.preemption")


def _share(clock: Clock) -> Clock:
    """Return the clock of a trial."""
    return Clock(max(TRIAL_SHARE * clock.left_s, min(1.0, clock.left_s)))


def estimated_size(problem: Problem, iterations: int) -> int:
    """Return about how many literals a model over so many iterations has."""
    tables = sum(min(job.units, 96) + min(job.decodes, 96) + 16 for job in problem.jobs)
    return iterations * tables * len(problem.cost.pieces)


def _result(searched: Search, name: str, answer: Answer) -> Result:
    """Return an answer in the unit of its metric, with its schedule and metrics."""
    known, instance = OBJECTIVES[name], searched.instance
    key = amount_key(name)
    seconds = searched.clock.elapsed_s
    if answer.best is None:
        status = INFEASIBLE if answer.proved else UNKNOWN
        bound = None if answer.bound is None else known.value(instance, answer.bound)
        return Result(status, name, bound=bound, bound_amount=answer.bound, wall_s=seconds,
                      interrupted=searched.interrupted)
    amount = answer.best.amounts[key]
    bound_amount = amount if answer.proved or answer.bound is None else answer.bound
    value, bound = known.value(instance, amount), known.value(instance, bound_amount)
    better, worse = (bound, value) if known.maximise else (value, bound)
    return Result(
        status=OPTIMAL if answer.proved else FEASIBLE,
        minimize=name,
        value=value,
        bound=bound,
        gap=(better - worse) / better if better else 0.0,
        wall_s=seconds,
        schedule=answer.best.schedule,
        metrics=report(instance, answer.best.schedule),
        amount=amount,
        bound_amount=bound_amount,
        interrupted=searched.interrupted,
    )
