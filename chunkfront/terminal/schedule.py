"""A schedule in the terminal: a row of characters per request, budget and KV below, from 40 columns on."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from chunkfront.terminal.columns import Columns, height_marks, kind_per_column
from chunkfront.timeline.lines import budget_lines, kv_line, queue_line
from chunkfront.timeline.spans import WORK, Kind, Row, Timeline
from chunkfront.timeline.words import (
    KIND_WORDS,
    choice_sentence,
    duration,
    headline,
    kv_unit,
    short,
    stall_rule,
    stall_words,
    time_unit,
    violation_lines,
)

STYLES = {
    Kind.QUEUED: "dim",
    Kind.PREFILL: "bold blue",
    Kind.DECODE: "yellow",
    Kind.PAUSED: "dim",
    Kind.EVICTED: "red",
}
LEAST_WIDTH = 40
WIDE_FROM = 110
"""From this width on a row ends with the request's figures."""
FIGURES = ("TTFT", "worst gap", "E2E")
FIGURE_WIDTH = 11
ROOM = 3
"""Iterations of more columns than this are told apart."""
LABEL_SHARE = 5
"""A label takes at most a fifth of the width."""


@dataclass(frozen=True)
class Glyphs:
    """The characters of a picture; letters where the terminal has no more."""

    kinds: dict[Kind, str]
    starts: dict[Kind, str]
    levels: str
    left: str
    line: str
    middle: str
    right: str
    broken: str


UNICODE = Glyphs(
    {Kind.QUEUED: "·", Kind.PREFILL: "█", Kind.DECODE: "▒", Kind.PAUSED: "-", Kind.EVICTED: "x"},
    {Kind.PREFILL: "▐", Kind.DECODE: "│"}, " ▁▂▃▄▅▆▇█", "├", "─", "┼", "┤", "▼",
)  # fmt: skip
ASCII = Glyphs(
    {Kind.QUEUED: ".", Kind.PREFILL: "#", Kind.DECODE: "=", Kind.PAUSED: "-", Kind.EVICTED: "x"},
    {Kind.PREFILL: "|", Kind.DECODE: "|"}, " .:-=+*#@", "|", "_", "|", "|", "v",
)  # fmt: skip


def schedule_lines(timeline: Timeline, width: int, *, ascii_only: bool = False) -> list[Text]:
    """Return the picture of a timeline, line by line.

    Parameters
    ----------
    timeline
        Of a schedule, valid or not.
    width
        Columns of the terminal; at least 40 are used.
    ascii_only
        Whether the terminal shows nothing but ASCII.
    """
    width = max(width, LEAST_WIDTH)
    glyphs = ASCII if ascii_only else UNICODE
    picture = _Picture(timeline, width, glyphs)
    lines = [Text(line, style="bold" if at == 0 else "") for at, line in enumerate(_headlines(timeline))]
    lines += [Text(line, style="red") for line in violation_lines(timeline.violations)]
    lines += [Text(), picture.axis(), picture.ruler()]
    for row in timeline.rows:
        lines.append(picture.row(row))
        lines += picture.stalls(row)
    return [*lines, Text(), *picture.amounts(), Text(), *picture.legend()]


def _headlines(timeline: Timeline) -> list[str]:
    return [headline(timeline), *filter(None, [choice_sentence(timeline)])]


