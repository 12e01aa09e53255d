"""The simulated engine: the state that a policy sees, and the moves that change it (model.md §3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from heuristics.state import EngineState, RequestState
from instances.cost_model import CostModel
from instances.engine import EngineLimits

Work = Sequence[tuple[RequestState, int]]
"""The requests of a batch with the tokens that each computes."""


class Engine(EngineState):
    """The engine's state and its moves. It obeys; `heuristics.enforcement` judges before.

    It does not know how long outputs will be: the simulator says who has finished.
    """

    def __init__(self, limits: EngineLimits, cost: CostModel) -> None:
        super().__init__(limits, cost)
        self._swaps = limits.preemption == "swap"
        self._known: set[RequestState] = set()

    def knows(self, request: object) -> bool:
        """Whether this is an arrived, unfinished request of this run."""
        return request in self._known

    def knows_all(self, requests: Set[object]) -> bool:
        """Whether these are arrived, unfinished requests of this run."""
        return self._known >= requests

    def holds_all(self, requests: Set[RequestState]) -> bool:
        """Whether these are residents."""
        return self._running.keys() >= requests

    @property
    def is_empty(self) -> bool:
        """Whether no arrived request is unfinished."""
        return not self._known

    @property
    def used_blocks(self) -> int:
        """KV blocks that residents hold, counted without a pool too."""
        return self._blocks

    def wait_until(self, time_us: int) -> None:
        """Move the clock on, never back."""
        self._now_us = max(self._now_us, time_us)

    def arrive(self, request: RequestState) -> None:
        """Take in a request: into the queue, or into its seat if it is resident at time 0."""
        self._known.add(request)
        if request._resident:
            self._seat(request)
        else:
            self._waiting[request] = None
            self._waiting_view = None

    def begin(self, prefills: Work, evict: Iterable[RequestState], restore: Iterable[RequestState]) -> None:
        """Restore, evict and admit, as an iteration with these prefills does at its start."""
        for request in restore:
            self._admit(request)
        for request in evict:
            self._unseat(request)
            request._evictions += 1
            self._requeue(request)
        for request, _ in prefills:
            if not request._resident:
                self._admit(request)

    def compute(
        self, decodes: Sequence[RequestState], prefills: Work, durations_us: Sequence[int]
    ) -> list[RequestState]:
        """Run a batch that has begun, once per duration; return the requests whose prefill ends in the last iteration.

        Those that decode emit a token in every iteration; a prefill may end in the last one only.
        """
        count = len(durations_us)
        self._now_us = now = self._now_us + sum(durations_us)
        self._iteration += count
        size = self.limits.block_size
        grown = 0
        for request in decodes:
            before = request._computed
            request._computed = after = before + count
            request._emitted += count
            request._last_token_us = now
            grown += -(-after // size) + -before // size
        ended = []
        for request, tokens in prefills:
            before = request._computed
            request._computed = after = before + count * tokens
            grown += -(-after // size) + -before // size
            if after == request.prompt_tokens + request._emitted:
                request._decoding = True
                request._emitted += 1
                request._last_token_us = now
                ended.append(request)
        if ended:
            self._partial -= len(ended)
            self._decoding_view = None
        self._blocks += grown
        return ended

    def finish(self, request: RequestState) -> None:
        """Free the seat and the KV of a request that has emitted its last token."""
        self._unseat(request)
        request._finished = True
        self._known.discard(request)

    def swapped(self, moved: Iterable[RequestState]) -> list[int]:
        """Return the KV tokens that evictions or restores move; none where eviction means recompute."""
        return [r._computed for r in moved] if self._swaps else []

    def _admit(self, request: RequestState) -> None:
        del self._waiting[request]
        self._waiting_view = None
        request._swapped = False
        self._seat(request)

    def _seat(self, request: RequestState) -> None:
        """Give a seat, and blocks for the KV that comes with the request (prefix hit, swapped KV)."""
        request._resident = True
        self._running[request] = None
        self._running_view = self._decoding_view = None
        self._blocks += self.limits.blocks(request._computed)
        self._partial += not request._decoding

    def _unseat(self, request: RequestState) -> None:
        request._resident = False
        del self._running[request]
        self._running_view = self._decoding_view = None
        self._blocks -= self.limits.blocks(request._computed)
        self._partial -= not request._decoding

    def _requeue(self, request: RequestState) -> None:
        """Put an evicted request at the front of the queue; its KV is lost or lies outside the pool."""
        if self._swaps:
            request._swapped = True
        else:
            request._computed = request.cached_tokens
            request._decoding = False
        self._waiting[request] = None
        self._waiting.move_to_end(request, last=False)
        self._waiting_view = None
