"""The document of ``show --json``: the timeline in milliseconds."""

from __future__ import annotations

from typing import Any

from chunkfront.documents import violation_document
from chunkfront.timeline.spans import Beat, Gap, Row, Span, Timeline
from instances.units import ms_from_us


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """Return a timeline as JSON: its rows with their spans, iterations, idle stretches, stalls, violations."""
    return {
        "instance": timeline.instance.name,
        "producer": timeline.producer,
        "valid": not timeline.violations,
        "violations": [violation_document(violation) for violation in timeline.violations],
        "start_ms": ms_from_us(timeline.start_us),
        "end_ms": ms_from_us(timeline.end_us),
        "requests": [_row(row) for row in timeline.rows],
        "hidden_requests": timeline.hidden,
        "iterations": [_beat(beat) for beat in timeline.beats],
        "idle": [{"start_ms": ms_from_us(start), "end_ms": ms_from_us(end)} for start, end in timeline.idle()],
        "stalls": [_gap(gap) for gap in timeline.stalls],
        "queue": [{"from_ms": ms_from_us(moment), "waiting": count} for moment, count in timeline.queue],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "id": row.request.id,
        "ttft_ms": None if row.ttft_us is None else ms_from_us(row.ttft_us),
        "max_tbt_ms": ms_from_us(row.worst_gap_us) if row.gaps else None,
        "e2e_ms": None if row.e2e_us is None else ms_from_us(row.e2e_us),
        "evicted_at_ms": [ms_from_us(moment) for moment in row.evictions],
        "spans": [_span(span) for span in row.spans],
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "kind": span.kind.value,
        "start_ms": ms_from_us(span.start_us),
        "end_ms": ms_from_us(span.end_us),
        "iteration": span.iteration,
        "tokens": span.tokens,
        "kv_tokens": span.computed,
        "emitted": span.emitted,
    }


def _beat(beat: Beat) -> dict[str, Any]:
    return {
        "start_ms": ms_from_us(beat.start_us),
        "end_ms": ms_from_us(beat.end_us),
        "prefill_tokens": beat.prefill_tokens,
        "decode_tokens": beat.decode_tokens,
        "kv_blocks": beat.kv_blocks,
        "prefilling": beat.prefilling,
        "decoding": beat.decoding,
        "paused": beat.paused,
        "queued": beat.queued,
        "evicted": beat.evicted,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {"request": gap.request, "start_ms": ms_from_us(gap.start_us), "end_ms": ms_from_us(gap.end_us)}
