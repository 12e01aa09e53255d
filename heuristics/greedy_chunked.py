"""Greedy chunked prefill: decodes first, then prefill chunks under what is left of the token budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import ChunkRule, admit, capped_chunks, decode, prefill, stall_limited
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState
from instances.units import US_PER_MS


@dataclass
class GreedyChunked(AdmittingPolicy):
    """Stall-free batching in the style of Sarathi-Serve (OSDI'24), with every engine limit obeyed.

    Each iteration decodes every resident it can, continues unfinished prefills and then admits waiting requests,
    each with the largest chunk that the rest of the budget and the chunk rules allow.
    """

    name: ClassVar[str] = "greedy-chunked"
    summary: ClassVar[str] = "decode first, then chunks under the token budget (Sarathi-Serve's rule, OSDI'24)"

    chunk: int = knob(0, "largest chunk of one request in one iteration, in tokens; 0: no cap", minimum=0)
    stall_ms: float = knob(0.0, "longest iteration that decodes share with prefills, in ms; 0: no limit", minimum=0)
    decode_first: bool = knob(True, "false: prefills take the budget first, decodes what is left")

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._chunks: ChunkRule = capped_chunks(setup.limits, self.chunk)
        if self.stall_ms:
            self._chunks = stall_limited(self._chunks, setup.cost, round(self.stall_ms * US_PER_MS))

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = self.promises(plan)
        if self.decode_first:
            decode(plan, promises, residents)
        prefill(plan, promises, residents, self._chunks)
        admit(plan, promises, self.queue, self._chunks, skip_ahead=self.skip_ahead)
        if not self.decode_first:
            decode(plan, promises, residents)
        return self.steady(plan, promises)
