"""The variables of the model: one set per request and iteration, indexed ``[job][iteration]``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from solver.lookup import Expression, is_linear, looked_up, rounded_rate
from solver.problem import Job, Problem


class Variables:
    """Variables over `iterations` iterations, ends within 0..`horizon` ticks.

    Attributes
    ----------
    used
        ``used[k]``: iteration k processes something; unused ones are the last.
    end
        ``end[k]``: its end in ticks; an unused one ends with its predecessor or later.
    units
        ``units[i][k]``: chunk units that job i prefills in k.
    done
        ``done[i][k]``: the prefill of i is complete at the end of k (monotone).
    decode
        ``decode[i][k]``: job i decodes in k.
    finished
        ``finished[i][k]``: job i has emitted everything at the end of k (monotone).
    orders
        ``orders[i, j]``: the first token of i is out no later than that of j, where a cut has made it.
    evict, restore
        ``evict[i][k]``, ``restore[i][k]``: job i is evicted, restored at the start of k; no rows where nobody is.
    """

    evict: Sequence[Sequence[cp_model.IntVar]] = ()
    restore: Sequence[Sequence[cp_model.IntVar]] = ()

    def __init__(self, problem: Problem, iterations: int, horizon: int) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.iterations = iterations
        self.horizon = horizon
        self.orders: dict[tuple[int, int], Expression] = {}
        steps = range(iterations)
        self.used = [self.model.new_bool_var(f"used_{k}") for k in steps]
        self.end = [self.model.new_int_var(0, horizon, f"end_{k}") for k in steps]
        self.units = [[self._units(job, k) for k in steps] for job in problem.jobs]
        self.done = [self._done(job) for job in problem.jobs]
        self.decode = [self._flags("decode", job, constant=False) for job in problem.jobs]
        self.finished = [
            self._flags("finished", job, constant=False) if job.decodes else self.done[job.index]
            for job in problem.jobs
        ]

    def _units(self, job: Job, k: int) -> cp_model.IntVar:
        most = min(job.units, self.problem.engine.largest_chunk // job.unit)
        return self.model.new_int_var(0, most, f"units_{job.index}_{k}")

    def _done(self, job: Job) -> list[cp_model.IntVar]:
        return self._flags("done", job, constant=not job.left)

    def _flags(self, name: str, job: Job, *, constant: bool) -> list[cp_model.IntVar]:
        """Return one boolean per iteration; all true where `constant`."""
        low = 1 if constant else 0
        return [self.model.new_int_var(low, 1, f"{name}_{job.index}_{k}") for k in range(self.iterations)]

    @property
    def begun(self) -> list[list[cp_model.IntVar]]:
        """``begun[i][k]``: job i has emitted a token by the end of k (monotone)."""
        return self.done

    @property
    def later(self) -> list[list[cp_model.IntVar]]:
        """``later[i][k]``: job i emits a token at the end of k, and not its first one."""
        return self.decode

    def begun_before(self, job: Job, k: int) -> Expression:
        """Return whether job has emitted a token before iteration k."""
        if not job.left:
            return 1
        return self.begun[job.index][k - 1] if k else 0

    def done_before(self, job: Job, k: int) -> Expression:
        """Return whether the prefill is complete before iteration k."""
        if not job.left:
            return 1
        return self.done[job.index][k - 1] if k else 0

    def finished_before(self, job: Job, k: int) -> Expression:
        """Return whether job is finished before iteration k."""
        return self.finished[job.index][k - 1] if k else 0

    def ends_prefill(self, job: Job, k: int) -> Expression:
        """Return 1 in the iteration that ends the prefill."""
        return self.done[job.index][k] - self.done_before(job, k) if job.left else 0

    def chunk(self, job: Job, k: int) -> Expression:
        """Return the tokens that job prefills in k."""
        tokens = job.unit * self.units[job.index][k]
        return tokens + job.remainder * self.ends_prefill(job, k) if job.remainder else tokens

    @cached_property
    def ends(self) -> list[list[cp_model.IntVar]]:
        """``ends[i][k]``: the prefill of job i ends in k, as a literal."""
        result = [self._flags("ends", job, constant=False) for job in self.problem.jobs]
        for job in self.problem.jobs:
            for k, flag in enumerate(result[job.index]):
                self.model.add(flag == self.ends_prefill(job, k))
        return result

    def end_before(self, k: int) -> Expression:
        """Return the end of the iteration before k, 0 before the first."""
        return self.end[k - 1] if k else 0

    @cached_property
    def total_units(self) -> list[list[cp_model.IntVar]]:
        """``total_units[i][k]``: units that job i has prefilled at the end of k."""
        result = []
        for job in self.problem.jobs:
            row: list[cp_model.IntVar] = []
            for k in range(self.iterations):
                total = self.model.new_int_var(0, job.units, f"total_units_{job.index}_{k}")
                self.model.add(total == (row[-1] if k else 0) + self.units[job.index][k])
                row.append(total)
            result.append(row)
        return result

    @cached_property
    def total_decodes(self) -> list[list[cp_model.IntVar]]:
        """``total_decodes[i][k]``: decodes of job i at the end of k."""
        result = []
        for job in self.problem.jobs:
            row: list[cp_model.IntVar] = []
            for k in range(self.iterations):
                total = self.model.new_int_var(0, job.decodes, f"total_decodes_{job.index}_{k}")
                self.model.add(total == (row[-1] if k else 0) + self.decode[job.index][k])
                row.append(total)
            result.append(row)
        return result

    def tokens_held(self, job: Job, k: int) -> Expression:
        """Return the computed tokens of job at the end of k, those of a prefix hit included."""
        prefilled = job.unit * self.total_units[job.index][k] + job.remainder * self.done[job.index][k]
        return job.held + (prefilled if job.left else 0) + self.total_decodes[job.index][k]

    @cached_property
    def prefills(self) -> list[list[cp_model.IntVar]]:
        """``prefills[i][k]``: job i has a chunk in k."""
        result = [self._flags("prefills", job, constant=False) for job in self.problem.jobs]
        for job in self.problem.jobs:
            for k, flag in enumerate(result[job.index]):
                chunk = self.chunk(job, k)
                self.model.add(chunk >= flag)
                self.model.add(chunk <= min(self.most_chunk(job), self.problem.engine.largest_chunk) * flag)
        return result

    def most_chunk(self, job: Job) -> int:
        """Return the most tokens of job in one iteration, limits aside."""
        return max(job.left, 1)

    @cached_property
    def started(self) -> list[list[cp_model.IntVar]]:
        """``started[i][k]``: job i has a chunk in k or before, or is resident at time 0."""
        result = [self._flags("started", job, constant=job.resident) for job in self.problem.jobs]
        for job in self.problem.jobs:
            if job.resident:
                continue
            for k, flag in enumerate(result[job.index]):
                before = result[job.index][k - 1] if k else 0
                self.model.add(flag >= before)
                self.model.add(flag >= self.prefills[job.index][k])
                self.model.add(flag <= before + self.prefills[job.index][k])
        return result

    @cached_property
    def prefill_iteration(self) -> list[cp_model.IntVar]:
        """``prefill_iteration[k]``: iteration k has a chunk of some job."""
        flags = [self.model.new_bool_var(f"prefill_iteration_{k}") for k in range(self.iterations)]
        for k, flag in enumerate(flags):
            working = [self.prefills[job.index][k] for job in self.problem.prefilling]
            for one in working:
                self.model.add(flag >= one)
            self.model.add(flag <= sum(working))
        return flags

    def resident(self, job: Job, k: int) -> Expression:
        """Return whether job holds a seat after the compute of k (a request that finishes in k does)."""
        return self.started[job.index][k] - self.finished_before(job, k)

    def partial(self, job: Job, k: int) -> Expression:
        """Return whether job is resident after the compute of k with its prefill unfinished."""
        return self.started[job.index][k] - self.done[job.index][k]

    def tokens_in_pool(self, job: Job, k: int) -> Expression:
        """Return the KV tokens that job holds after the compute of k, or fewer than one where it holds none."""
        held = self.tokens_held(job, k) - job.held * (1 - self.started[job.index][k])
        return held - job.peak * self.finished_before(job, k)

    def ready(self, job: Job, k: int) -> Expression:
        """Return 1 where job could decode in k: it is resident then and its prefill is complete; else at most 0."""
        return self.done_before(job, k) - self.finished_before(job, k)

    def moving_time(self, k: int) -> Expression:
        """Return the ticks that evictions and restores add to iteration k, after the maximum over the pieces."""
        return 0

    def work(self, piece: Piece) -> list[Expression]:
        """Return per iteration the ticks that `piece` charges for its chunks and decodes."""
        curves = [self.prefill_time(piece, job) for job in self.problem.jobs if job.left]
        curves += [self.decode_time(piece, job) for job in self.problem.jobs if job.decodes]
        return [sum(curve[k] - (curve[k - 1] if k else 0) for curve in curves) for k in range(self.iterations)]

    def prefill_time(self, piece: Piece, job: Job) -> list[Expression]:
        """Return per iteration the ticks that `piece` charges for the prefill of job up to its end."""
        problem = self.problem
        curve = [problem.ticks(us) for us in problem.prefill_curve(piece, job)]
        tail = curve[-1] - curve[-2]
        if not job.left or not curve[-1]:
            return [0] * self.iterations
        if piece.prefill_is_proportional and problem.tick_us == 1 and not is_linear(curve[:-1]):
            return [self._rounded(piece, job, k, curve[-1]) for k in range(self.iterations)]
        totals = self.curve(curve[:-1], self.total_units[job.index], f"prefill_time_{job.index}")
        if not tail:
            return totals
        return [total + tail * self.done[job.index][k] for k, total in enumerate(totals)]

    def decode_time(self, piece: Piece, job: Job) -> list[Expression]:
        """Return per iteration the ticks that `piece` charges for the decodes of job up to its end."""
        curve = [self.problem.ticks(us) for us in self.problem.decode_curve(piece, job)]
        if not curve[-1]:
            return [0] * self.iterations
        if all(value == curve[1] * t for t, value in enumerate(curve)):
            return [curve[1] * sum(self.decode[job.index][: k + 1]) for k in range(self.iterations)]
        return self.curve(curve, self.total_decodes[job.index], f"decode_time_{job.index}")

    def curve(self, values: list[int], arguments: list[cp_model.IntVar], name: str) -> list[Expression]:
        """Return ``values[argument]`` for a nondecreasing table that starts with 0 (see `solver.lookup`)."""
        return looked_up(self.model, values, arguments, name)

    def _rounded(self, piece: Piece, job: Job, k: int, most: int) -> Expression:
        """Return the cost of the prefill up to the end of k where there is no context (times count from job.held)."""
        tokens = job.unit * self.total_units[job.index][k] + job.remainder * self.done[job.index][k]
        time = self.model.new_int_var(0, most, f"prefill_time_{job.index}_{k}")
        rounded_rate(self.model, time, piece.prefill_ps, tokens, job.held, piece.prefill_us(job.held))
        return time
