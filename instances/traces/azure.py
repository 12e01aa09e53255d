"""Azure LLM inference traces 2023 (Azure/AzurePublicDataset, CC BY 4.0): CSV with absolute times.

Columns ``TIMESTAMP`` (``2023-11-16 18:17:03.9799600``: seven decimals; one to nine are read), ``ContextTokens``
(the prompt) and ``GeneratedTokens`` (the output). The files have CRLF and no end on the last line.
"""

from __future__ import annotations

from collections.abc import Iterator

from instances.traces.cells import count, stamp_ns
from instances.traces.table import read_table
from instances.traces.trace import TraceRow

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def rows(text: str) -> Iterator[TraceRow]:
    """Yield the rows of a file, in its order."""
    arrival, prompt, output = COLUMNS
    for row in read_table(text, COLUMNS):
        yield TraceRow(row.line, row.value(arrival, stamp_ns), row.value(prompt, count), row.value(output, count))
