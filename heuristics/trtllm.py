"""trtllm: the two-stage scheduler of TensorRT-LLM, as of 2025/2026."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from heuristics.context_chunks import ChunkSizes, chunked_contexts, equal_progress, first_come_first_served
from heuristics.knobs import knob
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.release_lag import ReleaseLag
from heuristics.state import EngineState, RequestState
from heuristics.trtllm_capacity import guaranteed_no_evict, max_utilization
from heuristics.trtllm_v2 import generations_then_contexts
from heuristics.two_stage import TwoStagePolicy, whole_contexts
from instances.engine import EngineLimits

CAPACITIES = ("guaranteed_no_evict", "max_utilization", "static_batch", "v2")
CHUNKINGS: dict[str, ChunkSizes | None] = {
    "none": None, "first_come_first_served": first_come_first_served, "equal_progress": equal_progress,
}  # fmt: skip


@dataclass
class Trtllm(TwoStagePolicy):
    """TensorRT-LLM's scheduler without block reuse between requests, beams and drafts.

    A capacity scheduler chooses the requests, a micro-batch scheduler their tokens. `guaranteed_no_evict` promises
    everybody all declared outputs; `max_utilization` looks one step ahead and evicts ("pauses") from the end of the
    list of arrivals, to be recomputed; `static_batch` lets a batch run to its end. `v2` is the loop of the PyTorch
    scheduler V2 (2026): decodes strictly first, pages as they are used, evictions from the end of the list, by swap
    where the instance has it. Unsure there, for the source was a branch: when a prefill may evict.

    `max_num_tokens` is the token budget of the instance, `max_batch_size` its seats, `tokens_per_block` its block size.
    The engine's own default is no chunking; here the instance says whether prompts may be cut. Where the instance
    forbids recompute preemption, `max_utilization` and `v2` preempt nevertheless. Where it forbids mixed batches,
    prefills run before decodes (`v2`: after them). A prompt that no iteration can hold is cut as the engine demands.
    Those that never evict are stopped with an error by residents of time 0 that hold each other up.
    """

    name: ClassVar[str] = "trtllm"
    summary: ClassVar[str] = "capacity scheduler, then micro-batch scheduler (TensorRT-LLM, 2025/2026; V2 by a knob)"

    capacity_scheduler_policy: str = knob("guaranteed_no_evict", "who may use the KV pool", choices=CAPACITIES)
    context_chunking_policy: str = knob(
        "first_come_first_served", "how the budget left by decodes is shared out to prefills; none: they run whole",
        choices=tuple(CHUNKINGS),
    )  # fmt: skip
    chunk_unit_size: int = knob(0, "chunks are multiples of so many tokens; 0: the block size", minimum=0)
    batch_wait_timeout_iters: int = knob(
        0, "iterations in a row that prefills are held back beside decodes for a larger batch", minimum=0
    )
    batch_wait_max_tokens_ratio: float = knob(0.0, "share of the token budget that is large enough", minimum=0.0)
    overlap: bool = knob(False, "seat and blocks of a finished request come free one iteration late")

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to evict where the capacity scheduler does."""
        if self.capacity_scheduler_policy == "max_utilization":
            return replace(limits, preemption="recompute")
        if self.capacity_scheduler_policy == "v2" and limits.preemption == "none":
            return replace(limits, preemption="recompute")
        return limits

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        limits = setup.limits
        self._unit = min(self.chunk_unit_size or limits.block_size, limits.max_num_batched_tokens)
        self._sizes = CHUNKINGS[self.context_chunking_policy] if limits.enable_chunked_prefill else None
        self._enough = Fraction(str(self.batch_wait_max_tokens_ratio)) * limits.max_num_batched_tokens
        self._waited = 0
        self._lag = ReleaseLag()

    def new_plan(self, state: EngineState) -> Plan:
        """Return the plan of a pass: what finished requests still hold is taken from it."""
        plan = super().new_plan(state)
        self._lag.hold(plan)
        return plan

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Let go those that had finished before."""
        self._lag.ran(end_us)

    def finished(self, request: RequestState) -> None:
        """Take a request off the list, and note it where it is noticed late."""
        super().finished(request)
        if self.overlap:
            self._lag.add(request)

    def capacity(self, plan: Plan, active: Sequence[RequestState]) -> Sequence[RequestState]:
        """Return the requests that the KV pool can take; V2 has given them their tokens already."""
        if self.capacity_scheduler_policy == "v2":
            generations_then_contexts(plan, active, self._unit, chunked=self._sizes is not None)
            return []
        if self.capacity_scheduler_policy == "max_utilization":
            return max_utilization(plan, active)
        return guaranteed_no_evict(plan, active, static=self.capacity_scheduler_policy == "static_batch")

    def micro_batch(self, plan: Plan, fitting: Sequence[RequestState]) -> None:
        """Give tokens to requests that fit."""
        if self._sizes is None:
            whole_contexts(plan, fitting)
        else:
            chunked_contexts(plan, fitting, self._sizes, self._unit)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch, its prefills held back where a larger batch is waited for."""
        batch = super().schedule(state)
        if self._lag and batch.tokens:
            batch = replace(batch, repeat=1)
        elif self._lag:  # a pass for those that leave only
            self._lag.clear()
            batch = super().schedule(state)
        decodes = [(r, n) for r, n in batch.tokens if r.decoding]
        small = sum(n for _, n in batch.tokens) < self._enough
        if small and 0 < len(decodes) < len(batch.tokens) and self._waited < self.batch_wait_timeout_iters:
            self._waited += 1
            return replace(batch, tokens=decodes, repeat=1)
        self._waited = 0
        return batch
