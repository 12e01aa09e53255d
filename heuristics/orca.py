"""Orca: iteration-level scheduling, prefills run whole beside the decodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState, RequestState


@dataclass
class Orca(AdmittingPolicy):
    """Selective batching in the style of Orca (OSDI'22), with every engine limit obeyed.

    Each iteration decodes every resident and admits waiting requests whose whole prefill fits in the rest of the
    budget. A prefill that no iteration can hold whole is cut as the engine demands.
    """

    name: ClassVar[str] = "orca"
    summary: ClassVar[str] = "decodes, then whole prefills under the token budget (Orca's rule, OSDI'22)"

    max_model_len: int = knob(
        0, "KV tokens reserved for every request, as Sarathi-Serve's orca does; 0: its declared peak", minimum=0
    )

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = self.promises(plan)
        decode(plan, promises, residents)
        prefill(plan, promises, residents, whole_prefill)
        admit(plan, promises, self.candidates(state), whole_prefill, skip_ahead=self.skip_ahead)
        return self.steady(plan, promises)

    def candidates(self, state: EngineState) -> Iterable[RequestState]:
        """Return who may be admitted now, in order."""
        return self.queue
