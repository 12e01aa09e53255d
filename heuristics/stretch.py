"""Stretch: a batch that runs several times in a row, advanced in one step; durations of its iterations, exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from heuristics.state import RequestState
from instances.cost_model import Chunk, CostModel, Piece
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
    """How long the batches of a run last. What a cost without contexts says of so many decodes is worked out once."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._flat: dict[int, int] | None = {} if cost.decodes_are_flat else None
        self._linear = cost.pieces[0] if cost.is_linear else None

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
        if not (moved_out or moved_in) and self._flat is not None:
            if not prefills:
                each = self._flat_us(len(decodes))
                if span_us is not None and each and most > 1:
                    most = max(1, min(most, -(-span_us // each)))
                return (each,) * most
            if self._linear is not None:
                return self._beside(self._flat_us(len(decodes)), self._linear, prefills, most, span_us)
        contexts = _contexts(decodes) if self._flat is None else [1] * len(decodes)
        chunks = [(request._computed, request._computed + tokens) for request, tokens in prefills]
        first = self._cost.duration_us(chunks, contexts, moved_out, moved_in)
        return durations_until(self._cost, chunks, contexts, first, most, span_us)

    def _flat_us(self, decodes: int) -> int:
        """Return the duration of an iteration of so many decodes, of a cost that looks at no context."""
        assert self._flat is not None
        found = self._flat.get(decodes)
        if found is None:
            found = self._flat[decodes] = self._cost.duration_us([], [1] * decodes)
        return found

    @staticmethod
    def _beside(
        each: int, piece: Piece, prefills: Sequence[tuple[RequestState, int]], most: int, span_us: int | None
    ) -> list[int]:
        """Return the durations of iterations of chunks beside what lasts `each` alone: in a linear cost they add up."""
        total, found = 0, []
        for k in range(most):
            duration = each
            for request, tokens in prefills:
                before = request._computed + k * tokens
                duration += piece.prefill_us(before + tokens) - piece.prefill_us(before)
            found.append(duration)
            total += duration
            if span_us is not None and total >= span_us:
                break
        return found


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
