"""Stretch: a batch that runs several times in a row, advanced in one step; durations of its iterations, exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from heuristics.state import RequestState
from instances.cost_model import Chunk, CostModel
from instances.units import us_from_ps

BLOCK = 256
"""Iterations whose durations are worked out at once."""


@dataclass(slots=True)
class Stretch:
    """Alike iterations in a row, no pause between them; only the first one evicts and restores.

    Parameters
    ----------
    start_us
        When the first one starts.
    durations_us
        One per iteration.
    work
        Tokens per request of each iteration, in the order of the decision.
    prefills
        Those of `work` that are in phase prefill.
    chunks, contexts
        Of the first iteration, as the cost model wants them.
    evict, restore
        As decided.
    moved_out
        KV tokens that the evictions swap out.
    """

    start_us: int
    durations_us: Sequence[int]
    work: Sequence[tuple[RequestState, int]]
    prefills: frozenset[RequestState]
    chunks: Sequence[Chunk]
    contexts: Sequence[int]
    evict: Sequence[RequestState]
    restore: Sequence[RequestState]
    moved_out: Sequence[int]


def durations_until(
    cost: CostModel, chunks: Sequence[Chunk], contexts: Sequence[int], first_us: int, most: int, span_us: int | None
) -> Sequence[int]:
    """Return the durations of a stretch that ends with the first iteration that is over at `span_us`.

    Parameters
    ----------
    cost, chunks, contexts
        The cost, and the first iteration as the cost model wants it.
    first_us
        Duration of the first iteration, swapping included.
    most
        Most iterations, at least 1.
    span_us
        Time from the start of the stretch to the next event, None where nothing is awaited.
    """
    if most == 1 or (span_us is not None and first_us >= span_us):
        return (first_us,)
    found = [first_us]
    total = first_us
    while len(found) < most and (span_us is None or total < span_us):
        block = durations_us(cost, chunks, contexts, len(found), min(most - len(found), BLOCK))
        if span_us is not None:
            ends = list(accumulate(block, initial=total))
            block = block[: bisect_left(ends, span_us, lo=1)]
            total = ends[len(block)]
        found += block
    return found


def durations_us(
    cost: CostModel, chunks: Sequence[Chunk], contexts: Sequence[int], first: int, count: int
) -> list[int]:
    """Return the durations in µs of the iterations `first` .. `first + count - 1` of a stretch (no swapping).

    From one iteration to the next every chunk moves on by its own size and every context grows by one. Equal to
    `CostModel.duration_us` of each of them.
    """
    padding = 0 if chunks else cost.padded_decodes(len(contexts)) - len(contexts)
    tokens = len(contexts) + sum(after - before for before, after in chunks)
    longest: list[int] | None = None
    for piece in cost.pieces:
        fixed = piece.base_us + piece.tile_us(tokens) + padding * us_from_ps(piece.decode_ps)
        times = [fixed + decodes for decodes in piece.decodes_us(contexts, first, count)]
        for before, after in chunks:
            size = after - before
            ends = [piece.prefill_us(before + k * size) for k in range(first, first + count + 1)]
            times = [time + ends[k + 1] - ends[k] for k, time in enumerate(times)]
        longest = times if longest is None else [max(pair) for pair in zip(longest, times, strict=True)]
    eager = us_from_ps(cost.eager_ps) if cost.is_eager(len(contexts), has_prefill=bool(chunks)) else 0
    return [time + eager for time in longest or ()]
