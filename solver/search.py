"""Search: how one optimum is found and proved, by heuristics, bounds and a sequence of models.

Small models that only look for a better schedule come first: its amount caps the times of every better one, and so
the number of iterations that a conclusive model must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ortools.sat.python import cp_model

from instances.instance import Instance
from instances.objectives import amount_key
from instances.schedule import Schedule
from solver.answer import Answer as Answer
from solver.bounds import Bounds
from solver.build import ANY, Model
from solver.choices import Fixing
from solver.evictions import problem_for
from solver.hints import extract, finish, hint, timed
from solver.horizon import PREFIX_METRICS, Horizon, complete_horizon, prefix_horizon, require_small_weights
from solver.incumbent import Candidate, Incumbents
from solver.intervals.search import by_intervals
from solver.pooled.windows import Window
from solver.relaxing import by_relaxation
from solver.run import Clock, Progress, Settings, search
from solver.size import SizeGuard, estimated_size

GROWTH = 1.25
"""Models grow from this multiple of the fewest iterations, by this factor."""
SMALL_MODEL = 4_000
"""Estimated number of literals up to which a conclusive model is solved at once."""
TRIAL_SHARE = 0.15
"""Share of the time left for a small model that only looks for a better schedule."""


class Search:
    """All solves of one instance: they share the clock, the schedules found and the bounds.

    Parameters
    ----------
    instance, settings, clock
        What, how, and for how long.
    no_pause, max_preemptions, known, fixing
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
        known: Iterable[Schedule] = (),
        fixing: Fixing | None = None, tell: Progress | None = None,
    ) -> None:
        self.guard = SizeGuard(instance)
        self.instance = instance
        self.settings = settings
        self.clock = clock
        self.no_pause = no_pause
        self.tell = tell
        self.fixing = fixing
        self.problem = problem_for(instance, max_preemptions, no_pause=no_pause, fixing=fixing)
        self._ends_freely = not self.problem.evictions and (fixing is None or "decodes" not in fixing.kinds)
        self.bounds = Bounds(self.problem)
        self.incumbents = Incumbents(self.problem, no_pause, fixing)
        for schedule in known:
            self.incumbents.add(schedule)
        self.incumbents.add_heuristics(stop=lambda: not clock.left_s)
        self.windows: Mapping[int, Window] = {}
        self.interrupted = False

    def optimum(
        self, name: str, limits: Mapping[str, int], *, time_limit: float | None = None, at_least: int = 0
    ) -> Answer:
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
            A lower bound on the amount that is proved already; `ANY` where any schedule will do.
        """
        key = amount_key(name)
        if "weighted_e2e" in {key, *limits}:
            require_small_weights(self.problem)
        clock = self.clock.part(time_limit)
        bound = max(at_least, self.bounds.amount(key))
        if any(self.bounds.amount(other) > limit for other, limit in limits.items()):
            return Answer(None, None, True)
        best = self.incumbents.best(key, limits)
        answer = Answer(best, bound, best is not None and best.amounts[key] <= bound)
        try:
            if not answer.proved and self.fixing is None and by_intervals(self, key, limits, answer, clock):
                return answer
            self.windows = {}
            if not answer.proved and answer.bound != ANY:
                by_relaxation(self, key, limits, answer, clock)
            if not answer.proved and self._ends_freely and PREFIX_METRICS.issuperset({key, *limits}):
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
        if answer.is_close(name):
            return self._grow(name, limits, answer, clock, size, 0)
        # A short complete model finds good schedules, and they keep the prefix model small.
        count = int(GROWTH * self.bounds.fewest_iterations(self.problem.jobs)) + 2
        trial = replace(complete_horizon(self.problem, self.bounds, limits), iterations=count)
        answer = self.run(name, limits, answer, trial, clock.share(TRIAL_SHARE), conclusive=False)
        return self._grow(name, limits, answer, clock, size, self.bounds.fewest_prefill_iterations)

    def _complete(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Solve the complete model."""

        def size(caps: Mapping[str, int]) -> Horizon:
            return complete_horizon(self.problem, self.bounds, caps)

        return self._grow(name, limits, answer, clock, size, self.bounds.fewest_iterations(self.problem.jobs))

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
            small_enough = answer.is_close(name) or estimated_size(self.problem, needed.iterations) <= SMALL_MODEL
            if small_enough or needed.iterations <= GROWTH * count:
                return self.run(name, limits, answer, needed, clock)
            if self.guard.refuses(self.problem, count, clock.left_s):
                return answer
            before = answer.best
            small = replace(needed, iterations=count)
            answer = self.run(name, limits, answer, small, clock.share(TRIAL_SHARE), conclusive=False)
            if answer.best is before:
                count = int(GROWTH * count) + 1
        return answer

    def run(
        self,
        name: str,
        limits: Mapping[str, int],
        answer: Answer,
        size: Horizon,
        clock: Clock,
        *,
        conclusive: bool = True,
    ) -> Answer:
        """Build and solve one model of a size, and return what it adds to `answer`.

        It is `conclusive` where no schedule needs more iterations, so that its bounds hold for all of them.
        """
        if self.guard.refuses(self.problem, size.iterations, clock.left_s):
            return answer
        caps = self._caps(name, limits, answer.best)
        if answer.best is not None and conclusive:
            # The last model looks for better ones alone: a hint would keep its workers near what is known already.
            caps[name] = min(caps[name], answer.best.amounts[name] - 1)
        built = Model(self.problem, size, name, caps, no_pause=self.no_pause, fixing=self.fixing,
                      windows=self.windows)
        if answer.best is not None and not conclusive:
            hint(built.variables, answer.best.schedule)
        built.bound_from_below(answer.bound)
        solver, status = search(built.model, self.settings, clock, built.teller(self.tell))
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
