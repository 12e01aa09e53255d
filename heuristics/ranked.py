"""RankedPolicy: the best requests run, the worse ones are evicted where they are in the way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from heuristics.knobs import knob
from heuristics.passes import ChunkRule, capped_chunks, make_room
from heuristics.plan import Plan
from heuristics.policy import Batch, Oracle, Policy, Setup
from heuristics.promises import Promises
from heuristics.state import EngineState, RequestState


@dataclass
class RankedPolicy(Policy):
    """Base of the preempting policies: every pass serves all arrived requests in the order of a rank.

    A request that lacks a seat or KV blocks gets those of residents of worse rank, the worst first; with preemption
    ``none`` nobody is evicted, and the rank only orders admissions and decodes. A waiting request that cannot get
    in stops the admissions behind it, residents go on.
    """

    chunk: int = knob(0, "largest chunk of one request in one iteration, in tokens; 0: no cap", minimum=0)
    reserve_peak: bool = knob(True, "requests that cannot be evicted enter only while their peaks fit together")
    oracle: bool = knob(False, "reckon with the true output lengths instead of the declared caps (clairvoyant)")

    @abstractmethod
    def rank(self, request: RequestState) -> tuple[int, ...]:
        """Return the rank of a request, smaller is served first; no two are equal."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clairvoyant = self.oracle

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        self._oracle: Oracle | None = setup.oracle
        self._chunks: ChunkRule = capped_chunks(setup.limits, self.chunk)

    def outputs(self, request: RequestState) -> int:
        """Return the output tokens to reckon with."""
        return request.max_output_tokens if self._oracle is None else self._oracle.output_tokens(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        return self.plan(state).batch()

    def plan(self, state: EngineState) -> Plan:
        """Return the decisions of a pass."""
        plan = Plan(state)
        promises = Promises(plan, self.outputs, "pinned" if self.reserve_peak else "order")
        ranked = sorted((*state.running, *state.waiting), key=self.rank)
        blocked = False
        for place, request in enumerate(ranked):
            if plan.budget < 1:
                break
            done = request in plan.evicted or request in plan.tokens
            if done or (blocked and not request.resident):
                continue
            served = self._serve(plan, promises, request, ranked[place + 1 :])
            blocked |= not served and not request.resident
        if not plan.tokens:
            self._rescue(plan, promises, ranked)
        return plan

    def _serve(self, plan: Plan, promises: Promises, request: RequestState, worse: Sequence[RequestState]) -> bool:
        """Give a request its tokens, at the cost of worse ones if need be; return whether it got any."""
        tokens = self._chunks(plan, request)
        if not tokens:
            return False

        def enough() -> bool:
            allowed = promises.may_grow if request.resident else promises.may_enter
            return plan.fits(request, tokens) and allowed(request, tokens)

        victims = (r for r in reversed(worse) if r.resident and r not in plan.tokens)
        if not enough() and not make_room(plan, promises, victims, enough):
            return False
        plan.take(request, tokens)
        return True

    def _rescue(self, plan: Plan, promises: Promises, ranked: Sequence[RequestState]) -> None:
        """Let one resident go on at the cost of any others, where none can go on by rank."""
        for request in ranked:
            if request.resident and self._serve(plan, promises, request, [r for r in ranked if r is not request]):
                return
