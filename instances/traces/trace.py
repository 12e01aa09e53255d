"""A trace: what was read from a file, exactly, with what was said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instances.traces.cells import NS_PER_S


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request of a trace.

    Parameters
    ----------
    line
        Line of the file, from 1.
    arrival_ns
        Arrival in ns, from the origin of the format (see its reader).
    prompt_tokens, output_tokens
        As in `instances.request.Request`.
    fields
        Further fields of `Request`, by name (``cached_tokens``, ``group``, ...).
    blocks
        Ids of the blocks of its prompt, equal where the prefix is equal (Mooncake).
    """

    line: int
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """All requests of a trace file, in order of arrival (equal arrivals in the order of the file).

    Parameters
    ----------
    path, format
        Where it came from.
    rows
        The requests, at least one.
    rows_read
        Rows in the file; ``len(rows) + dropped_zeros``.
    dropped_zeros
        Rows left out for having no prompt or no output tokens.
    notices
        What the user should know, one sentence each.
    """

    path: str
    format: str
    rows: tuple[TraceRow, ...]
    rows_read: int
    dropped_zeros: int = 0
    notices: tuple[str, ...] = ()

    @property
    def origin_ns(self) -> int:
        """Arrival of the first request."""
        return self.rows[0].arrival_ns

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last arrival."""
        return (self.rows[-1].arrival_ns - self.origin_ns) / NS_PER_S
