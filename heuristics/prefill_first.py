"""Prefill-first: a batch of prefills whenever one can run, a batch of decodes otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import ChunkRule, admit, capped_chunks, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState


@dataclass
class PrefillFirst(AdmittingPolicy):
    """Prefills have priority and never share an iteration with decodes (the rule of vLLM V0 and SGLang).

    Good for throughput and TTFT; running decodes stall as long as there is something to prefill.
    """

    name: ClassVar[str] = "prefill-first"
    summary: ClassVar[str] = "prefill-only batches while there is anything to prefill, else decode (vLLM V0's rule)"

    chunk: int = knob(0, "largest chunk of one request in one iteration, in tokens; 0: no cap", minimum=0)
    whole: bool = knob(False, "prefills run whole or not at all, as far as the engine can")

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._chunks: ChunkRule = whole_prefill if self.whole else capped_chunks(setup.limits, self.chunk)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = self.promises(plan)
        prefill(plan, promises, residents, self._chunks)
        admit(plan, promises, self.queue, self._chunks, skip_ahead=self.skip_ahead)
        if not plan.tokens:
            decode(plan, promises, residents)
        return self.steady(plan, promises)
