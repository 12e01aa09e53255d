"""slai: a decode waits until it would miss its deadline; what that frees goes to the shortest prefills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, capped_chunks, decode, grow
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.promises import Promises
from heuristics.queued import AdmittingPolicy
from heuristics.state import EngineState, RequestState
from instances.units import US_PER_MS


@dataclass
class Slai(AdmittingPolicy):
    """SLAI (Bari, Hegde, de Veciana, 2508.01002).

    A decode is urgent when two iterations more, each as long as a full one, would end after its deadline: the last
    token plus its limit on gaps. Urgent decodes go first, then prefills, those that run and those that wait together,
    the shortest rest first, then the other decodes with what is left. A full iteration is reckoned by the cost model:
    all decodes, and the whole budget of prefill at the end of the longest request there.
    """

    name: ClassVar[str] = "slai"
    summary: ClassVar[str] = "decodes at their last moment, shortest prefills first (SLAI, arXiv 2508.01002)"

    order: str = knob("spf", "order in which prefills are served", choices=("spf", "fcfs", "srpt", "priority"))
    tbt_ms: float = knob(100.0, "limit on gaps of requests without one of their own, in ms", minimum=0)
    chunk: int = knob(0, "largest chunk of one request in one iteration, in tokens; 0: no cap", minimum=0)
    fill: bool = knob(True, "decodes that are not urgent take what prefills leave; false: they wait while one runs")

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._chunks = capped_chunks(setup.limits, self.chunk)
        self._gap_us = round(self.tbt_ms * US_PER_MS)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch; only one of decodes that nobody competes with is promised to stay."""
        plan = Plan(state)
        promises = self.promises(plan)
        if not self.queue and all(r.decoding for r in state.running):
            decode(plan, promises, state.running)
            return self.steady(plan, promises)
        decode(plan, promises, self._urgent(state))
        decodes = len(plan.tokens)
        self._prefills(plan, promises)
        if self.fill or len(plan.tokens) == decodes:
            decode(plan, promises, [r for r in self.residents(state) if r not in plan.tokens])
        return plan.batch()

    def _urgent(self, state: EngineState) -> list[RequestState]:
        """Return the decodes that have to run now, the earliest deadline first."""
        decoding = [r for r in state.running if r.decoding]
        longest = max(r.known_tokens for r in (*state.running, *self.queue))
        before = max(0, longest - state.limits.max_num_batched_tokens)
        full_us = state.cost.duration_us([(before, longest)], [r.computed + 1 for r in decoding])
        due = {r: self._deadline_us(r) for r in decoding}
        urgent = [r for r in decoding if state.now_us + 2 * full_us > due[r]]
        return sorted(urgent, key=lambda r: (due[r], r.index))

    def _deadline_us(self, request: RequestState) -> int:
        gap = self._gap_us if request.tbt_slo_us is None else request.tbt_slo_us
        return (request.last_token_us or 0) + gap

    def _prefills(self, plan: Plan, promises: Promises) -> None:
        """Serve the prefills in order; a waiting request that does not get in stops those behind it that wait."""
        residents = self.residents(plan.state)
        blocked = False
        for request in sorted((*(r for r in residents if not r.decoding), *self.queue), key=self.key):
            if not request.resident:
                blocked = blocked or (not admit(plan, promises, [request], self._chunks) and not self.skip_ahead)
            elif request not in plan.evicted and request not in plan.tokens:
                tokens = self._chunks(plan, request)
                if tokens and grow(plan, promises, request, tokens, residents):
                    plan.take(request, tokens)
