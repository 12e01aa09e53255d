"""Plan: one batch in the making, with what is left of every limit after what has been decided so far."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.policy import FOREVER, Batch
from heuristics.state import UNLIMITED, EngineState, RequestState


class Plan:
    """The decisions of one scheduling pass. It counts; it refuses nothing that its caller did not ask about.

    It starts empty, except at time 0 where residents have more unfinished prefills than an iteration may leave:
    then the shortest ones are in it to their ends, because no batch without them can run.

    Attributes
    ----------
    state
        The engine at the start of the pass.
    budget, seats, blocks
        What is left of the token budget, the seats and the KV pool (`UNLIMITED` where there is no limit).
    tokens
        Tokens per request that works, in the order of the decision.
    evicted, restored
        As decided, in order.
    withheld
        KV blocks that `blocks` lacks although no resident holds them (`heuristics.release_lag`).
    """

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.limits = state.limits
        self.budget = state.limits.max_num_batched_tokens
        self.seats = state.free_seats
        self.blocks = state.free_blocks
        self.withheld = 0
        self.tokens: dict[RequestState, int] = {}
        self.evicted: list[RequestState] = []
        self.restored: list[RequestState] = []
        most = state.limits.max_partial_prefills
        self._partial_room = UNLIMITED if most is None else most - state.partial_prefills
        self._block_size = state.limits.block_size
        self._decodes = 0
        self._mixes = state.limits.mixed_batches
        if self._partial_room < 0:
            self._end_prefills()

    def need(self, request: RequestState, tokens: int) -> int:
        """Return the KV blocks that `request` lacks for `tokens` more tokens."""
        size, computed = self._block_size, request._computed  # the hot spot of every pass: no calls in here
        held = -(-computed // size) if request._resident else 0
        return -(-(computed + tokens) // size) - held

    def fits(self, request: RequestState, tokens: int) -> bool:
        """Whether seats and KV blocks suffice for `tokens` more tokens of `request`."""
        return self.need(request, tokens) <= self.blocks and (request.resident or self.seats > 0)

    def can_decode(self) -> bool:
        """Whether budget and mixing leave room for a decode (KV blocks and seats aside)."""
        return self.budget > 0 and (self._mixes or self._decodes == len(self.tokens))

    def chunk(self, request: RequestState, most: int = UNLIMITED) -> int:
        """Return the largest prefill chunk of `request`, at most `most` tokens; 0 where there is none.

        Looks at the shape of chunks, the budget, mixing and the limit on unfinished prefills; not at KV blocks and
        seats, see `fits`.
        """
        if self._decodes and not self._mixes:
            return 0
        left = request.remaining
        tokens = self.limits.largest_allowed_chunk(left, min(self.budget, most))
        if tokens < left and self._partial_room < 1 and not self._is_partial(request):
            return 0
        return tokens

    def tokens_for(self, request: RequestState, most: int = UNLIMITED) -> int:
        """Return the tokens that `request` could compute now: 1 in phase decode, else `chunk`; 0 where none."""
        return int(self.can_decode()) if request.decoding else self.chunk(request, most)

    def take(self, request: RequestState, tokens: int) -> None:
        """Let `request` compute `tokens` tokens, restoring or admitting it first where needed."""
        self.budget -= tokens
        self.blocks -= self.need(request, tokens)
        self.tokens[request] = tokens
        if request.swapped:
            self.restored.append(request)
        if not request.resident:
            self.seats -= 1
        if request.decoding:
            self._decodes += 1
        else:
            self._partial_room -= (tokens < request.remaining) - self._is_partial(request)

    def take_decodes(self, requests: Sequence[RequestState]) -> bool:
        """Let all of `requests`, residents in phase decode, decode at once; False, and nothing, where they do not fit.

        The same as one `take` after the other, faster. Only for a plan that is still empty.
        """
        if not requests:
            return True
        size = self._block_size
        needed = sum([not request._computed % size for request in requests])
        if self.tokens or needed > self.blocks or len(requests) > self.budget:
            return False
        self.budget -= len(requests)
        self.blocks -= needed
        self.tokens = dict.fromkeys(requests, 1)
        self._decodes = len(requests)
        return True

    def decode_all(self, requests: Sequence[RequestState]) -> None:
        """Let all of `requests`, residents in phase decode for which there is room, decode."""
        if not self.take_decodes(requests):
            for request in requests:
                self.take(request, 1)

    @property
    def is_settled(self) -> bool:
        """Whether only residents work, and nobody is evicted or restored."""
        return not self.evicted and self.seats == self.state.free_seats

    @property
    def goes_on(self) -> bool:
        """Whether only residents and at most one chunk of a newcomer are in it, and nobody is evicted or restored."""
        chunks, entered = len(self.tokens) - self._decodes, self.state.free_seats - self.seats
        return not (self.evicted or self.restored) and (not entered or chunks == entered == 1)

    @property
    def decodes(self) -> int:
        """How many requests decode."""
        return self._decodes

    @property
    def has_chunks(self) -> bool:
        """Whether a prefill is in it."""
        return self._decodes < len(self.tokens)

    def rounds(self) -> int:
        """Return how often in a row the chunks would be cut alike, by a rule that looks at caps and budget only.

        Where any size is a chunk, that is until the first prefill ends, which is an event anyway. Otherwise a rest
        that fits in whole might be taken at once; it does not while it exceeds the budget. Where unfinished prefills
        are limited, the last chunk leaves room for another request, so it is decided anew.
        """
        limits = self.limits
        if not self.has_chunks:
            return FOREVER
        if limits.chunk_quantum == 1 and limits.chunk_sizes is None and limits.max_partial_prefills is None:
            return FOREVER
        rests = [(r.remaining, n) for r, n in self.tokens.items() if not r.decoding]
        if limits.chunk_quantum > 1 or limits.chunk_sizes is not None:
            return max(1, min(-(-(rest - limits.max_num_batched_tokens) // n) for rest, n in rests))
        return max(1, min((rest - 1) // n for rest, n in rests))

    def drop(self, request: RequestState) -> None:
        """Undo `take`."""
        tokens = self.tokens.pop(request)
        self.budget += tokens
        self.blocks += self.need(request, tokens)
        if request.swapped:
            self.restored.remove(request)
        if not request.resident:
            self.seats += 1
        if request.decoding:
            self._decodes -= 1
        else:
            self._partial_room += (tokens < request.remaining) - self._is_partial(request)

    def evict(self, request: RequestState) -> None:
        """Evict a resident; what it was given in this pass is given back."""
        if request in self.tokens:
            self.drop(request)
        self.evicted.append(request)
        self.seats += 1
        self.blocks += self.limits.blocks(request.computed)
        self._partial_room += self._is_partial(request)

    def spare(self, request: RequestState) -> None:
        """Undo `evict` (of a request that had been given nothing)."""
        self.evicted.remove(request)
        self.seats -= 1
        self.blocks -= self.limits.blocks(request.computed)
        self._partial_room -= self._is_partial(request)

    def batch(self, *, repeat: int = 1, until_us: int | None = None) -> Batch:
        """Return the batch that was decided."""
        return Batch(list(self.tokens.items()), self.evicted, self.restored, repeat, until_us)

    def _end_prefills(self) -> None:
        """End the shortest prefills where more are unfinished at time 0 than an iteration may leave."""
        partial = (r for r in self.state.running if not r.decoding)
        for request in sorted(partial, key=lambda r: (r.remaining, r.index)):
            left = request.remaining
            if self._partial_room < 0 and self.chunk(request) == left and self.fits(request, left):
                self.take(request, left)

    @staticmethod
    def _is_partial(request: RequestState) -> bool:
        return request.resident and not request.decoding
