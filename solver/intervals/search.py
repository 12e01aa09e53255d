"""The search over intervals: annealing finds, prices on rows bound and exclude starts, CP-SAT closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ortools.sat.python import cp_model

from solver.build import ANY
from solver.incumbent import Candidate, Incumbents
from solver.intervals.costs import costs_of, latest_starts, measure_of
from solver.intervals.descent import Placement, anneal
from solver.intervals.lagrange import LARGEST_SUM, SCALE, Lagrangian
from solver.intervals.model import LARGEST_NESTED, LARGEST_ROWS, IntervalModel, entries, nested_size
from solver.intervals.rows import families
from solver.intervals.setting import COUNTED, SUMS, Rounds, rounds_of
from solver.problem import Problem
from solver.run import Clock, Progress, Settings, search

ANNEAL_SHARE, PRICE_SHARE, NESTED_SHARE = 0.15, 0.6, 0.7
"""Largest shares of the time left for annealing, for prices, and for the model without linear rows."""
ANNEAL_S = 0.001
"""Seconds of annealing at most, per request cubed: small instances are proved sooner than that."""
LEARNING = ("quick_restart", "no_lp", "default_lp", "reduced_costs", "max_lp", "pseudo_costs", "core", "lb_tree_search")
"""Subsolvers of the model without linear rows: those that learn from conflicts first."""
NESTED_PROVES = 10
"""Number of requests up to which the model without linear rows proves in moments."""


class Standing(Protocol):
    """What is known of an optimum; see `solver.search.Answer`."""

    best: Candidate | None
    bound: int | None
    proved: bool


class Searching(Protocol):
    """What asks for an optimum; see `solver.search.Search`."""

    problem: Problem
    no_pause: bool
    incumbents: Incumbents
    settings: Settings
    tell: Progress | None


def by_intervals(search: Searching, name: str, limits: Mapping[str, int], standing: Standing, clock: Clock) -> bool:
    """Improve what is known of an optimum, in place, where the formulation holds; return whether it does."""
    rounds = rounds_of(search.problem, no_pause=search.no_pause)
    if rounds is None:
        return False
    IntervalSearch(rounds, search.incumbents, search.settings, search.tell).improve(name, limits, standing, clock)
    return True


class IntervalSearch:
    """The search for one optimum; it improves what is known in place, so that an interrupt loses nothing.

    Parameters
    ----------
    rounds
        The instance.
    incumbents
        Where schedules are checked and kept.
    settings, tell
        As for `solver.search.Search`.
    """

    def __init__(self, rounds: Rounds, incumbents: Incumbents, settings: Settings, tell: Progress | None) -> None:
        self.rounds = rounds
        self.families = families(rounds)
        self.incumbents = incumbents
        self.settings = settings
        self.tell = tell
        self.placement = Placement(rounds, self.families)
        self.starts: list[int] | None = None

    def improve(self, name: str, limits: Mapping[str, int], standing: Standing, clock: Clock) -> None:
        """Improve schedule and bound of an objective until they meet or the time is over.

        Parameters
        ----------
        name, limits
            Objective, and largest amounts allowed in µs (a count for `slo_attainment`).
        standing
            What is known; changed in place.
        clock
            When to stop.
        """
        if standing.bound == ANY:
            self._solve(name, limits, standing, clock, linear=False)
            return
        small = len(self.rounds.spans) <= NESTED_PROVES
        target = self._anneal(name, limits, standing, clock, ANNEAL_SHARE)
        if small and not standing.proved:
            self._solve(name, limits, standing, clock.part(NESTED_SHARE * clock.left_s), linear=False)
        linear = name in (*SUMS, COUNTED)
        if linear and not standing.proved:
            self._price(name, limits, standing, clock.part(PRICE_SHARE * clock.left_s), target)
        if not small and not standing.proved:
            self._anneal(name, limits, standing, clock, ANNEAL_SHARE)
        if not standing.proved:
            self._solve(name, limits, standing, clock, linear=linear)

    def _anneal(
        self, name: str, limits: Mapping[str, int], standing: Standing, clock: Clock, share: float
    ) -> int:
        """Look for good orders; return the best amount, in rounds, whether it obeys the limits or not."""
        spans = self.rounds.spans
        measure = measure_of(self.rounds, name)
        keys = [lambda s: (s.rounds, s.prompt), lambda s: s.rounds * (s.prompt + s.peak), lambda s: -s.peak]
        orders = [[s.index for s in sorted(spans, key=key)] for key in keys]
        if self.starts is not None:
            orders = [[s.index for s in sorted(spans, key=lambda s: (self.starts or [])[s.index] + s.rounds)]]
        part = clock.part(min(share * clock.left_s, ANNEAL_S * len(spans) ** 3))
        starts = anneal(self.placement, orders, measure, part, self.settings.seed)
        self._keep(name, limits, standing, starts)
        return measure(starts)

    def _keep(self, name: str, limits: Mapping[str, int], standing: Standing, starts: Sequence[int]) -> bool:
        """Keep the schedule of starts if it is within the limits and the best; return whether it is within them."""
        found = self.incumbents.add(self.rounds.schedule(starts))
        if found is None or not found.obeys(limits):
            return False
        if standing.best is None or found.amounts[name] < standing.best.amounts[name]:
            standing.best, self.starts = found, list(starts)
        self._settle(name, standing)
        return True

    def _settle(self, name: str, standing: Standing, bound: int = 0) -> None:
        """Take over a bound, and say whether best and bound meet."""
        standing.bound = max(bound, standing.bound or 0)
        standing.proved = standing.best is not None and standing.best.amounts[name] <= standing.bound

    def _caps(self, name: str, limits: Mapping[str, int], standing: Standing) -> dict[str, int]:
        """Return the limits, and that only better schedules matter."""
        caps = dict(limits)
        if standing.best is not None:
            better = standing.best.amounts[name] - 1
            caps[name] = min(better, caps.get(name, better))
        return caps

    def _price(
        self, name: str, limits: Mapping[str, int], standing: Standing, clock: Clock, target: int
    ) -> None:
        """Find prices for the rows, and take over the bound that they prove."""
        last = latest_starts(self.rounds, self._caps(name, limits, standing))
        if min(last) < 0:
            self._nothing_better(name, standing)
            return
        costs = [cost[: end + 1] for cost, end in zip(costs_of(self.rounds, name), last, strict=True)]
        if SCALE * sum(int(cost.max()) for cost in costs) > LARGEST_SUM:
            return
        lagrangian = Lagrangian(self.families, costs)
        prices = lagrangian.improve(clock, target)
        unit = self.rounds.amount_us(name, 1)
        best = standing.best
        cap = best.amounts[name] // unit - 1 if best is not None else sum(int(cost.max()) for cost in costs)
        proof = lagrangian.proof(prices, cap)
        self._priced = lagrangian, prices
        if best is not None and any(not len(starts) for starts in proof.allowed):
            self._nothing_better(name, standing)
            return
        # the costs left out are those of schedules that are not better than the best
        bound = proof.bound if best is None else min(proof.bound, cap + 1)
        self._settle(name, standing, bound * unit)
        if self.tell is not None:
            self.tell(f"{name}: bound {bound * unit} from prices")

    def _nothing_better(self, name: str, standing: Standing) -> None:
        """Note that no schedule within the limits is better than the best, or that there is none."""
        standing.proved = True
        if standing.best is not None:
            standing.bound = standing.best.amounts[name]

    def _allowed(self, name: str, caps: Mapping[str, int], standing: Standing) -> list[list[int]]:
        """Return the starts that a better schedule may have."""
        last = latest_starts(self.rounds, caps)
        allowed = [range(end + 1) for end in last]
        priced = getattr(self, "_priced", None)
        if priced is None or standing.best is None:
            return [list(starts) for starts in allowed]
        lagrangian, prices = priced
        cap = standing.best.amounts[name] // self.rounds.amount_us(name, 1) - 1
        kept = lagrangian.proof(prices, cap).allowed
        return [[int(s) for s in starts if s <= end] for starts, end in zip(kept, last, strict=True)]

    def _solve(
        self, name: str, limits: Mapping[str, int], standing: Standing, clock: Clock, *, linear: bool
    ) -> None:
        """Solve the model for better schedules alone, and take over what it finds and proves."""
        caps = self._caps(name, limits, standing)
        allowed = self._allowed(name, caps, standing)
        if not all(allowed):
            self._nothing_better(name, standing)
            return
        if nested_size(self.families) > LARGEST_NESTED or not clock.left_s:
            return
        linear = linear and entries(self.families, allowed) <= LARGEST_ROWS
        built = IntervalModel(self.rounds, self.families, name, caps, allowed, linear=linear)
        built.bound_from_below(standing.bound)
        settings = self.settings if linear else replace(self.settings, portfolio=LEARNING)
        solver, status = search(built.model, settings, clock, built.teller(self.tell))
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT rejects the model: {built.model.validate()}")
        if status == cp_model.INFEASIBLE:
            self._nothing_better(name, standing)
            return
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            starts = [solver.value(start) for start in built.starts]
            if not self._keep(name, limits, standing, starts):
                raise RuntimeError("the model accepted starts that the checker rejects; please report the instance")
        if standing.bound != ANY:
            proved = self.rounds.amount_us(name, max(0, -int(-solver.best_objective_bound // 1)))
            optimal = status == cp_model.OPTIMAL and standing.best is not None
            self._settle(name, standing, standing.best.amounts[name] if optimal and standing.best else proved)
