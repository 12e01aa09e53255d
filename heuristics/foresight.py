"""Foresight: admission by the KV that everybody will hold when all of them run on without a pause."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.orders import Outputs
from heuristics.plan import Plan
from heuristics.promises import Promises
from heuristics.state import RequestState

Course = tuple[int, int, int]
"""KV tokens when its prefill ends, the iteration that ends it (1: the next one), and the iteration that ends it all."""


class Foresight:
    """A gate that opens while the KV pool suffices at the end of every iteration to come (2502.07115, MC-SF's test).

    It takes for granted that every resident works in every iteration: a prefill ends after as many of them as its
    largest chunks take (and is reckoned with its whole KV from the start), then one token follows the other. KV only
    shrinks when a request ends, so the iterations in which one ends are all that has to be looked at. Who is let in
    counts from then on.

    Parameters
    ----------
    plan
        The pass.
    outputs
        Output tokens to reckon with for a request.
    promises
        Asked too: what others are promised stays theirs, even where the engine makes somebody pause.
    """

    def __init__(self, plan: Plan, outputs: Outputs, promises: Promises) -> None:
        self.plan = plan
        self.outputs = outputs
        self.promises = promises
        self._courses: list[Course] = []
        self._held: dict[int, int] | None = None

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        """Whether a request may be admitted with `tokens` tokens."""
        pool = self.plan.limits.num_kv_blocks
        if pool is None:
            return True
        if not self.promises.may_enter(request, tokens):
            return False
        newcomer = self._course(request)
        changed = self._with(newcomer, self._ends())
        if max(changed.values()) > pool:
            return False
        self._ends().update(changed)
        self._courses.append(newcomer)
        return True

    def all_go_on(self) -> bool:
        """Whether the residents, all of them in phase decode, may all work now and for ever without a pause.

        Then they can finish, one after the other too, so their growth need not be watched.
        """
        running, pool = self.plan.state.running, self.plan.limits.num_kv_blocks
        if len(running) > self.plan.budget or not all(r.decoding for r in running):
            return False
        return pool is None or max(self._ends().values(), default=0) <= pool

    def _ends(self) -> dict[int, int]:
        """Return the KV blocks held at the end of every iteration in which somebody ends, reckoned once per pass."""
        if self._held is None:
            plan = self.plan
            self._courses = [self._course(r) for r in plan.state.running if r not in plan.evicted]
            self._held = {end: self._blocks(self._courses, end) for end in {course[2] for course in self._courses}}
        return self._held

    def _with(self, newcomer: Course, held: dict[int, int]) -> dict[int, int]:
        """Return what a newcomer makes of these blocks, up to its own end."""
        last = newcomer[2]
        changed = {end: blocks + self._blocks([newcomer], end) for end, blocks in held.items() if end <= last}
        if last not in changed:
            changed[last] = self._blocks([*self._courses, newcomer], last)
        return changed

    def _course(self, request: RequestState) -> Course:
        prefill = -(-request.remaining // self.plan.limits.largest_chunk)
        return request.known_tokens, prefill, prefill - 1 + self.outputs(request) - request.emitted

    def _blocks(self, courses: Iterable[Course], end: int) -> int:
        """Return what some hold at the end of an iteration; by its declared cap one may hold more than there is."""
        blocks, pool = self.plan.limits.blocks, self.plan.limits.num_kv_blocks or 0
        return sum(min(pool, blocks(known + max(0, end - first))) for known, first, last in courses if last >= end)
