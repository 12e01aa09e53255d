"""The search for one optimum where requests may be evicted: problems without evictions come first."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from solver.bounds import Bounds
from solver.build import ANY
from solver.horizon import complete_horizon
from solver.incumbent import Incumbents
from solver.problem import Problem
from solver.run import Clock
from solver.scarcity import evictions_are_useless, without_scarcity
from solver.search import SMALL_MODEL, Answer, Search
from solver.size import estimated_size

EASE_SHARE = 0.15
"""Share of the time left for the problem without scarcity, before a large one with evictions."""
STAY_SHARE = 0.3
"""Share of the time left for the problem without evictions, whose schedule may well be the best."""


class EvictingSearch(Search):
    """A search that looks at two problems without evictions before it models any; parameters as for `Search`.

    One keeps all limits: its schedules are schedules. The other has seats, pool and unfinished prefills for all: where
    evictions are useless then, its bounds hold whatever is evicted.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._without_scarcity: dict[tuple[str, tuple[tuple[str, int], ...]], Answer] = {}

    def _complete(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Solve the complete model, a large one that evicts after the two that do not."""
        if self.problem.evictions and answer.bound != ANY and self.fixing is None:
            needed = complete_horizon(self.problem, self.bounds, self._caps(name, limits, answer.best))
            if estimated_size(self.problem, needed.iterations) > SMALL_MODEL:
                answer = self._eased(name, limits, answer, clock)
                if not answer.proved:
                    answer = self._staying(name, limits, answer, clock)
        return answer if answer.proved else super()._complete(name, limits, answer, clock)

    def _staying(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Look for schedules without evictions; only what they reach is kept."""
        stay = self._on(Problem(self.instance, allowed=self.problem.allowed))
        found = stay._complete(name, limits, replace(answer), clock.part(STAY_SHARE * clock.left_s))
        best, bound = found.best, answer.bound
        return Answer(best, bound, best is not None and bound is not None and best.amounts[name] <= bound)

    def _eased(self, name: str, limits: Mapping[str, int], answer: Answer, clock: Clock) -> Answer:
        """Take over the bound of the problem without scarcity, and its schedule where it obeys the limits."""
        found = self.whatever_is_evicted(name, limits, clock)
        if found is None:
            return answer
        if found.best is None and found.proved:
            return Answer(None, None, True)
        if found.best is not None:
            self.incumbents.add(found.best.schedule)
        best, bound = self.incumbents.best(name, limits), max(answer.bound or 0, found.bound or 0)
        return Answer(best, bound, best is not None and best.amounts[name] <= bound)

    def whatever_is_evicted(self, name: str, limits: Mapping[str, int], clock: Clock) -> Answer | None:
        """Return what a share of the time proves without scarcity, whatever is evicted; None where that is nothing."""
        key = name, tuple(sorted(limits.items()))
        if key not in self._without_scarcity:
            plenty = without_scarcity(self.instance)
            if not evictions_are_useless(plenty, no_pause=self.no_pause):
                return None
            eased = self._on(Problem(plenty, allowed=self.problem.allowed))
            self._without_scarcity[key] = eased.optimum(name, limits, time_limit=EASE_SHARE * clock.left_s)
            if eased.interrupted:
                raise KeyboardInterrupt
        return self._without_scarcity[key]

    def _on(self, problem: Problem) -> EvictingSearch:
        """Return this search on another problem; it shares the clock, and the schedules too if the instance is ours."""
        other = copy(self)
        other.problem, other.bounds, other.instance = problem, Bounds(problem), problem.instance
        other._ends_freely = True
        if problem.instance is not self.instance:
            other.incumbents = Incumbents(problem, self.no_pause, found=list(self.incumbents.found))
        return other
