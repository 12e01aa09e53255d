"""A timeline as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is the JSON array format of "Trace Event Format" (Google, 2016): complete events (``X``) on tracks, counters
(``C``), instants (``i``) and names (``M``); times in µs, as ours. One process for the engine, with its iterations and
counters; one for the requests, a track each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chunkfront.timeline.lines import StepLine, exact_line
from chunkfront.timeline.spans import WORK, Kind, Row, Timeline
from chunkfront.timeline.words import KIND_WORDS
from instances.units import ms_from_us

ENGINE, REQUESTS = 1, 2
"""Process ids."""
Event = dict[str, Any]


def perfetto_trace(timeline: Timeline) -> dict[str, Any]:
    """Return the trace document of a timeline that shows all of its requests.

    Tracks may not have slices that overlap in part; those of an invalid schedule end where the next begins, and
    ``args`` tell how long they last.
    """
    events = [*_names(timeline), *_iterations(timeline), *_counters(timeline)]
    for track, row in enumerate(timeline.rows, start=1):
        events += _request(row, track)
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "instance": timeline.instance.name,
            "producer": timeline.producer,
            "valid": not timeline.violations,
        },
        "traceEvents": events,
    }


def _names(timeline: Timeline) -> Iterator[Event]:
    for order, (process, name) in enumerate(((ENGINE, "engine"), (REQUESTS, "requests"))):
        yield _metadata("process_name", process, 0, name=name)
        yield _metadata("process_sort_index", process, 0, sort_index=order)
    yield _metadata("thread_name", ENGINE, 1, name="iterations")
    for track, row in enumerate(timeline.rows, start=1):
        yield _metadata("thread_name", REQUESTS, track, name=row.request.id)
        yield _metadata("thread_sort_index", REQUESTS, track, sort_index=track)


def _metadata(kind: str, process: int, track: int, **args: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "ts": 0, "args": args}


def _slice(name: str, kind: str, process: int, track: int, times: tuple[int, int], args: dict[str, Any]) -> Event:
    start, end = times
    return {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": track, "ts": start, "dur": end - start,
            "args": args}  # fmt: skip


def _instant(name: str, kind: str, process: int, track: int, moment: int, args: dict[str, Any]) -> Event:
    return {"ph": "i", "s": "t", "name": name, "cat": kind, "pid": process, "tid": track, "ts": moment, "args": args}


def _clipped(times: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches of one track, each ended by the start of the next."""
    ends = [start for start, _ in times[1:]] + [times[-1][1]] if times else []
    return [(start, max(start, min(end, following))) for (start, end), following in zip(times, ends, strict=True)]


def _iterations(timeline: Timeline) -> Iterator[Event]:
    budget = timeline.instance.engine.max_num_batched_tokens
    clipped = _clipped([(beat.start_us, beat.end_us) for beat in timeline.beats])
    for beat, times in zip(timeline.beats, clipped, strict=True):
        tokens = beat.prefill_tokens + beat.decode_tokens
        args = {
            "iteration": beat.index, "duration_ms": ms_from_us(beat.end_us - beat.start_us), "tokens": tokens,
            "prefill_tokens": beat.prefill_tokens, "decode_tokens": beat.decode_tokens, "budget": budget,
            "kv_blocks": beat.kv_blocks, "waiting": beat.queued + beat.evicted, "paused": beat.paused,
        }  # fmt: skip
        yield _slice(f"{beat.prefill_tokens} + {beat.decode_tokens}", "iteration", ENGINE, 1, times, args)
    starts = {beat.index: beat.start_us for beat in timeline.beats}
    for violation in timeline.violations:
        where = timeline.end_us if violation.iteration is None else starts[violation.iteration]
        yield _instant(f"broken: {violation.rule}", "violation", ENGINE, 1, where, {"message": violation.message})


def _counters(timeline: Timeline) -> Iterator[Event]:
    prefill = exact_line(timeline, lambda beat: beat.prefill_tokens)
    decode = exact_line(timeline, lambda beat: beat.decode_tokens)
    yield from _counter("tokens", {"prefill": prefill, "decode": decode})
    kv = exact_line(timeline, lambda beat: beat.kv_blocks, lambda beat: beat.kv_kept)
    yield from _counter("KV blocks", {"used": kv})
    queue = ([moment for moment, _ in timeline.queue], [count for _, count in timeline.queue])
    yield from _counter("queue", {"waiting": queue})


def _counter(name: str, series: dict[str, StepLine]) -> Iterator[Event]:
    """Yield one counter; its series have the same moments."""
    moments = next(iter(series.values()))[0]
    for at, moment in enumerate(moments):
        args = {key: values[at] for key, (_, values) in series.items()}
        yield {"ph": "C", "name": name, "pid": ENGINE, "tid": 0, "ts": moment, "args": args}


def _request(row: Row, track: int) -> Iterator[Event]:
    clipped = _clipped([(span.start_us, span.end_us) for span in row.spans])
    for span, times in zip(row.spans, clipped, strict=True):
        args: dict[str, Any] = {"duration_ms": ms_from_us(span.duration_us), "kv_tokens": span.computed,
                                "emitted": span.emitted}  # fmt: skip
        if span.kind in WORK:
            args |= {"iteration": span.iteration, "tokens": span.tokens}
        name = f"prefill {span.tokens}" if span.kind is Kind.PREFILL else KIND_WORDS[span.kind]
        yield _slice(name, span.kind.value, REQUESTS, track, times, args)
    for moment in row.evictions:
        yield _instant("evicted", "eviction", REQUESTS, track, moment, {})
