"""Reading a trace file: strict unless told otherwise, and never silent about what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from instances.errors import InputError, in_file
from instances.files import read_text
from instances.traces import azure, burstgpt, mooncake, plain
from instances.traces.cells import NS_PER_S
from instances.traces.table import place
from instances.traces.trace import Trace, TraceRow


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: how its rows are read, and the names of its three columns."""

    rows: Callable[[str], Iterator[TraceRow]]
    columns: tuple[str, str, str]
    finish: Callable[[Sequence[TraceRow]], Sequence[TraceRow]] | None = None


FORMATS = {
    "azure": Format(azure.rows, azure.COLUMNS),
    "mooncake": Format(mooncake.rows, mooncake.COLUMNS, mooncake.with_prefix_hits),
    "burstgpt": Format(burstgpt.rows, burstgpt.COLUMNS),
    "csv": Format(plain.rows, plain.COLUMNS),
}
"""The formats, by the name that ``--format`` takes."""


def read_trace(path: Path | str, format: str, *, sort: bool = False, drop_zeros: bool = False) -> Trace:
    """Return the trace in a file.

    Parameters
    ----------
    path
        The file, UTF-8.
    format
        ``azure``, ``mooncake``, ``burstgpt`` or ``csv``; see the module of that name (``plain`` for csv).
    sort
        Put rows that are out of order into order of arrival, with a notice; otherwise they are an error. Equal
        arrivals keep the order of the file either way.
    drop_zeros
        Leave out rows with no prompt or no output tokens, counted in a notice; otherwise they are an error.

    Raises
    ------
    InputError
        Naming file, line and column; "no requests" for a file without any.
    """
    if format not in FORMATS:
        raise InputError.expected(f"one of {', '.join(FORMATS)}", format, "format")
    kind = FORMATS[format]
    with in_file(str(path)):
        found = list(kind.rows(read_text(path)))
        if not found:
            raise InputError("no requests: the file has no rows")
        kept = _without_zeros(found, kind, drop=drop_zeros)
        ordered = _in_order(kept, found, kind, sort=sort)
    dropped, moved = len(found) - len(kept), ordered != kept
    notices = []
    if dropped:
        notices.append(f"{dropped} of {len(found)} rows without prompt or output tokens dropped, {len(kept)} kept")
    if moved:
        notices.append("rows were out of order: sorted by arrival")
    rows = tuple(kind.finish(ordered) if kind.finish else ordered)
    return Trace(str(path), format, rows, len(found), dropped, tuple(notices))


def _without_zeros(found: list[TraceRow], kind: Format, *, drop: bool) -> list[TraceRow]:
    for number, row in enumerate(found, start=1):
        if not drop and not (row.prompt_tokens and row.output_tokens):
            column = kind.columns[1] if not row.prompt_tokens else kind.columns[2]
            raise InputError("expected at least 1, got 0 (--drop-zeros leaves such rows out)",
                             field=place(row.line, number, column))
    kept = [row for row in found if row.prompt_tokens and row.output_tokens]
    if not kept:
        raise InputError(f"no requests: all {len(found)} rows have no prompt or no output tokens")
    return kept


def _in_order(kept: list[TraceRow], found: list[TraceRow], kind: Format, *, sort: bool) -> list[TraceRow]:
    if sort:
        return sorted(kept, key=lambda row: row.arrival_ns)
    for before, row in pairwise(kept):
        if row.arrival_ns < before.arrival_ns:
            number = next(i for i, other in enumerate(found, start=1) if other is row)
            early = (before.arrival_ns - row.arrival_ns) / NS_PER_S
            message = f"arrives {early} s before the row of line {before.line} above it (--sort puts rows in order)"
            raise InputError(message, field=place(row.line, number, kind.columns[0]))
    return kept
