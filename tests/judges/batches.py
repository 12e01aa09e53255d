"""What one iteration may do: logical states of an instance and the batches that lead on, straight from model.md §1–4.

Knows neither solver, checker nor policies. Time does not appear here, only the duration of a batch and the earliest
time it may start because of arrivals; `tests.judges.timing` places the batches on the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from instances.instance import Instance

WAITING, PREFILL, DECODE, OUT_PREFILL, OUT_DECODE, FINISHED = range(6)

RequestState = tuple[int, int, int, int]
"""(status, computed tokens c, emitted tokens g, evictions so far); c is 0 where no KV is held."""
State = tuple[RequestState, ...]


class Emission(NamedTuple):
    """A token that a request emits at the end of a batch; `number` counts its output tokens from 1."""

    request: int
    number: int
    last: bool


class Move(NamedTuple):
    """What a batch does with one request, and what that uses."""

    after: RequestState
    tokens: int = 0
    chunk: tuple[int, int] | None = None
    context: int = 0  # of a decode, 0 for none
    evicted: bool = False
    restored: bool = False
    moved: int = 0  # KV tokens evicted or restored
    held: int = -1  # KV tokens after the compute, -1 where not resident
    emits: bool = False


class Batch(NamedTuple):
    """One iteration without its place in time."""

    after: State
    duration: int
    release: int
    emissions: tuple[Emission, ...]
    moves: tuple[Move, ...]


@lru_cache(maxsize=4)
def batches_of(instance: Instance, max_preemptions: int | None = 1, no_pause: bool = False) -> Batches:
    """Return the states and batches of an instance, kept for the next question about it."""
    return Batches(instance, max_preemptions, no_pause)


class Batches:
    """The states and batches of an instance.

    Parameters
    ----------
    instance
        The instance.
    max_preemptions
        Evictions allowed per request where the engine allows any; None for no bound (states then do not count).
    no_pause
        Every resident whose prefill is complete decodes in every iteration.
    """

    def __init__(self, instance: Instance, max_preemptions: int | None = 1, no_pause: bool = False) -> None:
        self.instance = instance
        self.engine = instance.engine
        self.requests = instance.requests
        self.max_preemptions = max_preemptions
        self.no_pause = no_pause
        self._moves: dict[tuple[int, RequestState], list[Move]] = {}
        self._batches: dict[State, list[Batch]] = {}

    def initial(self) -> State:
        """Return the state at time 0."""
        states = []
        for r in self.requests:
            if r.progress is None:
                states.append((WAITING, 0, 0, 0))
            elif r.progress.emitted == 0:
                states.append((PREFILL, r.progress.prefilled, 0, 0))
            else:
                states.append((DECODE, r.prompt_tokens + r.progress.emitted - 1, r.progress.emitted, 0))
        return tuple(states)

    def is_goal(self, state: State) -> bool:
        """Return whether all requests are finished."""
        return all(status == FINISHED for status, *_ in state)

    def batches(self, state: State) -> list[Batch]:
        """Return every legal batch of `state` (cached)."""
        if state not in self._batches:
            self._batches[state] = list(self._generate(state))
        return self._batches[state]

    def chunks(self, remaining: int) -> list[int]:
        """Return the sizes that a chunk may have where `remaining` tokens are left to prefill (model.md §2)."""
        e = self.engine
        sizes = []
        for n in range(1, remaining + 1):
            ends = n == remaining
            if n > e.max_num_batched_tokens or (e.max_chunk_tokens is not None and n > e.max_chunk_tokens):
                continue
            if not ends and (not e.enable_chunked_prefill or n % e.chunk_quantum):
                continue
            if e.chunk_sizes is not None and n not in e.chunk_sizes and not (ends and n <= max(e.chunk_sizes)):
                continue
            sizes.append(n)
        return sizes

    def moves(self, index: int, state: RequestState) -> list[Move]:
        """Return all that a batch may do with a request, whatever the other requests do."""
        key = (index, state)
        if key not in self._moves:
            self._moves[key] = list(self._request_moves(index, state))
        return self._moves[key]

    def _request_moves(self, index: int, state: RequestState) -> Iterator[Move]:
        status, c, g, evictions = state
        if status == FINISHED:
            yield Move(state)
        elif status == WAITING:
            yield Move(state)
            yield from self._work(index, PREFILL, self.requests[index].cached_tokens, g, evictions)
        elif status in (PREFILL, DECODE):
            if status == PREFILL or not self.no_pause:
                yield Move(state, held=c)
            yield from self._work(index, status, c, g, evictions)
            if self.engine.preemption != "none" and (self.max_preemptions is None or evictions < self.max_preemptions):
                count = evictions if self.max_preemptions is None else evictions + 1
                if self.engine.preemption == "recompute":
                    yield Move((WAITING, 0, g, count), evicted=True)
                else:
                    out = OUT_PREFILL if status == PREFILL else OUT_DECODE
                    yield Move((out, c, g, count), evicted=True, moved=c)
        else:  # swapped out; evicting it in the very iteration that restores it would only cost time
            yield Move(state)
            phase = PREFILL if status == OUT_PREFILL else DECODE
            if phase == PREFILL or not self.no_pause:
                yield Move((phase, c, g, evictions), restored=True, moved=c, held=c)
            for move in self._work(index, phase, c, g, evictions):
                yield move._replace(restored=True, moved=c)

    def _work(self, index: int, phase: int, c: int, g: int, evictions: int) -> Iterator[Move]:
        """Yield the chunks or the decode of a resident (or starting) request with c computed tokens."""
        request = self.requests[index]
        after_emission = (FINISHED, 0, 0, 0) if g + 1 == request.output_tokens else None
        if phase == DECODE:
            after = after_emission or (DECODE, c + 1, g + 1, evictions)
            yield Move(after, tokens=1, context=c + 1, held=c + 1, emits=True)
            return
        target = request.prompt_tokens + g
        for n in self.chunks(target - c):
            emits = c + n == target
            after = (PREFILL, c + n, g, evictions)
            if emits:
                after = after_emission or (DECODE, c + n, g + 1, evictions)
            yield Move(after, tokens=n, chunk=(c, c + n), held=c + n, emits=emits)

    def _generate(self, state: State) -> Iterator[Batch]:
        for moves in self._products(state, 0, (), 0, 0, 0):
            if any(m.tokens for m in moves) and self._allowed(moves):
                yield self._batch(state, moves)

    def _products(
        self, state: State, index: int, chosen: tuple[Move, ...], tokens: int, seats: int, blocks: int
    ) -> Iterator[tuple[Move, ...]]:
        """Yield every combination of moves within the token budget, the seats and the pool."""
        if index == len(state):
            yield chosen
            return
        e = self.engine
        for move in self.moves(index, state[index]):
            t, s, b = tokens + move.tokens, seats, blocks
            if move.held >= 0:
                s, b = seats + 1, blocks + -(-move.held // e.block_size)
            if t > e.max_num_batched_tokens or (e.max_num_seqs is not None and s > e.max_num_seqs):
                continue
            if e.num_kv_blocks is not None and b > e.num_kv_blocks:
                continue
            yield from self._products(state, index + 1, (*chosen, move), t, s, b)

    def _allowed(self, moves: tuple[Move, ...]) -> bool:
        e = self.engine
        if not e.mixed_batches and any(m.chunk for m in moves) and any(m.context for m in moves):
            return False
        partial = sum(m.held >= 0 and m.after[0] == PREFILL for m in moves)
        return e.max_partial_prefills is None or partial <= e.max_partial_prefills

    def _batch(self, state: State, moves: tuple[Move, ...]) -> Batch:
        swap = self.engine.preemption == "swap"
        duration = self.instance.cost.duration_us(
            [m.chunk for m in moves if m.chunk],
            [m.context for m in moves if m.context],
            [m.moved for m in moves if m.evicted] if swap else [],
            [m.moved for m in moves if m.restored] if swap else [],
        )
        emissions = tuple(
            Emission(i, state[i][2] + 1, m.after[0] == FINISHED) for i, m in enumerate(moves) if m.emits
        )
        release = max(r.arrival_us for r, m in zip(self.requests, moves, strict=True) if m.tokens)
        return Batch(tuple(m.after for m in moves), duration, release, emissions, moves)

    def rank(self, state: State) -> tuple[int, int, int]:
        """Return a key that every batch raises, as long as evictions are counted.

        Tokens emitted never fall. A batch that emits none finishes no request, so no count of evictions is lost and
        they never fall either; and one that neither emits nor evicts computes a chunk, so computed tokens rise.
        """
        emitted = evictions = computed = 0
        for (status, c, g, count), r in zip(state, self.requests, strict=True):
            emitted += r.output_tokens if status == FINISHED else g
            evictions += count
            computed += c
        return emitted, evictions, computed
