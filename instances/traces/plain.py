"""Plain CSV: the fields of a request (model.md §1) as columns.

``arrival_ms``, ``prompt_tokens`` and ``output_tokens`` must be there; ``id``, ``max_output_tokens``,
``cached_tokens``, ``priority``, ``weight``, ``ttft_slo_ms``, ``tbt_slo_ms``, ``e2e_slo_ms`` and ``class`` may be, and
an empty cell means the default. Any other column is an error, for a misspelt one would change the problem in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from instances.errors import InputError
from instances.request import Request
from instances.traces.cells import NS_PER_MS, NS_PER_US, count, time_ns
from instances.traces.table import TableRow, place, read_table
from instances.traces.trace import TraceRow

COLUMNS = ("arrival_ms", "prompt_tokens", "output_tokens")


def rows(text: str) -> Iterator[TraceRow]:
    """Yield the rows of a file, in its order."""
    arrival, prompt, output = COLUMNS
    lines: dict[str, int] = {}
    for row in read_table(text, COLUMNS, tuple(OPTIONAL), closed=True):
        name = row.text("id")
        if name and lines.setdefault(name, row.line) != row.line:
            what = f"a unique id (line {lines[name]} has it too)"
            raise InputError.expected(what, name, place(row.line, row.number, "id"))
        found = TraceRow(
            line=row.line,
            arrival_ns=row.value(arrival, lambda cell: time_ns(cell, NS_PER_MS)),
            prompt_tokens=row.value(prompt, count),
            output_tokens=row.value(output, count),
            fields=_fields(row),
        )
        if found.prompt_tokens and found.output_tokens:  # zeros are judged with those of the other formats
            _check(found, row)
        yield found


def _fields(row: TableRow) -> dict[str, Any]:
    return {ours: row.value(column, parse) for column, (ours, parse) in OPTIONAL.items() if row.text(column)}


def _check(found: TraceRow, row: TableRow) -> None:
    """Refuse what no request may have (cached_tokens >= prompt_tokens, a weight of 0, ...)."""
    try:
        Request(**{"id": "-", **found.fields}, prompt_tokens=found.prompt_tokens, output_tokens=found.output_tokens)
    except InputError as error:
        raise InputError(f"{error.field}: {error.message}", field=f"line {row.line} (row {row.number})") from None


def _integer(text: str) -> int:
    return -count(text[1:]) if text.startswith("-") else count(text)


def _time_us(text: str) -> int:
    nanoseconds = time_ns(text, NS_PER_MS)
    if nanoseconds % NS_PER_US:
        raise InputError.expected("a time in ms with at most 3 decimals", text, "")
    if not nanoseconds:
        raise InputError.expected("a time in ms > 0", text, "")
    return nanoseconds // NS_PER_US


OPTIONAL: dict[str, tuple[str, Callable[[str], Any]]] = {
    "id": ("id", str),
    "max_output_tokens": ("max_output_tokens", count),
    "cached_tokens": ("cached_tokens", count),
    "priority": ("priority", _integer),
    "weight": ("weight", count),
    "ttft_slo_ms": ("ttft_slo_us", _time_us),
    "tbt_slo_ms": ("tbt_slo_us", _time_us),
    "e2e_slo_ms": ("e2e_slo_us", _time_us),
    "class": ("group", str),
}
"""Column -> field of `Request`, and how its cell is read."""
