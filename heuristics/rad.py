"""rad: decode batches as wide as a column of the hardware, prefill chunks of a tile in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, capped_chunks, decode, prefill
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState, RequestState


@dataclass
class Rad(AdmittingPolicy):
    """RAD (Bari, Hegde, de Veciana, 2508.01002).

    While fewer than ``decode_batch`` requests decode, one chunk of at most ``tile`` tokens of the oldest unfinished
    prefill runs alone; otherwise, and when nothing can be prefilled, all residents decode. Where seats or KV let
    nobody in, nothing can be prefilled.
    """

    name: ClassVar[str] = "rad"
    summary: ClassVar[str] = "one tile of prefill, or decodes once enough are ready (RAD, arXiv 2508.01002)"

    tile: int = knob(128, "prefill tokens of an iteration, a tile of the hardware", minimum=1)
    decode_batch: int = knob(128, "requests in phase decode from which on they decode", minimum=1)

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._chunks = capped_chunks(setup.limits, self.tile)

    def _one(self, plan: Plan, request: RequestState) -> int:
        """Return the tile of a request, 0 behind another one."""
        return 0 if plan.tokens else self._chunks(plan, request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = self.promises(plan)
        ready = sum(r.decoding for r in residents)
        if ready < self.decode_batch and not plan.tokens:
            prefill(plan, promises, residents, self._one)
            if not plan.tokens:
                admit(plan, promises, self.queue, self._chunks, skip_ahead=self.skip_ahead, most=1)
        if not plan.tokens:
            decode(plan, promises, residents)
        if not plan.tokens:  # decodes that wait for KV blocks
            prefill(plan, promises, residents, self._chunks)
        return self.steady(plan, promises)