class _Picture:
    """The parts of a picture, all laid out alike: label, columns of time, figures."""

    def __init__(self, timeline: Timeline, width: int, glyphs: Glyphs) -> None:
        self.timeline, self.glyphs = timeline, glyphs
        self.width, self.wide = width, width >= WIDE_FROM
        names = [short(row.request.id, width // LABEL_SHARE) for row in timeline.rows]
        self.label_width = max(6, *(cell_len(name) for name in names))
        room = width - self.label_width - 2 - (len(FIGURES) * FIGURE_WIDTH if self.wide else 0)
        self.columns = Columns(timeline.start_us, timeline.end_us, room)
        self.name_width = width // LABEL_SHARE

    def line(self, label: str, body: Text | str, tail: str = "") -> Text:
        """Return a whole line from its parts; the label is padded, the tail set to the right."""
        pad = " " * (self.label_width - cell_len(label))
        return Text.assemble(label + pad + " ", body, tail)

    def axis(self) -> Text:
        """Return the figures of the time axis: its start, middle and end."""
        unit, size = time_unit(self.timeline)
        count = self.columns.count
        start, end = self.timeline.start_us / size, self.timeline.end_us / size
        first, middle, last = f"{start:g}", f"{(start + end) / 2:.5g}", f"{end:.6g} {unit}"
        cells = [" "] * count
        for text, at in ((middle, count // 2), (first, 0), (last, count - len(last))):
            cells[at : at + len(text)] = text
        heads = "".join(head.rjust(FIGURE_WIDTH) for head in FIGURES) if self.wide else ""
        return self.line("", "".join(cells)[:count], heads)

    def ruler(self) -> Text:
        """Return the line under the time axis, with a mark wherever an iteration breaks a rule."""
        count = self.columns.count
        cells = [self.glyphs.line] * count
        cells[0], cells[count // 2], cells[-1] = self.glyphs.left, self.glyphs.middle, self.glyphs.right
        ruler = Text("".join(cells), style="dim")
        broken = {v.iteration for v in self.timeline.violations}
        for beat in self.timeline.beats:
            if beat.index in broken:
                at = self.columns.at(beat.start_us)
                ruler = Text.assemble(ruler[:at], (self.glyphs.broken, "bold red"), ruler[at + 1 :])
        return self.line("", ruler)

    def row(self, row: Row) -> Text:
        """Return what one request does."""
        body = Text()
        kinds = kind_per_column(row, self.columns)
        cells = [" " if kind is None else self.glyphs.kinds[kind] for kind in kinds]
        self._mark_iterations(cells, row)
        for kind, cell in zip(kinds, cells, strict=True):
            body.append(cell, None if kind is None else STYLES[kind])
        figures = [row.ttft_us, row.worst_gap_us if row.gaps else None, row.e2e_us]
        tail = "".join(("-" if us is None else duration(us)).rjust(FIGURE_WIDTH) for us in figures)
        return self.line(short(row.request.id, self.name_width), body, tail if self.wide else "")

    def _mark_iterations(self, cells: list[str], row: Row) -> None:
        """Mark where chunks and decodes begin, and write the tokens of a chunk into it, where there is room."""
        for span in row.spans:
            first, last = self.columns.at(span.start_us), self.columns.at(span.end_us - 1)
            if span.kind not in WORK or last - first < ROOM or cells[first] != self.glyphs.kinds[span.kind]:
                continue
            cells[first] = self.glyphs.starts[span.kind]
            text = f" {span.tokens} "
            if span.kind is Kind.PREFILL and len(text) + 2 <= last - first:
                at = (first + last + 1 - len(text)) // 2 + 1
                cells[at : at + len(text)] = text

    def stalls(self, row: Row) -> list[Text]:
        """Return the line of brackets under a request's marked gaps, if there are any."""
        marked = [gap for gap in self.timeline.stalls if gap.request == row.request.id]
        if not marked:
            return []
        cells = [" "] * self.columns.count
        glyphs, at = self.glyphs, self.columns.at
        ends = [(at(gap.start_us), at(max(gap.start_us, gap.end_us - 1))) for gap in marked]
        for start, end in ends:
            bracket = glyphs.left + glyphs.line * (end - start - 1) + glyphs.right
            cells[start : end + 1] = bracket if end > start else glyphs.right
        for gap, (start, end) in zip(marked, ends, strict=True):
            self._length(cells, f" {stall_words(gap)} ", start, end)
        return [self.line("", Text("".join(cells)))]

    def _length(self, cells: list[str], text: str, start: int, end: int) -> None:
        """Write the length of a gap into its bracket, else behind it, else before it, where that is free."""
        middle = (start + end + 1 - len(text)) // 2
        places = [(middle, self.glyphs.line), (end + 1, " "), (start - len(text), " ")]
        for at, free in places:
            if at >= 0 and cells[at : at + len(text)] == [free] * len(text):
                cells[at : at + len(text)] = text
                return

    def amounts(self) -> list[Text]:
        """Return budget use, KV and (of a large schedule) the queue as characters, each with its peak and limit."""
        engine = self.timeline.instance.engine
        panels = [
            ("tokens", "per iteration", budget_lines(self.timeline)["all"], engine.max_num_batched_tokens),
            ("KV", kv_unit(self.timeline), kv_line(self.timeline), engine.num_kv_blocks),
        ]
        if self.timeline.hidden:
            panels.append(("queue", "requests that wait", queue_line(self.timeline), 0))
        found = []
        for label, unit, line, limit in panels:
            peak = max(line[1])
            marks = height_marks(line, self.columns, limit or peak, self.glyphs.levels)
            of = ", no limit" if limit is None else f", limit {limit:,}" if limit else ""
            caption = f"peak {peak:,} {unit}{of}"
            indent = max(0, min(self.label_width + 1, self.width - len(caption)))
            found += [self.line(label, Text(marks, style="cyan")), Text(" " * indent + caption)]
        return found

    def legend(self) -> list[Text]:
        """Return what the characters mean."""
        present = {span.kind for row in self.timeline.rows for span in row.spans}
        lines = [Text()]
        for kind, words in KIND_WORDS.items():
            if kind in present:
                if len(lines[-1]) + len(words) + 3 > self.width:
                    lines.append(Text())
                lines[-1].append(self.glyphs.kinds[kind] * 2, STYLES[kind]).append(f" {words}  ")
        if self.timeline.stalls:
            g = self.glyphs
            lines.append(Text(f"{g.left}{g.line}{g.right} {stall_rule(self.timeline)}"))
        idle = sum(end - start for start, end in self.timeline.idle())
        if idle:
            share = idle / (self.timeline.end_us - self.timeline.start_us)
            lines.append(Text(f"engine idle for {duration(idle)} ({share:.0%}): no tokens there"))
        return lines
