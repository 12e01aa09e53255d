"""wait: requests of a class are let in when enough of them wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.class_counts import class_counts
from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState, RequestState
from instances.units import US_PER_MS


@dataclass
class Wait(AdmittingPolicy):
    """WAIT (Ao, Luo, Simchi-Levi, Wang, 2504.11320): thresholds per class, from a fluid equilibrium.

    When as many requests of a class wait as its threshold says, they are released together; released ones enter with
    their whole prompts as soon as the limits allow, beside the decodes of all residents. A scheduler does not know
    that nobody comes any more, so a request is released alone after ``patience_ms``. Waiting breaks work
    conservation: where the engine is not overloaded, it costs latency for nothing.
    """

    name: ClassVar[str] = "wait"
    summary: ClassVar[str] = "requests of a class enter when enough of them wait (WAIT, arXiv 2504.11320)"

    threshold: int = knob(4, "requests of a class that have to wait before they enter", minimum=1)
    thresholds: str = knob("", "thresholds of single classes, like chat:4/code:2")
    patience_ms: float = knob(1000.0, "longest that a request waits for others of its class, in ms", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._thresholds = class_counts(self.thresholds, "thresholds")

    def start(self, setup: Setup) -> None:
        """Begin a run with nobody released."""
        super().start(setup)
        self._patience_us = round(self.patience_ms * US_PER_MS)
        self._gathering: dict[str, dict[RequestState, None]] = {}

    def arrived(self, request: RequestState) -> None:
        """Take note of a new request; with enough of its class they are released."""
        super().arrived(request)
        if request.resident:
            return
        group = self._gathering.setdefault(request.group, {})
        group[request] = None
        if len(group) >= self._thresholds.get(request.group, self.threshold):
            group.clear()

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        for group in self._gathering.values():
            for request in [r for r in group if r.arrival_us + self._patience_us <= state.now_us]:
                del group[request]
        plan, residents = Plan(state), self.residents(state)
        promises = self.promises(plan)
        decode(plan, promises, residents)
        prefill(plan, promises, residents, whole_prefill)
        held_back = {r for group in self._gathering.values() for r in group}
        released = (r for r in self.queue if r not in held_back)
        admit(plan, promises, released, whole_prefill, skip_ahead=self.skip_ahead)
        batch = self.steady(plan, promises)
        if held_back:
            batch.until_us = min(r.arrival_us for r in held_back) + self._patience_us
        return batch
