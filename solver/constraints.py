"""The rules of model.md §2-4 as constraints, one method per rule; each docstring states the inequality."""

from __future__ import annotations

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from instances.units import us_from_ps
from solver.lookup import Expression
from solver.problem import Job
from solver.variables import Variables


class Constraints:
    """Adds the rules to the model of `variables`.

    Parameters
    ----------
    variables
        Of the model.
    complete
        Whether every request must finish within the iterations; False drops what comes after the last first token
        (a relaxation, see `solver.horizon`).
    no_pause
        Demand that every resident whose prefill is complete decodes in every iteration.
    """

    def __init__(self, variables: Variables, *, complete: bool, no_pause: bool) -> None:
        self.v = variables
        self.model = variables.model
        self.problem = variables.problem
        self.engine = variables.problem.engine
        self.complete = complete
        self.no_pause = no_pause
        self.steps = range(variables.iterations)

    def add_all(self) -> None:
        """Add every rule that the instance needs."""
        self.add_progress()
        self.add_iterations()
        self.add_durations()
        self.add_arrivals()
        for job in self.problem.jobs:
            self.add_chunk_shapes(job)
        self.add_seats()
        self.add_kv_pool()
        self.add_partial_prefills()
        self.add_mixing()
        if self.no_pause:
            self.add_no_pause()

    def add_dominance(self) -> None:
        """Add rules that cut off schedules which are no better than others; nothing here."""

    def add_progress(self) -> None:
        """Add: Σ units = units, done and finished are monotone, decode <= done before, Σ decodes = decodes."""
        v, model = self.v, self.model
        for job in self.problem.jobs:
            i = job.index
            for k in self.steps:
                if job.left:
                    model.add(v.done[i][k] >= v.done_before(job, k))
                    model.add(v.chunk(job, k) >= v.ends_prefill(job, k))
                    most = min(job.units, self.engine.largest_chunk // job.unit)
                    model.add(v.units[i][k] <= most * (1 - v.done_before(job, k)))
                    # done exactly when nothing is left: units alone say it unless a remainder waits.
                    model.add(v.total_units[i][k] >= job.units * v.done[i][k])
                    if not job.remainder:
                        model.add(v.total_units[i][k] <= job.units - 1 + v.done[i][k])
                if job.decodes:
                    model.add(v.decode[i][k] <= v.done_before(job, k))
                    model.add(v.finished[i][k] >= v.finished_before(job, k))
                    model.add(v.total_decodes[i][k] >= job.decodes * v.finished[i][k])
                    model.add(v.total_decodes[i][k] <= job.decodes - 1 + v.finished[i][k])
                else:
                    model.add(v.decode[i][k] == 0)
            if self.steps:
                model.add((v.finished if self.complete else v.done)[i][self.steps[-1]] == 1)

    def add_iterations(self) -> None:
        """Add: a used iteration has 1 <= tokens <= K; unused ones come last."""
        v, model = self.v, self.model
        for k in self.steps:
            tokens = self.tokens(k)
            model.add(tokens <= self.engine.max_num_batched_tokens * v.used[k])
            model.add(tokens >= v.used[k])
            if k:
                model.add(v.used[k] <= v.used[k - 1])

    def tokens(self, k: int) -> Expression:
        """Return the tokens of iteration k."""
        chunks = sum(self.v.chunk(job, k) for job in self.problem.prefilling)
        return chunks + sum(self.v.decode[job.index][k] for job in self.problem.jobs if job.decodes)

    def add_durations(self) -> None:
        """Add: end >= end before + cost, for each piece; idle time may be added anywhere."""
        extra = [self._eager(k) + self.v.moving_time(k) for k in self.steps]
        self.costs = [self._piece_costs(piece, extra) for piece in self.problem.cost.pieces]
        for k in self.steps:
            for cost in self.costs:
                self.model.add(self.v.end[k] >= self.v.end_before(k) + cost[k])

    def _piece_costs(self, piece: Piece, extra: list[Expression]) -> list[Expression]:
        """Return what `piece` charges per iteration, in ticks."""
        work = self.v.work(piece)
        costs: list[Expression] = []
        for k in self.steps:
            cost = work[k] + self.problem.ticks(piece.base_us) * self.v.used[k] + extra[k]
            costs.append(cost + self._tiles(piece, k) + self._padding(piece, k))
        return costs

    def _tiles(self, piece: Piece, k: int) -> Expression:
        """Return the tile cost: tiles = ⌈tokens / tile_tokens⌉, and the amount of so many tiles."""
        if not piece.tile_ps or piece.tile_tokens is None:
            return 0
        most = -(-self.engine.max_num_batched_tokens // piece.tile_tokens)
        tiles = self.model.new_int_var(0, most, f"tiles_{k}")
        self.model.add(piece.tile_tokens * tiles >= self.tokens(k))
        self.model.add(piece.tile_tokens * (tiles - 1) <= self.tokens(k) - 1)
        amounts = [self.problem.ticks(us_from_ps(piece.tile_ps * n)) for n in range(most + 1)]
        return self.v.curve(amounts, [tiles], f"tile_cost_{k}")[0]

    def _padding(self, piece: Piece, k: int) -> Expression:
        """Return the cost of padding a pure decode batch up to the next captured size."""
        sizes = self.problem.cost.capture_sizes
        if sizes is None or not piece.decode_ps:
            return 0
        count = sum(1 for job in self.problem.jobs if job.decodes)
        allowed = [0, *sizes, *range(sizes[-1] + 1, count + 1)]
        padded = self.model.new_int_var_from_domain(cp_model.Domain.from_values(allowed), f"padded_{k}")
        padding = self.model.new_int_var(0, allowed[-1], f"padding_{k}")
        decodes = sum(self.v.decode[job.index][k] for job in self.problem.jobs if job.decodes)
        self.model.add(padded >= decodes)
        pure = self.v.prefill_iteration[k].negated()
        self.model.add(padding >= padded - decodes).only_enforce_if(pure)
        self.model.add(padding == 0).only_enforce_if(pure.negated())
        return self.problem.ticks(us_from_ps(piece.decode_ps)) * padding

    def _eager(self, k: int) -> Expression:
        """Return the penalty of an iteration that is not a captured decode batch."""
        cost = self.problem.cost
        if cost.capture_sizes is None or not cost.eager_ps:
            return 0
        eager = self.model.new_bool_var(f"eager_{k}")
        self.model.add(eager >= self.v.prefill_iteration[k])
        decodes = sum(self.v.decode[job.index][k] for job in self.problem.jobs if job.decodes)
        self.model.add(decodes <= cost.capture_sizes[-1] + len(self.problem.jobs) * eager)
        return self.problem.ticks(us_from_ps(cost.eager_ps)) * eager

    def add_arrivals(self) -> None:
        """Add the arrival chain: start >= Σ_j (a_j - a_{j-1}) h[j,k] over the distinct releases in order.

        h[j,k] says that some request of rank >= j works in iteration k or before. Starts never decrease, so an
        iteration after one that had to wait for a_j starts after it too; one row says all arrivals at once.
        """
        ranks = sorted({0, *(job.release for job in self.problem.jobs)})
        before: list[Expression] = [0] * len(ranks)
        for k in self.steps:
            waits: list[Expression] = []
            for j in range(1, len(ranks)):
                flag = self.model.new_bool_var(f"reached_{j}_{k}")
                self.model.add(flag >= before[j])
                for job in self.problem.jobs:
                    if job.release >= ranks[j]:
                        self.model.add(flag >= self.v.prefills[job.index][k])
                if j > 1:
                    self.model.add(flag <= before[j - 1])
                before[j] = flag
                waits.append((self.problem.ticks(ranks[j]) - self.problem.ticks(ranks[j - 1])) * flag)
            for cost in self.costs if waits else ():
                self.model.add(self.v.end[k] - cost[k] >= sum(waits))

    def add_chunk_shapes(self, job: Job) -> None:
        """Add: a chunk is at most the largest; one that does not end the prefill has an allowed size."""
        largest, sizes = self.engine.largest_chunk, self.engine.chunk_sizes
        if not job.left:
            return
        for k in self.steps:
            self.model.add(self.v.chunk(job, k) <= largest)
            if sizes is None or not self.engine.enable_chunked_prefill:
                continue
            inner = [0, *(s // job.unit for s in sizes if s % job.unit == 0)]
            inner_units = cp_model.Domain.from_values(inner)
            units, ends = self.v.units[job.index][k], self.v.ends[job.index][k]
            self.model.add_linear_expression_in_domain(units, inner_units).only_enforce_if(ends.negated())

    def add_seats(self) -> None:
        """Add: Σ resident <= S."""
        seats = self.engine.max_num_seqs
        if seats is None or seats >= len(self.problem.jobs):
            return
        for k in self.steps:
            self.model.add(sum(self.v.resident(job, k) for job in self.problem.jobs) <= seats)

    def add_kv_pool(self) -> None:
        """Add: Σ blocks <= pool, where block_size x blocks >= tokens held by a resident at the end of k."""
        pool, size = self.engine.num_kv_blocks, self.engine.block_size
        if pool is None or sum(self.engine.blocks(job.peak) for job in self.problem.jobs) <= pool:
            return
        for k in self.steps:
            blocks: list[Expression] = []
            for job in self.problem.jobs:
                held = self.v.tokens_in_pool(job, k)
                if size == 1:
                    blocks.append(held)
                    continue
                count = self.model.new_int_var(0, self.engine.blocks(job.peak), f"blocks_{job.index}_{k}")
                self.model.add(size * count >= held)
                blocks.append(count)
            self.model.add(sum(blocks) <= pool)

    def add_partial_prefills(self) -> None:
        """Add: Σ partial <= max_partial_prefills."""
        limit = self.engine.max_partial_prefills
        if limit is None or limit >= len(self.problem.jobs):
            return
        for k in self.steps:
            self.model.add(sum(self.v.partial(job, k) for job in self.problem.prefilling) <= limit)

    def add_mixing(self) -> None:
        """Add: decode <= 1 - (some prefill in k), where batches may not be mixed."""
        if self.engine.mixed_batches:
            return
        for k in self.steps:
            for job in self.problem.jobs:
                self.model.add(self.v.decode[job.index][k] <= 1 - self.v.prefill_iteration[k])

    def add_no_pause(self) -> None:
        """Add: decode >= used + ready - 1."""
        v = self.v
        for job in self.problem.jobs:
            for k in self.steps:
                self.model.add(v.decode[job.index][k] >= v.used[k] + v.ready(job, k) - 1)
