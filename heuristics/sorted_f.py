"""sorted-f: batches of the best quality first, quality being total outputs over squared size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.policy import Setup
from heuristics.state import RequestState
from heuristics.walks import WalkPolicy


@dataclass(frozen=True, slots=True)
class Job:
    """What the choice of a batch looks at: prompt tokens without the last one, outputs, place in the queue."""

    prompt: int
    outputs: int
    place: int


Choice = tuple[int, int, tuple[Job, ...]]
"""Sum of the prompts, sum of the outputs, and the jobs, longest output first."""


@dataclass
class SortedF(WalkPolicy):
    """Sorted-F (Wang, Ye, Zhou, 2508.06133).

    The waiting requests are put in order anew whenever some arrived: again and again the batch X of those left that
    fits in the KV pool when started together and has the smallest F(X) = (sum of outputs) / |X|^2 goes next, within
    it fewest outputs first. Then the walk of MC-SF goes through that order. X is found by an exact dynamic program
    while at most ``exact_up_to`` requests wait, otherwise it is the best beginning of the queue in order of outputs.
    KV is counted in tokens for the order, in blocks for the admission.
    """

    name: ClassVar[str] = "sorted-f"
    summary: ClassVar[str] = "batches of fewest outputs per squared size first (Sorted-F, arXiv 2508.06133)"

    exact_up_to: int = knob(40, "waiting requests up to which batches are chosen exactly", minimum=0)

    def start(self, setup: Setup) -> None:
        """Begin a run with nothing in order."""
        super().start(setup)
        self._capacity = setup.limits.kv_capacity_tokens
        self._order: list[RequestState] = []

    def rank(self, request: RequestState) -> int:
        """Return the outputs to come, by which the queue is sorted to begin with."""
        return self.outputs_left(request)

    def candidates(self) -> Sequence[RequestState]:
        """Return the waiting requests in the order of their batches."""
        waiting = list(self.queue)
        left = [r for r in self._order if r in self.queue]
        if len(left) != len(waiting):
            jobs = [Job(r.known_tokens - 1, self.outputs_left(r), place) for place, r in enumerate(waiting)]
            left = [waiting[job.place] for job in sorted_f(jobs, self._capacity, self.exact_up_to)]
        self._order = left
        return left


def sorted_f(jobs: Sequence[Job], capacity: int | None, exact_up_to: int) -> list[Job]:
    """Return the jobs in the order of Sorted-F; without a capacity that is all by their outputs."""
    left = sorted(jobs, key=lambda job: (job.outputs, job.place))
    order: list[Job] = []
    while left:
        batch: Sequence[Job] = left
        if capacity is not None:
            batch = best_batch(left, capacity) if len(left) <= exact_up_to else best_beginning(left, capacity)
        chosen = set(batch)
        order += sorted(batch, key=lambda job: (job.outputs, job.place))
        left = [job for job in left if job not in chosen]
    return order


def best_batch(jobs: Sequence[Job], capacity: int) -> Sequence[Job]:
    """Return the batch of smallest F that fits when started together, exactly.

    From the longest output down, a job that joins k others of at least its outputs o needs that the prompts of all
    and (k + 1) * o fit in the capacity: KV is largest when somebody ends. So of the choices of one size only those
    matter that no other undercuts in both sums.
    """
    fronts: list[list[Choice]] = [[(0, 0, ())]]
    for job in sorted(jobs, key=lambda job: (-job.outputs, job.place)):
        fronts.append([])
        for size in range(len(fronts) - 1, 0, -1):
            room = capacity - job.prompt - size * job.outputs
            joined = [(p + job.prompt, o + job.outputs, (*x, job)) for p, o, x in fronts[size - 1] if p <= room]
            if joined:
                fronts[size] = _undercut_by_none([*fronts[size], *joined])
    best = {size: min(front, key=lambda choice: choice[1]) for size, front in enumerate(fronts) if size and front}
    if not best:  # by its declared cap a request may exceed the pool
        return jobs[:1]
    size = min(best, key=lambda size: (Fraction(best[size][1], size * size), -size))
    return best[size][2]


def best_beginning(jobs: Sequence[Job], capacity: int) -> Sequence[Job]:
    """Return the beginning of jobs in order of outputs that has the smallest F and fits when started together."""
    size, best, outputs = 1, Fraction(jobs[0].outputs), jobs[0].outputs
    for count in range(2, len(jobs) + 1):
        outputs += jobs[count - 1].outputs
        if not fit_together(jobs[:count], capacity):
            break
        if Fraction(outputs, count * count) <= best:
            size, best = count, Fraction(outputs, count * count)
    return jobs[:size]


def fit_together(jobs: Sequence[Job], capacity: int) -> bool:
    """Return whether jobs fit in the capacity when they all start at once; they are in order of outputs."""
    prompts = sum(job.prompt for job in jobs)
    for place, job in enumerate(jobs):
        if prompts + (len(jobs) - place) * job.outputs > capacity:
            return False
        prompts -= job.prompt
    return True


def _undercut_by_none(choices: list[Choice]) -> list[Choice]:
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: choice[:2]):
        if not kept or choice[1] < kept[-1][1]:
            kept.append(choice)
    return kept
