"""PrefillBatches: batches of whole prompts whenever one gets in, batches of decodes otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heuristics.booked import BookedPlan
from heuristics.paged import PagedPolicy
from heuristics.passes import whole_prefill
from heuristics.plan import Plan
from heuristics.state import RequestState


@dataclass
class PrefillBatches(PagedPolicy):
    """The loop of vLLM V0 and of Sarathi-Serve's copy of it, with what differs as methods."""

    def decide(self, plan: BookedPlan) -> None:
        """Make the decisions of one pass."""
        residents = self.residents(plan)
        self.prefill(plan, residents, whole_prefill)
        self.admit(plan, self.candidates(plan), self.tokens)
        if plan.tokens:
            return
        self.before_decodes(plan, residents)
        self.decode(plan, residents)
        if not plan.evicted:
            self.admit(plan, self.swapped_out(plan), self.tokens)
        elif not plan.tokens:  # an empty pass; the next one would be a prefill
            self.admit(plan, self.waiting, self.tokens)

    def residents(self, plan: Plan) -> list[RequestState]:
        """Return the residents in the order in which they decode; the last ones are preempted."""
        return [*self.by_arrival(plan.state)]

    def candidates(self, plan: Plan) -> Iterable[RequestState]:
        """Return who may be admitted now, in order."""
        return self.waiting

    def swapped_out(self, plan: Plan) -> Sequence[RequestState]:
        """Return who comes back from outside the pool beside decodes."""
        return ()

    def tokens(self, plan: Plan, request: RequestState) -> int:
        """Return the first tokens of a request that is admitted: all of its prefill, or none."""
        return whole_prefill(plan, request)

    def before_decodes(self, plan: Plan, residents: list[RequestState]) -> None:
        """Do what comes before the decodes when no prefill could run; may evict `residents` and take them out."""
