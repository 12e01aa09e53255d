"""The passes that schedulers are made of: each walks some requests and gives them tokens of a plan.

A policy is the order in which it calls them, on whom, and with which chunk rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from heuristics.plan import Plan
from heuristics.promises import Promises
from heuristics.state import UNLIMITED, RequestState
from instances.cost_model import CostModel
from instances.engine import EngineLimits

ChunkRule = Callable[[Plan, RequestState], int]
"""Returns the tokens that a request should get now, 0 for none; 1 in phase decode where there is room."""


class Gate(Protocol):
    """Who may enter: `heuristics.promises.Promises`, or an engine's own test."""

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        """Whether a request may be admitted with `tokens` tokens, seats and free KV blocks aside."""


def chunk_cap(limits: EngineLimits, cap: int) -> int:
    """Return a policy's cap on chunks (0: none) as the engine can keep it.

    A cap below the smallest chunk that the engine allows is raised to that one: smaller chunks cannot run.
    """
    if cap < 1 or not limits.enable_chunked_prefill:
        return UNLIMITED
    if limits.chunk_sizes is None:
        return max(cap, limits.chunk_quantum)
    return max(cap, min((s for s in limits.chunk_sizes if s % limits.chunk_quantum == 0), default=UNLIMITED))


def capped_chunks(limits: EngineLimits, cap: int) -> ChunkRule:
    """Return the rule "as much as fits, at most `cap` tokens" (0: no cap)."""
    most = chunk_cap(limits, cap)
    return lambda plan, request: plan.tokens_for(request, most)


def stall_limited(chunk: ChunkRule, cost: CostModel, stall_us: int) -> ChunkRule:
    """Return `chunk`, cut so that an iteration with decodes lasts at most `stall_us` (0 where no chunk is so short).

    Iterations without decodes stall nobody and are not cut.
    """

    def duration(plan: Plan, request: RequestState, tokens: int) -> int:
        shares = {**plan.tokens, request: tokens}
        chunks = [(r.computed, r.computed + n) for r, n in shares.items() if not r.decoding]
        return cost.duration_us(chunks, [r.computed + 1 for r in shares if r.decoding])

    def cut(plan: Plan, request: RequestState) -> int:
        tokens = chunk(plan, request)
        if request.decoding or not any(r.decoding for r in plan.tokens):
            return tokens
        low, high = 0, tokens  # the most tokens that are short enough lie within
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if duration(plan, request, middle) <= stall_us else (low, middle - 1)
        return tokens if low == tokens else plan.chunk(request, low)

    return cut


def whole_prefill(plan: Plan, request: RequestState) -> int:
    """Return the rule "all or nothing"; a prefill that exceeds the largest chunk is cut as the engine demands."""
    tokens = plan.tokens_for(request)
    return tokens if tokens == request.remaining or request.remaining > plan.limits.largest_chunk else 0


def decode(plan: Plan, promises: Promises, residents: Sequence[RequestState]) -> None:
    """Give a token to every resident in phase decode, in order, while budget, mixing and KV allow."""
    alike = not (plan.tokens or plan.evicted or promises.overbooked)  # nobody's growth has to be watched
    if alike and plan.take_decodes([request for request in residents if request._decoding]):
        return
    for request in residents:
        if not plan.can_decode():
            return
        if request.decoding and request not in plan.evicted and grow(plan, promises, request, 1, residents):
            plan.take(request, 1)


def prefill(plan: Plan, promises: Promises, residents: Sequence[RequestState], chunk: ChunkRule) -> None:
    """Give a chunk to every resident in phase prefill, in order."""
    for request in residents if plan.state.partial_prefills else ():
        if plan.budget < 1:
            return
        if request.decoding or request in plan.evicted or request in plan.tokens:
            continue
        tokens = chunk(plan, request)
        if tokens and grow(plan, promises, request, tokens, residents):
            plan.take(request, tokens)


def admit(
    plan: Plan, gate: Gate, waiting: Iterable[RequestState], chunk: ChunkRule, *, skip_ahead: bool = False,
    most: int = UNLIMITED,
) -> int:  # fmt: skip
    """Admit waiting requests in order and give each its first tokens; return how many were admitted.

    Parameters
    ----------
    plan, gate
        The pass, and who may enter.
    waiting
        Candidates in order.
    chunk
        Rule for its first tokens (a swapped-out request may be in phase decode).
    skip_ahead
        Go on behind one that cannot be admitted; otherwise it ends the pass (head-of-line blocking).
    most
        Most requests to admit.
    """
    admitted = 0
    for request in waiting:
        if plan.budget < 1 or plan.seats < 1 or admitted >= most:
            break
        tokens = chunk(plan, request)
        if tokens and plan.fits(request, tokens) and gate.may_enter(request, tokens):
            plan.take(request, tokens)
            admitted += 1
        elif not skip_ahead:
            break
    return admitted


def grow(
    plan: Plan, promises: Promises, request: RequestState, tokens: int, residents: Sequence[RequestState]
) -> bool:
    """Return whether a resident may compute `tokens` tokens, after evictions where they are allowed and needed.

    Victims are residents that have been given nothing in this pass, the last one first: those behind `request`,
    and for a pinned request also those before it (they may sit on the blocks that it was promised).
    """
    if not promises.may_grow(request, tokens):
        return False
    if plan.fits(request, tokens):
        return True
    first = 0 if promises.is_pinned(request) else residents.index(request) + 1
    victims = [r for r in residents[first:] if r is not request and r.resident and r not in plan.tokens]
    return make_room(plan, promises, reversed(victims), lambda: plan.fits(request, tokens))


def make_room(
    plan: Plan, promises: Promises, victims: Iterable[RequestState], enough: Callable[[], bool]
) -> bool:
    """Evict victims in order until there is enough room; evict nobody where all of them would not do."""
    evicted = []
    for victim in victims:
        if victim in plan.evicted or not promises.may_evict(victim):
            continue
        plan.evict(victim)
        evicted.append(victim)
        if enough():
            return True
    for victim in evicted:
        plan.spare(victim)
    return False
