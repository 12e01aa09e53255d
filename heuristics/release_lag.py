"""ReleaseLag: what finished requests hold for one more iteration, where the next one is scheduled too early to know."""

from __future__ import annotations

from heuristics.plan import Plan
from heuristics.state import RequestState


class ReleaseLag:
    """Requests that have just finished, seen by a scheduler that has not yet heard of it (asynchronous scheduling).

    One that reached its declared outputs is known to end: it gets no more tokens, but keeps its seat and its KV blocks
    for one more iteration. One that ended before is given one more decode in vain: it takes a token of the budget too.
    A pass in which nothing else can run costs no time, and neither does the decode in vain in it.
    """

    def __init__(self) -> None:
        self._leaving: list[RequestState] = []
        self._end_us = 0

    def __bool__(self) -> bool:
        return bool(self._leaving)

    def add(self, request: RequestState) -> None:
        """Take note that a request has finished."""
        self._leaving.append(request)

    def ran(self, end_us: int) -> None:
        """Take note that an iteration ran: whoever finished before it is gone."""
        self._leaving.clear()
        self._end_us = end_us

    def clear(self) -> None:
        """Let everybody go."""
        self._leaving.clear()

    def hold(self, plan: Plan) -> None:
        """Take seats, KV blocks and budget from a new plan."""
        if plan.state.now_us > self._end_us:  # the engine has idled since
            self._leaving.clear()
        for request in self._leaving:
            plan.seats -= 1
            plan.withheld += plan.limits.blocks(request.computed)
            plan.budget -= request.outputs_left > 0
        plan.blocks -= plan.withheld
