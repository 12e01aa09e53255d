"""From an instance and a schedule to its timeline.

Example
-------
>>> from chunkfront.timeline.build import build_timeline
>>> from heuristics.simulator import simulate
>>> from instances.bundled import load_bundled
>>> instance = load_bundled("utilisation")
>>> timeline = build_timeline(instance, simulate(instance, "static").schedule)
>>> len(timeline.rows) == len(instance.requests)
True
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate

from chunkfront.timeline.choice import choose_rows
from chunkfront.timeline.spans import Beat, Gap, Kind, Row, Span, Timeline, token_gaps
from instances.check import violations
from instances.instance import Instance
from instances.replay import Replay, Step, replay
from instances.request import Request
from instances.schedule import Schedule

MOST_ROWS = 20
"""Up to so many requests are shown in full; of more a choice is."""


def build_timeline(
    instance: Instance, schedule: Schedule, *, stall_us: int | None = None, most_rows: int | None = MOST_ROWS
) -> Timeline:
    """Return what every request and the engine do over time.

    Parameters
    ----------
    instance, schedule
        The problem and the answer, valid or not: work that a request cannot do is left out and stands among the
        violations.
    stall_us
        Gaps longer than this are stalls. By default those above the request's TBT SLO, and the longest ones.
    most_rows
        Requests shown in full; of more, those that `choose_rows` takes. None for all.
    """
    run = replay(instance, schedule)
    broken = tuple(violations(instance, schedule))
    gaps = {r.id: token_gaps(r, run.token_times[r.id]) for r in instance.requests}
    shown = {r.id for r in instance.requests}
    if most_rows is not None and len(shown) > most_rows:
        shown = choose_rows(instance, run, gaps, broken)
    walk = _Walk(instance, shown)
    beats = tuple(walk.take(step) for step in run.steps)
    walk.close_all(max((beat.end_us for beat in beats), default=0))
    ordered = sorted((r for r in instance.requests if r.id in shown), key=lambda r: r.arrival_us)
    rows = tuple(_row(r, walk, run, gaps[r.id]) for r in ordered)
    return Timeline(
        instance, schedule.producer, rows, beats, walk.queue(), _stalls(rows, stall_us), broken,
        len(instance.requests) - len(rows), stall_us,
    )  # fmt: skip


def _row(request: Request, walk: _Walk, run: Replay, gaps: tuple[Gap, ...]) -> Row:
    evictions = walk.evictions.get(request.id, [])
    return Row(request, tuple(walk.spans[request.id]), run.token_times[request.id], gaps, tuple(evictions))


def _stalls(rows: tuple[Row, ...], stall_us: int | None) -> tuple[Gap, ...]:
    """Return the gaps worth marking; of the longest ones, the first of each request."""
    if stall_us is not None:
        return tuple(gap for row in rows for gap in row.gaps if gap.length_us > stall_us)
    longest = max((row.worst_gap_us for row in rows), default=0)
    found: list[Gap] = []
    for row in rows:
        slo = row.request.tbt_slo_us
        first = next((gap for gap in row.gaps if gap.length_us == longest), None)
        found += [gap for gap in row.gaps if gap is first or (slo is not None and gap.length_us > slo)]
    return tuple(found)


class _Walk:
    """Follows every request from iteration to iteration; keeps the spans of those that are shown."""

    def __init__(self, instance: Instance, shown: set[str]) -> None:
        self.instance = instance
        self.arrivals = sorted(r.arrival_us for r in instance.requests)
        self.spans: dict[str, list[Span]] = {name: [] for name in shown}
        self.evictions: dict[str, list[int]] = {}
        self.emitted = {r.id: r.emitted_before for r in instance.requests}
        self.computed = {r.id: r.computed_before for r in instance.requests}
        self.rest = {r.id: Kind.QUEUED if r.progress is None else Kind.PAUSED for r in instance.requests}
        """What a request does while it is not worked on; finished ones are gone."""
        self.cursor = {r.id: r.arrival_us for r in instance.requests}
        """Until when its spans are made."""
        self.waits: Counter[int] = Counter(r.arrival_us for r in instance.requests if r.progress is None)
        """Changes of the number of waiting requests, by moment."""
        self.out: set[str] = set()
        """Requests that are evicted now."""
        self.finished = 0

    def take(self, step: Step) -> Beat:
        """Follow one iteration, and return it in numbers."""
        it = step.iteration
        for name in step.moved_in:
            self._rest_until(name, it.start_us, Kind.PAUSED)
        for name, held in step.moved_out.items():
            self._rest_until(name, it.start_us, Kind.EVICTED)
            self.evictions.setdefault(name, []).append(it.start_us)
            self.computed[name] = held if self.instance.engine.preemption == "swap" else 0
        emitting = Counter(step.emitted)
        for name, (before, after) in step.chunks.items():
            self._work(name, step, Kind.PREFILL, after - before, after, emitting[name])
        for name, context in step.contexts.items():
            self._work(name, step, Kind.DECODE, 1, context, emitting[name])
        beat = self._beat(step)
        self.finished += len(step.finished)
        for name in step.finished:
            del self.rest[name]
        return beat

    def _beat(self, step: Step) -> Beat:
        it = step.iteration
        working = len(step.chunks) + len(step.contexts)
        evicted = len(self.out)
        here = bisect_right(self.arrivals, it.start_us)
        released = sum(self.instance.engine.blocks(self.computed[name]) for name in step.finished)
        return Beat(
            step.index, it.start_us, it.end_us, sum(it.prefill.values()), len(it.decode), step.blocks,
            step.blocks - released,
            len(step.chunks), len(step.contexts), max(0, step.residents - working),
            max(0, here - self.finished - step.residents - evicted), evicted,
        )  # fmt: skip

    def _work(self, name: str, step: Step, kind: Kind, tokens: int, computed: int, emits: int) -> None:
        self._rest_until(name, step.iteration.start_us, Kind.PAUSED)
        self.emitted[name] += emits
        self.computed[name] = computed
        if name in self.spans:
            start, end = step.iteration.start_us, step.iteration.end_us
            self.spans[name].append(Span(kind, start, end, step.index, tokens, computed, self.emitted[name]))
        self.cursor[name] = max(self.cursor[name], step.iteration.end_us)

    def _rest_until(self, name: str, moment_us: int, then: Kind) -> None:
        """Fill the time up to `moment_us` with what the request did, and let it do something else from there."""
        kind, since = self.rest[name], self.cursor[name]
        if name in self.spans and moment_us > since:
            span = Span(kind, since, moment_us, None, 0, self.computed[name], self.emitted[name])
            self.spans[name].append(span)
        self.cursor[name] = max(since, moment_us)
        waited, waits = (each in (Kind.QUEUED, Kind.EVICTED) for each in (kind, then))
        if waited != waits:
            self.waits[max(since, moment_us)] += 1 if waits else -1
        self.rest[name] = then
        (self.out.add if then is Kind.EVICTED else self.out.discard)(name)

    def close_all(self, end_us: int) -> None:
        """End the spans of requests that never finish."""
        for name, kind in list(self.rest.items()):
            self._rest_until(name, end_us, kind)

    def queue(self) -> tuple[tuple[int, int], ...]:
        """Return the moments at which the number of waiting requests changes, and the number from then on."""
        moments = sorted(moment for moment, change in self.waits.items() if change)
        return tuple(zip(moments, accumulate(self.waits[moment] for moment in moments), strict=True))
