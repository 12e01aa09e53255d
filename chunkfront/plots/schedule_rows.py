"""The rows of a schedule's picture: one per request, kinds of spans told apart without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chunkfront.timeline.spans import WORK, Gap, Kind, Row, Span, Timeline, merged
from chunkfront.timeline.words import short, stall_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND_STYLE: dict[Kind, dict[str, Any]] = {
    Kind.PREFILL: {"facecolor": "#1b4f72", "edgecolor": "black", "linewidth": 0.4},
    Kind.DECODE: {"facecolor": "#f8c471", "edgecolor": "#7e5109", "linewidth": 0.4},
    Kind.PAUSED: {"facecolor": "white", "edgecolor": "0.35", "linewidth": 0.7},
    Kind.QUEUED: {"facecolor": "0.6", "edgecolor": "0.6", "linewidth": 0},
    Kind.EVICTED: {"facecolor": "white", "edgecolor": "#922b21", "hatch": "xxxx", "linewidth": 0.7},
}
EXTENT: dict[Kind, tuple[float, float]] = {
    Kind.PREFILL: (-0.38, 0.56),
    Kind.DECODE: (-0.38, 0.56),
    Kind.EVICTED: (-0.38, 0.56),
    Kind.PAUSED: (-0.17, 0.14),
    Kind.QUEUED: (-0.13, 0.06),
}
"""Lower edge and height of a span, from the middle of its row (rows are 1 high, down is positive)."""
BRACKET = 0.36
"""Where the bracket of a stall lies below the middle of the row."""
EDGED_INCHES = 0.05
"""Chunks and decodes narrower than this (on average) have no edges."""
MOST_SPANS = 3000
"""With more spans than this, touching ones of one kind are drawn as one."""
LABEL_CHARACTERS = 18
AXES_SHARE = 0.85
"""Share of the figure's width that the axes take, for judging whether a text fits."""
CHARACTER_INCHES = 0.075


def draw_rows(axes: Axes, timeline: Timeline, size: int, width: float) -> None:
    """Draw all rows, their stalls and their labels; `size` is µs per unit of the time axis, `width` in inches."""
    per_inch = inches(timeline, width)
    many = sum(len(row.spans) for row in timeline.rows) > MOST_SPANS
    for at, row in enumerate(timeline.rows):
        spans = merged(row.spans) if many else list(row.spans)
        _bars(axes, spans, at, size, per_inch)
        _chunk_sizes(axes, spans, at, size, per_inch)
        for moment in row.evictions:
            axes.plot([moment / size], [at - 0.1], marker="X", color="#922b21", markeredgecolor="white", markersize=8,
                      zorder=5)  # fmt: skip
    rows = {row.request.id: at for at, row in enumerate(timeline.rows)}
    written: dict[str, float] = {}
    for gap in timeline.stalls:
        _stall(axes, gap, rows[gap.request], size, per_inch, timeline, written)
    axes.set_ylim(max(3, len(timeline.rows)) - 0.4, -0.6)
    labels = [label(row) for row in timeline.rows]
    axes.set_yticks(range(len(labels)), labels, fontsize="x-small", parse_math=False)
    axes.tick_params(axis="y", length=0)


def inches(timeline: Timeline, width: float) -> float:
    """Return about how many µs one inch shows in a figure that is `width` inches wide."""
    return (timeline.end_us - timeline.start_us) / (width * AXES_SHARE)


def label(row: Row) -> str:
    """Return the label of a row: its name, prompt and output tokens."""
    request = row.request
    return f"{short(request.id, LABEL_CHARACTERS)}\n{request.prompt_tokens:,} + {request.output_tokens:,}"


def _bars(axes: Axes, spans: list[Span], at: int, size: int, per_inch: float) -> None:
    for kind, style in KIND_STYLE.items():
        drawn = [span for span in spans if span.kind is kind]
        if not drawn:
            continue
        low, height = EXTENT[kind]
        narrow = sum(span.duration_us for span in drawn) < EDGED_INCHES * per_inch * len(drawn)
        ranges = [(span.start_us / size, span.duration_us / size) for span in drawn]
        bars = axes.broken_barh(ranges, (at + low, height), zorder=3 if kind in WORK else 2, **style)
        if narrow and kind in WORK:  # edges would hide the faces
            bars.set(linewidth=0.3, edgecolor="face")


def _chunk_sizes(axes: Axes, spans: list[Span], at: int, size: int, per_inch: float) -> None:
    """Write the tokens of a chunk into its bar where they fit."""
    for span in spans:
        text = str(span.tokens)
        if span.kind is Kind.PREFILL and span.duration_us / per_inch > CHARACTER_INCHES * (len(text) + 1):
            axes.text((span.start_us + span.end_us) / 2 / size, at - 0.1, text, color="white", ha="center", va="center",
                      fontsize="x-small", zorder=4, clip_on=True)  # fmt: skip


def _stall(
    axes: Axes, gap: Gap, at: int, size: int, per_inch: float, timeline: Timeline, written: dict[str, float]
) -> None:
    """Draw a bracket under a gap, and its length where there is room beside the labels before it."""
    start, end = max(gap.start_us, timeline.start_us), gap.end_us
    y = at + BRACKET
    axes.plot([start / size, end / size], [y, y], color="black", linewidth=1.1, marker="|", markersize=5, zorder=5,
              solid_capstyle="butt")  # fmt: skip
    text = stall_words(gap)
    room = CHARACTER_INCHES * len(text) * per_inch
    middle = min(max((start + end) / 2, timeline.start_us + room / 2), timeline.end_us - room / 2)
    if end - start < 1.3 * room:  # beside it
        middle = end + 0.6 * room if end + 1.2 * room < timeline.end_us else start - 0.6 * room
    if middle - room / 2 < written.get(gap.request, float("-inf")):
        return
    written[gap.request] = middle + room / 2
    axes.text(middle / size, y, text, ha="center", va="center", fontsize="x-small", zorder=6,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
