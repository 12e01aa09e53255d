"""The template of a scheduler, to begin with: ``chunkfront validate --template``."""

TEMPLATE = '''"""A scheduler for Chunkfront. Try it: chunkfront validate THIS_FILE.py:MyScheduler"""

from dataclasses import dataclass

from heuristics.knobs import knob
from heuristics.passes import chunk_cap
from heuristics.plan import Plan
from heuristics.policy import Batch, EngineState, Policy, RequestState, Setup


@dataclass
class MyScheduler(Policy):
    """Decodes first, then prefill chunks in the order of arrival, each request with room for its longest output."""

    chunk: int = knob(0, "largest chunk in tokens; 0: no cap", minimum=0)  # set it: MyScheduler:chunk=256

    def start(self, setup: Setup) -> None:
        """Forget the run before; everything that changes during a run is made here."""
        self.most = chunk_cap(setup.limits, self.chunk)  # the knob, as this engine can keep it

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch. `plan` counts budget, seats and KV blocks; it knows the rules for chunks."""
        plan = Plan(state)
        for request in state.running:  # residents, in the order of their admission
            if request.decoding and plan.can_decode() and plan.fits(request, 1):
                plan.take(request, 1)
        for request in state.running:  # residents amid their prefill
            if not request.decoding and request not in plan.tokens:
                self.prefill(plan, request)
        for request in state.waiting:  # who has arrived and is not resident
            if not self.has_room(state, plan, request) or not self.prefill(plan, request):
                break
        return plan.batch()

    def prefill(self, plan: Plan, request: RequestState) -> bool:
        """Give a request its next chunk, as large as it may be; False where there is none."""
        tokens = plan.chunk(request, self.most)
        if tokens < 1 or not plan.fits(request, tokens):
            return False
        plan.take(request, tokens)
        return True

    def has_room(self, state: EngineState, plan: Plan, new: RequestState) -> bool:
        """Whether all residents and a new one can grow to the longest output that they declare, or that can be."""
        pool = state.limits.num_kv_blocks
        if pool is None:
            return True
        residents = {*state.running, *plan.tokens, new}
        peaks = [state.limits.blocks(r.prompt_tokens + r.max_output_tokens - 1) for r in residents]
        return sum(min(peak, pool) for peak in peaks) <= pool

    # Other hooks, all optional: arrived(request), ran(batch, iterations, start_us, end_us), finished(request),
    # engine(limits). The guide: python -c "import heuristics.policy; help(heuristics.policy)"
'''
