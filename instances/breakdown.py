"""What an iteration's duration is made of: shares of every request's work, to the µs.

The duration is the maximum over the pieces of the cost (model.md §4), so it has no parts by itself: in a batch that
memory binds, one more prefill token may cost nothing. It is attributed at the margin, to the parts of the piece that
**binds** (the first of the longest ones): that piece is a sum, its parts add up to the duration exactly, and each part
is what the duration would lose, µs by µs, if that work were taken away as long as the piece binds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instances.cost_model import CostModel
from instances.replay import Step
from instances.units import us_from_ps


@dataclass(frozen=True)
class Breakdown:
    """The parts of one duration, in µs; they sum to it.

    Parameters
    ----------
    base
        The base of the binding piece.
    prefill, decode
        Per request, its chunk and its decode.
    tiles
        Started tiles of the whole batch.
    padding
        Padding of a decode batch to a captured size.
    eager
        The penalty of a batch that is not captured.
    swap
        Per request, its KV moved out or in.
    """

    base: int
    prefill: Mapping[str, int]
    decode: Mapping[str, int]
    tiles: int
    padding: int
    eager: int
    swap: Mapping[str, int]

    @property
    def total_us(self) -> int:
        """The duration."""
        work = sum(self.prefill.values()) + sum(self.decode.values()) + sum(self.swap.values())
        return self.base + self.tiles + self.padding + self.eager + work


def breakdown(cost: CostModel, step: Step, *, swap: bool) -> Breakdown:
    """Return the parts of the duration of one replayed iteration.

    Parameters
    ----------
    cost, step
        The cost model, and what the iteration does.
    swap
        Whether evictions move KV (engine preemption ``swap``).
    """
    decodes, has_prefill = len(step.contexts), bool(step.chunks)
    tokens = decodes + sum(after - before for before, after in step.chunks.values())
    padded = 0 if has_prefill else cost.padded_decodes(decodes) - decodes
    eager = us_from_ps(cost.eager_ps) if cost.is_eager(decodes, has_prefill=has_prefill) else 0
    moved: dict[str, int] = {}
    for rate, names in ((cost.swap_out_ps, step.moved_out), (cost.swap_in_ps, step.moved_in)):
        for name, held in names.items() if swap else ():
            moved[name] = moved.get(name, 0) + us_from_ps(rate * held)
    found = [
        Breakdown(
            piece.base_us,
            {name: piece.prefill_us(after) - piece.prefill_us(before) for name, (before, after) in step.chunks.items()},
            {name: piece.decode_us(context) for name, context in step.contexts.items()},
            piece.tile_us(tokens),
            padded * us_from_ps(piece.decode_ps),
            eager,
            moved,
        )
        for piece in cost.pieces
    ]
    return max(found, key=lambda parts: parts.total_us)
