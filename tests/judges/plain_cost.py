"""Durations in the plain model: the tables of the cost model as element constraints (model.md §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from instances.cost_model import Piece
from instances.units import us_from_ps

if TYPE_CHECKING:
    from tests.judges.plain_model import PlainModel


class PlainCost:
    """Durations of the iterations of a plain model in µs; unused iterations last 0.

    Attributes
    ----------
    durations
        One variable per iteration.
    longest
        Upper bound on each.
    """

    def __init__(self, plain: PlainModel) -> None:
        self.plain = plain
        self.model = plain.model
        self.cost = plain.instance.cost
        self.peaks = [r.prompt_tokens + r.output_tokens - 1 for r in plain.requests]
        self.marks = [self._marks(i) for i in range(len(self.peaks))]
        self.places: dict[tuple[int, int], cp_model.IntVar] = {}
        self.longest = self._longest()
        self.durations = [self._duration(k) for k in plain.steps]

    def _marks(self, i: int) -> list[int]:
        """Return the computed tokens that a request can have after an iteration, which keeps tables short.

        Chunks are multiples of the quantum or end the prefill; what an eviction drops may be any number.
        """
        r, quantum = self.plain.requests[i], self.plain.engine.chunk_quantum
        if self.plain.mode == "recompute":
            return list(range(self.peaks[i] + 1))
        inner = range(r.computed_before, r.prompt_tokens, quantum)
        return [*inner, *range(max(r.prompt_tokens, r.computed_before), self.peaks[i] + 1)]

    def _place(self, i: int, k: int) -> cp_model.LinearExprT:
        """Return the place among its marks of what a request has computed after iteration k (-1: at time 0)."""
        if k < 0:
            return self.marks[i].index(self.plain.requests[i].computed_before)
        if (i, k) not in self.places:
            place = self._new(f"place_{i}_{k}", len(self.marks[i]) - 1)
            self.model.add_element(place, self.marks[i], self.plain.computed[i][k])
            self.places[i, k] = place
        return self.places[i, k]

    def _longest(self) -> int:
        most = sum(self.peaks)
        sizes = self.cost.capture_sizes or (0,)
        moved = us_from_ps(most * (self.cost.swap_out_ps + self.cost.swap_in_ps)) + 2 * len(self.peaks)
        longest = us_from_ps(self.cost.eager_ps) + moved
        return longest + max(
            p.base_us + p.tile_us(most) + sizes[-1] * us_from_ps(p.decode_ps)
            + sum(p.prefill_us(peak) + p.decode_us(peak) for peak in self.peaks)
            for p in self.cost.pieces
        )  # fmt: skip

    def _new(self, name: str, most: int | None = None) -> cp_model.IntVar:
        return self.model.new_int_var(0, self.longest if most is None else most, name)

    def _duration(self, k: int) -> cp_model.IntVar:
        plain, duration = self.plain, self._new(f"duration_{k}")
        pieces = [self._piece(piece, k) for piece in self.cost.pieces]
        longest = pieces[0]
        if len(pieces) > 1:
            longest = self._new(f"longest_{k}")
            self.model.add_max_equality(longest, pieces)
        extra = self._eager(k) + self._swaps(k)
        self.model.add(duration == longest + extra).only_enforce_if(plain.used[k])
        self.model.add(duration == 0).only_enforce_if(plain.used[k].negated())
        return duration

    def _piece(self, piece: Piece, k: int) -> cp_model.LinearExprT:
        plain = self.plain
        time = piece.base_us + self._tiles(piece, k) + us_from_ps(piece.decode_ps) * self._padding(k)
        for i in range(len(plain.requests)):
            chunk, decode = plain.chunk[i][k], plain.decode[i][k]
            curve = [piece.prefill_us(c) for c in self.marks[i]]
            per_token = piece.prefill_us(1)
            if all(value == per_token * c for c, value in zip(self.marks[i], curve, strict=True)):
                time += per_token * chunk
            else:
                time += self._risen(curve, self._place(i, k), self._place(i, k - 1), plain.prefills[i][k])
            steps = [piece.decode_us(c) for c in self.marks[i]]
            if len(set(steps)) == 1:
                time += steps[0] * decode
            else:
                time += self._where(decode, steps, self._place(i, k))
        return time

    def _element(self, table: list[int], index: cp_model.LinearExprT) -> cp_model.LinearExprT:
        if isinstance(index, int):
            return table[index]
        value = self._new("value", max(table))
        self.model.add_element(index, table, value)
        return value

    def _where(
        self, literal: cp_model.IntVar, table: list[int], index: cp_model.LinearExprT
    ) -> cp_model.LinearExprT:
        """Return table[index] where the literal holds, else 0."""
        value = self._new("charged", max(table))
        self.model.add(value == self._element(table, index)).only_enforce_if(literal)
        self.model.add(value == 0).only_enforce_if(literal.negated())
        return value

    def _risen(
        self, curve: list[int], after: cp_model.IntVar, before: cp_model.LinearExprT, works: cp_model.IntVar
    ) -> cp_model.LinearExprT:
        """Return F(after) - F(before) where a chunk is processed, else 0."""
        value = self._new("risen")
        rise = self._element(curve, after) - self._element(curve, before)
        self.model.add(value == rise).only_enforce_if(works)
        self.model.add(value == 0).only_enforce_if(works.negated())
        return value

    def _tiles(self, piece: Piece, k: int) -> cp_model.LinearExprT:
        """Return the amount of ceil(tokens / tile_tokens) tiles."""
        if piece.tile_tokens is None or not piece.tile_ps:
            return 0
        requests = range(len(self.plain.requests))
        tokens = sum(self.plain.chunk[i][k] + self.plain.decode[i][k] for i in requests)
        count = self._new(f"tokens_{k}", sum(self.peaks))
        self.model.add(count == tokens)
        return self._element([piece.tile_us(n) for n in range(sum(self.peaks) + 1)], count)

    def _padding(self, k: int) -> cp_model.LinearExprT:
        """Return the padding sequences of a pure decode batch."""
        if self.cost.capture_sizes is None:
            return 0
        table = [self.cost.padded_decodes(n) - n for n in range(len(self.plain.requests) + 1)]
        return self._where(self.plain.any_prefill[k].negated(), table, self._decodes(k))

    def _decodes(self, k: int) -> cp_model.IntVar:
        count = self._new(f"decodes_{k}", len(self.plain.requests))
        self.model.add(count == sum(row[k] for row in self.plain.decode))
        return count

    def _eager(self, k: int) -> cp_model.LinearExprT:
        """Return the penalty of an iteration that is not a captured decode batch."""
        sizes, amount = self.cost.capture_sizes, us_from_ps(self.cost.eager_ps)
        if sizes is None or not amount:
            return 0
        beyond = [int(n > sizes[-1]) for n in range(len(self.plain.requests) + 1)]
        eager = self.plain.flag(f"eager_{k}")
        self.model.add_max_equality(eager, [self.plain.any_prefill[k], self._element(beyond, self._decodes(k))])
        return amount * eager

    def _swaps(self, k: int) -> cp_model.LinearExprT:
        """Return the cost of the KV tokens that leave and come back."""
        if self.plain.mode != "swap":
            return 0
        total: cp_model.LinearExprT = 0
        for i, marks in enumerate(self.marks):
            for moves, per_token in (
                (self.plain.evict, self.cost.swap_out_ps),
                (self.plain.restore, self.cost.swap_in_ps),
            ):
                total += self._where(moves[i][k], [us_from_ps(per_token * c) for c in marks], self._place(i, k - 1))
        return total
