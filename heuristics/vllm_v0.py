"""vllm-v0: the default scheduler of vLLM V0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heuristics.booked import Watermark
from heuristics.knobs import knob
from heuristics.orders import order_key
from heuristics.plan import Plan
from heuristics.policy import Batch, EngineState, Setup
from heuristics.prefill_batches import PrefillBatches
from heuristics.queues import Fifo, OrderedQueue, WaitingQueue
from heuristics.state import RequestState

_urgency = order_key("priority", lambda request: request.max_output_tokens)


@dataclass
class VllmV0(PrefillBatches):
    """vLLM V0 without chunked prefill and prefix caching, for single sequences.

    Prompts run whole, in batches of their own, before any decode. A decode that finds no free block preempts the
    last running request. Preempted ones are recomputed from the front of the queue; where the instance's preemption
    is swap (the engine's ``preemption_mode=swap``) they are swapped out, and nobody is admitted before they are back
    (under ``priority`` they wait in the queue with the others).
    """

    name: ClassVar[str] = "vllm-v0"
    summary: ClassVar[str] = "whole prompts in batches of their own, else decodes (vLLM V0, versions 0.8 and 0.9)"

    policy: str = knob("fcfs", "order of the queue; priority: an urgent head preempts", choices=("fcfs", "priority"))
    scheduler_delay_factor: float = knob(
        0.0, "admit only when the oldest has waited so many times the last prefill batch's time", minimum=0
    )

    def start(self, setup: Setup) -> None:
        """Begin a run with empty queues."""
        super().start(setup)
        self._swapped = Fifo()
        self._last_prefill_us = 0
        self._prefilled = False

    def new_queue(self) -> WaitingQueue:
        """Return the empty queue of a run."""
        return OrderedQueue(_urgency) if self.policy == "priority" else Fifo()

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch; with a delay factor it is asked again when the delay is over."""
        batch = super().schedule(state)
        self._prefilled = any(not request.decoding for request, _ in batch.tokens)
        if self._is_delayed(state):
            batch.until_us = self._delayed_until()
        return batch

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queues up to date."""
        for request, _ in batch.tokens:
            for queue in (self.waiting, self._swapped):
                if request in queue:
                    queue.remove(request)
        for request in batch.evict:
            if request.swapped and self.policy == "fcfs":
                self._swapped.push(request)
            else:
                self.waiting.requeue(request)
        if self._prefilled:  # such a batch runs once
            self._last_prefill_us = end_us - start_us

    def residents(self, plan: Plan) -> list[RequestState]:
        """Return the residents in the order of their admission, or of their urgency."""
        running = list(plan.state.running)
        return sorted(running, key=_urgency) if self.policy == "priority" else running

    def candidates(self, plan: Plan) -> Iterable[RequestState]:
        """Return the queue; nobody while some are swapped out, and during a delay."""
        return () if self._swapped or self._is_delayed(plan.state) else self.waiting

    def swapped_out(self, plan: Plan) -> Sequence[RequestState]:
        """Return those that were swapped out, first come first served."""
        return list(self._swapped)

    def before_decodes(self, plan: Plan, residents: list[RequestState]) -> None:
        """Preempt the least urgent ones for a more urgent head of the queue, under the priority policy."""
        head = next(iter(self.waiting), None)
        if self.policy == "fcfs" or head is None:
            return
        gate = Watermark(plan, self.reserved)
        while residents and _urgency(residents[-1])[:2] > _urgency(head)[:2]:
            tokens = self.tokens(plan, head)
            if tokens and plan.fits(head, tokens) and gate.may_enter(head, tokens):
                return
            plan.evict(residents.pop())

    def _is_delayed(self, state: EngineState) -> bool:
        waits = self.scheduler_delay_factor > 0 and len(self.waiting) > 0 and len(state.running) > 0
        return waits and state.now_us < self._delayed_until()

    def _delayed_until(self) -> int:
        oldest = min(r.arrival_us for r in self.waiting)
        return oldest + round(self.scheduler_delay_factor * self._last_prefill_us) + 1
