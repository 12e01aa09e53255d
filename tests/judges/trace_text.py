"""Traces written in a test: their heads, a few real rows, and how a text is read as a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from instances.traces.read import read_trace
from instances.traces.trace import Trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
B11 = (
    AZURE + "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n"
    "2023-11-16 18:17:04.0781490,110,27"
)
PLAIN = "arrival_ms,prompt_tokens,output_tokens\n"
Reader = Callable[..., Trace]


def reader_in(directory: Path) -> Reader:
    """Return a function that reads a text as a trace file, ``t.csv`` in `directory`."""

    def read(text: str | bytes, format: str = "csv", **options: bool) -> Trace:
        path = directory / "t.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_trace(path, format, **options)

    return read
