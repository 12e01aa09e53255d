"""Why no schedule obeys the limits: a small set of them that conflict, and how far each must be loosened.

The set is found by deletion (Chinneck & Dravnieks, Locating minimal infeasible constraint sets in linear programs,
ORSA Journal on Computing 3, 1991): limits are dropped one after the other; one without which there is still no
schedule stays out, one without which there is a schedule stays in. What is left conflicts, and each member matters:
with fewer other limits than when it was tested there is a schedule without it all the more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from instances.check import violations
from instances.objectives import OBJECTIVES, amount_key
from instances.schedule import Schedule
from solver.limits import COUNTED, ENGINE, LOOSEST, METRIC, Limit, Relaxations, unit_of, user_limits
from solver.result import ConflictingLimit
from solver.search import Search

SHARE = 0.3
"""Largest share of the time left that one question may take."""


def conflict(search: Search, limits: Mapping[str, float], max_preemptions: int) -> tuple[ConflictingLimit, ...]:
    """Return an irreducible set of limits that no schedule obeys together.

    Parameters
    ----------
    search
        Of an instance in which no schedule obeys `limits` (proved); its clock limits this too.
    limits
        Metric name -> limit in the metric's unit.
    max_preemptions
        As for `solve`.
    """
    relaxed = Relaxations(search, max_preemptions)
    every = user_limits(search.instance, limits, no_pause=search.no_pause)
    try:
        return Conflict(relaxed, every).members()
    except KeyboardInterrupt:
        search.interrupted = True
        return ()
    finally:
        search.interrupted = search.interrupted or relaxed.interrupted


class Conflict:
    """The search for a conflict and its resolutions.

    Parameters
    ----------
    relaxed
        The problem without some of its limits.
    every
        All limits; together they are infeasible.
    """

    def __init__(self, relaxed: Relaxations, every: Sequence[Limit]) -> None:
        self.relaxed = relaxed
        self.every = list(every)
        self.clock = relaxed.search.clock

    def members(self) -> tuple[ConflictingLimit, ...]:
        """Return the members of one conflict, each with what is known about it; metrics are looked at first."""
        kept, matters = self._irreducible()
        first = sorted(kept, key=lambda limit: limit.kind != METRIC)
        found = {limit: self._resolved(limit, kept, matters[limit]) for limit in first}
        return tuple(found[limit] for limit in kept)

    @property
    def _share(self) -> float:
        return SHARE * self.clock.left_s

    @property
    def _stopped(self) -> bool:
        return self.relaxed.interrupted or not self.clock.left_s

    def _feasible(self, kept: Iterable[Limit]) -> bool | None:
        return None if self._stopped else self.relaxed.feasible(kept, self._share)

    def _irreducible(self) -> tuple[list[Limit], dict[Limit, bool | None]]:
        """Return limits that conflict, and per limit whether it is proved that it matters (None: not decided)."""
        kept, matters = self.every, dict.fromkeys(self.every, None)
        metrics = [limit for limit in kept if limit.kind == METRIC]
        if metrics and len(metrics) < len(kept) and self._feasible(metrics) is False:
            kept = metrics
        for limit in list(kept):
            others = [other for other in kept if other is not limit]
            found = self._feasible(others) if others else True
            if found is False:
                kept = others
            matters[limit] = found
        return kept, matters

    def _resolved(self, limit: Limit, kept: Sequence[Limit], matters: bool | None) -> ConflictingLimit:
        """Return a member with the least value that suffices: alone, or beside other conflicts within this one."""
        found = ConflictingLimit(limit.name, limit.kind, limit.value, unit_of(limit), matters)
        for scope, alone in ((self.every, True), (kept, False)):
            others = [other for other in scope if other is not limit]
            if self._stopped and not (limit.kind == METRIC and alone and not self.relaxed.interrupted):
                return found  # of a metric, heuristics and counting know something without more time
            better = self._loosened(limit, others, found)
            if better is not None:
                return replace(better, alone=alone)
        return found

    def _loosened(self, limit: Limit, others: Sequence[Limit], found: ConflictingLimit) -> ConflictingLimit | None:
        """Return what `limit` must be beside the `others`; None where no value of it suffices (proved)."""
        if limit.kind == METRIC:
            return self._least_metric(limit, others, found)
        if limit.name in COUNTED:
            return self._least_count(limit, others, found)
        for value in looser_values(limit):
            changed = [*others, replace(limit, value=value)] if limit.kind == ENGINE else others
            feasible = self._feasible(changed)
            if feasible is None:
                return found
            if feasible:
                return replace(found, needed=value, proved=True)
        return None

    def _least_metric(self, limit: Limit, others: Sequence[Limit], found: ConflictingLimit) -> ConflictingLimit | None:
        """Minimise the metric under the other limits."""
        search, known, key = self.relaxed.search_under(others), OBJECTIVES[limit.name], amount_key(limit.name)
        least = self.relaxed.amounts([limit])[key] + 1  # the limit itself is infeasible beside the others
        answer = search.optimum(key, self.relaxed.amounts(others), time_limit=self._share, at_least=least)
        if answer.best is None and answer.proved:
            return None
        bound = None if answer.bound is None else known.value(self.relaxed.instance, answer.bound)
        if answer.best is None:
            return replace(found, bound=bound)
        value = known.value(self.relaxed.instance, answer.best.amounts[key])
        return replace(found, needed=value, bound=value if answer.proved else bound, proved=answer.proved)

    def _least_count(self, limit: Limit, others: Sequence[Limit], found: ConflictingLimit) -> ConflictingLimit | None:
        """Search the smallest value by halving; a schedule found says how little of it is enough."""
        low, high = limit.value + 1, LOOSEST[limit.name](self.relaxed.instance)
        feasible = self._feasible([*others, replace(limit, value=high)])
        if feasible is None:
            return replace(found, bound=low)
        if not feasible:
            return None
        high = self._enough(limit, others, high)
        while low < high:
            middle = (low + high) // 2
            feasible = self._feasible([*others, replace(limit, value=middle)])
            if feasible is None:
                break
            if feasible:
                high = self._enough(limit, others, middle)
            else:
                low = middle + 1
        return replace(found, needed=high, bound=low, proved=low >= high)

    def _enough(self, limit: Limit, others: Sequence[Limit], value: int) -> int:
        """Return the smallest value under which a schedule known for `value` is valid."""
        search = self.relaxed.search_under([*others, replace(limit, value=value)])
        caps = self.relaxed.amounts(others)
        shown = [known.schedule for known in search.incumbents.found if known.obeys(caps)]
        return min((self._used(search, limit, schedule, value) for schedule in shown), default=value)

    def _used(self, search: Search, limit: Limit, schedule: Schedule, value: int) -> int:
        """Return the smallest value of an engine limit under which the checker accepts a schedule."""
        low, high = limit.value + 1, value
        while low < high:
            middle = (low + high) // 2
            engine = replace(search.instance.engine, **{limit.name: middle})
            if violations(replace(search.instance, engine=engine), schedule, no_pause=search.no_pause):
                low = middle + 1
            else:
                high = middle
        return high


def looser_values(limit: Limit) -> list[Any]:
    """Return the looser values of a limit that is not counted, the tightest first.

    Whole chunk units of a quantum are whole units of its divisors, and of no other smaller quantum.
    """
    if limit.name == "chunk_quantum":
        return [value for value in range(limit.value - 1, 0, -1) if limit.value % value == 0]
    if limit.kind == ENGINE:
        return [None if limit.name == "chunk_sizes" else True]
    return [False]
