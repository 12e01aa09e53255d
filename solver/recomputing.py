"""Recompute in the model: the variables of requests that drop their KV and prefill prompt and emitted tokens again."""

from __future__ import annotations

from itertools import pairwise

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from solver.evictions import RecomputeProblem
from solver.lookup import Expression, is_linear, rounded_rate
from solver.problem import Job
from solver.variables import Variables


class RecomputeVariables(Variables):
    """Variables of a model whose requests may be prefilled again; `units` are tokens, and `done` may fall.

    Attributes
    ----------
    evict
        ``evict[i][k]``: job i is dropped at the start of k.
    present
        ``present[i][k]``: after the compute of k job i is resident, or it is finished.
    ended
        ``ended[i][k]``: a prefill of i, the first or a later one, ends in k.
    emitted, total_later
        ``emitted[i][k]``: tokens that i has emitted by the end of k, those before time 0 included; and those of them
        that come after time 0 and are not its first.
    gained
        ``gained[i][k]``: computed tokens of i at the end of k beyond its prefix hit, 0 while it is not resident.
    dropped
        ``dropped[i][k]``: how many of them an eviction at the start of k drops.
    """

    problem: RecomputeProblem

    def __init__(self, problem: RecomputeProblem, iterations: int, horizon: int) -> None:
        super().__init__(problem, iterations, horizon)
        jobs = problem.jobs
        self.evict = [self._flags("evict", job, constant=False) for job in jobs]
        self.present = [self._flags("present", job, constant=False) for job in jobs]
        self.ended = [self._flags("ended", job, constant=False) for job in jobs]
        self._begun = [self._flags("begun", job, constant=not job.left) for job in jobs]
        self._later = [self._flags("later", job, constant=False) for job in jobs]
        self.emitted = [self._counts("emitted", job, job.request.output_tokens) for job in jobs]
        self.total_later = [self._counts("total_later", job, job.decodes) for job in jobs]
        self.gained = [self._counts("gained", job, problem.regained(job)) for job in jobs]
        self.dropped = [self._counts("dropped", job, problem.regained(job)) for job in jobs]

    def _counts(self, name: str, job: Job, most: int) -> list[cp_model.IntVar]:
        return [self.model.new_int_var(0, most, f"{name}_{job.index}_{k}") for k in range(self.iterations)]

    def _units(self, job: Job, k: int) -> cp_model.IntVar:
        most = min(self.most_chunk(job), self.problem.engine.largest_chunk)
        return self.model.new_int_var(0, most, f"units_{job.index}_{k}")

    def _done(self, job: Job) -> list[cp_model.IntVar]:
        return self._flags("done", job, constant=False)

    def most_chunk(self, job: Job) -> int:
        """Return the most tokens of job in one iteration, limits aside."""
        return max(1, self.problem.regained(job))

    @property
    def begun(self) -> list[list[cp_model.IntVar]]:
        """``begun[i][k]``: job i has emitted a token by the end of k (monotone)."""
        return self._begun

    @property
    def later(self) -> list[list[cp_model.IntVar]]:
        """``later[i][k]``: job i emits a token at the end of k, and not its first one."""
        return self._later

    @property
    def ends(self) -> list[list[cp_model.IntVar]]:
        """``ends[i][k]``: a prefill of job i ends in k, as a literal."""
        return self.ended

    def ends_prefill(self, job: Job, k: int) -> Expression:
        """Return 1 in an iteration that ends a prefill."""
        return self.ended[job.index][k]

    def done_before(self, job: Job, k: int) -> Expression:
        """Return whether job is in phase decode, or finished, before iteration k."""
        return self.done[job.index][k - 1] if k else int(not job.left)

    def present_before(self, job: Job, k: int) -> Expression:
        """Return whether job is resident or finished before iteration k."""
        return self.present[job.index][k - 1] if k else int(job.resident)

    def emitted_before(self, job: Job, k: int) -> Expression:
        """Return the tokens that job has emitted before iteration k."""
        return self.emitted[job.index][k - 1] if k else job.request.emitted_before

    def gained_before(self, job: Job, k: int) -> Expression:
        """Return the computed tokens beyond the prefix hit before iteration k."""
        return self.gained[job.index][k - 1] if k else self.gained_at_start(job)

    def gained_at_start(self, job: Job) -> int:
        """Return the computed tokens beyond the prefix hit at time 0."""
        return job.held - job.request.cached_tokens

    def resident(self, job: Job, k: int) -> Expression:
        """Return whether job holds a seat after the compute of k."""
        return self.present[job.index][k] - self.finished_before(job, k)

    def partial(self, job: Job, k: int) -> Expression:
        """Return whether job is resident after the compute of k with a prefill unfinished."""
        return self.present[job.index][k] - self.done[job.index][k]

    def tokens_in_pool(self, job: Job, k: int) -> Expression:
        """Return the KV tokens that job holds after the compute of k; those that finished before hold none."""
        cached = job.request.cached_tokens
        held = self.gained[job.index][k] + cached * self.present[job.index][k]
        return held - job.peak * self.finished_before(job, k)

    def ready(self, job: Job, k: int) -> Expression:
        """Return 1 where job could decode in k: it is in phase decode before, not evicted in k, and it goes on."""
        return self.done_before(job, k) - self.finished_before(job, k) - self.evict[job.index][k]

    def work(self, piece: Piece) -> list[Expression]:
        """Return per iteration the ticks that `piece` charges for its chunks and decodes."""
        rows = [row(piece, job) for job in self.problem.jobs for row in (self._chunk_costs, self._decode_costs)]
        return [sum(row[k] for row in rows) for k in range(self.iterations)]

    def _chunk_costs(self, piece: Piece, job: Job) -> list[Expression]:
        """Add cost >= F(after) - F(before) - largest step·decode where F is no line, and return the costs.

        An eviction lowers F, so that no cost is asked for; a decode raises it by one step, which is charged elsewhere.
        """
        i, curve = job.index, [self.problem.ticks(us) for us in self.problem.recomputed_curve(piece, job)]
        if is_linear(curve):
            return [curve[-1] // max(1, len(curve) - 1) * self.units[i][k] for k in range(self.iterations)]
        step = max(after - before for before, after in pairwise(curve))
        values, before = self._prefilled(piece, job, curve), curve[self.gained_at_start(job)]
        costs: list[Expression] = []
        for k, after in enumerate(values):
            cost = self.model.new_int_var(0, curve[-1], f"chunk_cost_{i}_{k}")
            self.model.add(cost >= after - (values[k - 1] if k else before) - step * self.decode[i][k])
            costs.append(cost)
        return costs

    def _prefilled(self, piece: Piece, job: Job, curve: list[int]) -> list[Expression]:
        """Return per iteration the cost of prefilling what is computed at its end, from the prefix hit on."""
        if not (piece.prefill_is_proportional and self.problem.tick_us == 1):
            return self.curve(curve, self.gained[job.index], f"prefill_time_{job.index}")
        cached = job.request.cached_tokens
        result: list[Expression] = []
        for k, gained in enumerate(self.gained[job.index]):
            time = self.model.new_int_var(0, curve[-1], f"prefill_time_{job.index}_{k}")
            rounded_rate(self.model, time, piece.prefill_ps, gained, cached, piece.prefill_us(cached))
            result.append(time)
        return result

    def _decode_costs(self, piece: Piece, job: Job) -> list[Expression]:
        """Add cost >= H(after) - H(before) - largest step·(token without a decode), H the sum of decodes; as above."""
        i, curve = job.index, [self.problem.ticks(us) for us in self.problem.decode_curve(piece, job)]
        if is_linear(curve):
            return [curve[-1] // max(1, len(curve) - 1) * self.decode[i][k] for k in range(self.iterations)]
        step = max(after - before for before, after in pairwise(curve))
        values = self.curve(curve, self.total_later[i], f"decode_time_{i}")
        costs: list[Expression] = []
        for k, after in enumerate(values):
            cost = self.model.new_int_var(0, step, f"decode_cost_{i}_{k}")
            again = self.later[i][k] - self.decode[i][k]
            self.model.add(cost >= after - (values[k - 1] if k else 0) - step * again)
            costs.append(cost)
        return costs
