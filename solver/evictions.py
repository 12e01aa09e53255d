"""Problems whose schedules may evict: what an eviction can add, and whether any can help at all.

The model allows each request a number of evictions; how many are worth modelling is decided here, with proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from instances.cost_model import Piece
from instances.instance import Instance
from instances.request import Request
from instances.units import us_from_ps
from solver.choices import Fixing
from solver.problem import Job, Problem
from solver.scarcity import evictions_are_useless


class EvictingProblem(Problem):
    """An instance whose requests may be evicted, `allowed` times each.

    Parameters
    ----------
    instance, releases_us, allowed
        As for `Problem`.
    """

    @property
    def evictions(self) -> int:
        """How often the model may evict a request."""
        return self.allowed

    def most_useful(self, job: Job, iterations: int | None) -> int | None:
        """Return how many evictions of `job` can help at most in so many iterations, None where nothing says it.

        Proof: each takes an iteration in which the request does not work, beside one for each chunk and token. And it
        must be resident and unfinished once, which takes more than a single chunk.
        """
        if not job.resident and job.left == 1 and not job.decodes:
            return 0
        return None if iterations is None else max(0, iterations - self.fewest_chunks(job) - job.decodes)


class SwapProblem(EvictingProblem):
    """An instance whose requests may be swapped out and back in.

    Parameters
    ----------
    instance, releases_us, allowed
        As for `Problem`.

    Notes
    -----
    Computed tokens survive, so the chunks, the decodes and all bounds on them are those of the problem without
    eviction; durations grow by what is moved.
    """

    def most_useful(self, job: Job, iterations: int | None) -> int:
        """Return how many evictions of `job` can help at most: also one fewer than its chunks and decodes.

        Proof: take a stay in the pool, from a restore to the next eviction, in which the request does not work.
        Without both it stays away all the time, no iteration gets longer and none is left empty. So every stay but
        that of a resident at time 0 holds a chunk or a decode, and evictions are one fewer than stays.
        """
        stays = self.most_chunks(job) + job.decodes - 1 + job.resident
        room = super().most_useful(job, iterations)
        return stays if room is None else min(stays, room)

    @property
    def eviction_amounts(self) -> set[int]:
        """The µs of moving any number of tokens that a request may hold."""
        rates = (self.cost.swap_out_ps, self.cost.swap_in_ps)
        most = max(job.peak for job in self.jobs)
        return {us_from_ps(rate * tokens) for rate in rates if rate for tokens in range(most + 1)}

    def most_eviction_us(self, piece: Piece) -> int:
        """Return the µs of moving every request at its largest, as often as it may be moved."""
        rates = (self.cost.swap_out_ps, self.cost.swap_in_ps)
        return self.evictions * sum(us_from_ps(rate * job.peak) for rate in rates for job in self.jobs)


class RecomputeProblem(EvictingProblem):
    """An instance whose requests may be dropped and prefilled again, up to ``prompt + emitted`` tokens.

    Parameters
    ----------
    instance, releases_us, allowed
        As for `Problem`.

    Notes
    -----
    Chunks are counted in tokens (``unit = 1``): a multiple of the quantum may end anywhere in the output.
    """

    def _job(self, index: int, request: Request) -> Job:
        job = super()._job(index, request)
        return replace(job, unit=1, units=job.left, remainder=0)

    @property
    def prefilling(self) -> tuple[Job, ...]:
        """All requests: an eviction brings back the prefill."""
        return self.jobs

    def regained(self, job: Job) -> int:
        """Return the most tokens that a prefill after an eviction processes: all but those of the prefix hit."""
        return job.peak - job.request.cached_tokens

    def most_tokens(self, job: Job) -> int:
        """Return the most tokens of one iteration: a whole prefill, first or again."""
        return max(1, self.regained(job))

    def table_entries(self, job: Job) -> int:
        """Return about how many literals the model has for `job` per iteration and piece."""
        return min(self.regained(job), 96) + min(job.decodes, 96) + 32

    def recomputed_curve(self, piece: Piece, job: Job) -> list[int]:
        """Return the µs of prefilling the first n tokens beyond the prefix hit, n = 0..regained."""
        first = job.request.cached_tokens
        start = piece.prefill_us(first)
        return [piece.prefill_us(first + n) - start for n in range(self.regained(job) + 1)]

    def least_token_us(self, piece: Piece, job: Job, context: int) -> int:
        """Return the least charge for a token after the first: its decode, or the whole prefill that emits it.

        Proof: a token after the first is emitted by a decode that then holds `context` tokens, or by the end of a
        prefill of so many tokens, which began after an eviction with the tokens of the prefix hit alone. All of that
        prefill lies between the token before and this one.
        """
        again = piece.prefill_us(context) - piece.prefill_us(job.request.cached_tokens)
        return min(piece.decode_us(context), again)

    def least_decode_curve(self, piece: Piece, job: Job) -> list[int]:
        """Return the least µs of the first t tokens after the first one to come, t = 0..decodes."""
        context, total, curve = job.held + job.left, 0, [0]
        for step in range(1, job.decodes + 1):
            total += self.least_token_us(piece, job, context + step)
            curve.append(total)
        return curve

    @property
    def eviction_amounts(self) -> set[int]:
        """The µs of every part of every prefill."""
        return {us for piece in self.cost.pieces for job in self.jobs for us in self.recomputed_curve(piece, job)}

    def most_eviction_us(self, piece: Piece) -> int:
        """Return the µs of prefilling every request again at its largest, as often as it may be evicted."""
        return self.evictions * sum(self.recomputed_curve(piece, job)[-1] for job in self.jobs)

    @cached_property
    def count_bound(self) -> int:
        """Iterations that suffice for every schedule: each one works on some request.

        Proof: between two evictions a request has at most c = `most_chunks` chunks, and c - 1 where the prefill is
        evicted before its end. One that comes to its end emits a token: the first one, where every prefill before was
        cut short and had one chunk fewer, or one that needs no decode then. So an eviction adds at most c - 1
        iterations to the chunks and decodes of a request that is never evicted.
        """
        again = sum(max(0, self.engine.most_chunks(self.regained(job)) - 1) for job in self.jobs)
        return super().count_bound + self.evictions * again

    def single_works(self) -> Iterator[tuple[int, ...]]:
        """Yield what each piece charges for one decode or one token of a chunk, in µs; all others cost more."""
        pieces = self.cost.pieces
        for job in self.jobs:
            if job.decodes:
                yield tuple(piece.decode_us(job.held + job.left + 1) for piece in pieces)
            curves = [self.recomputed_curve(piece, job) for piece in pieces]
            yield from zip(*([b - a for a, b in pairwise(curve)] for curve in curves), strict=True)


def problem_for(
    instance: Instance, max_preemptions: int, *, no_pause: bool = False, fixing: Fixing | None = None
) -> Problem:
    """Return the problem of an instance: one that evicts only where that is allowed and may help, or is held.

    Notes
    -----
    The other choices that can be held on an engine that evicts (`solver.choices`) are kept by the schedule without
    evictions whose existence `evictions_are_useless` shows: first tokens stay in their iterations, and with swap so do
    chunks and decodes.
    """
    if fixing is not None and "preemptions" in fixing.kinds:
        return evicting_problem(instance, max_preemptions)
    if evictions_are_useless(instance, no_pause=no_pause):
        return Problem(instance, fixing.releases_us if fixing else None, max_preemptions)
    return evicting_problem(instance, max_preemptions)


def evicting_problem(instance: Instance, max_preemptions: int) -> Problem:
    """Return the problem whose model has every valid schedule with at most so many evictions per request."""
    kinds = {"swap": SwapProblem, "recompute": RecomputeProblem}
    kind = kinds.get(instance.engine.preemption, Problem) if max_preemptions else Problem
    return kind(instance, allowed=max_preemptions)
