"""Time divided into columns of characters, and what each column shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from chunkfront.timeline.lines import StepLine
from chunkfront.timeline.spans import Kind, Row

IMPORTANCE = (Kind.PREFILL, Kind.EVICTED, Kind.DECODE, Kind.PAUSED, Kind.QUEUED)
"""Which of two kinds that fill as much of a column is shown."""


@dataclass(frozen=True)
class Columns:
    """`count` columns of equal width over ``[start_us, end_us)``."""

    start_us: int
    end_us: int
    count: int

    def at(self, moment_us: int) -> int:
        """Return the column that holds a moment; the first or last one for moments outside."""
        column = (moment_us - self.start_us) * self.count // (self.end_us - self.start_us)
        return min(max(column, 0), self.count - 1)

    def edge(self, column: int) -> int:
        """Return where a column begins, in µs."""
        return self.start_us + -(-column * (self.end_us - self.start_us) // self.count)


def kind_per_column(row: Row, columns: Columns) -> list[Kind | None]:
    """Return what a request does in most of each column; None before its arrival and after its end.

    An eviction or a chunk of prefill shorter than a column still shows in the column where it begins, an eviction
    before a chunk.
    """
    filled: list[Counter[Kind]] = [Counter() for _ in range(columns.count)]
    rare: dict[int, Kind] = {}
    for span in row.spans:
        first, last = columns.at(span.start_us), columns.at(max(span.start_us, span.end_us - 1))
        for column in range(first, last + 1):
            start, end = max(span.start_us, columns.edge(column)), min(span.end_us, columns.edge(column + 1))
            filled[column][span.kind] += max(0, end - start)
        if span.kind is Kind.EVICTED:
            rare[first] = span.kind
        elif span.kind is Kind.PREFILL:
            rare.setdefault(first, span.kind)
    shown: list[Kind | None] = []
    for share in filled:
        present = [kind for kind in IMPORTANCE if share[kind] > 0]
        shown.append(max(present, key=lambda kind: share[kind], default=None))
    for column, kind in rare.items():
        if kind not in shown[max(0, column - 1) : column + 2]:
            shown[column] = kind
    return shown


def height_marks(line: StepLine, columns: Columns, full: int, levels: str) -> str:
    """Return one character per column for the largest amount in it; `levels` go from nothing to `full`.

    Amounts above 0 always show; those above `full` (an invalid schedule) as the highest level.
    """
    peaks = [0] * columns.count
    ends = [*line[0][1:], columns.end_us]
    for start, end, value in zip(line[0], ends, line[1], strict=True):
        for column in range(columns.at(start), columns.at(max(start, end - 1)) + 1):
            peaks[column] = max(peaks[column], value)
    top = len(levels) - 1
    return "".join(levels[min(top, -(-value * top // full))] if value and full else levels[0] for value in peaks)
