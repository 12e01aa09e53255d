"""BurstGPT (HPMLL/BurstGPT, CC BY 4.0): CSV with times in seconds from midnight of the first day.

Columns ``Timestamp`` (s), ``Request tokens`` and ``Response tokens``; ``Model`` becomes the class of the request
where it is there. ``Total tokens``, ``Log Type`` and the later ``Session ID`` and ``Elapsed time`` are not used.
Failed requests stand in the file with 0 response tokens: refused, or left out and counted with ``drop_zeros``.
"""

from __future__ import annotations

from collections.abc import Iterator

from instances.traces.cells import NS_PER_S, count, time_ns
from instances.traces.table import read_table
from instances.traces.trace import TraceRow

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def rows(text: str) -> Iterator[TraceRow]:
    """Yield the rows of a file, in its order."""
    arrival, prompt, output = COLUMNS
    for row in read_table(text, COLUMNS, ("Model",)):
        model = row.text("Model")
        yield TraceRow(
            line=row.line,
            arrival_ns=row.value(arrival, lambda cell: time_ns(cell, NS_PER_S)),
            prompt_tokens=row.value(prompt, count),
            output_tokens=row.value(output, count),
            fields={"group": model} if model else {},
        )
