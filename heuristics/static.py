"""Static batching: a batch of requests runs to its end before the next one starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.promises import Promises
from heuristics.queued import QueuedPolicy
from heuristics.state import UNLIMITED, EngineState, RequestState


@dataclass
class Static(QueuedPolicy):
    """Request-level batching in the style of FasterTransformer, with every engine limit obeyed.

    When the engine is empty it takes as many waiting requests as seats and KV pool hold (with their peaks), runs
    all their prefills, then decodes all of them until the last one has finished. Requests that are resident at
    time 0 are the first batch.
    """

    name: ClassVar[str] = "static"
    summary: ClassVar[str] = "a batch of requests prefills, then decodes until all finish (FasterTransformer's rule)"

    batch_size: int = knob(0, "most requests in a batch; 0: as many as the limits allow", minimum=0)
    max_model_len: int = knob(0, "KV tokens reserved for every request; 0: its declared peak", minimum=0)

    def start(self, setup: Setup) -> None:
        """Begin a run without a batch."""
        super().start(setup)
        self._members: list[RequestState] = []

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = Promises(plan, self.reserved_outputs, "all", self.peaks)
        if not residents and not self._members:
            self._members = self._next_members(state, promises)
        prefill(plan, promises, residents, whole_prefill)
        admit(plan, promises, self._members, whole_prefill)
        if not plan.tokens:
            decode(plan, promises, residents)
        self._members = [r for r in self._members if r not in plan.tokens]
        return self.steady(plan, promises)

    def _next_members(self, state: EngineState, promises: Promises) -> list[RequestState]:
        """Return the requests of the next batch, in order, as many as fit together at their peaks."""
        most = min(self.batch_size or UNLIMITED, state.free_seats)
        members: list[RequestState] = []
        blocks = state.free_blocks
        for request in self.queue:
            blocks -= promises.peak(request)
            if blocks < 0 or len(members) >= most:
                break
            members.append(request)
        return members
