"""fastserve-mlfq: FastServe's skip-join multi-level feedback queue with swapping."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from heuristics.fastserve import FastServe, swap_out_until
from heuristics.knobs import knob
from heuristics.plan import Plan
from heuristics.policy import Batch, EngineState, Setup
from heuristics.state import RequestState
from instances.units import US_PER_MS


@dataclass(slots=True)
class _Place:
    """A request's level, the time it has had there, and when it last ran (or arrived)."""

    level: int
    attained_us: int
    last_us: int


@dataclass
class FastServeMlfq(FastServe):
    """Levels with doubling quanta; a batch is taken from the fronts of the highest levels.

    A request joins the first level whose quantum covers its prefill. Who has used up the quantum goes one level down;
    whoever ran comes back to the front of its level, so that a batch comes back in reversed order. Where KV blocks or
    seats are short, the lowest levels are swapped out from their backs. The space outside the pool is not limited.
    In a pool of few more blocks than ``max_batch_size``, ``proactive`` leaves room for hardly more than one request.
    """

    name: ClassVar[str] = "fastserve-mlfq"
    summary: ClassVar[str] = "skip-join multi-level feedback queue with swapping (FastServe, 2025-09)"

    quantum_ms: float = knob(10.0, "time that the top level grants, in ms; each one twice the one above", minimum=0.001)
    skip_join: bool = knob(True, "join the first level whose quantum covers the prefill; false: the top level")
    proactive: bool = knob(True, "keep max_batch_size blocks free by swapping out, and swap in ahead of need")
    starvation_iterations: int = knob(1000, "iterations between two looks for starvation; 0: never", minimum=0)
    starvation_ms: float = knob(3000.0, "who has not run for so long goes to the front of the top level", minimum=0)

    def start(self, setup: Setup) -> None:
        """Begin a run with empty levels."""
        self._cost = setup.cost
        self._quantum_us = max(1, round(self.quantum_ms * US_PER_MS))
        self._starvation_us = round(self.starvation_ms * US_PER_MS)
        self._levels: list[deque[RequestState]] = []
        self._places: dict[RequestState, _Place] = {}
        self._out: set[RequestState] = set()
        self._iterations = 0

    def arrived(self, request: RequestState) -> None:
        """Put a new request at the back of its level."""
        alone = 0
        if self.skip_join and not request.decoding:
            alone = self._cost.duration_us([(request.computed, request.known_tokens)], [])
        level = 0
        while self._quantum_us << level < alone:
            level += 1
        self._places[request] = _Place(level, 0, request.arrival_us)
        self._level(level).append(request)

    def finished(self, request: RequestState) -> None:
        """Forget a request."""
        self._levels[self._places.pop(request).level].remove(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan = Plan(state)
        self._pick(plan)
        spare = self.max_batch_size if self.proactive else 0
        self._make_room(plan, spare)
        if not plan.evicted and self.proactive:
            self._swap_in_ahead(plan, spare)
        prompts_first = sorted(plan.tokens.items(), key=lambda share: share[0].decoding)
        return Batch(prompts_first, plan.evicted, plan.restored)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Charge the time to everybody who ran, demote who has used up the quantum, look for starvation."""
        for request, _ in batch.tokens:
            place = self._places[request]
            place.last_us = end_us
            place.attained_us += end_us - start_us
            used_up = place.attained_us > self._quantum_us << place.level
            self._move(request, place.level + used_up)
        self._out.difference_update(batch.restore)
        self._out.update(batch.evict)
        self._iterations += iterations
        if self.starvation_iterations and self._iterations % self.starvation_iterations == 0:
            starved = [r for r in self._by_priority() if end_us - self._places[r].last_us >= self._starvation_us]
            for request in reversed(starved):
                self._move(request, 0)

    def used(self, plan: Plan) -> int:
        """Return the tokens that count against the cap: those of prompts."""
        return sum(tokens for request, tokens in plan.tokens.items() if not request.decoding)

    def _pick(self, plan: Plan) -> None:
        """Take from the fronts of the levels until one does not get in; room is made afterwards."""
        for request in self._by_priority():
            tokens = 0 if request in plan.tokens else self.tokens(plan, request)
            if tokens:
                plan.take(request, tokens)
            elif plan.tokens:
                return

    def _make_room(self, plan: Plan, spare: int) -> None:
        """Swap out the lowest ones that are not picked; then drop picked ones from the end."""

        def roomy(blocks: int) -> bool:
            return plan.blocks >= blocks and plan.seats >= 0

        if roomy(spare):
            return
        idle = [r for r in self._by_priority() if r.resident and r not in plan.tokens]
        if swap_out_until(plan, lambda: roomy(spare), idle):
            return
        dropped: list[RequestState] = []
        while len(plan.tokens) > 1 and not roomy(spare):
            last = next(reversed(plan.tokens))
            plan.drop(last)
            dropped.insert(0, last)
        # One alone needs nothing to spare, and may swap out those that were picked with it.
        swap_out_until(plan, lambda: roomy(0), [r for r in dropped if r.resident])

    def _swap_in_ahead(self, plan: Plan, spare: int) -> None:
        """Bring back swapped-out requests that will decode, the highest first, as far as blocks are to spare."""
        most = self.max_batch_size
        out = [r for r in self._by_priority() if r in self._out] if self._out else []
        for request in [r for r in out if r.decoding and r not in plan.tokens]:
            blocks = plan.limits.blocks(request.computed)
            if most < 1 or plan.seats < 1 or plan.blocks - blocks < spare:
                return
            plan.restored.append(request)
            plan.seats -= 1
            plan.blocks -= blocks
            most -= 1

    def _move(self, request: RequestState, level: int) -> None:
        """Put a request at the front of a level; a new level grants its time anew."""
        place = self._places[request]
        self._levels[place.level].remove(request)
        self._level(level).appendleft(request)
        if level != place.level:
            place.level, place.attained_us = level, 0

    def _level(self, level: int) -> deque[RequestState]:
        while len(self._levels) <= level:
            self._levels.append(deque())
        return self._levels[level]

    def _by_priority(self) -> Iterator[RequestState]:
        for level in self._levels:
            yield from level
