"""PagedPolicy: what vLLM V0 and the Sarathi-Serve schedulers share, the block rules and the decode loop."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from heuristics.booked import BookedPlan, Watermark
from heuristics.knobs import knob
from heuristics.passes import ChunkRule, admit
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Policy, Setup
from heuristics.queues import Fifo, WaitingQueue
from heuristics.state import EngineState, RequestState
from instances.engine import EngineLimits


@dataclass
class PagedPolicy(Policy):
    """Base of the policies that book a prompt's blocks at admission, leave a watermark, and evict from the tail.

    They preempt, by recompute where the instance forbids preemption. Every other limit of the instance is obeyed: a
    prompt that no iteration can hold whole is cut as the engine demands, even where the original would drop it.
    """

    watermark: float = knob(0.01, "share of the KV blocks that an admission leaves free", minimum=0)
    one_free_block: bool = knob(
        True, "a decode needs a free block even where its token fits in those that it has; false: only what it needs"
    )

    @abstractmethod
    def decide(self, plan: BookedPlan) -> None:
        """Make the decisions of one pass."""

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to recompute."""
        return replace(limits, preemption="recompute") if limits.preemption == "none" else limits

    def start(self, setup: Setup) -> None:
        """Begin a run with empty queues."""
        self.limits = setup.limits
        self.waiting: WaitingQueue = self.new_queue()
        self.reserved = int(self.watermark * (setup.limits.num_kv_blocks or 0))
        self._strict = self.one_free_block
        self._seen: Sequence[RequestState] = ()
        self._by_arrival: Sequence[RequestState] = ()

    def new_queue(self) -> WaitingQueue:
        """Return the empty queue of a run: first in, first out, evicted ones to the front."""
        return Fifo()

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self.waiting.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date."""
        self.waiting.follow(batch)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch.

        A pass that preempts everybody and runs nobody costs an engine nothing, but a schedule has no such iteration:
        then the pass is made again, and decodes go on that need no new block.
        """
        self._strict = self.one_free_block
        plan = BookedPlan(state)
        self.decide(plan)
        if not plan.tokens and plan.evicted:
            self._strict = False
            plan = BookedPlan(state)
            self.decide(plan)
            return plan.batch()
        return plan.batch(repeat=self.repeats(plan))

    def repeats(self, plan: Plan) -> int:
        """Return how often a batch would be the same: any number where all that is resident decodes."""
        return FOREVER if plan.is_settled and not plan.state.partial_prefills else 1

    def by_arrival(self, state: EngineState) -> Sequence[RequestState]:
        """Return the residents in the order of their arrival; sorted anew only when they change."""
        if state.running is not self._seen:
            self._seen = state.running
            self._by_arrival = tuple(sorted(self._seen, key=attrgetter("arrival_us", "index")))
        return self._by_arrival

    def admit(self, plan: Plan, waiting: Iterable[RequestState], chunk: ChunkRule) -> None:
        """Admit waiting requests in order, above the watermark, until one does not get in."""
        if waiting:
            admit(plan, Watermark(plan, self.reserved), waiting, chunk)

    def prefill(self, plan: Plan, residents: Iterable[RequestState], chunk: ChunkRule) -> None:
        """Go on with unfinished prefills in order; their blocks are booked."""
        for request in [r for r in residents if not r._decoding] if plan.state.partial_prefills else ():
            if request not in plan.evicted and request not in plan.tokens:
                tokens = chunk(plan, request)
                if tokens:
                    plan.take(request, tokens)

    def decode(self, plan: Plan, residents: Sequence[RequestState]) -> None:
        """Give every resident in phase decode its token, in order; see `make_way`."""
        decodes = residents
        if plan.state.partial_prefills or plan.evicted:
            decodes = [r for r in residents if r._decoding and r not in plan.evicted]
        if plan.blocks > len(decodes) and plan.take_decodes(decodes):
            return
        unvisited = deque(r for r in residents if r not in plan.evicted)
        while unvisited:
            request = unvisited.popleft()
            if not request.decoding or request in plan.tokens:
                continue
            if not plan.can_decode():
                return
            if self.make_way(plan, request, unvisited):
                plan.take(request, 1)

    def make_way(self, plan: Plan, request: RequestState, unvisited: deque[RequestState]) -> bool:
        """Preempt the last one not yet visited until a decode may run; False where it had to go itself."""
        while not self._may_decode(plan, request):
            victim = unvisited.pop() if unvisited else request
            plan.evict(victim)
            if victim is request:
                return False
        return True

    def _may_decode(self, plan: Plan, request: RequestState) -> bool:
        return plan.blocks >= (1 if self._strict else plan.need(request, 1))
