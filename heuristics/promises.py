"""KV safety: who may enter and who may grow, so that residents can always finish.

A resident that can be evicted is no danger: its blocks can be had back. The others are **pinned**: where
preemption is ``none`` every one is; with ``recompute`` those whose prompt and outputs might become too long to be
prefilled again (chunking off). Pinned residents are safe when there is an order in which each can grow to its peak
and give back its blocks before the next one does (Dijkstra's banker, for one resource: by the smallest lack).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from heuristics.plan import Plan
from heuristics.state import RequestState
from instances.engine import EngineLimits

Claim = tuple[int, int]
"""KV blocks that a resident holds, and the blocks that it holds at its peak."""


def all_can_finish(pool: int, claims: Iterable[Claim]) -> bool:
    """Return whether residents with these claims can all finish, one after the other if need be.

    Examples
    --------
    >>> all_can_finish(10, [(4, 9), (4, 6)])   # the second one first: 4 + 6 <= 10, then the first: 9 <= 10
    True
    >>> all_can_finish(10, [(4, 9), (4, 9)])   # whoever goes first needs 4 + 9
    False
    """
    claims = list(claims)
    free = pool - sum(held for held, _ in claims)
    for held, peak in sorted(claims, key=lambda claim: claim[1] - claim[0]):
        if peak - held > free:
            return False
        free += held
    return True


class Promises:
    """The KV blocks that residents may claim, seen from one scheduling pass.

    Parameters
    ----------
    plan
        The pass.
    outputs
        Output tokens to reckon with for a request: its declared cap, or the truth for a clairvoyant policy.
    reserve
        Whom an admission reserves blocks for. ``all``: the peaks of all residents fit at once. ``pinned``: the
        peaks of the pinned ones, and of the others the tokens known now. ``order``: like ``pinned``, but for the
        pinned ones an order in which all can finish is enough (denser; decodes may have to pause).
    peaks
        What `peak` has found so far, to be kept from pass to pass of one run.

    Attributes
    ----------
    overbooked
        Whether pinned residents claim more than the pool, so that their growth has to be watched.
    """

    def __init__(
        self, plan: Plan, outputs: Callable[[RequestState], int], reserve: str = "all",
        peaks: dict[RequestState, int] | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.limits = plan.limits
        self.outputs = outputs
        self.reserve = reserve
        self.pool = plan.limits.num_kv_blocks
        self._peaks = {} if peaks is None else peaks
        self._evicts = plan.limits.preemption != "none"
        self.overbooked = self.pool is not None and self._sum_of_peaks(plan.state.running) > self.pool
        self._unsafe = self.overbooked and not self._safe({})

    def peak(self, request: RequestState) -> int:
        """Return the KV blocks of a request at its peak; an instance promises that no one exceeds the pool."""
        known = self._peaks.get(request)
        if known is None:
            blocks = self.limits.blocks(request.prompt_tokens + self.outputs(request) - 1)
            known = self._peaks[request] = blocks if self.pool is None else min(blocks, self.pool)
        return known

    def _sum_of_peaks(self, residents: Sequence[RequestState]) -> int:
        """Return the peaks of the pinned ones of some residents."""
        pinned = [r for r in residents if self.is_pinned(r)] if self._evicts else residents
        peaks = self._peaks
        return sum([peaks.get(r) or self.peak(r) for r in pinned])

    def is_pinned(self, request: RequestState) -> bool:
        """Whether a request might reach a state in which it cannot be evicted."""
        if not self._evicts:
            return True
        longest = request.prompt_tokens + self.outputs(request) - 1
        return not can_return(self.limits, longest - request.cached_tokens)

    def may_evict(self, request: RequestState) -> bool:
        """Whether a resident may be evicted now: allowed, and it can be prefilled again."""
        return can_return(self.limits, request.known_tokens - request.cached_tokens)

    def may_grow(self, request: RequestState, tokens: int) -> bool:
        """Whether a resident may take the blocks for `tokens` more tokens, as far as they are there."""
        if not self.overbooked or not self.plan.need(request, tokens) or not self.is_pinned(request):
            return True
        if self._unsafe:  # by the declared caps there is no way out: hope that they are too large, one at a time
            return request is self._closest_to_peak()
        return self._safe({request: tokens})

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        """Whether a request may be admitted with a first chunk of `tokens` (whose blocks and seat `fits` looks at)."""
        if self.pool is None:
            return True
        pinned = self.is_pinned(request)
        claim = self.peak(request) if pinned or self.reserve == "all" else self.limits.blocks(request.known_tokens)
        if self._claims() + claim <= self.pool:
            return True
        if self.reserve != "order" or not pinned or self._unsafe or not self._safe({request: tokens}):
            return False
        self.overbooked = True  # from now on growth has to be watched
        return True

    def _claims(self) -> int:
        """Return the blocks promised to the residents."""
        blocks, everyone = self.limits.blocks, self.reserve == "all"
        return sum(
            self.peak(r) if everyone or self.is_pinned(r) else blocks(r.known_tokens) for r in self._residents()
        )

    def _residents(self) -> list[RequestState]:
        """Return the residents after what the plan decided so far."""
        plan = self.plan
        staying = [r for r in plan.state.running if r not in plan.evicted] if plan.evicted else [*plan.state.running]
        return staying + [r for r in plan.tokens if not r.resident]

    def _held(self, request: RequestState, more: int = 0) -> int:
        return self.limits.blocks(request.computed + self.plan.tokens.get(request, 0) + more)

    def _safe(self, more: dict[RequestState, int]) -> bool:
        """Whether all pinned residents, those of `more` included, can finish after the plan and `more` tokens."""
        assert self.pool is not None
        pinned = [r for r in dict.fromkeys([*self._residents(), *more]) if self.is_pinned(r)]
        return all_can_finish(self.pool, [(self._held(r, more.get(r, 0)), self.peak(r)) for r in pinned])

    def _closest_to_peak(self) -> RequestState:
        pinned = [r for r in self._residents() if self.is_pinned(r)]
        return min(pinned, key=lambda r: (self.peak(r) - self._held(r), r.index))


def can_return(limits: EngineLimits, prefill: int) -> bool:
    """Return whether a request may be evicted and come back: preemption allows it, and so do the chunk rules.

    Parameters
    ----------
    limits
        The engine's.
    prefill
        Tokens that it would have to prefill again.
    """
    if limits.preemption == "none":
        return False
    return limits.preemption == "swap" or limits.largest_allowed_chunk(prefill, limits.max_num_batched_tokens) > 0
