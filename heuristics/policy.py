"""The Policy protocol: engine state in, batch out. A guide for authors of policies.

**The shortest policy.** One import, one method::

    from heuristics.policy import Batch, EngineState, Policy

    class OneByOne(Policy):
        def schedule(self, state: EngineState) -> Batch:
            request = (state.running or state.waiting)[0]
            tokens = 1 if request.decoding else min(request.remaining, state.limits.max_num_batched_tokens)
            return Batch([(request, tokens)])

``simulate(instance, OneByOne())`` runs it. The simulator asks `schedule` before every iteration; the answer is either
run as it is or refused with a `PolicyError` that names iteration, rule, request, value and limit.

**What it sees.** `heuristics.state`: arrived requests with what they declared and how far they are (`computed`,
`emitted`, `remaining`, `decoding`, `resident`, `swapped`), `running` and `waiting`, the limits, free seats and KV
blocks, the clock, the cost model. Not the true output lengths and not the future: a policy that needs them sets
`clairvoyant = True` (and `knows_future = True`) and gets an `Oracle` in `start`.

**What it answers.** `Batch`: (request, tokens) in the order of the decision, evictions, restores. Whoever is in the
batch and not resident is admitted by it. A swapped-out request has to be in `restore` too. An empty batch waits, see
`Batch.until_us`; it is an error where nothing is awaited.

**Hooks.** `start` (make all run state here), `arrived`, `ran` (after a batch ran: bring your queues up to date, charge
time), `finished`, and `engine` (a model of a real engine that does what the instance may forbid says so there).

**Knobs.** Make the class a dataclass, and each knob a field ``name: int = knob(0, "what it does, in tokens")``
(`heuristics.knobs`). Set `name` and `summary` (the rule, the engine and the version meant), add the class to
`heuristics.registry.POLICIES`. Then ``NAME:key=value,...`` works everywhere, values are checked, lists show the knob.

**Pieces to build from** (do not write a loop that stands here already):

- `heuristics.plan.Plan`: one batch in the making. Counts budget, seats, KV blocks, unfinished prefills, mixing:
  `tokens_for`, `chunk`, `need`, `fits`, `take`, `drop`, `evict`, `spare`, `batch`. Chunk rules of the engine are in
  `chunk`, so a policy built on a Plan obeys quantum, sizes, caps, chunking off and mixing by itself.
- `heuristics.passes`: `decode`, `prefill`, `admit` over any sequence of requests, with a chunk rule
  (`capped_chunks`, `whole_prefill`); `grow` and `make_room` find victims. A policy is mostly the order of these calls:
  `heuristics.greedy_chunked` (one token budget), `prefill_first`, `orca`, `static` are each a few lines.
- `heuristics.promises.Promises`: who may enter and who may grow so that residents can always finish, by reserved
  peaks or by a safe order, with and without preemption.
- `heuristics.queues`: `Fifo` (evicted ones to front or back), `OrderedQueue` (by a key of `heuristics.orders`); call
  `follow(batch)` in `ran`.
- `heuristics.queued`: `QueuedPolicy` and `AdmittingPolicy` (order, oracle, reserve_peak, skip_ahead);
  `heuristics.ranked`: `RankedPolicy` (all by a rank, worse ones are evicted). `heuristics.vllm_v1` is an engine's own
  loop on a Plan.
- `heuristics.two_stage`: `TwoStagePolicy` (first who fits in the KV pool, then the tokens);
  `heuristics.context_chunks` shares a budget out to prefills; `heuristics.retraction` makes room for the next decode.

**Speed.** `Batch.repeat` promises that the policy would decide the same again until something happens (arrival, end
of a prefill or of a request, lack of KV blocks). Promise only what holds: `simulate(..., step_by_step=True)` asks
every time and has to give the same run. What depends on the clock bounds the promise with `Batch.until_us`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knobs_of
from heuristics.state import EngineState, RequestState
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.request import Request

__all__ = ["FOREVER", "Batch", "EngineState", "Oracle", "Policy", "PolicyError", "RequestState", "Setup"]

FOREVER = 2**62
"""`Batch.repeat` of a batch that the policy would return again until something happens."""


class PolicyError(RuntimeError):
    """A policy decided something impossible, or nothing for ever.

    Parameters
    ----------
    policy
        Name of the policy.
    iteration
        Index of the iteration that it decided on.
    rule
        The broken rule, by the names of `instances.check`, or ``idle`` (nothing scheduled and nothing awaited) or
        ``livelock`` (evictions without an emitted token).
    problem
        What is wrong, in words, with the numbers.
    request
        Id of the request that it is about, None where it is about the batch.
    value, limit
        What was found and what is allowed, where numbers say it.
    """

    def __init__(
        self, policy: str, iteration: int, rule: str, problem: str, request: str | None = None,
        value: int | None = None, limit: int | None = None,
    ) -> None:  # fmt: skip
        self.policy = policy
        self.iteration = iteration
        self.rule = rule
        self.problem = problem
        self.request = request
        self.value = value
        self.limit = limit
        super().__init__(f"policy {policy}, iteration {iteration}, rule {rule}: {problem}")


@dataclass(slots=True)
class Batch:
    """What one scheduling pass decided.

    Parameters
    ----------
    tokens
        The requests that work, with the tokens that each computes, in the order of the decision: a chunk of the
        prefill, or 1 in phase decode. Empty: nothing runs now, see `until_us`.
    evict
        Residents that lose their seat and KV before the compute, in the order of the decision.
    restore
        Swapped-out requests that come back before the compute; they may work in this iteration.
    repeat
        How many iterations in a row this very batch stands for (`FOREVER`: any number), as long as nothing arrives,
        no request ends its prefill or finishes, and the free KV blocks suffice; after that the policy is asked again.
        A promise that makes long runs fast; the schedule is the same with 1.
    until_us
        Ask again at this time at the latest. With an empty batch the engine idles until then or until the next
        arrival (None: until the next arrival; now or earlier: ask again at once). Otherwise it bounds `repeat`.
    """

    tokens: Sequence[tuple[RequestState, int]]
    evict: Sequence[RequestState] = ()
    restore: Sequence[RequestState] = ()
    repeat: int = 1
    until_us: int | None = None


class Oracle:
    """Knowledge that only a clairvoyant policy has.

    Parameters
    ----------
    requests
        All requests of the instance.
    knows_future
        Whether arrivals to come may be looked at too.
    """

    def __init__(self, requests: Sequence[Request], *, knows_future: bool = False) -> None:
        self._requests = requests
        self._knows_future = knows_future

    def output_tokens(self, request: RequestState) -> int:
        """Return the output tokens that an arrived request will really produce."""
        return self._requests[request.index].output_tokens

    def requests(self) -> Iterable[Request]:
        """Return all requests, those to come included.

        Raises
        ------
        PermissionError
            Where the policy did not declare `knows_future`.
        """
        if not self._knows_future:
            raise PermissionError("only a policy with knows_future = True may look at future arrivals")
        return self._requests


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy gets to know before a run.

    Parameters
    ----------
    limits
        The limits of the engine that the policy runs on (`Policy.engine`).
    instance_limits
        Those that the instance states.
    cost
        What an iteration costs.
    oracle
        Knowledge of the future, None unless the policy declares itself clairvoyant.
    """

    limits: EngineLimits
    instance_limits: EngineLimits
    cost: CostModel
    oracle: Oracle | None = None


