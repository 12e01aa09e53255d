"""The objectives of model.md §6 as expressions over the model's variables, made on first use.

Every amount is only bounded from below by the schedule (it is minimised or limited from above), so `Result` values
are always recomputed from the extracted schedule, never read from these variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ortools.sat.python import cp_model

from solver.lookup import Expression
from solver.problem import Job
from solver.variables import Variables

WIDEST_PAIRS = 3
"""Gaps of at most so many iterations are stated pair by pair; wider ones through the time of the latest token."""


class Objectives:
    """Amounts of objectives, in ticks (a count for `slo_attainment`).

    Parameters
    ----------
    variables
        Of the model.
    complete
        As for `Constraints`; only first tokens and gaps make sense where it is False.
    longest_gap
        An upper bound on `max_tbt` in ticks that every wanted solution obeys, None without one.
    """

    def __init__(self, variables: Variables, *, complete: bool, longest_gap: int | None = None) -> None:
        self.v = variables
        self.model = variables.model
        self.problem = variables.problem
        self.complete = complete
        self.longest_gap = longest_gap
        shortest = self.problem.ticks(self.problem.shortest_us)
        self.window = None if longest_gap is None or not shortest else longest_gap // shortest
        self.steps = range(variables.iterations)

    def amount(self, name: str) -> Expression:
        """Return the amount of an objective; `throughput` is the makespan."""
        wanted: Expression = getattr(self, "makespan" if name == "throughput" else name)
        return wanted

    @property
    def makespan(self) -> Expression:
        """End of the last iteration (times count from the earliest arrival)."""
        return self.v.end[-1]

    @cached_property
    def first_token(self) -> dict[int, cp_model.IntVar]:
        """Add T_i >= end[k] while i has not begun to emit before k, and return the T_i."""
        return {
            job.index: self._reached_by(job, self.v.begun_before, "first_token")
            for job in self.problem.jobs
            if not job.request.starts_in_decode
        }

    @cached_property
    def last_token(self) -> dict[int, cp_model.IntVar]:
        """Add L_i >= end[k] while i is not finished before k, and return the L_i."""
        return {job.index: self._reached_by(job, self.v.finished_before, "last_token") for job in self.problem.jobs}

    def _reached_by(self, job: Job, before, name: str) -> cp_model.IntVar:  # type: ignore[no-untyped-def]
        time = self.model.new_int_var(0, self.v.horizon, f"{name}_{job.index}")
        for k in self.steps:
            flag = before(job, k)
            row = self.model.add(time >= self.v.end[k])
            if isinstance(flag, cp_model.IntVar):
                row.only_enforce_if(flag.negated())
        return time

    def _arrivals(self, jobs: Iterator[int]) -> int:
        return sum(self.problem.ticks(self.problem.jobs[i].arrival) for i in jobs)

    @cached_property
    def mean_ttft(self) -> Expression:
        """Σ (T_i - a_i)."""
        return sum(self.first_token.values()) - self._arrivals(iter(self.first_token))

    @cached_property
    def mean_e2e(self) -> Expression:
        """Σ (L_i - a_i)."""
        return sum(self.last_token.values()) - self._arrivals(iter(self.last_token))

    @cached_property
    def weighted_e2e(self) -> Expression:
        """Σ w_i (L_i - a_i)."""
        return sum(
            job.request.weight * (self.last_token[job.index] - self.problem.ticks(job.arrival))
            for job in self.problem.jobs
        )

    @cached_property
    def max_ttft(self) -> Expression:
        """Add m >= T_i - a_i, and return m."""
        return self._largest("max_ttft", self.first_token)

    @cached_property
    def max_e2e(self) -> Expression:
        """Add m >= L_i - a_i, and return m."""
        return self._largest("max_e2e", self.last_token)

    def _largest(self, name: str, times: dict[int, cp_model.IntVar]) -> cp_model.IntVar:
        largest = self.model.new_int_var(0, self.v.horizon, name)
        for i, time in times.items():
            self.model.add(largest >= time - self.problem.ticks(self.problem.jobs[i].arrival))
        return largest

    @cached_property
    def latest_token(self) -> dict[int, list[cp_model.IntVar]]:
        """Add last[k] <= end[k], and <= last[k-1] where i holds tokens but emits none in k; return the last[k].

        last[k] is at most the time of the latest token of i at the end of k; the gap rows press it upwards.
        """
        result = {}
        for job in self.problem.jobs:
            if not job.decodes:
                continue
            before = self._before_start(job)
            row: list[cp_model.IntVar] = []
            for k in self.steps:
                latest = self.model.new_int_var(min(before, 0), self.v.horizon, f"latest_token_{job.index}_{k}")
                self.model.add(latest <= self.v.end[k])
                paused: list[cp_model.LiteralT] = [self.v.later[job.index][k].negated()]
                flag = self.v.begun_before(job, k)
                if isinstance(flag, cp_model.IntVar):
                    paused.append(flag)
                if k or not job.left:
                    self.model.add(latest <= (row[-1] if k else before)).only_enforce_if(paused)
                row.append(latest)
            result[job.index] = row
        return result

    def _before_start(self, job: Job) -> int:
        """Return the latest token's time before the first iteration, in ticks."""
        return -self.problem.ticks(-(job.last_token or 0))

    def gap_rows(self, job: Job) -> Iterator[tuple[Expression, list[cp_model.LiteralT]]]:
        """Yield every gap that a token of `job` may close, with the literals under which it does."""
        if not job.decodes:
            return
        if self.window is not None and self.window <= WIDEST_PAIRS:
            yield from self._gap_pairs(job, self.window)
            return
        latest = self.latest_token[job.index]
        for k in self.steps:
            before = latest[k - 1] if k else self._before_start(job)
            if k or not job.left:
                yield self.v.end[k] - before, [self.v.later[job.index][k]]
        if not self.complete:
            # A relaxation stops early, but the next token of an unfinished request still takes one iteration.
            last = self.steps[-1]
            open_gap = self.v.end[last] + self.problem.ticks(self.problem.shortest_us) - latest[last]
            yield open_gap, [self.v.finished[job.index][last].negated()]

    def _gap_pairs(self, job: Job, window: int) -> Iterator[tuple[Expression, list[cp_model.LiteralT]]]:
        """Yield the gaps between iterations at most `window` apart: a token in k, none since the one in k - apart.

        Wider gaps hold too many iterations to be short enough, and the cut on gap windows forbids them.
        """
        later = self.v.later[job.index]
        for k in self.steps:
            for before, literals in self._quiet_since(job, k, window):
                yield self.v.end[k] - before, [later[k], *literals]
            if not self.complete:
                # A prefix model stops here, but the next token of an unfinished request still takes one iteration.
                unfinished = [self.v.used[k], self.v.finished[job.index][k].negated(), later[k].negated()]
                unfinished += [self.v.used[m].negated() for m in self.steps[k + 1 : k + 2]]
                shortest = self.problem.ticks(self.problem.shortest_us)
                for before, literals in self._quiet_since(job, k, window - 1):
                    yield self.v.end[k] + shortest - before, [*unfinished, *literals]

    def _quiet_since(self, job: Job, k: int, window: int) -> Iterator[tuple[Expression, list[cp_model.LiteralT]]]:
        """Yield ends before k since which job may have been quiet: it had begun by then, no token between."""
        for start in range(k - 1, max(-2, k - 1 - window), -1):
            quiet: list[cp_model.LiteralT] = [self.v.later[job.index][m].negated() for m in range(start + 1, k)]
            if start >= 0:
                yield self.v.end[start], [*quiet, *([self.v.begun[job.index][start]] if job.left else [])]
            elif start == -1 and not job.left:
                yield self._before_start(job), quiet

    @cached_property
    def max_tbt(self) -> Expression:
        """Add m >= every gap, and return m."""
        top = self.v.horizon - min(self._before_start(job) for job in self.problem.jobs)
        if not self.complete:
            top += self.problem.ticks(self.problem.shortest_us)  # the gap left open at the end
        top = top if self.longest_gap is None else min(top, self.longest_gap)
        largest = self.model.new_int_var(0, top, "max_tbt")
        for job in self.problem.jobs:
            for gap, literals in self.gap_rows(job):
                self.model.add(gap <= largest).only_enforce_if(literals)
        return largest

    @cached_property
    def slo_attainment(self) -> Expression:
        """Add met_i -> all SLOs of i, and return the number of requests that miss."""
        return sum(1 - met for met in self.met.values())

    @cached_property
    def met(self) -> dict[int, cp_model.IntVar]:
        """Literals that a request keeps its SLOs, for the requests that have some."""
        result = {}
        for job in self.problem.jobs:
            request = job.request
            ttft = None if request.starts_in_decode else request.ttft_slo_us
            if ttft is None and request.tbt_slo_us is None and request.e2e_slo_us is None:
                continue
            met = self.model.new_bool_var(f"met_{job.index}")
            arrival = self.problem.ticks(job.arrival)
            if ttft is not None:
                limit = arrival + self.problem.ticks(ttft)
                self.model.add(self.first_token[job.index] <= limit).only_enforce_if(met)
            if request.e2e_slo_us is not None:
                limit = arrival + self.problem.ticks(request.e2e_slo_us)
                self.model.add(self.last_token[job.index] <= limit).only_enforce_if(met)
            if request.tbt_slo_us is not None:
                limit = self.problem.ticks(request.tbt_slo_us)
                for gap, literals in self.gap_rows(job):
                    self.model.add(gap <= limit).only_enforce_if([met, *literals])
            result[job.index] = met
        return result
