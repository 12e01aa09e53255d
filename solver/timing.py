"""The best timing of a fixed sequence of batches: earliest ends under gap limits, as difference constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from instances.instance import Instance
from instances.replay import Replay, replay
from instances.schedule import Iteration, Schedule


class Batch(NamedTuple):
    """What one iteration does: prefill tokens per request, and who decodes, is evicted, is restored."""

    prefill: Mapping[str, int]
    decode: Sequence[str]
    evict: Sequence[str] = ()
    restore: Sequence[str] = ()



def durations(
    instance: Instance, batches: Sequence[Batch | tuple[Mapping[str, int], Sequence[str]]], producer: str
) -> Schedule:
    """Return the batches one after the other, each with its duration from the cost model, arrivals ignored."""
    bare = [
        Iteration(0, 0, batch.prefill, tuple(batch.decode), tuple(batch.evict), tuple(batch.restore))
        for batch in (Batch(*given) for given in batches)
    ]
    steps = replay(instance, Schedule(instance.name, producer, tuple(bare))).steps
    iterations, clock = [], 0
    for step in steps:
        moved = (step.moved_out.values(), step.moved_in.values()) if instance.engine.preemption == "swap" else ((), ())
        cost = instance.cost.duration_us(list(step.chunks.values()), list(step.contexts.values()), *map(list, moved))
        iterations.append(replace(step.iteration, start_us=clock, duration_us=cost))
        clock += cost
    return Schedule(instance.name, producer, tuple(iterations))


def earliest(
    instance: Instance,
    schedule: Schedule,
    gap_limits: Mapping[str, int] | None = None,
    releases_us: Mapping[str, int] | None = None,
) -> Schedule | None:
    """Return the same iterations at the earliest times that obey arrivals and the gap limits, None where impossible.

    Parameters
    ----------
    instance, schedule
        The schedule's durations must be right; its starts do not matter.
    gap_limits
        Per request, the largest TBT gap in µs; requests that are left out have none.
    releases_us
        Per request, a time before which it may not start, where that is later than its arrival.

    Notes
    -----
    The ends obey ``e[k] >= e[k-1] + d[k]``, ``e[k] >= arrival + d[k]``, ``e[l] - e[k] <= G`` for consecutive tokens
    of a request in k and l, i.e. ``e[k] >= e[l] - G``, and ``e[l] <= last token before 0 + G``. These are difference
    constraints, so a componentwise least solution exists where any does, and it is best for every metric that does
    not grow when tokens come earlier. It is found by raising violated ends until none is left; a raise that goes on
    longer than the number of iterations means a cycle: there is no solution.
    """
    run = replay(instance, schedule)
    iterations = schedule.iterations
    releases = releases_us or {}
    arrivals = {r.id: max(r.arrival_us, releases.get(r.id, 0)) for r in instance.requests}
    spans = [it.duration_us for it in iterations]
    ready = [max((arrivals[name] for name in step.before), default=0) for step in run.steps]
    ends = [at + span for at, span in zip(ready, spans, strict=True)]
    gaps, latest = _gap_pairs(instance, run, gap_limits or {})
    for _ in range(len(iterations) + 2):
        changed = False
        for k in range(1, len(ends)):
            if ends[k] < ends[k - 1] + spans[k]:
                ends[k], changed = ends[k - 1] + spans[k], True
        for earlier, later, limit in reversed(gaps):
            if ends[earlier] < ends[later] - limit:
                ends[earlier], changed = ends[later] - limit, True
        if not changed:
            break
    else:
        return None
    if any(ends[k] > bound for k, bound in latest):
        return None
    moved = [replace(it, start_us=end - it.duration_us) for it, end in zip(iterations, ends, strict=True)]
    return replace(schedule, iterations=tuple(moved))


def _gap_pairs(
    instance: Instance, run: Replay, limits: Mapping[str, int]
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """Return (iteration, iteration of the next token, limit) in order, and (iteration, latest end) at the start."""
    previous: dict[str, int] = {}
    pairs, latest = [], []
    running = (r for r in instance.requests if r.starts_in_decode)
    before = {r.id: r.progress.last_token_us for r in running if r.progress is not None}
    for step in run.steps:
        for name in step.emitted:
            if name not in limits:
                continue
            if name in previous:
                pairs.append((previous[name], step.index, limits[name]))
            elif name in before:
                latest.append((step.index, before[name] + limits[name]))
            previous[name] = step.index
    return pairs, latest
