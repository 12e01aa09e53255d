"""A schedule from an optimum of the relaxation: its first tokens in order, its blocks filled by earliest deadline."""

from __future__ import annotations

from collections.abc import Sequence

from instances.instance import Instance
from instances.schedule import Schedule
from solver.pooled.labels import Label
from solver.pooled.pool import Pool
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
    """

    def __init__(self, pool: Pool, path: Sequence[Label], gap_us: int | None) -> None:
        self.pool = pool
        self.problem = pool.problem
        self.gap_us = gap_us
        self.path = path
        order = [label.event for label in path if label.event >= 0]
        self.order = [self.problem.jobs[pool.members[place].index] for place in order]
        self.left = {job.index: job.left for job in self.problem.jobs}
        self.decodes = {job.index: job.decodes for job in self.problem.jobs}
        self.live = {job.index for job in self.problem.jobs if not job.left}
        self.batches: list[Batch] = []
        self.processed = path[0].units

    def schedule(self) -> Schedule | None:
        """Return the schedule at its earliest times under the gap limit, None where there is none."""
        for before, label in zip(self.path, self.path[1:], strict=False):
            self._follow(before, label)
        while any(self.decodes[i] for i in self.live) or any(self.left.values()):
            if not self._iterate(None, self.pool.total, ()):
                return None
        instance: Instance = self.problem.instance
        limits = {} if self.gap_us is None else {r.id: self.gap_us for r in instance.requests}
        return earliest(instance, durations(instance, self.batches, "exact"), limits)

    def _follow(self, before: Label, label: Label) -> None:
        arrived = label.arrived if label.event == -2 else before.arrived
        here = [m.index for m in self.pool.members if self._here(m.arrival, before.arrived)]
        count = label.iterations - before.iterations
        if label.event < 0:
            for _ in range(count):
                self._iterate(None, label.units, here)
            return
        job = self.problem.jobs[self.pool.members[label.event].index]
        if not count and self.batches and self._joins(job):
            return
        while self.left[job.index]:
            if not self._iterate(job, label.units, here):
                return
        del arrived

    def _here(self, arrival: int, arrived: int) -> bool:
        return arrived == len(self.pool.arrivals) or arrival < self.pool.arrivals[arrived]

    def _joins(self, job: Job) -> bool:
        """Put the end of a prefill into the last batch if it fits."""
        prefill, decode = self.batches[-1]
        chunks = {**prefill, job.request.id: prefill.get(job.request.id, 0) + self.left[job.index]}
        ended = [i for i in self.live if self.problem.jobs[i].request.id not in decode]
        if not self._fits(chunks, decode, bool(decode)) or not ended:
            return False
        self.batches[-1] = (chunks, decode)
        self.processed += self.left[job.index] // self.pool.unit
        self._end(job)
        return True

    def _end(self, job: Job) -> None:
        self.left[job.index] = 0
        self.live.add(job.index)

    def _fits(self, chunks: dict[str, int], decode: Sequence[str], live: bool) -> bool:  # type: ignore[type-arg]
        """Return whether a batch is within the budget and, where some request is live, the gap limit."""
        tokens = sum(chunks.values()) + len(decode)
        if tokens > self.pool.full_tokens:
            return False
        if not live or self.gap_us is None:
            return True
        return durations(self.problem.instance, [*self.batches, (chunks, tuple(decode))], "").iterations[-1].duration_us <= self.gap_us

    def _iterate(self, job: Job | None, target: int, here: Sequence[int]) -> bool:
        """Append one iteration: all live requests decode, `job` goes first, then others until the target."""
        working = sorted(i for i in self.live if self.decodes[i])
        decode = tuple(self.problem.jobs[i].request.id for i in working)
        chunks: dict[str, int] = {}
        unit = self.pool.unit
        queue = [job, *self.order] if job is not None else list(self.order)
        wanted = target - self.processed
        ends = None
        for other in queue:
            if other is None or other.index in self.live or (here and other.index not in here):
                continue
            name, done = other.request.id, 0
            if name in chunks:
                continue
            whole = self.left[other.index] // unit
            while done < whole and (wanted > 0 or other is job):
                if not self._fits({**chunks, name: unit * (done + 1)}, decode, bool(working)):
                    break
                done += 1
                wanted -= 1
            if done:
                chunks[name] = unit * done
            if other is job and done == whole and self._fits({**chunks, name: self.left[other.index]}, decode, bool(working)):
                chunks[name] = self.left[other.index]
                ends = other
        if not chunks and not decode:
            return False
        self.batches.append((chunks, decode))
        for i in working:
            self.decodes[i] -= 1
        names = {j.request.id: j for j in self.order}
        for name, tokens in chunks.items():
            self.left[names[name].index] -= tokens
            self.processed += tokens // unit
        if ends is not None:
            self._end(ends)
        self.live = {i for i in self.live if self.decodes[i] or True}
        return True