@dataclass
class Policy:
    """Base of all policies: the hooks that the simulator calls. Only `schedule` must be there.

    A subclass is a dataclass whose fields are its knobs (`heuristics.knobs.knob`); everything else that it keeps it
    creates in `start`, so that one object can run again and again.
    """

    name: ClassVar[str] = ""
    """Name on the command line; empty means the name of the class."""
    summary: ClassVar[str] = ""
    """One line: what it does, and which engine and version it means."""

    clairvoyant = False
    """Whether it looks at true output lengths (and therefore gets an oracle)."""
    knows_future = False
    """Whether it looks at arrivals to come too; only with `clairvoyant`."""

    def __post_init__(self) -> None:
        for knob in knobs_of(type(self)):
            setattr(self, knob.name, knob.checked(getattr(self, knob.name)))

    @property
    def spec(self) -> str:
        """The policy as the command line says it: its name and the knobs that differ from their defaults."""
        name = self.name or type(self).__name__
        own = [(k.name, getattr(self, k.name)) for k in knobs_of(type(self)) if getattr(self, k.name) != k.default]
        settings = ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in own)
        return f"{name}:{settings}" if settings else name

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine that the policy runs on: normally the instance's, whose limits are `limits`.

        A model of a real engine that does what the instance forbids (it preempts, where preemption is ``none``)
        says so here. Its schedules then break the instance's rules, and are not comparable with an optimum.
        """
        return limits

    def start(self, setup: Setup) -> None:
        """Begin a run: forget everything about the one before."""

    def arrived(self, request: RequestState) -> None:
        """Take note of a new request, in the order of arrival; one with `resident` is there from time 0."""

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch; asked only while some arrived request is unfinished."""
        raise NotImplementedError

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Take note that a batch ran, `iterations` times in a row, from `start_us` to `end_us`."""

    def finished(self, request: RequestState) -> None:
        """Take note that a request emitted its last token; its seat and KV are free from now on."""
