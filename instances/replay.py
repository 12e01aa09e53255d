"""Replay of a schedule: what each iteration does to every request (model.md §3), without judging it.

Checker and metrics read the same replay. It is lenient: work that a request cannot do in its state is ignored, so
that one fault is reported once and does not poison what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from instances.instance import Instance
from instances.request import Phase, Request
from instances.schedule import Iteration, Schedule


class Status(Enum):
    """Where a request is."""

    WAITING = "waiting"
    RESIDENT = "resident"
    DROPPED = "evicted for recompute"
    SWAPPED = "swapped out"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class View:
    """State of one request at one moment.

    Parameters
    ----------
    status, phase
        Where it is, and what it may do next.
    computed
        Tokens whose KV is there, or would be at its first chunk (prefix hit).
    emitted
        Output tokens emitted so far.
    target
        Computed tokens at which the present prefill ends.
    """

    status: Status
    phase: Phase
    computed: int
    emitted: int
    target: int

    @property
    def can_prefill(self) -> bool:
        """Whether a prefill chunk is legal now, limits aside."""
        return self.phase is Phase.PREFILL and self.status in (Status.WAITING, Status.RESIDENT, Status.DROPPED)

    @property
    def can_decode(self) -> bool:
        """Whether a decode is legal now, limits aside."""
        return self.phase is Phase.DECODE and self.status is Status.RESIDENT


@dataclass(slots=True)
class Step:
    """What one iteration did.

    Parameters
    ----------
    index, iteration
        Its place and itself.
    before
        Views of the requests it names, before anything happened.
    at_work
        The same after restores and evictions, before the compute.
    chunks
        Per prefilling request, computed tokens before and after.
    contexts
        Per decoding request, the tokens that it holds after the step.
    moved_out, moved_in
        KV tokens per evicted and per restored request.
    emitted, finished
        Ids, in the order of the iteration.
    residents, blocks
        Seats and KV blocks in use after the compute, finishing requests included.
    partial
        Ids of residents still in phase prefill after the compute.
    decoding
        Ids of residents in phase decode before the compute.
    """

    index: int
    iteration: Iteration
    before: dict[str, View] = field(default_factory=dict)
    at_work: dict[str, View] = field(default_factory=dict)
    chunks: dict[str, tuple[int, int]] = field(default_factory=dict)
    contexts: dict[str, int] = field(default_factory=dict)
    moved_out: dict[str, int] = field(default_factory=dict)
    moved_in: dict[str, int] = field(default_factory=dict)
    emitted: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    residents: int = 0
    blocks: int = 0
    partial: list[str] = field(default_factory=list)
    decoding: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Replay:
    """A whole schedule, replayed.

    Parameters
    ----------
    steps
        One per iteration.
    token_times
        Per request, the times in µs at which it emitted tokens from time 0 on.
    views
        Per request, its state at the end.
    """

    steps: tuple[Step, ...]
    token_times: Mapping[str, tuple[int, ...]]
    views: Mapping[str, View]


def initial_view(request: Request) -> View:
    """Return the state of a request at time 0."""
    status = Status.WAITING if request.progress is None else Status.RESIDENT
    phase = Phase.DECODE if request.starts_in_decode else Phase.PREFILL
    return View(status, phase, request.computed_before, request.emitted_before, request.prompt_tokens)


class Replayer:
    """The states of all requests, moved on iteration by iteration.

    Attributes
    ----------
    views
        State per request, as it stands.
    resident
        Ids of the residents, in the order of their admission.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.requests = {r.id: r for r in instance.requests}
        self.views = {r.id: initial_view(r) for r in instance.requests}
        self.times: dict[str, list[int]] = {r.id: [] for r in instance.requests}
        self.resident = [r.id for r in instance.requests if r.progress is not None]

    def run(self, index: int, iteration: Iteration) -> Step:
        """Move on by one iteration and return what it did."""
        step = Step(index, iteration)
        named = (*iteration.restore, *iteration.evict, *iteration.prefill, *iteration.decode)
        step.before = {name: self.views[name] for name in named if name in self.views}
        self._restore(step)
        self._evict(step)
        step.at_work = {name: self.views[name] for name in step.before}
        step.decoding = [name for name in self.resident if self.views[name].phase is Phase.DECODE]
        self._prefill(step)
        self._decode(step)
        blocks = self.instance.engine.blocks
        step.residents = len(self.resident)
        step.blocks = sum(blocks(self.views[name].computed) for name in self.resident)
        step.partial = [name for name in self.resident if self.views[name].phase is Phase.PREFILL]
        self._finish(step)
        return step

    def _restore(self, step: Step) -> None:
        for name in step.iteration.restore:
            view = self.views.get(name)
            if view is not None and view.status is Status.SWAPPED:
                step.moved_in[name] = view.computed
                self.views[name] = replace(view, status=Status.RESIDENT)
                self.resident.append(name)

    def _evict(self, step: Step) -> None:
        swap = self.instance.engine.preemption == "swap"
        for name in step.iteration.evict:
            view = self.views.get(name)
            if view is None or view.status is not Status.RESIDENT:
                continue
            step.moved_out[name] = view.computed
            self.resident.remove(name)
            if swap:
                self.views[name] = replace(view, status=Status.SWAPPED)
                continue
            request = self.requests[name]
            target = request.prompt_tokens + view.emitted
            self.views[name] = View(Status.DROPPED, Phase.PREFILL, request.cached_tokens, view.emitted, target)

    def _prefill(self, step: Step) -> None:
        for name, tokens in step.iteration.prefill.items():
            view = self.views.get(name)
            if view is None or not view.can_prefill or name in step.moved_out:
                continue
            after = min(view.computed + tokens, view.target)
            step.chunks[name] = (view.computed, after)
            if view.status is not Status.RESIDENT:
                self.resident.append(name)
            self.views[name] = replace(view, status=Status.RESIDENT, computed=after)
            if after == view.target:
                self._emit(name, step)

    def _decode(self, step: Step) -> None:
        for name in dict.fromkeys(step.iteration.decode):
            view = self.views.get(name)
            if view is None or not view.can_decode or name in step.chunks:
                continue
            step.contexts[name] = view.computed + 1
            self.views[name] = replace(view, computed=view.computed + 1)
            self._emit(name, step)

    def _emit(self, name: str, step: Step) -> None:
        view = self.views[name]
        self.views[name] = replace(view, phase=Phase.DECODE, emitted=view.emitted + 1)
        self.times[name].append(step.iteration.end_us)
        step.emitted.append(name)

    def _finish(self, step: Step) -> None:
        for name in step.emitted:
            view = self.views[name]
            if view.emitted == self.requests[name].output_tokens:
                self.views[name] = replace(view, status=Status.FINISHED)
                self.resident.remove(name)
                step.finished.append(name)


def replay(instance: Instance, schedule: Schedule) -> Replay:
    """Return what every iteration of `schedule` does, whether it is legal or not."""
    engine = Replayer(instance)
    steps = tuple(engine.run(index, iteration) for index, iteration in enumerate(schedule.iterations))
    times = {name: tuple(found) for name, found in engine.times.items()}
    return Replay(steps, times, dict(engine.views))
