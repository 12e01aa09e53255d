"""vllm-v1: the scheduler of vLLM V1, version 0.33.0, decision by decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import chunk_cap
from heuristics.plan import Plan
from heuristics.policy import Batch, Policy, Setup
from heuristics.queues import Fifo, OrderedQueue, WaitingQueue
from heuristics.release_lag import ReleaseLag
from heuristics.state import UNLIMITED, EngineState, RequestState
from instances.engine import EngineLimits


@dataclass
class VllmV1(Policy):
    """vLLM V1's scheduler without prefix caching and speculation.

    Running requests first, in the order of their admission, each with all the tokens that it lacks, under one token
    budget; then admissions from the head of the queue, unless somebody was preempted in this step. A running
    request that lacks KV blocks preempts another one, which is recomputed later. Nothing is reserved.

    Where the instance forbids preemption the policy preempts nevertheless (by recompute), and where chunking is off
    the threshold cuts prompts nevertheless, as the real one does: such schedules break the instance's rules.
    """

    name: ClassVar[str] = "vllm-v1"
    summary: ClassVar[str] = "running requests first, one token budget, recompute preemption (vLLM V1, version 0.33.0)"

    policy: str = knob("fcfs", "order of the queue and choice of the victim", choices=("fcfs", "priority"))
    long_prefill_token_threshold: int = knob(
        0, "most tokens of one request in one step while there is another request; 0: no cap", minimum=0
    )
    reserve_full_isl: bool = knob(True, "admit only if all tokens known now fit in the free blocks (a test only)")
    watermark_blocks: int = knob(0, "blocks that an admission leaves free while something runs", minimum=0)
    async_scheduling: bool = knob(False, "seat and blocks of a finished request come free one iteration late")

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to recompute and to cut prompts to the threshold."""
        cuts = limits.enable_chunked_prefill or self.long_prefill_token_threshold > 0
        mode = "recompute" if limits.preemption == "none" else limits.preemption
        return replace(limits, enable_chunked_prefill=cuts, preemption=mode)

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty queue."""
        self._chunking = setup.instance_limits.enable_chunked_prefill
        self._threshold = chunk_cap(setup.limits, self.long_prefill_token_threshold)
        self._queue: WaitingQueue = OrderedQueue(_urgency) if self.policy == "priority" else Fifo()
        self._lag = ReleaseLag()

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self._queue.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date: preempted requests go to its front (fcfs) or to their place (priority)."""
        self._queue.follow(batch)
        self._lag.ran(end_us)

    def finished(self, request: RequestState) -> None:
        """Take note of a finished request, where it is noticed late."""
        if self.async_scheduling:
            self._lag.add(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan = self._plan(state)
        if self._lag:
            if plan.tokens:
                return plan.batch()
            self._lag.clear()  # a pass for those that leave only
            plan = self._plan(state)
        return plan.batch(repeat=plan.rounds() if plan.goes_on else 1)

    def _plan(self, state: EngineState) -> Plan:
        """Return the decisions of a pass."""
        plan, running = Plan(state), list(state.running)
        self._lag.hold(plan)
        cap = UNLIMITED if len(running) + len(self._queue) == 1 else self._threshold
        self._run(plan, running, cap)
        if not plan.evicted:
            self._admit(plan, running, cap)
        return plan

    def _run(self, plan: Plan, running: list[RequestState], cap: int) -> None:
        """Give tokens to the running requests; preempt where the KV pool is too small."""
        decodes = plan.state.decoding
        if plan.state.running[: len(decodes)] != decodes:  # some prefill stands before a decode
            decodes = tuple(takewhile(lambda r: r.decoding, running))
        place = len(decodes) if plan.take_decodes(decodes) else 0
        while place < len(running) and plan.budget > 0:
            request = running[place]
            if request in plan.tokens:
                place += 1
                continue
            tokens = plan.tokens_for(request, cap)
            while not plan.fits(request, tokens):
                victim = self._victim(running)
                place -= running.index(victim) < place
                running.remove(victim)
                plan.evict(victim)
                if victim is request:
                    break
            else:
                if tokens:
                    plan.take(request, tokens)
                place += 1

    def _victim(self, running: list[RequestState]) -> RequestState:
        """Return who is preempted: the one admitted last, or the least urgent one that arrived last."""
        if self.policy == "fcfs":
            return running[-1]
        return max(running, key=_urgency)

    def _admit(self, plan: Plan, running: list[RequestState], cap: int) -> None:
        """Admit from the head of the queue until one does not get in."""
        for request in self._queue:
            if plan.budget < 1 or plan.seats < 1:
                return
            tokens = plan.tokens_for(request, cap)
            whole = 1 if request.decoding else min(request.remaining, cap)
            if not tokens or (not self._chunking and whole > plan.budget):
                return
            spare = plan.blocks - (self.watermark_blocks if running else 0)
            if self.reserve_full_isl and plan.need(request, request.remaining) > spare:
                return
            if plan.need(request, tokens) > spare:
                return
            plan.take(request, tokens)
            running.append(request)


def _urgency(request: RequestState) -> tuple[int, ...]:
    return request.priority, request.arrival_us, request.index
