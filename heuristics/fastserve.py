"""fastserve-fcfs and fastserve-srpt: FastServe's schedulers without feedback queues; what all three share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import whole_prefill
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Oracle, Policy, Setup
from heuristics.queues import Fifo
from heuristics.state import EngineState, RequestState
from instances.engine import EngineLimits


@dataclass
class FastServe(Policy):
    """Base of FastServe's policies: whole prompts beside decodes, two caps on a batch, preemption by swap.

    The caps are those of its published experiments. A prompt above the token cap runs alone (the
    original never runs it), cut as the engine demands.
    """

    max_batch_size: int = knob(16, "most requests in a batch", minimum=1)
    max_tokens_per_batch: int = knob(2048, "most tokens of a batch", minimum=1)

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to swap."""
        return replace(limits, preemption="swap")

    def tokens(self, plan: Plan, request: RequestState) -> int:
        """Return the tokens of a request in this batch, 0 where caps or limits stop it."""
        tokens = whole_prefill(plan, request)
        within = not plan.tokens or self.used(plan) + tokens <= self.max_tokens_per_batch
        return tokens if within and len(plan.tokens) < self.max_batch_size else 0

    def used(self, plan: Plan) -> int:
        """Return the tokens of a batch that count against the cap."""
        return sum(plan.tokens.values())


def swap_out_until(plan: Plan, enough: Callable[[], bool], victims: list[RequestState]) -> bool:
    """Swap out victims, the last one first, until there is enough room; return whether there is."""
    while not enough() and victims:
        plan.evict(victims.pop())
    return enough()


def settled(plan: Plan) -> int:
    """Return how often a batch would be the same: any number where it is all that is resident, and decodes."""
    members = plan.tokens
    alike = not plan.evicted and not plan.restored and all(r.resident and r.decoding for r in members)
    return FOREVER if alike and all(r in members for r in plan.state.running) else 1


@dataclass
class FastServeFcfs(FastServe):
    """First come, first served: the residents are the batch.

    Where their KV would outgrow the pool the last ones are swapped out. New members come from those swapped out, then
    from the queue, until the first that does not get in; nobody comes in a step that swapped out.
    """

    name: ClassVar[str] = "fastserve-fcfs"
    summary: ClassVar[str] = "continuous batching, first come first served, swapping (FastServe, 2025-09)"

    def start(self, setup: Setup) -> None:
        """Begin a run with empty queues."""
        self._waiting = Fifo()
        self._swapped = Fifo()

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self._waiting.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queues up to date."""
        for request, _ in batch.tokens:
            for queue in (self._swapped, self._waiting):
                if request in queue:
                    queue.remove(request)
        for request in batch.evict:
            self._swapped.push(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, batch = Plan(state), list(state.running)

        def fits() -> bool:
            return sum(plan.need(r, r.remaining) for r in batch if r not in plan.tokens) <= plan.blocks

        while len(batch) > 1 and not fits():
            plan.evict(batch.pop())
        for request in batch:
            tokens = 0 if request in plan.tokens else whole_prefill(plan, request)
            if tokens and len(plan.tokens) < self.max_batch_size:
                plan.take(request, tokens)
        if not plan.evicted:
            self._fill(plan, batch)
        return plan.batch(repeat=settled(plan))

    def _fill(self, plan: Plan, batch: list[RequestState]) -> None:
        """Take in more members, as the blocks of all of them at their next token allow."""
        booked = sum(plan.need(r, r.remaining) for r in batch if r not in plan.tokens)
        size = len(batch)
        for request in chain(self._swapped, self._waiting):
            tokens = self.tokens(plan, request)
            need = plan.need(request, request.remaining)
            if size >= self.max_batch_size or not tokens or plan.seats < 1 or need + booked > plan.blocks:
                return
            plan.take(request, tokens)
            booked += need - plan.limits.blocks(request.computed + tokens)
            size += 1


@dataclass
class FastServeSrpt(FastServe):
    """Fewest output tokens left first; every step makes its batch anew, up to the first that does not get in.

    The original has no memory model. Here a request that lacks seat or KV blocks takes those of residents with more
    left, which are swapped out; the others pause in their places.
    """

    name: ClassVar[str] = "fastserve-srpt"
    summary: ClassVar[str] = "fewest outputs left first, batch made anew in every step (FastServe, 2025-09)"

    oracle: bool = knob(True, "count the true outputs left (clairvoyant); false: those of the declared caps")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clairvoyant = self.oracle

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        self._oracle: Oracle | None = setup.oracle

    def outputs_left(self, request: RequestState) -> int:
        """Return the output tokens to come."""
        known = self._oracle
        return request.outputs_left if known is None else known.output_tokens(request) - request.emitted

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan = Plan(state)
        ranked = sorted(
            (*state.running, *state.waiting), key=lambda r: (self.outputs_left(r), r.arrival_us, r.index)
        )
        for request in ranked:
            if request in plan.tokens or request in plan.evicted:
                continue
            if not self._serve(plan, request, ranked) and plan.tokens:
                break
        return plan.batch(repeat=settled(plan))

    def _serve(self, plan: Plan, request: RequestState, ranked: list[RequestState]) -> bool:
        tokens = self.tokens(plan, request)
        victims = [r for r in ranked if r.resident and r is not request]
        victims = [r for r in victims if r not in plan.tokens and r not in plan.evicted]
        if not tokens or not swap_out_until(plan, lambda: plan.fits(request, request.remaining), victims):
            return False
        plan.take(request, tokens)
        return True
