"""rolling-horizon: an online policy that solves a small exact model before every iteration and runs its first batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from heuristics.greedy_chunked import GreedyChunked
from heuristics.knobs import knob
from heuristics.policy import Batch, Policy, Setup
from heuristics.state import EngineState, RequestState
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from instances.request import Progress, Request
from instances.schedule import Iteration
from solver.model import solve


@dataclass
class RollingHorizon(Policy):
    """Receding horizon: the optimum of what is known now, one iteration of it, and again.

    The model holds what an online scheduler knows: the residents as they stand, the first ``most_waiting`` requests
    that wait, declared caps as output lengths, nobody else to come. It does not evict. Where the solver has no answer
    in time ``greedy-chunked`` decides. With ``workers=1`` and models small enough to be
    solved to the end, runs repeat themselves; a time limit that cuts solves off does not.

    An optimum of the moment is not an optimum in hindsight: it waits for nobody, and it plans for outputs as long as
    declared. Latencies count from the moment, so a maximum of them does not know who has waited longest.
    """

    name: ClassVar[str] = "rolling-horizon"
    summary: ClassVar[str] = "an exact solve of what is known now before every iteration, online (receding horizon)"

    objective: str = knob("mean_e2e", "what each solve optimises", choices=tuple(OBJECTIVES))
    time_limit: float = knob(1.0, "most seconds of one solve", minimum=0.01)
    most_waiting: int = knob(8, "waiting requests that a solve looks at, the earliest ones", minimum=1)
    workers: int = knob(1, "threads of a solve", minimum=1)

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        self._engine = replace(setup.limits, preemption="none")
        self._otherwise = GreedyChunked()
        self._otherwise.start(setup)
        self.solves = 0
        self.fallbacks = 0

    def arrived(self, request: RequestState) -> None:
        """Take note of a new request."""
        self._otherwise.arrived(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Take note that a batch ran."""
        self._otherwise.ran(batch, iterations, start_us, end_us)

    def finished(self, request: RequestState) -> None:
        """Take note that a request finished."""
        self._otherwise.finished(request)

    def schedule(self, state: EngineState) -> Batch:
        """Return the first batch of the optimum, or what greedy chunking does."""
        self.solves += 1
        batch = self._first_batch(state)
        if batch is None:
            self.fallbacks += 1
            return replace(self._otherwise.schedule(state), repeat=1)
        return batch

    def _first_batch(self, state: EngineState) -> Batch | None:
        """Return the first batch of the best schedule found, None without one."""
        known = [*state.running, *list(state.waiting)[: self.most_waiting]]
        if any(r.emitted and not r.resident for r in known):  # evicted by greedy chunking: not in the model
            return None
        try:
            now = snapshot(known, self._engine, state)
            found = solve(now, self.objective, time_limit=self.time_limit, workers=self.workers, explain=False)
        except InputError:  # residents that cannot all stay by their declared caps
            return None
        return None if found.schedule is None else _batch(found.schedule.iterations[0], known)


def _batch(first: Iteration, known: Sequence[RequestState]) -> Batch:
    """Return an iteration of a schedule as the batch to run now: decodes, then prefills, each in the order of `known`.

    Whatever its start is: nobody to come is known, so waiting is for nothing.
    """
    tokens = {**dict.fromkeys(first.decode, 1), **first.prefill}
    return Batch([(r, tokens[r.id]) for r in sorted(known, key=lambda r: not r.decoding) if r.id in tokens])


def snapshot(known: Sequence[RequestState], engine: EngineLimits, state: EngineState) -> Instance:
    """Return the instance of what is known at a moment, which is its time 0.

    Raises
    ------
    InputError
        Where it is no valid instance.
    """
    capacity = engine.kv_capacity_tokens
    requests = tuple(_request(r, state.now_us, capacity) for r in known)
    return Instance("now", requests, engine, state.cost)


def _request(request: RequestState, now_us: int, capacity: int | None) -> Request:
    """Return a request as it stands; its arrival, past, is now, and its service levels count from there."""
    outputs = request.max_output_tokens
    if capacity is not None:  # the cap may promise more than any request can have
        outputs = min(outputs, capacity - request.prompt_tokens + 1)
    progress = None
    if request.resident:
        last = request.last_token_us
        done = min(request.computed, request.prompt_tokens)
        progress = Progress(done, request.emitted, 0 if last is None else last - now_us)
    ttft, tbt, e2e = None if request.emitted else request.ttft_slo_us, request.tbt_slo_us, request.e2e_slo_us
    age = now_us - request.arrival_us
    ttft, e2e = None if ttft is None else ttft - age, None if e2e is None else e2e - age
    if min(slo for slo in (ttft, e2e, 1) if slo is not None) < 1:  # missed: the others do not matter any more
        ttft, tbt, e2e = None, None, None
    return Request(
        request.id, request.prompt_tokens, outputs, cached_tokens=request.cached_tokens, priority=request.priority,
        weight=request.weight, group=request.group, progress=progress, ttft_slo_us=ttft, tbt_slo_us=tbt,
        e2e_slo_us=e2e,
    )  # fmt: skip
