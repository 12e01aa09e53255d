"""Retraction: SGLang's way to make room for the next decode."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.plan import Plan
from heuristics.state import RequestState


def lacks(plan: Plan, requests: Sequence[RequestState], steps: int = 1) -> bool:
    """Return whether the pool cannot hold `steps` more tokens of everybody."""
    if steps * len(requests) <= plan.blocks:  # nobody takes more than a block per token
        return False
    return sum(plan.need(r, steps) for r in requests) > plan.blocks


def retract(plan: Plan, running: Sequence[RequestState], steps: int) -> list[RequestState]:
    """Evict decoding requests until the others have room for `steps` tokens each; return those that stay, in order.

    Those with the fewest outputs go first, of these the longest prompts. One always stays; where it lacks room even
    so, unfinished prefills go too.
    """
    staying = sorted(running, key=lambda r: (-r.emitted, r.prompt_tokens))
    while len(staying) > 1:
        plan.evict(staying.pop())
        if not lacks(plan, staying[: plan.budget], steps):
            break
    for request in reversed(plan.state.running):
        if not request.decoding and lacks(plan, staying[: plan.budget]):
            plan.evict(request)
    return staying
