"""The two-stage loop: first the requests that the KV pool can take, then the tokens that each of them gets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from heuristics.passes import ChunkRule, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Policy, Setup
from heuristics.state import UNLIMITED, EngineState, RequestState


@dataclass
class TwoStagePolicy(Policy):
    """Base of policies with two stages over one list of the unfinished requests, in the order of their arrival.

    Evicted requests keep their place in it. Only its first requests, one per seat, are looked at; those resident at
    time 0 stand in front, so residents are always among them. Where the engine cannot mix, the second stage serves
    prefills while any can run, and decodes otherwise.
    """

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty list."""
        self.seats = setup.limits.max_num_seqs or UNLIMITED
        self._active: dict[RequestState, None] = {}

    def arrived(self, request: RequestState) -> None:
        """Put a new request at the end of the list."""
        self._active[request] = None

    def finished(self, request: RequestState) -> None:
        """Take a request off the list."""
        del self._active[request]

    def new_plan(self, state: EngineState) -> Plan:
        """Return the plan of a pass before any decision."""
        return Plan(state)

    @abstractmethod
    def capacity(self, plan: Plan, active: Sequence[RequestState]) -> Sequence[RequestState]:
        """Return the requests that the KV pool can take in this iteration, in the order of the second stage.

        May evict (`Plan.evict`).
        """

    @abstractmethod
    def micro_batch(self, plan: Plan, fitting: Sequence[RequestState]) -> None:
        """Give tokens to requests that fit, within the token budget."""

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch: unfinished chunks, then prefills that end, then decodes."""
        plan = self.new_plan(state)
        seats = self.seats - (state.free_seats - plan.seats)
        active = list(islice(self._active, min(seats, len(self._active))))
        fitting = [r for r in self.capacity(plan, active) if r not in plan.evicted]
        for group in phases(fitting, mixed=state.limits.mixed_batches):
            self.micro_batch(plan, group)
            if plan.tokens:
                break
        plan.tokens = dict(sorted(plan.tokens.items(), key=_place_in_batch))
        everybody = len(plan.tokens) == len(state.running) and all(r.decoding and r.resident for r in plan.tokens)
        settled = everybody and not plan.evicted and all(r in plan.tokens for r in fitting)
        return plan.batch(repeat=FOREVER if settled else 1)


def phases(requests: Sequence[RequestState], *, mixed: bool) -> list[list[RequestState]]:
    """Return the groups to serve one instead of the other: all of them, or those in prefill before those in decode."""
    if mixed:
        return [list(requests)]
    return [[r for r in requests if not r.decoding], [r for r in requests if r.decoding]]


def whole_contexts(plan: Plan, fitting: Iterable[RequestState]) -> None:
    """Give every request its decode or its whole prefill, in order; the first one above the budget ends the pass."""
    take_in_order(plan, fitting, lambda plan, r: int(plan.can_decode()) if r.decoding else whole_prefill(plan, r))


def take_in_order(plan: Plan, requests: Iterable[RequestState], tokens_of: ChunkRule) -> None:
    """Give requests their tokens in order; one that gets none ends the pass, one that lacks blocks is passed over."""
    for request in requests:
        if request in plan.tokens:
            continue
        tokens = tokens_of(plan, request)
        if not tokens:
            return
        if plan.fits(request, tokens):
            plan.take(request, tokens)


def _place_in_batch(work: tuple[RequestState, int]) -> tuple[bool, bool]:
    request, tokens = work
    return request.decoding, tokens == request.remaining
