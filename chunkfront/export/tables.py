"""A schedule as tables: one row per iteration, per request, per token; CSV and parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from chunkfront.timeline.spans import WORK, Kind, Row, Timeline
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import per_iteration, per_request
from instances.schedule import Schedule
from instances.units import ms_from_us


@dataclass(frozen=True)
class Table:
    """A table of a schedule.

    Parameters
    ----------
    columns
        Names and types of the columns, in order; times are floats in ms.
    rows
        One dict per row with all columns; None where a value is undefined.
    """

    columns: dict[str, type]
    rows: list[dict[str, Any]]


ITERATION_COLUMNS = {
    "iteration": int, "start_ms": float, "end_ms": float, "duration_ms": float, "prefill_tokens": int,
    "decode_tokens": int, "tokens": int, "token_budget": int, "kv_blocks": int, "prefilling": int, "decoding": int,
    "paused": int, "queued": int, "evicted": int, "flops_per_byte": float,
}  # fmt: skip
REQUEST_COLUMNS = {
    "id": str, "class": str, "arrival_ms": float, "prompt_tokens": int, "output_tokens": int, "cached_tokens": int,
    "started_ms": float, "first_token_ms": float, "last_token_ms": float, "ttft_ms": float, "max_tbt_ms": float,
    "tpot_ms": float, "e2e_ms": float, "slo_met": bool, "chunks": int, "evictions": int, "queued_ms": float,
    "paused_ms": float, "evicted_ms": float,
}  # fmt: skip
TOKEN_COLUMNS = {"request": str, "token": int, "time_ms": float, "gap_ms": float, "iteration": int, "phase": str}


def schedule_tables(instance: Instance, schedule: Schedule, timeline: Timeline) -> dict[str, Table]:
    """Return the tables ``iterations``, ``requests`` and ``tokens``.

    Parameters
    ----------
    instance, schedule
        The problem and the answer.
    timeline
        Of both, with a row for every request.
    """
    return {
        "iterations": Table(ITERATION_COLUMNS, list(_iterations(instance, schedule, timeline))),
        "requests": Table(REQUEST_COLUMNS, list(_requests(instance, schedule, timeline))),
        "tokens": Table(TOKEN_COLUMNS, [token for row in timeline.rows for token in _tokens(row)]),
    }


def _iterations(instance: Instance, schedule: Schedule, timeline: Timeline) -> Iterator[dict[str, Any]]:
    for beat, known in zip(timeline.beats, per_iteration(instance, schedule), strict=True):
        more = {
            "iteration": beat.index,
            "end_ms": ms_from_us(beat.end_us),
            "tokens": beat.prefill_tokens + beat.decode_tokens,
            "token_budget": instance.engine.max_num_batched_tokens,
            **{name: getattr(beat, name) for name in ("prefilling", "decoding", "paused", "queued", "evicted")},
        }
        yield {name: (known | more)[name] for name in ITERATION_COLUMNS}


def _requests(instance: Instance, schedule: Schedule, timeline: Timeline) -> Iterator[dict[str, Any]]:
    known = {entry["id"]: entry for entry in per_request(instance, schedule)}
    for row in timeline.rows:
        request, times = row.request, row.token_times
        starts = [span.start_us for span in row.spans if span.kind in WORK]
        first = None if request.starts_in_decode or not times else ms_from_us(times[0])
        more = {
            "arrival_ms": ms_from_us(request.arrival_us),
            **{name: getattr(request, name) for name in ("prompt_tokens", "output_tokens", "cached_tokens")},
            "started_ms": ms_from_us(starts[0]) if starts else None,
            "first_token_ms": first,
            "last_token_ms": ms_from_us(times[-1]) if times else None,
            "chunks": sum(span.kind is Kind.PREFILL for span in row.spans),
            "evictions": len(row.evictions),
            **{f"{kind.value}_ms": _spent_ms(row, kind) for kind in (Kind.QUEUED, Kind.PAUSED, Kind.EVICTED)},
        }
        yield {name: (known[request.id] | more)[name] for name in REQUEST_COLUMNS}


def _spent_ms(row: Row, kind: Kind) -> float:
    return ms_from_us(sum(span.duration_us for span in row.spans if span.kind is kind))


def _tokens(row: Row) -> Iterator[dict[str, Any]]:
    """Yield the tokens that a request emits from time 0 on, numbered from its very first."""
    gaps = {gap.end_us: ms_from_us(gap.length_us) for gap in row.gaps}
    emitted = row.request.emitted_before
    for span in row.spans:
        if span.emitted > emitted:
            emitted = span.emitted
            yield {"request": row.request.id, "token": emitted, "time_ms": ms_from_us(span.end_us),
                   "gap_ms": gaps.get(span.end_us), "iteration": span.iteration, "phase": span.kind.value}  # fmt: skip


def csv_bytes(table: Table) -> bytes:
    """Return a table as CSV in UTF-8: a header, one line per row, nothing where a value is undefined."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table.columns), lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        writer.writerow({name: str(value).lower() if isinstance(value, bool) else value for name, value in row.items()})
    return text.getvalue().encode("utf-8")


def parquet_bytes(table: Table) -> bytes:
    """Return a table as a parquet file with typed columns; an undefined value is null.

    Raises
    ------
    InputError
        Where pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "parquet needs pyarrow, which is not installed: pip install pyarrow, or take csv", field="--to"
        ) from None
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in table.columns.items()])
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(table.rows, schema=schema), out)
    return out.getvalue()


WRITERS: dict[str, Callable[[Table], bytes]] = {"csv": csv_bytes, "parquet": parquet_bytes}
"""Kind of file -> how a table becomes one."""
