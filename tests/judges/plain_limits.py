"""Limits of the engine in the plain model, iteration by iteration (model.md §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from tests.judges.plain_model import PlainModel


class PlainLimits:
    """Adds budget, seats, pool, partial prefills, mixing and `no_pause` to a plain model."""

    def __init__(self, plain: PlainModel, *, no_pause: bool) -> None:
        self.plain = plain
        self.model = plain.model
        self.engine = plain.engine
        self.requests = range(len(plain.requests))
        for k in plain.steps:
            self._budget(k)
            self._mixing(k)
            self._residents(k)
            if no_pause:
                self._no_pause(k)

    def _budget(self, k: int) -> None:
        """1 <= tokens <= K in a used iteration, nothing in the others, which come last."""
        plain, model = self.plain, self.model
        tokens = sum(plain.chunk[i][k] + plain.decode[i][k] for i in self.requests)
        model.add(tokens <= self.engine.max_num_batched_tokens * plain.used[k])
        model.add(tokens >= plain.used[k])
        if k:
            model.add_implication(plain.used[k], plain.used[k - 1])
        for i in self.requests:
            model.add(plain.evict[i][k] + plain.restore[i][k] <= plain.used[k])

    def _mixing(self, k: int) -> None:
        plain = self.plain
        self.model.add_max_equality(plain.any_prefill[k], [plain.prefills[i][k] for i in self.requests])
        if not self.engine.mixed_batches:
            for i in self.requests:
                self.model.add(plain.decode[i][k] + plain.any_prefill[k] <= 1)

    def _residents(self, k: int) -> None:
        """Seats, blocks and partial prefills after the compute, finishing requests included."""
        plain, model, e = self.plain, self.model, self.engine
        if e.max_num_seqs is not None:
            model.add(sum(plain.held[i][k] for i in self.requests) <= e.max_num_seqs)
        if e.max_partial_prefills is not None:
            model.add(sum(self._partial(i, k) for i in self.requests) <= e.max_partial_prefills)
        if e.num_kv_blocks is not None:
            model.add(sum(self._blocks(i, k) for i in self.requests) <= e.num_kv_blocks)

    def _partial(self, i: int, k: int) -> cp_model.IntVar:
        """Return whether a request is resident with its prefill unfinished."""
        held, done = self.plain.held[i][k], self.plain.done[i][k]
        partial = self.plain.flag(f"partial_{i}_{k}")
        self.model.add_bool_and([held, done.negated()]).only_enforce_if(partial)
        self.model.add_bool_or([held.negated(), done]).only_enforce_if(partial.negated())
        return partial

    def _blocks(self, i: int, k: int) -> cp_model.IntVar:
        """Return the KV blocks that a request holds after iteration k: ceil(tokens / block_size) where resident."""
        r, size = self.plain.requests[i], self.engine.block_size
        most = self.engine.blocks(r.prompt_tokens + r.output_tokens - 1)
        blocks = self.model.new_int_var(0, most, f"blocks_{i}_{k}")
        held, computed = self.plain.held[i][k], self.plain.computed[i][k]
        self.model.add(blocks == 0).only_enforce_if(held.negated())
        self.model.add(size * blocks >= computed).only_enforce_if(held)
        self.model.add(size * blocks <= computed + size - 1).only_enforce_if(held)
        return blocks

    def _no_pause(self, k: int) -> None:
        """Every resident whose prefill is complete decodes in every used iteration."""
        plain = self.plain
        for i in self.requests:
            ready = plain.stays[i][k - 1] + plain.restore[i][k] - plain.evict[i][k]
            self.model.add(plain.decode[i][k] >= ready + plain.done[i][k - 1] + plain.used[k] - 2)
