"""The admission walks of the literature: everybody resident goes on, then the queue is walked with foresight."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from heuristics.foresight import Foresight
from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Oracle, Policy, Setup
from heuristics.promises import Promises
from heuristics.queues import OrderedQueue
from heuristics.state import EngineState, RequestState

TIES = ("prompt", "arrival")
"""Ties go to the smaller prompt (better, by 2606.22327 and own runs), or to the earlier arrival at once."""


@dataclass
class WalkPolicy(Policy):
    """Base of MC-SF and its relatives: they differ in the order in which they walk the queue.

    Residents are kept. Waiting requests are walked in order, and each enters with its whole prompt if the KV pool
    suffices for all at the end of every iteration to come (`Foresight`). The model of the papers is that of unit cost
    with a budget that never binds; every limit of the instance is obeyed elsewhere too.
    """

    tie: str = knob("prompt", "who comes first of those that the order does not tell apart", choices=TIES)
    skip_ahead: bool = knob(False, "a request that does not fit does not stop the walk (the papers stop it)")
    oracle: bool = knob(False, "reckon with the true output lengths instead of the declared caps (clairvoyant)")

    @abstractmethod
    def rank(self, request: RequestState) -> int:
        """Return the place of a request in the order, smaller is first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clairvoyant = self.oracle

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty queue."""
        self._oracle: Oracle | None = setup.oracle
        self.queue = OrderedQueue(lambda r: (self.rank(r), *self.tie_break(r)))

    def tie_break(self, request: RequestState) -> tuple[int, ...]:
        """Return what tells requests of equal rank apart."""
        by_arrival = request.arrival_us, request.index
        return by_arrival if self.tie == "arrival" else (request.prompt_tokens, *by_arrival)

    def outputs(self, request: RequestState) -> int:
        """Return the output tokens to reckon with."""
        return request.max_output_tokens if self._oracle is None else self._oracle.output_tokens(request)

    def outputs_left(self, request: RequestState) -> int:
        """Return the output tokens to come, by what is reckoned with."""
        return self.outputs(request) - request.emitted

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self.queue.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date."""
        self.queue.follow(batch)

    def candidates(self) -> Iterable[RequestState]:
        """Return the waiting requests in the order of the walk."""
        return self.queue

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch; a walk that let nobody in may do so later, without any event."""
        plan = Plan(state)
        promises = Promises(plan, self.outputs, "order")
        foresight = Foresight(plan, self.outputs, promises)
        promises.overbooked = promises.overbooked and not foresight.all_go_on()
        decode(plan, promises, state.running)
        prefill(plan, promises, state.running, whole_prefill)
        if self.queue:
            admit(plan, foresight, self.candidates(), whole_prefill, skip_ahead=self.skip_ahead)
        alike = not self.queue and not plan.evicted and all(r.decoding and r in plan.tokens for r in state.running)
        return plan.batch(repeat=FOREVER if alike and not promises.overbooked else 1)


@dataclass
class McSf(WalkPolicy):
    """MC-SF (Jaillet et al., 2502.07115): fewest outputs first."""

    name: ClassVar[str] = "mc-sf"
    summary: ClassVar[str] = "fewest outputs first, while all fit to their ends (MC-SF, arXiv 2502.07115)"

    def rank(self, request: RequestState) -> int:
        """Return the outputs to come."""
        return self.outputs_left(request)


@dataclass
class McBenchmark(WalkPolicy):
    """MC-Benchmark (Jaillet et al., 2502.07115): in the order of arrival."""

    name: ClassVar[str] = "mc-benchmark"
    summary: ClassVar[str] = "first come, first served, while all fit to their ends (MC-Benchmark, arXiv 2502.07115)"

    tie: str = knob("arrival", "who comes first of those that arrive together", choices=TIES)

    def rank(self, request: RequestState) -> int:
        """Return the arrival."""
        return request.arrival_us


@dataclass
class SmallestVolumeFirst(WalkPolicy):
    """Smallest Volume First (Kong et al., 2606.22327): fewest KV token iterations first."""

    name: ClassVar[str] = "smallest-volume-first"
    summary: ClassVar[str] = "least KV over its life first, while all fit to their ends (arXiv 2606.22327)"

    def rank(self, request: RequestState) -> int:
        """Return the volume."""
        return volume(request.known_tokens, self.outputs_left(request))


def volume(prompt_tokens: int, output_tokens: int) -> int:
    """Return the KV tokens that a request holds, summed over its iterations when it never pauses.

    With s = prompt_tokens - 1 that is the papers' s * o + o * (o + 1) / 2.

    Examples
    --------
    >>> volume(11, 20), volume(11, 40), volume(11, 60)   # 2604.11001
    (410, 1220, 2430)
    """
    return (prompt_tokens - 1) * output_tokens + output_tokens * (output_tokens + 1) // 2
