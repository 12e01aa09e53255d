"""The variables of the model: one set per request and iteration, indexed ``[job][iteration]``."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from math import gcd

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from instances.units import PS_PER_US
from solver.problem import Job, Problem

Expression = cp_model.LinearExpr | int
LONGEST_ENCODING = 96
"""Longest cost table that is encoded by order literals (a tight relaxation); longer ones are looked up."""


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
    """

    def __init__(self, problem: Problem, iterations: int, horizon: int) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.iterations = iterations
        self.horizon = horizon
        steps = range(iterations)
        self.used = [self.model.new_bool_var(f"used_{k}") for k in steps]
        self.end = [self.model.new_int_var(0, horizon, f"end_{k}") for k in steps]
        self.units = [[self._units(job, k) for k in steps] for job in problem.jobs]
        self.done = [self._flags("done", job, constant=not job.left) for job in problem.jobs]
        self.decode = [self._flags("decode", job, constant=False) for job in problem.jobs]
        self.finished = [
            self._flags("finished", job, constant=False) if job.decodes else self.done[job.index]
            for job in problem.jobs
        ]

    def _units(self, job: Job, k: int) -> cp_model.IntVar:
        most = min(job.units, self.problem.engine.largest_chunk // job.unit)
        return self.model.new_int_var(0, most, f"units_{job.index}_{k}")

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
                self.model.add(chunk <= min(max(job.left, 1), self.problem.engine.largest_chunk) * flag)
        return result

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
            working = [self.prefills[job.index][k] for job in self.problem.jobs if job.left]
            for one in working:
                self.model.add(flag >= one)
            self.model.add(flag <= sum(working))
        return flags

    def prefill_time(self, piece: Piece, job: Job) -> list[Expression]:
        """Return per iteration the ticks that `piece` charges for the prefill of job up to its end."""
        problem = self.problem
        curve = [problem.ticks(us) for us in problem.prefill_curve(piece, job)]
        tail = curve[-1] - curve[-2]
        if not job.left or not curve[-1]:
            return [0] * self.iterations
        if piece.prefill_is_proportional and problem.tick_us == 1 and not _is_linear(curve[:-1]):
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
        """Return ``values[argument]`` for a nondecreasing table: linear where it is, else encoded or looked up."""
        if _is_linear(values):
            slope = values[1] - values[0] if len(values) > 1 else 0
            return [slope * argument for argument in arguments]
        if len(values) <= LONGEST_ENCODING:
            return [self._encoded(values, argument, f"{name}_{k}") for k, argument in enumerate(arguments)]
        result: list[Expression] = []
        slope, spread = _chord(values)
        for k, argument in enumerate(arguments):
            looked_up = self.model.new_int_var(0, values[-1], f"{name}_{k}")
            self.model.add_element(argument, values, looked_up)
            # The line through the ends and how far the table strays from it: the relaxation of an element is weak.
            count = len(values) - 1
            self.model.add(count * looked_up >= slope * argument + spread[0])
            self.model.add(count * looked_up <= slope * argument + spread[1])
            result.append(looked_up)
        return result

    def _rounded(self, piece: Piece, job: Job, k: int, most: int) -> Expression:
        """Return ⌊(rate·tokens + 500000) / 10⁶⌋ µs by its two inequalities: the cost of a prefill without context."""
        time = self.model.new_int_var(0, most, f"prefill_time_{job.index}_{k}")
        tokens = job.unit * self.total_units[job.index][k] + job.remainder * self.done[job.index][k]
        scale = gcd(PS_PER_US, piece.prefill_ps)
        rate, us, half = piece.prefill_ps // scale, PS_PER_US // scale, PS_PER_US // 2
        # us·V <= rate·c + half/scale < us·V + us over integers, where V counts from c = 0 and time from job.held.
        offset = rate * job.held - us * piece.prefill_us(job.held)
        self.model.add(us * time <= rate * tokens + offset + half // scale)
        self.model.add(us * time >= rate * tokens + offset + -(-half // scale) - us + 1 - (half % scale > 0))
        return time

    def _encoded(self, values: list[int], argument: cp_model.IntVar, name: str) -> Expression:
        """Return the table's value as a sum of its steps over literals "argument >= m"."""
        reached = [self.model.new_bool_var(f"{name}_{m}") for m in range(1, len(values))]
        self.model.add(sum(reached) == argument)
        for lower, higher in pairwise(reached):
            self.model.add_implication(higher, lower)
        return sum((values[m + 1] - values[m]) * literal for m, literal in enumerate(reached))


def _is_linear(values: list[int]) -> bool:
    """Whether a table that starts with 0 is a multiple of its argument."""
    slope = values[1] - values[0] if len(values) > 1 else 0
    return all(value == slope * m for m, value in enumerate(values))


def _chord(values: list[int]) -> tuple[int, tuple[int, int]]:
    """Return rise of the table, and the least and most of (count x value - rise x argument)."""
    count, rise = len(values) - 1, values[-1] - values[0]
    offsets = [count * value - rise * m for m, value in enumerate(values)]
    return rise, (min(offsets), max(offsets))
