"""Schedules that are known before the search: the heuristics', retimed and judged by the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from heuristics.policy import PolicyError
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Schedule
from instances.units import ms_from_us
from solver.choices import Fixing
from solver.problem import Problem
from solver.timing import Batch, durations, earliest

BASIC = ("greedy-chunked", "greedy-chunked:order=srpt", "prefill-first", "orca", "static")
"""Policies that are run first."""


@dataclass(frozen=True)
class Candidate:
    """A valid schedule with its exact amounts (µs, sums of µs, a count)."""

    schedule: Schedule
    amounts: Mapping[str, int]

    def obeys(self, limits: Mapping[str, int]) -> bool:
        """Return whether no amount exceeds its limit."""
        return all(self.amounts[name] <= limit for name, limit in limits.items())


def candidate(
    instance: Instance,
    schedule: Schedule,
    *,
    no_pause: bool = False,
    max_preemptions: int = 0,
    fixing: Fixing | None = None,
) -> Candidate | None:
    """Return `schedule` with its amounts, None where it breaks a rule, the bound on evictions, or what is held."""
    if violations(instance, schedule, no_pause=no_pause):
        return None
    if most_evictions(schedule) > max_preemptions:
        return None
    if fixing is not None and not fixing.admits(instance, schedule):
        return None
    return Candidate(schedule, amounts(instance, schedule))


def most_evictions(schedule: Schedule) -> int:
    """Return the largest number of evictions of one request."""
    counts = Counter(name for iteration in schedule.iterations for name in iteration.evict)
    return max(counts.values(), default=0)


@dataclass
class Incumbents:
    """The valid schedules known so far; the solver's answer is never worse than the best of them.

    Parameters
    ----------
    problem
        Of the solver.
    no_pause
        Keep only schedules without pauses.
    fixing
        Keep only schedules that choose so.
    """

    problem: Problem
    no_pause: bool = False
    fixing: Fixing | None = None
    found: list[Candidate] = field(default_factory=list)
    _stalls: set[int] = field(default_factory=set)

    def add(self, schedule: Schedule) -> Candidate | None:
        """Keep a schedule if the checker accepts it; return it with its amounts."""
        known = self._judged(schedule)
        if known is not None:
            self.found.append(known)
        return known

    def _judged(self, schedule: Schedule) -> Candidate | None:
        problem = self.problem
        return candidate(
            problem.instance, schedule, no_pause=self.no_pause, max_preemptions=problem.allowed, fixing=self.fixing
        )

    def add_heuristics(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Run the heuristics until one has a schedule and `stop()` holds; a policy that fails is left out."""
        for name in BASIC:
            self._simulate(name)
            if self.found and stop():
                return
        self.add(serial(self.problem))
        for name in heuristic_names(self.problem):
            if stop():
                return
            self._simulate(name)

    def add_stall_limited(self, stall_us: int) -> None:
        """Run greedy chunking that keeps iterations with decodes within a limit on gaps, once per limit."""
        if stall_us not in self._stalls and stall_us > 0:
            self._stalls.add(stall_us)
            for order in ("fcfs", "srpt", "spf"):
                self._simulate(f"greedy-chunked:stall_ms={ms_from_us(stall_us)},order={order}")

    def _simulate(self, name: str) -> None:
        try:
            self.add(simulate(self.problem.instance, name).schedule)
        except PolicyError:
            return

    def best(self, objective: str, limits: Mapping[str, int]) -> Candidate | None:
        """Return the best schedule that obeys the limits, mean E2E breaking ties; None where there is none.

        A schedule whose gaps are too long is tried once more with its iterations moved: waiting can help.
        """
        good = [known for known in self.found if known.obeys(limits)]
        if "max_tbt" in limits:
            self.add_stall_limited(limits["max_tbt"])
            good = [known for known in self.found if known.obeys(limits)]
            good += [moved for known in self.found if (moved := self._moved(known, limits)) is not None]
        return min(good, key=lambda known: (known.amounts[objective], known.amounts["mean_e2e"]), default=None)

    def _moved(self, known: Candidate, limits: Mapping[str, int]) -> Candidate | None:
        if known.amounts["max_tbt"] <= limits["max_tbt"]:
            return None
        gap_limits = {r.id: limits["max_tbt"] for r in self.problem.instance.requests}
        schedule = earliest(self.problem.instance, known.schedule, gap_limits, self.problem.releases_us)
        moved = None if schedule is None else self._judged(schedule)
        return moved if moved is not None and moved.obeys(limits) else None


def heuristic_names(problem: Problem) -> list[str]:
    """Return the policies to try beside the basic ones: greedy chunking with a ladder of chunk caps, and all others."""
    names = [name for name in policy_names() if name not in BASIC]
    if not problem.engine.enable_chunked_prefill:
        return names
    unit = max((job.unit for job in problem.jobs if job.left), default=1)
    top = min(problem.engine.largest_chunk, max(job.left for job in problem.jobs) or 1)
    caps = sorted({-(-top * part // (8 * unit)) * unit for part in range(1, 8)} | {unit})
    return [f"greedy-chunked:chunk={cap},order={order}" for cap in caps for order in ("fcfs", "srpt")] + names


def serial(problem: Problem) -> Schedule:
    """Return one request after the other, residents first: no schedule has shorter iterations with decodes."""
    batches: list[Batch] = []
    for job in sorted(problem.jobs, key=lambda job: (not job.resident, job.arrival)):
        name, left = job.request.id, job.left
        while left:
            chunk = problem.engine.largest_allowed_chunk(left, problem.engine.max_num_batched_tokens)
            batches.append(Batch({name: chunk}, ()))
            left -= chunk
        batches += [Batch({}, (name,))] * job.decodes
    timed = earliest(problem.instance, durations(problem.instance, batches, "serial"))
    assert timed is not None, "without gap limits every sequence has a timing"
    return timed
