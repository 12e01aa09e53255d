"""Redundant constraints: they cut off no schedule, only bad bounds. Each carries its proof."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from instances.units import PS_PER_US
from solver.constraints import Constraints
from solver.lookup import Expression
from solver.objectives import Objectives
from solver.problem import Job


def add_all(constraints: Constraints, objectives: Objectives, objective: str, caps: Mapping[str, int]) -> None:
    """Add every cut that applies for an objective under `caps` (µs)."""
    cuts = Cuts(constraints, objectives, caps)
    cuts.add_waiting_bound()
    cuts.add_gap_windows()
    cuts.add_stall_capacity()
    metrics = {objective, *caps}
    if metrics & {"mean_ttft", "max_ttft", "mean_e2e", "max_e2e", "weighted_e2e"}:
        cuts.add_completion_order()
    if metrics & {"mean_e2e", "max_e2e", "weighted_e2e"}:
        cuts.add_decode_chains()


class Cuts:
    """Adds cuts to a model.

    Parameters
    ----------
    constraints, objectives
        Of the model.
    caps
        Largest amounts allowed, in µs.
    """

    def __init__(self, constraints: Constraints, objectives: Objectives, caps: Mapping[str, int]) -> None:
        self.v = constraints.v
        self.model = self.v.model
        self.problem = self.v.problem
        self.constraints = constraints
        self.objectives = objectives
        self.caps = caps
        self.steps = range(self.v.iterations)
        units = {job.unit for job in self.problem.jobs if job.left}
        self.unit = units.pop() if len(units) == 1 else 1

    def add_waiting_bound(self) -> None:
        """Add: end[k] <= latest release + Σ_{l<=k} cost[l], for costs of one piece.

        Proof: some best solution has the least ends for its batches (`solver.timing`). Such an end is a longest path:
        it starts with a release a, adds the costs of iterations in a row, and may jump back from iteration l to k
        by a gap limit G, which adds -G. The iterations k+1..l lie in that gap, so their costs sum to at most G, and
        a jump back takes at least as much as was added beyond k. So the path to k is at most a + Σ_{l<=k} cost[l].
        """
        if len(self.constraints.costs) > 1:
            return
        latest = self.problem.ticks(max(job.release for job in self.problem.jobs))
        total: Expression = latest
        for k in self.steps:
            total = total + self.constraints.costs[0][k]
            if isinstance(total, cp_model.LinearExpr):
                total = cp_model.FlatIntExpr(total)  # what adds up to nothing is dropped: the sum stays short
            self.model.add(self.v.end[k] <= total)

    def add_gap_windows(self) -> None:
        """Add: w iterations in a row hold a token of every request that has emitted before and goes on after them.

        Proof: a gap that closes in iteration l and opened in k holds the iterations k+1..l, each at least as long as
        the shortest, so l - k <= w = ⌊G / shortest⌋. If the first token came before k and the request is unfinished
        after k+w-1, its next token from k-1 on comes by k-1+w, whether a decode or a prefill again emits it.
        """
        gap, shortest = self.caps.get("max_tbt"), self.problem.shortest_us
        if gap is None or not shortest:
            return
        window = gap // shortest
        for job in self.problem.jobs:
            if job.decodes:
                first = 1 if job.left else 0  # before the first iteration no waiting prefill is done
                for k in range(first, len(self.steps) - window + 1):
                    self._window(job, k, window)

    def _window(self, job: Job, k: int, window: int) -> None:
        tokens = sum(self.v.later[job.index][k : k + window])
        last = k + window - 1
        row = self.model.add(tokens + self.v.finished_before(job, last) + (1 - self.v.used[last]) >= 1)
        flag = self.v.begun_before(job, k)
        if isinstance(flag, cp_model.IntVar):
            row.only_enforce_if(flag)

    def add_stall_capacity(self) -> None:
        """Add: prefill tokens of k <= K - (K - x)·decode[i][k], x the most tokens that fit beside a decode into G.

        Proof: an iteration after the first and before the last token of i lies in a gap of i, so it lasts at most G.
        Its chunks cost at least their tokens times the rate, less 1 µs per request for rounding (F is a rounded
        nondecreasing function whose context part only adds), beside the base. In that gap i decodes, in this iteration
        or in one that takes as long at least, so the cheapest decode fits in as well; but where i may be evicted, the
        end of a prefill may emit its token instead. Whole chunk units are tokens too, so at most ⌊x / unit⌋ of them
        fit.
        """
        gap = self.caps.get("max_tbt")
        most = self._tokens_beside_decode(gap) if gap is not None else None
        budget = self.problem.engine.max_num_batched_tokens
        if most is None or most >= budget:
            return
        for k in self.steps:
            chunks = sum(self.v.chunk(job, k) for job in self.problem.jobs if job.left)
            units = sum(self.v.units[job.index][k] for job in self.problem.jobs if job.left)
            for job in self.problem.jobs:
                if job.decodes:
                    running = self.v.done_before(job, k) - self.v.finished_before(job, k)
                    self.model.add(chunks <= budget - (budget - most) * running)
                    if self.unit > 1:
                        whole, beside = budget // self.unit, most // self.unit
                        self.model.add(units <= whole - (whole - beside) * running)

    def _tokens_beside_decode(self, gap: int) -> int | None:
        found = []
        for piece in self.problem.cost.pieces:
            if piece.prefill_ps:
                firsts = [piece.decode_us(job.held + job.left + 1) for job in self.problem.jobs if job.decodes]
                decode = 0 if self.problem.evictions else min(firsts, default=0)
                room = gap - piece.base_us - decode + len(self.problem.jobs)
                found.append(max(0, room * PS_PER_US // piece.prefill_ps))
        return min(found, default=None)

    def add_completion_order(self) -> None:
        """Add the single-machine relaxation of first tokens.

        For requests i, j with a prefill, o[j,i] says that j emits its first token no later than i; one of
        o[i,j], o[j,i] holds. Then, for every arrival r <= a_i and S = {j: a_j >= r}, and for every piece,
        K T_i >= K r + Σ_{j in S} (K W_j + base left_j) o[j,i], with o[i,i] = 1.

        Proof: by T_i all tokens of i and of the j before it are prefilled. They are prefilled by iterations that
        start at r or later, each of which lasts at least base + its work and holds at most K of them.
        Also Σ_k (1 - begun before k) iterations have run by T_i, each with its base: T_i >= base·that + Σ_j W_j o[j,i].
        """
        jobs = [job for job in self.problem.jobs if job.left]
        order: dict[tuple[int, int], Expression] = {(job.index, job.index): 1 for job in jobs}
        for a, b in combinations(jobs, 2):
            flag = self.model.new_bool_var(f"before_{a.index}_{b.index}")
            order[a.index, b.index] = flag
            order[b.index, a.index] = 1 - flag
            self.v.orders |= {(a.index, b.index): flag, (b.index, a.index): 1 - flag}
            for k in self.steps:
                done_a, done_b = self.v.begun[a.index][k], self.v.begun[b.index][k]
                self.model.add_implication(done_b, done_a).only_enforce_if(flag)
                self.model.add_implication(done_a, done_b).only_enforce_if(flag.negated())
        for piece in self.problem.cost.pieces:
            for job in jobs:
                self._order_rows(piece, job, jobs, order)

    def _order_rows(self, piece: Piece, job: Job, jobs: list[Job], order: Mapping[tuple[int, int], Expression]) -> None:
        ticks, budget = self.problem.ticks, self.problem.engine.max_num_batched_tokens
        base, first = ticks(piece.base_us), self.objectives.first_token[job.index]
        work = {j.index: ticks(self.problem.prefill_curve(piece, j)[-1]) for j in jobs}
        for release in {j.arrival for j in jobs if j.arrival <= job.arrival}:
            late = [j for j in jobs if j.arrival >= release]
            load = sum((budget * work[j.index] + base * j.left) * order[j.index, job.index] for j in late)
            self.model.add(budget * first >= budget * ticks(release) + load)
        count = sum(1 - self.v.begun_before(job, k) for k in self.steps)
        self.model.add(budget * count >= sum(j.left * order[j.index, job.index] for j in jobs))
        self.model.add(first >= base * count + sum(work[j.index] * order[j.index, job.index] for j in jobs))

    def add_decode_chains(self) -> None:
        """Add: L_i >= T_i + decodes·base + their work, for every piece.

        Proof: after its first token, request i needs that many iterations, one for each further token.
        """
        for piece in self.problem.cost.pieces:
            for job in self.problem.jobs:
                if job.index in self.objectives.first_token:
                    chain = job.decodes * piece.base_us + self.problem.least_decode_curve(piece, job)[-1]
                    last, first = self.objectives.last_token[job.index], self.objectives.first_token[job.index]
                    self.model.add(last >= first + self.problem.ticks(chain))
