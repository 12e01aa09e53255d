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
    tokens
        Tokens per request of each iteration, in the order of the decision.
    decodes, prefills
        Those of `tokens` in phase decode, and those in phase prefill with their tokens.
    since_us
        When each of `decodes` had emitted its token before (one that did so before time 0 too).
    ended, ended_since_us
        Requests whose prefill ends in the last iteration, and when they had emitted before, None for a first token.
    evict, restore
        As decided.
    moved_out
        KV tokens that the evictions swap out.
    """

    start_us: int
    durations_us: Sequence[int]
    tokens: Sequence[tuple[RequestState, int]]
    decodes: Sequence[RequestState]
    prefills: Sequence[tuple[RequestState, int]]
    since_us: Sequence[int | None]
    ended: Sequence[RequestState]
    ended_since_us: Sequence[int | None]
    evict: Sequence[RequestState]
    restore: Sequence[RequestState]
    moved_out: Sequence[int]


class Durations:
    """How long the batches of a run last. Decodes whose cost looks at no context are worked out once per batch size."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._alike: dict[int, int] | None = {} if cost.decodes_are_flat else None

    def of(
        self, decodes: Sequence[RequestState], prefills: Sequence[tuple[RequestState, int]], moved_out: Sequence[int],
        moved_in: Sequence[int], most: int, span_us: int | None,
    ) -> Sequence[int]:  # fmt: skip
        """Return the durations of a stretch that ends with the first iteration that is over at `span_us`.

        Parameters
        ----------
        decodes, prefills
            The requests of each iteration, the latter with their tokens.
        moved_out, moved_in
            KV tokens that the first iteration swaps.
        most
            Most iterations, at least 1.
        span_us
            Time from the start of the stretch to the next event, None where nothing is awaited.
        """
        if self._alike is not None and not prefills:
            each = self._alike.get(len(decodes))
            if each is None:
                each = self._alike[len(decodes)] = self._cost.duration_us([], [1] * len(decodes))
            first = each if not (moved_out or moved_in) else self._first(decodes, prefills, moved_out, moved_in)
            if most == 1 or (span_us is not None and first >= span_us):
                return (first,)
            if span_us is not None and each:
                most = min(most, 1 - (first - span_us) // each)
            return (first, *(each,) * (most - 1))
        first = self._first(decodes, prefills, moved_out, moved_in)
        if most == 1 or (span_us is not None and first >= span_us):
            return (first,)
        return durations_until(self._cost, _chunks(prefills), _contexts(decodes), first, most, span_us)

    def _first(
        self, decodes: Sequence[RequestState], prefills: Sequence[tuple[RequestState, int]], moved_out: Sequence[int],
        moved_in: Sequence[int],
    ) -> int:  # fmt: skip
        contexts = _contexts(decodes) if self._alike is None else [1] * len(decodes)
        return self._cost.duration_us(_chunks(prefills), contexts, moved_out, moved_in)


def _chunks(prefills: Sequence[tuple[RequestState, int]]) -> list[Chunk]:
    return [(request._computed, request._computed + tokens) for request, tokens in prefills]


def _contexts(decodes: Sequence[RequestState]) -> list[int]:
    return [request._computed + 1 for request in decodes]


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
