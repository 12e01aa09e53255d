"""The critical path of one request's latency: from its arrival through the iterations to its tokens, every µs named.

Events are nodes: the arrival, the start and the end of iterations. Arcs carry what passes between them: an iteration
its duration, and idle time what it lasts. The engine runs one iteration at a time, so the longest path from the arrival
to a token is as long as the latency; what lies on it is split by the state of the request (queued, in prefill, paused,
...) and by cause (base cost, whose prefill, whose decode, idle, ...), see `instances.breakdown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from instances.breakdown import Breakdown, breakdown
from instances.errors import InputError
from instances.instance import Instance
from instances.replay import Replay, Step, replay
from instances.request import Request
from instances.schedule import Schedule

QUEUED, PREFILL, BETWEEN, DECODE, PAUSED, EVICTED, AGAIN = (
    "queued", "prefill", "between chunks", "decode", "paused", "evicted", "prefill again",
)  # fmt: skip
"""States of a request: before its first chunk; in a chunk; resident in phase prefill without one; in a decode; resident
in phase decode without one; evicted; in a chunk that recomputes what was evicted."""
IDLE, RUNNING = "idle", "running"
"""Causes beside the fields of `Breakdown`: the engine idled; the iteration that ran when the request arrived."""


@dataclass(frozen=True)
class Part:
    """Time of one request that has one cause.

    Parameters
    ----------
    state
        What the request did in it.
    cause
        ``base``, ``prefill``, ``decode``, ``tiles``, ``padding``, ``eager``, ``swap``, ``idle`` or ``running``.
    request
        Whose work it is; None for what belongs to no request. For ``idle``: whose arrival ended it, None for none. For
        ``running``: whose work was the longest in that iteration, None where its base cost or the like was longer.
    us
        Its length, > 0.
    """

    state: str
    cause: str
    request: str | None
    us: int


@dataclass(frozen=True)
class LatencyPath:
    """Where the latency of one request went.

    Parameters
    ----------
    request
        Its id.
    first, last
        Parts in order of first appearance, up to its first and to its last token; `first` is None for a request that
        had emitted before time 0. Parts of equal state, cause and request are one.
    ttft_us, e2e_us
        The latencies; the parts sum to them.
    """

    request: str
    first: tuple[Part, ...] | None
    last: tuple[Part, ...]
    ttft_us: int | None
    e2e_us: int


def latency_path(instance: Instance, schedule: Schedule, request_id: str) -> LatencyPath:
    """Return where the latency of a request went in a valid schedule.

    Raises
    ------
    InputError
        For an unknown request.
    """
    requests = {r.id: r for r in instance.requests}
    if request_id not in requests:
        raise InputError.expected(f"one of {', '.join(requests)}", request_id, "request")
    request, run = requests[request_id], replay(instance, schedule)
    emitting = [step.index for step in run.steps if request_id in step.emitted]
    graph, states = _graph(request, run), _states(request, run)
    swap = instance.engine.preemption == "swap"
    parts_of = [breakdown(instance.cost, step, swap=swap) for step in run.steps]
    arrivals = {r.id: r.arrival_us for r in instance.requests}

    def parts(last: int) -> tuple[Part, ...]:
        before = nx.ancestors(graph, ("end", last)) | {("end", last)}
        path = nx.dag_longest_path(graph.subgraph(before), weight="us", default_weight=0)
        found = [part for arc in pairwise(path) for part in _parts(graph.edges[arc], run, states, parts_of, arrivals)]
        return _merged(found)

    times = run.token_times[request_id]
    first = None if request.starts_in_decode else parts(emitting[0])
    ttft = None if first is None else times[0] - request.arrival_us
    return LatencyPath(request_id, first, parts(emitting[-1]), ttft, times[-1] - request.arrival_us)


def _graph(request: Request, run: Replay) -> nx.DiGraph:
    """Return the graph of events from the arrival on; arcs have ``us``, ``iteration`` and ``kind``."""
    graph = nx.DiGraph()
    before: tuple[str, int] = ("arrival", 0)
    now = request.arrival_us
    graph.add_node(before)
    for step in run.steps:
        start, end, k = step.iteration.start_us, step.iteration.end_us, step.index
        if end <= request.arrival_us and request.id not in step.before:
            continue
        if start < now:  # it ran already when the request arrived
            graph.add_edge(before, ("end", k), us=end - now, iteration=k, kind=RUNNING)
        else:
            graph.add_edge(before, ("start", k), us=start - now, iteration=k, kind=IDLE)
            graph.add_edge(("start", k), ("end", k), us=end - start, iteration=k, kind="work")
        before, now = ("end", k), end
    return graph


def _states(request: Request, run: Replay) -> list[tuple[str, str]]:
    """Return per iteration what the request does while the engine idles before it, and in it."""
    states: list[tuple[str, str]] = []
    name, started, evicted, decoding = request.id, request.progress is not None, False, request.starts_in_decode

    def waiting() -> str:
        if not started:
            return QUEUED
        return EVICTED if evicted else PAUSED if decoding else BETWEEN

    for step in run.steps:
        before = waiting()
        evicted = (evicted and name not in step.moved_in) or name in step.moved_out
        if name in step.chunks:
            states.append((before, AGAIN if step.at_work[name].emitted else PREFILL))
            started, evicted, decoding = True, False, name in step.emitted
        else:
            states.append((before, DECODE if name in step.contexts else waiting()))
    return states


def _parts(
    arc: Mapping[str, Any], run: Replay, states: list[tuple[str, str]], parts_of: list[Breakdown],
    arrivals: Mapping[str, int],
) -> Iterable[Part]:  # fmt: skip
    """Yield the parts of one arc of the path."""
    k, us, kind = arc["iteration"], arc["us"], arc["kind"]
    before, during = states[k]
    if kind == RUNNING:
        longest = max(_work(during, parts_of[k]), key=lambda part: part.us)
        yield Part(during, RUNNING, longest.request, us)
    elif kind == IDLE:
        yield Part(before, IDLE, _awaited(run.steps[k], arrivals), us)
    else:
        yield from _work(during, parts_of[k])


def _awaited(step: Step, arrivals: Mapping[str, int]) -> str | None:
    """Return who arrives when an iteration starts, among those that work in it."""
    return next((name for name in step.before if arrivals[name] == step.iteration.start_us), None)


def _work(state: str, parts: Breakdown) -> Iterable[Part]:
    yield Part(state, "base", None, parts.base)
    for cause in ("prefill", "decode", "swap"):
        yield from (Part(state, cause, name, us) for name, us in getattr(parts, cause).items())
    yield from (Part(state, cause, None, getattr(parts, cause)) for cause in ("tiles", "padding", "eager"))


def _merged(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts with those of equal state, cause and request added up, empty ones left out."""
    sums: dict[tuple[str, str, str | None], int] = {}
    for part in parts:
        if part.us:
            key = (part.state, part.cause, part.request)
            sums[key] = sums.get(key, 0) + part.us
    return tuple(Part(*key, us) for key, us in sums.items())
