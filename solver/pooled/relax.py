"""What the pooled relaxation says about an optimum: a lower bound, and a schedule that is often close to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from instances.schedule import Schedule
from instances.units import PS_PER_US
from solver.pooled.beam import Beam
from solver.pooled.labels import Relaxation
from solver.pooled.late import Late, latecomers, splits
from solver.pooled.plan import Plan
from solver.pooled.pool import Pool
from solver.pooled.sets import Sets
from solver.pooled.states import END, FIRST, LAST, Demand, Label
from solver.problem import Job, Problem
from solver.run import Clock

AIMS = {"mean_ttft": FIRST, "mean_e2e": LAST, "weighted_e2e": LAST, "makespan": END}
"""Objectives that the relaxation bounds, and what they weigh."""
LATE_SHARE, LATE_BEAM = 0.3, 100
"""Share of the time for requests that arrive late, and the width of the beams over them."""
WORK = 0.02
"""Units of work that one expansion of labels counts for."""


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation said.

    Parameters
    ----------
    bound
        No schedule has a smaller amount (µs); where the cutoff was reached, that is the cutoff.
    schedules
        Those that follow the relaxation's optimum, none where it was not found.
    decided
        Whether the optimum was found, or the cutoff reached.
    first_tokens
        When they come in the relaxation's optimum, in µs from the origin per index of the job; empty where it was not
        found.
    """

    bound: int
    schedules: Sequence[Schedule]
    decided: bool
    first_tokens: Mapping[int, int] = field(default_factory=dict)


class Relaxer:
    """Relaxations of one problem for one objective and gap limit.

    Parameters
    ----------
    problem, name
        What.
    gap_us
        Largest TBT gap that every wanted schedule obeys, None without one.
    dearer
        How many times what contexts add to a token on average is added to the least rate. Where it is not 0 nothing is
        proved, but paths are easier to follow.

    Attributes
    ----------
    proved
        The best lower bound (µs) so far, interrupted searches included.
    """

    def __init__(self, problem: Problem, name: str, gap_us: int | None, *, dearer: int = 0) -> None:
        self.problem = problem
        self.name = name
        self.gap_us = gap_us
        self.aim = AIMS[name]
        self.proved = 0
        self.weights = {job.index: self._weight(name, job) for job in problem.jobs}
        full = problem.engine.largest_chunk
        piece = max(problem.cost.pieces, key=lambda p: p.base_us * PS_PER_US + p.prefill_ps * full)
        self.curves = {job.index: problem.prefill_curve(piece, job) for job in problem.jobs}
        tokens = sum(job.left for job in problem.jobs)
        work = sum(curve[-1] for curve in self.curves.values()) * PS_PER_US
        self.context_ps = max(0, work // max(1, tokens) - piece.prefill_ps)
        piece = replace(piece, prefill_ps=piece.prefill_ps + dearer * self.context_ps)
        self.pool = Pool(problem, piece, gap_us, self.weights, last_tokens=self.aim == LAST)
        self.sets = Sets(self.pool, self.curves)
        self.late: list[Late] = []
        arrivals = sum(self.weights[job.index] * job.arrival for job in problem.jobs)
        self.shift = arrivals * PS_PER_US + (self.pool.slack_ps if self.aim == END else 0)

    def _weight(self, name: str, job: Job) -> int:
        if self.aim == END:
            return 0
        if name == "mean_ttft":
            return 0 if job.request.starts_in_decode else 1
        return job.request.weight if name == "weighted_e2e" else 1

    def take_apart(self, clock: Clock) -> None:
        """Bound what those who arrive late cost alone; it helps all searches that follow."""
        if self.aim == END:
            return
        clock, count = clock.part(LATE_SHARE * clock.left_s), len(splits(self.pool))

        def least(pool: Pool, late: Sequence[Late]) -> int:
            sets, part = Sets(pool, self.curves), clock.part(clock.left_s / (count - len(late)))
            beam = Beam(Relaxation(pool, sets, self.aim, exact=False, late=late), LATE_BEAM).run(self._stop(part))
            cutoff = beam[0][-1].estimate + 1 if beam else None
            search = Relaxation(pool, sets, self.aim, exact=False, late=late, cutoff=cutoff)
            search.run(self._stop(part))
            return search.bound or 0

        self.late = latecomers(self.pool, least)

    def amount(self, relaxed_ps: int) -> int:
        """Return the least amount in µs that a relaxed optimum allows."""
        return -(-(relaxed_ps - self.shift) // PS_PER_US)

    def cutoff(self, best: int | None) -> int | None:
        """Return the relaxed amounts in ps from which on no schedule is better than `best` µs."""
        return None if best is None else (best - 1) * PS_PER_US + self.shift + 1

    def solve(self, best: int | None, clock: Clock, *, exact: bool = True) -> Relaxed:
        """Search for an optimum that may be better than `best`, `exact` to the µs or faster."""
        search = self._search(best, exact=exact)
        try:
            decided = search.run(self._stop(clock))
        except KeyboardInterrupt:
            self.proved = max(self.proved, self.amount(search.proved))
            raise
        bound = 0 if search.bound is None else max(0, self.amount(search.bound))
        self.proved = max(self.proved, bound)
        path = search.path
        first = {self.pool.members[at.event].index: at.time // PS_PER_US for at in path if at.event >= 0}
        return Relaxed(bound, self._planned([path] if path else []), decided, first)

    def path(self, best: int, clock: Clock) -> tuple[list[Label], int]:
        """Return the path of an optimum that may be as good as `best`, empty where there is none, and the bound."""
        search = self._search(best + 1)
        search.run(self._stop(clock))
        return search.path, 0 if search.bound is None else max(0, self.amount(search.bound))

    def is_impossible(self, best: int, demand: Demand, clock: Clock) -> bool:
        """Return whether it is proved that no schedule that meets a demand is better than `best`."""
        search = self._search(best, demand=demand)
        return search.run(self._stop(clock)) and not search.path

    def beam(self, best: int | None, width: int, clock: Clock, narrow: int | None = None) -> list[Schedule]:
        """Return schedules that follow a good path of the relaxation, none where none was found in time."""
        return self._planned(Beam(self._search(best), width, narrow).run(self._stop(clock)))

    def _search(self, best: int | None, demand: Demand | None = None, *, exact: bool = False) -> Relaxation:
        exact = exact and self.aim != END
        return Relaxation(self.pool, self.sets, self.aim, cutoff=self.cutoff(best), demand=demand, exact=exact,
                          late=self.late)

    def _stop(self, clock: Clock) -> Callable[[], bool]:
        def stop() -> bool:
            clock.charge(WORK)
            return not clock.left_s

        return stop

    def _planned(self, paths: Sequence[list[Label]]) -> list[Schedule]:
        plans = [Plan(self.pool, path, self.gap_us, patient=patient) for path in paths for patient in (False, True)]
        return [schedule for plan in plans if (schedule := plan.schedule()) is not None]


def relaxer(problem: Problem, name: str, limits: Mapping[str, int]) -> Relaxer | None:
    """Return the relaxations for an objective under limits in µs, None where they do not apply."""
    if name not in AIMS:
        return None
    found = Relaxer(problem, name, limits.get("max_tbt"))
    return found if found.pool.applies else None
