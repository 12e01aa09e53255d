"""TensorRT-LLM's PyTorch scheduler V2: one loop over generations, then contexts, which takes pages as it goes."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.context_chunks import first_come_first_served
from heuristics.plan import Plan
from heuristics.state import RequestState


def generations_then_contexts(plan: Plan, active: Sequence[RequestState], unit: int, *, chunked: bool) -> None:
    """Give every decode its token and, behind them, prefills their chunks; only pages that are used are taken.

    A decode that lacks a page evicts started requests from the end of the list, in the end itself, and ends the
    decodes. A prefill that lacks pages, budget or a chunk small enough is passed over with chunking, and stops the
    queue without. Where nothing could run at all, prefills evict from the end of the list too: they would hold each
    other up.
    """
    for request in active:
        if not request.decoding or request in plan.evicted or request in plan.tokens:
            continue
        if not plan.can_decode():
            break
        if _make_room(plan, active, request, 1):
            plan.take(request, 1)
            continue
        if request.resident:
            plan.evict(request)
        break
    alone = not plan.tokens
    for request in active:
        if request.decoding or request in plan.evicted or request in plan.tokens:
            continue
        tokens = _chunk(plan, request, unit, chunked=chunked)
        if tokens and (plan.fits(request, tokens) or (alone and _make_room(plan, active, request, tokens))):
            plan.take(request, tokens)
            alone = False
        elif not chunked:
            break


def _make_room(plan: Plan, active: Sequence[RequestState], request: RequestState, tokens: int) -> bool:
    """Evict started requests from the end of the list, down to `request`, until it has the pages for its tokens."""
    for victim in reversed(active[active.index(request) + 1 :]):
        if plan.fits(request, tokens):
            break
        if victim.resident and victim not in plan.evicted and victim not in plan.tokens:
            plan.evict(victim)
    return plan.fits(request, tokens)


def _chunk(plan: Plan, request: RequestState, unit: int, *, chunked: bool) -> int:
    """Return the tokens of a prefill: all, or with chunking as many whole units as the budget has left."""
    left = request.remaining
    if not chunked:
        tokens = plan.chunk(request)
        return tokens if tokens == left or left > plan.limits.largest_chunk else 0
    (size,) = first_come_first_served([left], plan.budget, unit)
    return plan.chunk(request, size) or (0 if plan.tokens else plan.chunk(request))
