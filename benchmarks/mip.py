"""The general problem as a mixed-integer program on HiGHS: the second baseline beside the plain CP-SAT model.

The same iterations and rules as `tests.judges.plain_model`, without cuts, hints or dominance. A request passes through
**steps**: its chunk units, the rest of its prompt, its decodes. The binary `s[j,k]` says that step j is done by the
end of iteration k, so it grows with k and falls with j. Every amount of model.md is a function of the step, and
telescopes: iteration k costs Σ_j c_j (s[j,k] - s[j,k-1]), exactly, whatever the rounding and the context.

Times are continuous: for fixed batches and an integer largest gap the earliest ends are least solutions of difference
constraints with integer data, hence integers. Big-M rows say when a token is out (as long as step p is not done by
k - 1, its token comes at the end of k or later) and how long it took since the token before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.highs import ONE, Rows, Terms, combined
from benchmarks.mip_amounts import MipAmounts
from benchmarks.mip_steps import Steps, require_supported
from instances.check import violations
from instances.instance import Instance
from instances.metrics import amounts
from instances.schedule import Schedule
from solver.timing import durations, earliest
from tests.judges.plain_model import enough_iterations

ALWAYS: Terms = {ONE: 1}
NEVER: Terms = {}


@dataclass(frozen=True)
class Answer:
    """Status word, best amount and proved bound (exact integers), and the checked schedule that shows it."""

    status: str
    amount: int | None = None
    bound: int | None = None
    schedule: Schedule | None = None


def mip_optimum(
    instance: Instance, objective: str, limits: Mapping[str, int] | None = None, *, time_limit: float = 60.0,
    threads: int = 1, iterations: int | None = None,
) -> Answer:  # fmt: skip
    """Return the optimum of one objective.

    Parameters
    ----------
    instance, objective, limits
        As for `tests.judges.plain_model.plain_optimum`; amounts in µs.
    time_limit, threads
        Seconds, building included, and threads of HiGHS.
    iterations
        Number of iterations modelled; by default as many as always suffice.

    Raises
    ------
    InputError
        For what the program does not hold: preemption, fixed chunk sizes, tiles, capture sizes, SLOs.
    ArithmeticError
        Where the floats of HiGHS lead to an answer that its own schedule, recomputed in integers, does not confirm.
    """
    started, limits = time.monotonic(), dict(limits or {})
    mip = Mip(instance, iterations)
    metrics = MipAmounts(mip, limits.get("max_tbt"))
    for name, limit in limits.items():
        mip.rows.at_most(metrics.amount(name), (limit, ALWAYS))
    goal = metrics.amount(objective)
    found = mip.rows.minimize(goal, max(0.1, time_limit - (time.monotonic() - started)), threads)
    bound = None if found.bound is None else int(np.ceil(found.bound - 1e-3))
    if found.values is None:
        return Answer(found.status, None, bound)
    schedule = mip.schedule(found.values, metrics.gap_limit(found.values))
    reached = amounts(instance, schedule)
    if any(reached[name] > limit for name, limit in limits.items()):
        raise ArithmeticError(f"HiGHS breaks a limit of {limits} by rounding: {dict(reached)}")
    if found.status == "OPTIMAL" and reached[objective] != bound:
        raise ArithmeticError(f"HiGHS calls {bound} the optimum of {objective}, its schedule has {reached[objective]}")
    return Answer(found.status, reached[objective], bound, schedule)


class Mip:
    """Columns and rows of an instance.

    Parameters
    ----------
    instance, iterations
        As for `mip_optimum`.

    Attributes
    ----------
    jobs, arrivals
        Steps of the requests, and their arrivals in µs from the earliest.
    horizon
        A time that no end exceeds: the latest arrival plus the cost of everything (`solver.horizon.serial_end_us`
        proves it, waiting for gap limits included).
    done, used, start, end
        Columns: `s[j,k]` as [request][j - 1][k], and per iteration whether it does anything, its start and end.
    """

    def __init__(self, instance: Instance, iterations: int | None = None) -> None:
        require_supported(instance)
        self.instance, self.engine = instance, instance.engine
        self.count = enough_iterations(instance, 0) if iterations is None else iterations
        self.jobs = [Steps(instance, r) for r in instance.requests]
        self.arrivals = [r.arrival_us - instance.origin_us for r in instance.requests]
        work = sum(
            self.count * piece.base_us + sum(sum(job.costs[p]) for job in self.jobs)
            for p, piece in enumerate(instance.cost.pieces)
        )
        self.horizon = max(self.arrivals) + work
        self.rows = rows = Rows()
        self.done = [self._step_columns(job) for job in self.jobs]
        self.used = [rows.column(0, 1, integer=True) for _ in range(self.count)]
        self.start, self.end = ([rows.column(0, self.horizon) for _ in range(self.count)] for _ in "se")
        for k in range(self.count):
            self._order(k)
            self._limits(k)
            self._times(k)
        for i, job in enumerate(self.jobs):  # all is done in the end
            rows.at_most(ALWAYS, (1, self.step(i, job.total, self.count - 1)))

    def _step_columns(self, job: Steps) -> list[list[int]]:
        """Return the columns s[j,k] of a request, those fixed at 0 whose tokens cannot have fitted by then."""
        largest, columns, tokens = self.engine.largest_chunk, [], 0
        for j in range(1, job.total + 1):
            tokens += job.tokens[j - 1] if j <= job.prefill else 0
            earliest_k = -(-tokens // largest) + max(0, j - job.prefill) - 1
            columns.append([self.rows.column(0, k >= earliest_k, integer=True) for k in range(self.count)])
        return columns

    def step(self, i: int, j: int, k: int) -> Terms:
        """Return s[j,k] of request i: whether its step j is done by the end of iteration k."""
        if j == 0:
            return ALWAYS
        return {self.done[i][j - 1][k]: 1} if k >= 0 else NEVER

    def done_in(self, i: int, k: int, weights: list[int], first: int = 1) -> Terms:
        """Return the sum of `weights` of the steps from number `first` on that are done in iteration k."""
        parts = []
        for j, weight in enumerate(weights, first):
            parts += [(weight, self.step(i, j, k)), (-weight, self.step(i, j, k - 1))]
        return combined(*parts)

    def chunk(self, i: int, k: int) -> Terms:
        return self.done_in(i, k, self.jobs[i].tokens[: self.jobs[i].prefill])

    def decode(self, i: int, k: int) -> Terms:
        job = self.jobs[i]
        return self.done_in(i, k, job.tokens[job.prefill :], job.prefill + 1)

    def _order(self, k: int) -> None:
        """Steps stay done, come one after the other, and a decode needs the iteration before."""
        for i, job in enumerate(self.jobs):
            for j in range(1, job.total + 1):
                self.rows.at_most(self.step(i, j, k - 1), (1, self.step(i, j, k)))
                before = k if j <= job.prefill else k - 1
                self.rows.at_most(self.step(i, j, k), (1, self.step(i, j - 1, before)))

    def _limits(self, k: int) -> None:
        """Budget, seats, pool and the other limits of the engine."""
        e, rows, used, jobs = self.engine, self.rows, {self.used[k]: 1}, range(len(self.jobs))
        chunks, decodes = [self.chunk(i, k) for i in jobs], [self.decode(i, k) for i in jobs]
        tokens = combined(*((1, terms) for terms in (*chunks, *decodes)))
        rows.at_most(tokens, (e.max_num_batched_tokens, used))
        rows.at_most(used, (1, tokens))
        if k:
            rows.at_most(used, (1, {self.used[k - 1]: 1}))
        prefills = {rows.column(0, 1, integer=True): 1} if not e.mixed_batches else None
        for i, job in enumerate(self.jobs):
            rows.at_most(chunks[i], (min(e.largest_chunk, sum(job.tokens[: job.prefill])), prefills or used))
            rows.at_most(decodes[i], (1, used), *([(-1, prefills)] if prefills else []))
        fully = [self.step(i, job.total, k - 1) for i, job in enumerate(self.jobs)]
        begun = [ALWAYS if job.resident else self.step(i, 1, k) for i, job in enumerate(self.jobs)]
        if e.max_num_seqs is not None and e.max_num_seqs < len(self.jobs):
            rows.at_most(combined(*((1, b) for b in begun), *((-1, f) for f in fully)), (e.max_num_seqs, ALWAYS))
        if e.max_partial_prefills is not None:
            over = [self.step(i, job.prefill, k) for i, job in enumerate(self.jobs)]
            rows.at_most(combined(*((1, b) for b in begun), *((-1, o) for o in over)), (e.max_partial_prefills, ALWAYS))
        if e.num_kv_blocks is not None:
            self._pool(k, begun, fully)

    def _pool(self, k: int, begun: list[Terms], fully: list[Terms]) -> None:
        """Blocks of the residents after the compute; a request's are free once it was finished before."""
        parts = []
        for i, job in enumerate(self.jobs):
            computed = [(tokens, self.step(i, j, k)) for j, tokens in enumerate(job.tokens, 1)]
            tokens = combined((job.held, begun[i]), *computed, (-(job.held + sum(job.tokens)), fully[i]))
            if self.engine.block_size > 1:
                peak = self.engine.blocks(job.held + sum(job.tokens))
                blocks = {self.rows.column(0, peak, integer=True): 1}
                self.rows.at_most(tokens, (self.engine.block_size, blocks))
                tokens = blocks
            parts.append((1, tokens))
        self.rows.at_most(combined(*parts), (self.engine.num_kv_blocks, ALWAYS))

    def _times(self, k: int) -> None:
        """An iteration lasts as long as its cost, after the one before and the arrivals of all that have begun."""
        rows, start, end = self.rows, {self.start[k]: 1}, {self.end[k]: 1}
        for p, piece in enumerate(self.instance.cost.pieces):
            work = [(1, self.done_in(i, k, job.costs[p])) for i, job in enumerate(self.jobs)]
            rows.at_most(combined((piece.base_us, {self.used[k]: 1}), *work), (1, end), (-1, start))
        if k:
            rows.at_most({self.end[k - 1]: 1}, (1, start))
        for i, arrival in enumerate(self.arrivals):
            rows.at_most(combined((arrival, self.step(i, 1, k))), (1, start))

    def schedule(self, values: np.ndarray, gap_limit: int | None) -> Schedule:
        """Return the schedule of a solution at its earliest times, checked; all gaps obey `gap_limit` in µs."""

        def done(terms: Terms) -> int:
            return round(sum(factor * values[column] for column, factor in terms.items()))

        batches = []
        for k in range(self.count):
            chunks = {job.request.id: done(self.chunk(i, k)) for i, job in enumerate(self.jobs)}
            decodes = [job.request.id for i, job in enumerate(self.jobs) if done(self.decode(i, k))]
            prefill = {name: tokens for name, tokens in chunks.items() if tokens}
            if prefill or decodes:
                batches.append((prefill, decodes))
        gaps = {} if gap_limit is None else {r.id: gap_limit for r in self.instance.requests}
        found = earliest(self.instance, durations(self.instance, batches, "mip"), gaps)
        wrong = None if found is None else violations(self.instance, found)
        if found is None or wrong:
            raise ArithmeticError(f"the solution of HiGHS is not a schedule: {wrong or 'its gaps are too long'}")
        return found
