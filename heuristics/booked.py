"""KV blocks as engines book them that take those of a whole prompt at admission (vLLM V0, Sarathi-Serve)."""

from __future__ import annotations

from heuristics.plan import Plan
from heuristics.state import EngineState, RequestState


class BookedPlan(Plan):
    """A plan whose `blocks` are those that nobody has booked.

    A request in phase prefill has booked the blocks of all its known tokens, from its admission on; in phase decode
    it holds those of its KV. Never less than what the simulator counts, so what fits here fits there.

    Residents at time 0 may have booked more than the pool; then the last ones are evicted at once.
    """

    def __init__(self, state: EngineState) -> None:
        super().__init__(state)
        blocks = state.limits.blocks
        for request in state.prefilling:
            self.blocks -= blocks(request.known_tokens) - blocks(request.computed)
        for request in reversed(state.running) if self.blocks < 0 else ():
            if self.blocks >= 0:
                break
            self.evict(request)

    def held(self, request: RequestState) -> int:
        """Return the blocks that a resident has booked."""
        return self.limits.blocks(request.computed if request.decoding else request.known_tokens)

    def need(self, request: RequestState, tokens: int) -> int:
        """Return the blocks that `request` has to book for `tokens` more tokens; a prefill books all at once."""
        if request._decoding:
            return super().need(request, tokens)
        return 0 if request._resident else self.limits.blocks(request.known_tokens)

    def evict(self, request: RequestState) -> None:
        """Evict a resident; what it has booked is given back."""
        super().evict(request)
        self.blocks += self.held(request) - self.limits.blocks(request.computed)


class Watermark:
    """Admission that leaves some blocks free while anything is resident.

    Parameters
    ----------
    plan
        The pass.
    blocks
        The blocks to leave free. An empty engine leaves none: a prompt of nearly the whole pool would never run.
    """

    def __init__(self, plan: Plan, blocks: int) -> None:
        self.plan = plan
        self.blocks = blocks

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        """Whether a request may be admitted with `tokens` tokens."""
        plan = self.plan
        busy = len(plan.state.running) > len(plan.evicted) or bool(plan.tokens)
        return plan.need(request, tokens) + (self.blocks if busy else 0) <= plan.blocks
