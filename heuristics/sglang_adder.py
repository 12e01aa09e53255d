"""PrefillAdder: one prefill batch of SGLang in the making, with the tokens that it reckons to have left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from heuristics.passes import whole_prefill
from heuristics.plan import Plan
from heuristics.state import UNLIMITED, RequestState


class Stop(Enum):
    """Why no further request is added."""

    NO_TOKEN = "the KV pool may not suffice"
    OTHER = "the batch is full"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What bounds a prefill batch, in tokens and requests.

    Parameters
    ----------
    chunk
        Prefill tokens of an iteration (`chunked_prefill_size`), None where prompts are not cut.
    prefill
        Prefill tokens of a batch (`max_prefill_tokens`).
    requests
        Requests of a batch (`prefill_max_requests`), None without limit.
    outputs
        Most output tokens that an estimate counts.
    """

    chunk: int | None
    prefill: int
    requests: int | None
    outputs: int


class PrefillAdder:
    """Adds requests while budgets and the expected growth of everybody leave room.

    All KV is counted in tokens, whole pages of the pool's block size; one more page is charged per request. Requests
    of the plan that decode already (mixed chunks) have been given their budget and their blocks before.

    Parameters
    ----------
    plan
        The pass.
    sizes
        The bounds.
    running
        The decode batch, with those that have just finished.
    ratio
        Share of the declared outputs that running requests are expected to produce.
    shared
        Decodes that share the batch.
    """

    def __init__(
        self, plan: Plan, sizes: Sizes, running: Sequence[RequestState], ratio: Fraction, shared: int
    ) -> None:
        self.plan = plan
        self.added: list[RequestState] = []
        self._sizes = sizes
        self._page = plan.limits.block_size
        self._capacity = plan.limits.kv_capacity_tokens
        self._ratio, self._unit = ratio.numerator, ratio.denominator
        self._available = plan.state.free_blocks * self._page
        self._total = shared * self._unit + self._ratio * self._outputs_of(running)  # in shares of a token
        self._current = shared
        self._chunk_left = None if sizes.chunk is None else sizes.chunk - shared
        self._prefill_left = sizes.prefill - shared
        self._unfinished = False

    def outputs(self, request: RequestState, emitted: int = 0) -> int:
        """Return the output tokens to reckon with for a request, beyond `emitted` ones.

        SGLang cuts what a request declares to what an empty pool holds, so that alone it always gets in; here the
        estimate is cut, not the outputs. That can make it negative.
        """
        declared = request.max_output_tokens
        if self._capacity is not None:
            declared = min(declared, self._capacity - request.prompt_tokens - self._page - 1)
        return min(declared - emitted, self._sizes.outputs)

    def growth(self, request: RequestState) -> int:
        """Return the tokens that a running request is expected to add to its KV, in shares as of `total_room`."""
        return self._outputs_left(request) * self._ratio

    @property
    def total_room(self) -> int:
        """Tokens left in the pool when everybody has grown as expected, times the denominator of the ratio."""
        return self._available * self._unit - self._total

    def resume(self, request: RequestState) -> None:
        """Go on with an unfinished prefill. It gets a chunk even where the expected growth leaves no room."""
        plan, left = self.plan, request.remaining
        most = left if self._chunk_left is None else min(left, self._chunk_left)
        room = self.total_room // self._unit
        tokens = plan.chunk(request, min(most, room)) if room > 0 else 0
        tokens = tokens or plan.chunk(request, most)
        held = plan.limits.blocks(request.computed)
        if not plan.fits(request, tokens):  # what is really there
            tokens = plan.chunk(request, (held + plan.blocks) * self._page - request.computed)
        if tokens:
            self._take(request, tokens)
        self._unfinished |= tokens < left

    def add(self, request: RequestState) -> Stop | None:
        """Add a waiting request, where there is room; return why it or the next one cannot be added."""
        sizes, plan = self._sizes, self.plan
        if sizes.requests is not None and len(self.added) >= sizes.requests:
            return Stop.OTHER
        wanted = request.remaining + self.outputs(request, request.emitted) + self._page
        if not (wanted + request.computed) * self._unit < self.total_room:  # a prefix hit takes its KV from the pool
            return Stop.NO_TOKEN
        tokens = self._tokens(request)
        if not tokens:
            return Stop.OTHER
        if not plan.fits(request, tokens):
            return Stop.NO_TOKEN
        self._available -= self._pages(request.computed)
        self._take(request, tokens)
        if self.total_room <= 0 or self._available <= self._current:
            return Stop.NO_TOKEN
        self._unfinished |= tokens < request.remaining
        spent = self._prefill_left <= 0 or (self._chunk_left is not None and self._chunk_left <= 0)
        return Stop.OTHER if spent or tokens < request.remaining else None

    def preempt_for(
        self, request: RequestState, victims: Sequence[RequestState], worse: Callable[[RequestState], bool]
    ) -> list[RequestState]:
        """Evict running requests until `request` has room; evict nobody where that cannot be reached.

        Parameters
        ----------
        request
            The waiting one.
        victims
            Whom to consider, the least important first.
        worse
            Whether a victim is so much less important that it may be taken.
        """
        lack = (request.remaining + self.outputs(request)) * self._unit - self.total_room
        taken = []
        for victim in victims:
            if not worse(victim):
                break
            taken.append(victim)
            lack -= self.growth(victim)
            if lack <= 0:
                for v in taken:
                    self.plan.evict(v)
                    self._account(v, 1)
                return taken
        return []

    def spare(self, victims: Sequence[RequestState], *, decode: bool) -> None:
        """Undo `preempt_for`; with `decode` the victims were to decode in this batch."""
        for victim in victims:
            self._account(victim, -1)
            self.plan.spare(victim)
            if decode:
                self.plan.take(victim, 1)

    def _outputs_left(self, request: RequestState) -> int:
        return max(0, self.outputs(request, request.emitted))

    def _outputs_of(self, running: Sequence[RequestState]) -> int:
        """Return the sum of `_outputs_left`."""
        clip, room = self._sizes.outputs, UNLIMITED if self._capacity is None else self._capacity - self._page - 1
        left = [min(r.max_output_tokens, room - r.prompt_tokens) - r._emitted for r in running]
        return sum([min(outputs, clip) for outputs in left if outputs > 0])

    def _account(self, victim: RequestState, sign: int) -> None:
        self._available += sign * self._pages(victim.computed)
        self._total -= sign * self.growth(victim)

    def _tokens(self, request: RequestState) -> int:
        """Return the first tokens of a waiting request: the whole prompt, or the chunk that the batch has left."""
        plan, left, chunk = self.plan, request.remaining, self._chunk_left
        if chunk is None:
            blocked = self.added and self._pages(left) >= self._prefill_left
            tokens = 0 if blocked else whole_prefill(plan, request)
        elif self._pages(left) <= chunk:
            tokens = plan.chunk(request)
        else:
            tokens = plan.chunk(request, chunk - chunk % self._page)
            if not tokens and not plan.tokens:  # no whole page can be a chunk: then any
                tokens = plan.chunk(request, chunk)
        return 0 if self._unfinished and tokens < left else tokens

    def _take(self, request: RequestState, tokens: int) -> None:
        """Add a request and charge its tokens, and its outputs if its prefill ends."""
        self.plan.take(request, tokens)
        self.added.append(request)
        rounded = self._pages(tokens)
        reserve = max(0, self.outputs(request)) if tokens == request.remaining else 0
        self._total += (rounded + self._page + reserve) * self._unit
        self._current += rounded + self._page
        self._prefill_left -= rounded
        if self._chunk_left is not None:
            self._chunk_left -= rounded

    def _pages(self, tokens: int) -> int:
        """Return `tokens` rounded up to whole pages."""
        return self.plan.limits.blocks(tokens) * self._page
