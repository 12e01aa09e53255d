"""sglang: the scheduler of SGLang, as of the versions 0.5.2x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.new_token_ratio import NewTokenRatio
from heuristics.passes import chunk_cap
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Policy, Setup
from heuristics.retraction import lacks, retract
from heuristics.sglang_adder import PrefillAdder, Sizes, Stop
from heuristics.sglang_orders import ORDERS, SglangQueue
from heuristics.state import UNLIMITED, EngineState, RequestState
from instances.engine import EngineLimits

RATIO_HEADROOM = 20
"""Tokens per request that stays, beyond those emitted, from which a retraction computes the new-token ratio."""


@dataclass
class Sglang(Policy):
    """SGLang's scheduler without overlap, prefix sharing between requests, speculation and data parallelism.

    A batch of prefills whenever one can be made, else all running requests decode. At most one prefill is unfinished.
    An admission reckons with all declared outputs of the newcomer and a share of those of the running ones (the
    new-token ratio); one that fails makes the decode batch `full`: nobody is admitted until it shrinks. Where the pool
    cannot give everybody the next token, the requests with the fewest outputs are retracted and recomputed later.

    The page size is the block size of the pool. Orders that need to know which prompts share prefixes (``dfs-weight``,
    ``routing-key``) are left out, and so is the overlap's late release. Limits of the instance hold: decodes beyond
    its token budget wait, chunks keep its shapes, and where it forbids mixed batches mixed chunks are off. Where it
    forbids recompute preemption the policy retracts nevertheless. Where the real one aborts the last running request
    for lack of KV, the unfinished prefill is retracted here instead.
    """

    name: ClassVar[str] = "sglang"
    summary: ClassVar[str] = "prefill first, admission by expected growth, retraction (SGLang, versions 0.5.2x)"

    schedule_policy: str = knob("fcfs", "order of the queue", choices=ORDERS)
    chunked_prefill_size: int = knob(
        0, "prefill tokens of one iteration; 0: the instance's token budget where it chunks; -1: no chunks", minimum=-1
    )
    max_prefill_tokens: int = knob(
        16384, "prefill tokens of one batch; without chunks its first request may exceed them", minimum=1
    )
    max_running_requests: int = knob(0, "requests that run at once; 0: the instance's seats", minimum=0)
    prefill_max_requests: int = knob(0, "requests of one prefill batch; 0: any number", minimum=0)
    enable_mixed_chunk: bool = knob(False, "running requests decode in prefill batches too")
    prefill_decode_interval: int = knob(0, "passes without prefill after each prefill batch", minimum=0)
    schedule_conservativeness: float = knob(1.0, "scales the initial new-token ratio", minimum=0.0)
    init_new_token_ratio: float = knob(0.7, "new-token ratio at the start", minimum=0.0)
    min_new_token_ratio_factor: float = knob(0.14, "the ratio's floor, as a share of its start", minimum=0.0)
    new_token_ratio_decay_steps: int = knob(600, "decodes from the ratio's start to its floor", minimum=1)
    clip_max_new_tokens: int = knob(4096, "most output tokens that an estimate counts", minimum=1)
    retract_decode_steps: int = knob(
        1, "tokens of room per remaining request that end a retraction (older versions: 20)", minimum=1
    )
    enable_priority_scheduling: bool = knob(False, "smaller priority values first, and they may preempt")
    disable_priority_preemption: bool = knob(False, "priorities order the queue only")
    priority_scheduling_preemption_threshold: int = knob(
        10, "preempt whose priority value is larger by more than this", minimum=0
    )
    sticky_full: bool = knob(True, "a failed admission is not tried again before the decode batch shrinks")
    seed: int = knob(0, "of schedule_policy=random", minimum=0)

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to recompute."""
        return replace(limits, preemption="recompute")

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty queue."""
        limits = setup.limits
        budget, chunk = limits.max_num_batched_tokens, self.chunked_prefill_size
        cuts = chunk >= 0 and limits.enable_chunked_prefill
        self._sizes = Sizes(
            min(chunk_cap(limits, chunk), budget) if cuts else None, self.max_prefill_tokens,
            self.prefill_max_requests or None, self.clip_max_new_tokens,
        )  # fmt: skip
        self._seats = min(self.max_running_requests or UNLIMITED, limits.max_num_seqs or UNLIMITED)
        self._mixes = self.enable_mixed_chunk and limits.mixed_batches
        self._preempts = self.enable_priority_scheduling and not self.disable_priority_preemption
        initial = self.init_new_token_ratio * self.schedule_conservativeness
        self._ratio = NewTokenRatio(initial, self.min_new_token_ratio_factor, self.new_token_ratio_decay_steps)
        self._queue = SglangQueue(self.schedule_policy, by_priority=self.enable_priority_scheduling, seed=self.seed)
        self._running: list[RequestState] = []  # those that have just finished stay until the next decode pass
        self._last: list[RequestState] | None = None  # the batch that ran last, if it was one of prefills
        self._entered: dict[RequestState, int] = {}  # when each came into the queue the last time
        self._entries = 0
        self._full, self._deferred, self._unfinished, self._end_us = False, 0, 0, 0

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not self._unfinished and request.arrival_us > self._end_us:
            self._merge()
            self._idle()
            self._deferred = 0
        self._unfinished += 1
        if not request.resident:
            self._queue.push(request)
        elif request.decoding:
            self._running.append(request)
        self._enter(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring queue and ratio up to date: retracted requests go to the back."""
        self._queue.follow(batch)
        for request in batch.evict:
            self._enter(request)
        if self._last is None and not batch.evict:
            self._ratio.decay(iterations)
        self._end_us = end_us

    def finished(self, request: RequestState) -> None:
        """Forget a request, except for its place in the decode batch."""
        self._unfinished -= 1
        del self._entered[request]

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch. Passes that find nothing to run cost no time, and clear the full flag."""
        self._merge()
        for _ in range(self.prefill_decode_interval + 2):
            plan = Plan(state)
            if self._prefill(plan):
                return plan.batch()
            if self._decode(plan):
                steady = not (plan.evicted or plan.state.partial_prefills or self._deferred)
                blocked = not len(self._queue) or (self._full and self.sticky_full and not self._preempts)
                return plan.batch(repeat=FOREVER if steady and blocked else 1)
            self._idle()
        return self._unlock(plan)

    def _unlock(self, plan: Plan) -> Batch:
        """Retract unfinished prefills that hold each other up (only those of time 0 can), the last one first."""
        unfinished = [*plan.state.prefilling]
        while len(unfinished) > 1 and not plan.tokens:
            plan.evict(unfinished.pop())
            adder = PrefillAdder(plan, self._sizes, [], self._ratio.value, 0)
            for request in unfinished:
                adder.resume(request)
        if plan.tokens:
            self._close(plan, mixed=False)
        return plan.batch()

    def _enter(self, request: RequestState) -> None:
        self._entries += 1
        self._entered[request] = self._entries

    def _merge(self) -> None:
        """Let the requests of the last prefill batch into the decode batch, behind those that it did not hold."""
        if self._last is None:
            return
        entering = [r for r in self._last if r.decoding and not r.finished]
        if len(entering) < len(self._last):
            self._full = False
        self._running += entering
        self._last = None

    def _idle(self) -> None:
        """Do as the engine does in a pass without a batch."""
        self._running.clear()
        self._full = False
        self._ratio.reset()

    def _prefill(self, plan: Plan) -> bool:
        """Make a batch of prefills; return whether there is one."""
        unfinished = plan.state.prefilling
        if not self._may_prefill(unfinished):
            return False
        self._queue.arrange()
        shared = self._running if self._mixes else []
        decodes = [r for r in shared if not r.finished]
        if len(decodes) > plan.budget or lacks(plan, decodes):
            return False
        plan.decode_all(decodes)
        adder = PrefillAdder(plan, self._sizes, self._running, self._ratio.value, len(shared))
        self._fill(adder, unfinished)
        if all(r.decoding for r in plan.tokens):
            for request in decodes:
                plan.drop(request)
            return False
        self._close(plan, mixed=bool(shared))
        return True

    def _may_prefill(self, unfinished: Sequence[RequestState]) -> bool:
        """Whether this pass tries to make a prefill batch at all."""
        if self._deferred:
            self._deferred -= 1
            return False
        if self._preempts or not self.sticky_full:
            self._full = False
        if unfinished:
            return True
        if not self._full and len(self._queue) and len(self._running) >= self._seats:
            self._full = not self._preempts
        return not self._full and len(self._queue) > 0

    def _fill(self, adder: PrefillAdder, unfinished: Sequence[RequestState]) -> None:
        """Resume unfinished prefills, then add from the queue until one cannot be added."""
        plan = adder.plan
        for request in unfinished:
            if request not in plan.tokens:
                adder.resume(request)
        others = sum(r not in adder.added for r in unfinished)
        for request in self._queue:
            victims: list[RequestState] = []
            if len(adder.added) + others >= self._seats - (len(self._running) - len(plan.evicted)):
                self._full = True
                if not self._preempts or not (victims := self._preempt(adder, request)):
                    return
            stop = adder.add(request)
            self._full |= stop is Stop.NO_TOKEN
            if victims and request not in plan.tokens:
                adder.spare(victims, decode=self._mixes)
            if stop:
                return

    def _preempt(self, adder: PrefillAdder, request: RequestState) -> list[RequestState]:
        """Evict less important running requests for `request`: the least important one that came last first."""
        running = [r for r in self._running if not r.finished and r not in adder.plan.evicted]
        running.sort(key=lambda r: (r.priority, self._entered[r]), reverse=True)
        limit = request.priority + self.priority_scheduling_preemption_threshold
        return adder.preempt_for(request, running, lambda r: r.priority > limit)

    def _close(self, plan: Plan, *, mixed: bool) -> None:
        """Let the batch of `plan` run: prefills first, then the decodes that share it."""
        plan.tokens = dict(sorted(plan.tokens.items(), key=lambda item: item[0].decoding))
        self._last = list(plan.tokens)
        self._queue.prefilled(sum(n for r, n in plan.tokens.items() if not r.decoding))
        self._running = [] if mixed else [r for r in self._running if r not in plan.evicted]
        self._deferred = self.prefill_decode_interval

    def _decode(self, plan: Plan) -> bool:
        """Let all running requests decode, after retractions where the pool is too small; return whether any does."""
        before = len(self._running)
        self._running = [r for r in self._running if not r._finished]
        if lacks(plan, self._running[: plan.budget]):
            self._running = running = retract(plan, self._running, self.retract_decode_steps)
            emitted, declared = sum(r.emitted for r in running), sum(r.max_output_tokens for r in running)
            self._ratio.retracted(emitted, declared, RATIO_HEADROOM * len(running))
        if len(self._running) < before:
            self._full = False
        plan.decode_all(self._running[: plan.budget])
        return bool(plan.tokens)
