"""QueuedPolicy: what the policies with one waiting queue share, their knobs and their state."""

from __future__ import annotations

from dataclasses import dataclass

from heuristics.knobs import knob
from heuristics.orders import ORDERS, STATIC_ORDERS, Key, order_key
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Oracle, Policy, Setup
from heuristics.promises import Promises
from heuristics.queues import OrderedQueue
from heuristics.state import EngineState, RequestState


@dataclass
class QueuedPolicy(Policy):
    """A policy with one queue in some order."""

    order: str = knob("fcfs", "order in which requests are served", choices=ORDERS)
    oracle: bool = knob(False, "reckon with the true output lengths instead of the declared caps (clairvoyant)")
    max_model_len = 0
    """KV tokens that a policy reserves for any request, however short; a knob of those that have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clairvoyant = self.oracle

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty queue."""
        self._oracle: Oracle | None = setup.oracle
        self.key: Key = order_key(self.order, self.outputs)
        self.queue = OrderedQueue(self.key)
        self.peaks: dict[RequestState, int] = {}

    def outputs(self, request: RequestState) -> int:
        """Return the output tokens to reckon with."""
        return request.max_output_tokens if self._oracle is None else self._oracle.output_tokens(request)

    def reserved_outputs(self, request: RequestState) -> int:
        """Return the output tokens that KV is reserved for: those to reckon with, or what fills the longest request."""
        return max(self.outputs(request), self.max_model_len - request.prompt_tokens + 1)

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self.queue.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date."""
        self.queue.follow(batch)

    def residents(self, state: EngineState) -> list[RequestState]:
        """Return the residents in the order of the policy (fcfs: in the order of their admission)."""
        return list(state.running) if self.order == "fcfs" else sorted(state.running, key=self.key)

    def steady(self, plan: Plan, promises: Promises) -> Batch:
        """Return the batch of a plan that would be the same again until something happens.

        That holds for policies that look at nothing but requests, limits and KV; not where growth is watched, right
        after admissions and evictions, and where prefills change their order by progress.
        """
        settled = plan.is_settled and not promises.overbooked
        if settled and self.order not in STATIC_ORDERS:
            settled = all(r.decoding and r in plan.tokens for r in plan.state.running)
        return plan.batch(repeat=_same_chunks(plan) if settled else 1)



def _same_chunks(plan: Plan) -> int:
    """Return how often the chunks of a plan would be cut alike: while a rest does not fit in the budget whole."""
    if not plan.has_chunks:
        return FOREVER
    budget = plan.limits.max_num_batched_tokens
    rounds = [-(-(r.remaining - budget) // n) for r, n in plan.tokens.items() if not r.decoding]
    return max(1, min(rounds, default=FOREVER))


@dataclass
class AdmittingPolicy(QueuedPolicy):
    """A policy that admits request by request. It evicts only where it admitted more than the KV pool can hold."""

    reserve_peak: bool = knob(
        True, "admit only while prompt + declared outputs of all residents fit in the KV pool; false: while an order "
        "exists in which all can finish, or, where eviction is allowed, while the tokens known now fit",
    )  # fmt: skip
    skip_ahead: bool = knob(False, "a request that cannot be admitted does not stop those behind it")

    def promises(self, plan: Plan) -> Promises:
        """Return who may enter and grow in this pass."""
        return Promises(plan, self.reserved_outputs, "all" if self.reserve_peak else "order", self.peaks)
