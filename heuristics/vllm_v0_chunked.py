"""vllm-v0-chunked: vLLM V0 with chunked prefill and its limits on concurrent partial prefills."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from heuristics.booked import BookedPlan
from heuristics.knobs import knob
from heuristics.paged import PagedPolicy
from heuristics.passes import chunk_cap
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.queues import Fifo
from heuristics.state import UNLIMITED, RequestState


@dataclass
class VllmV0Chunked(PagedPolicy):
    """vLLM V0 with ``enable_chunked_prefill``: running requests first, then admissions, one token budget.

    Each step counts the prefills that may go on or start, up to ``max_num_partial_prefills``, and gives each an equal
    slot of the budget. A prefill with more than ``long_prefill_token_threshold`` tokens left is long; while enough
    long ones run, another long one lets the shorter ones behind it pass (with more than one partial prefill only).
    """

    name: ClassVar[str] = "vllm-v0-chunked"
    summary: ClassVar[str] = "running first, one budget, limits on partial prefills (vLLM V0, versions 0.8 and 0.9)"

    max_num_partial_prefills: int = knob(1, "prefills that share the budget of a step", minimum=1)
    max_long_partial_prefills: int = knob(1, "long ones among them", minimum=1)
    long_prefill_token_threshold: int = knob(
        0, "a prefill with more tokens left is long; 0: 4 % of max_model_len where several may be partial", minimum=0
    )
    max_model_len: int = knob(0, "longest request, in tokens; 0: what the KV pool holds", minimum=0)
    block_aligned: bool = knob(False, "round budget and slot down to whole blocks (as with prefix caching)")

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        longest = self.max_model_len or setup.limits.kv_capacity_tokens or UNLIMITED
        automatic = longest * 4 // 100 if self.max_num_partial_prefills > 1 else 0
        self._threshold = self.long_prefill_token_threshold or automatic
        self._swapped = Fifo()
        self._running: list[RequestState] = []
        self._next_running: list[RequestState] = []

    def arrived(self, request: RequestState) -> None:
        """Queue a new request; one that is resident from the start runs."""
        super().arrived(request)
        if request.resident:
            self._running.append(request)

    def finished(self, request: RequestState) -> None:
        """Forget a request."""
        self._running.remove(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queues up to date: recomputed ones go to the front, swapped ones come back first."""
        for request in batch.restore:
            self._swapped.remove(request)
        for request, _ in batch.tokens:
            if request in self.waiting:
                self.waiting.remove(request)
        for request in batch.evict:
            if request.swapped:
                self._swapped.push(request)
            else:
                self.waiting.requeue(request)
        self._running = self._next_running

    def decide(self, plan: BookedPlan) -> None:
        """Make the decisions of one pass."""
        residents = [r for r in self._running if r not in plan.evicted]
        share = plan.limits.max_num_batched_tokens // max(1, self._prefills_to_come(residents))
        self._slot = chunk_cap(plan.limits, max(1, self._aligned(share) or share))
        unvisited = self._run(plan, residents)
        if not plan.evicted:
            self.admit(plan, self._swapped, self._chunk)
        self.admit(plan, self._candidates(residents), self._chunk)
        self._next_running = self._order(plan, residents, unvisited)

    def repeats(self, plan: Plan) -> int:
        """Return how often a batch would be the same; the order of those that run changes where some get nothing."""
        return super().repeats(plan) if len(plan.tokens) == len(self._running) else 1

    def _prefills_to_come(self, residents: list[RequestState]) -> int:
        """Return how many prefills share this step's budget."""
        partial = [r for r in residents if not r.decoding]
        count, longs = len(partial), sum(map(self._is_long, partial))
        for request in self.waiting:
            if count >= self.max_num_partial_prefills:
                break
            if self._is_long(request):
                if longs >= self.max_long_partial_prefills:
                    continue
                longs += 1
            count += 1
        return min(count, self.max_num_partial_prefills)

    def _run(self, plan: Plan, residents: list[RequestState]) -> list[RequestState]:
        """Give tokens to those that run until the budget is used up; return those left unvisited."""
        unvisited = deque(residents)
        while unvisited:
            request = unvisited[0]
            tokens = self._chunk(plan, request)
            if request not in plan.tokens and not tokens:
                if self._aligned(plan.budget) < 1:
                    break
                unvisited.popleft()  # the engine's own limits stop it, others may go on
                continue
            unvisited.popleft()
            if request not in plan.tokens and (not request.decoding or self.make_way(plan, request, unvisited)):
                plan.take(request, tokens)
        return list(unvisited)

    def _candidates(self, residents: list[RequestState]) -> Iterator[RequestState]:
        """Yield the queue in order, without those that are set aside; who is yielded is taken to be admitted."""
        longs = sum(self._is_long(r) for r in residents if not r.decoding)
        for request in list(self.waiting):
            if self._is_long(request):
                if self.max_num_partial_prefills > 1 and longs >= self.max_long_partial_prefills:
                    continue
                longs += 1
            yield request

    def _order(
        self, plan: Plan, residents: list[RequestState], unvisited: list[RequestState]
    ) -> list[RequestState]:
        """Return those that run, in the order of the next step."""

        def place(request: RequestState) -> int:
            if request in left:
                return 0
            return 1 if request.decoding else 2 if plan.tokens.get(request) == request.remaining else 3

        left = set(unvisited)
        staying = sorted((r for r in residents if r not in plan.evicted), key=place)
        return staying + [r for r in plan.tokens if not r.resident]

    def _chunk(self, plan: Plan, request: RequestState) -> int:
        if request.decoding:
            return int(plan.can_decode() and self._aligned(plan.budget) > 0)
        if self.block_aligned and request.remaining > min(plan.budget, self._slot):
            rounded = plan.chunk(request, min(self._aligned(plan.budget), self._slot))
            if rounded or plan.tokens:
                return rounded
        return plan.chunk(request, self._slot)  # also where the engine's chunks are no whole blocks

    def _aligned(self, tokens: int) -> int:
        """Return `tokens`, cut down to whole blocks where the engine does so."""
        size = self.limits.block_size
        rounds = self.block_aligned and size <= self.limits.max_num_batched_tokens
        return tokens - tokens % size if rounds else tokens

    def _is_long(self, request: RequestState) -> bool:
        return request.remaining > self._threshold
