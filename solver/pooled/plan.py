"""A schedule from an optimum of the relaxation: its first tokens in order, its blocks filled by earliest deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

from instances.schedule import Schedule
from instances.units import PS_PER_US
from solver.pooled.pool import Pool
from solver.pooled.states import Label
from solver.problem import Job
from solver.timing import Batch, durations, earliest


class Plan:
    """Follows a path of labels with the true durations.

    Parameters
    ----------
    pool
        Of the relaxation.
    path
        Labels from the start on.
    gap_us
        Largest TBT gap, None without a limit.
    patient
        Whether no first token comes before its iteration on the path: what is live slows down whatever is prefilled
        beside it. Else each comes as soon as it can.
    """

    def __init__(self, pool: Pool, path: Sequence[Label], gap_us: int | None, *, patient: bool = False) -> None:
        self.pool = pool
        self.problem = pool.problem
        self.gap_us = gap_us
        self.path = path
        self.patient = patient
        self.order = [self._job(label.event) for label in path if label.event >= 0]
        self.left = {job.index: job.left for job in self.problem.jobs}
        self.decodes = {job.index: 0 if job.left else job.decodes for job in self.problem.jobs}
        self.batches: list[Batch] = []
        self.processed = path[0].units
        self.computed: dict[str, int] = {}
        self.contexts: list[int] = []

    def _job(self, place: int) -> Job:
        return self.problem.jobs[self.pool.members[place].index]

    def schedule(self) -> Schedule | None:
        """Return the schedule at its earliest times under the gap limit, None where there is none."""
        for number, (before, label) in enumerate(pairwise(self.path), start=1):
            self._follow(before, label, self.path[number:])
        everyone = len(self.pool.arrivals)
        while any(self.left.values()) or any(self.decodes.values()):
            if not self._iterate(self._unfinished, self.pool.total, everyone):
                return None
        instance = self.problem.instance
        limits = {} if self.gap_us is None else {r.id: self.gap_us for r in instance.requests}
        return earliest(instance, durations(instance, self.batches, "exact"), limits)

    @property
    def _unfinished(self) -> list[Job]:
        return [job for job in self.order if self.left[job.index]][:1]

    def _follow(self, before: Label, label: Label, ahead: Sequence[Label]) -> None:
        """Append the iterations between two labels; `ahead` are the second one and those that follow it."""
        count = label.iterations - before.iterations
        if label.event < 0:
            for _ in range(count):
                self._iterate([], label.units, before.arrived, held=self.patient)
            return
        job = self._job(label.event)
        if not count and self._joins(job):
            return
        if self.patient:
            for _ in range(count - 1):
                self._iterate([], label.units, before.arrived, held=True)
            at_once = takewhile(lambda after: after.iterations == label.iterations and after.event >= 0, ahead)
            self._iterate([self._job(after.event) for after in at_once], label.units, before.arrived)
        while self.left[job.index] and self._iterate([job], label.units, before.arrived):
            pass

    def _joins(self, job: Job) -> bool:
        """Put the end of a prefill into the last batch, if it fits."""
        if not self.batches:
            return False
        chunks, decode = self.batches[-1][:2]
        more = {**chunks, job.request.id: chunks.get(job.request.id, 0) + self.left[job.index]}
        if not self._fits(more):
            return False
        self.batches[-1] = Batch(more, decode)
        self._prefilled(job, self.left[job.index])
        return True

    def _prefilled(self, job: Job, tokens: int) -> None:
        self.left[job.index] -= tokens
        self.processed += tokens // self.pool.unit
        if not self.left[job.index]:
            self.decodes[job.index] = job.decodes

    def _begin(self) -> tuple[str, ...]:
        """Begin an iteration in which every running request decodes, and return their ids."""
        jobs = self.problem.jobs
        self.computed = {job.request.id: job.held + job.left - self.left[job.index] for job in jobs}
        running = [job for job in jobs if self.decodes[job.index]]
        self.contexts = [job.peak - self.decodes[job.index] + 1 for job in running]
        for job in running:
            self.decodes[job.index] -= 1
        return tuple(job.request.id for job in running)

    def _fits(self, chunks: Mapping[str, int]) -> bool:
        """Return whether the iteration keeps the budget and, beside decodes, the gap limit."""
        if sum(chunks.values()) + len(self.contexts) > self.problem.engine.max_num_batched_tokens:
            return False
        if not self.contexts or self.gap_us is None:
            return True
        spans = [(self.computed[name], self.computed[name] + tokens) for name, tokens in chunks.items()]
        return self.problem.cost.duration_us(spans, self.contexts) <= self.gap_us

    def _iterate(self, ending: Sequence[Job], target: int, arrived: int, *, held: bool = False) -> bool:
        """Append one iteration: running requests decode, others are prefilled until the target.

        Parameters
        ----------
        ending
            Whose prefills are to end; they come first.
        target, arrived
            Units in the pool after it, and arrivals before it.
        held
            Whether no prefill may end.
        """
        decode = self._begin()
        chunks: dict[str, int] = {}
        for job in [*ending, *self.order]:
            name = job.request.id
            if name in chunks or not self.left[job.index] or not self._is_here(job, arrived):
                continue
            ends = job in ending
            wanted = self.left[job.index] if ends else self.pool.unit * max(0, target - self.processed)
            tokens = self._most(job, chunks, wanted, ends=ends and not held)
            if tokens:
                chunks[name] = tokens
                self._prefilled(job, tokens)
        if chunks or decode:
            self.batches.append(Batch(chunks, decode))
        return bool(chunks or decode)

    def _is_here(self, job: Job, arrived: int) -> bool:
        arrivals = self.pool.arrivals
        return arrived == len(arrivals) or job.arrival * PS_PER_US < arrivals[arrived]

    def _most(self, job: Job, chunks: Mapping[str, int], wanted: int, *, ends: bool) -> int:
        """Return the most tokens of `job`, at most those wanted, that fit beside others; its end only if it may."""
        unit, left = self.pool.unit, self.left[job.index]
        sizes = [size for size in range(unit, min(wanted, left) + 1, unit) if size < left]
        if ends:
            sizes.append(left)
        return next((size for size in reversed(sizes) if self._fits({**chunks, job.request.id: size})), 0)
