"""A schedule as an interactive plotly figure: hover tells everything about a span, zoom is shared by all panels.

Example
-------
>>> from chunkfront.pages.schedule_figure import schedule_figure
>>> from chunkfront.timeline.build import build_timeline
>>> from heuristics.simulator import simulate
>>> from instances.bundled import load_bundled
>>> instance = load_bundled("utilisation")
>>> figure = schedule_figure(build_timeline(instance, simulate(instance, "static").schedule))
>>> [trace.name for trace in figure.data][:2]
['prefill chunk', 'decode']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from chunkfront.timeline.lines import StepLine, budget_lines, kv_line, state_lines
from chunkfront.timeline.spans import WORK, Kind, Row, Span, Timeline, merged
from chunkfront.timeline.words import (
    KIND_WORDS,
    duration,
    kv_unit,
    short,
    stall_rule,
    stall_words,
    time_unit,
    visible,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROW_PIXELS = 34
PANEL_PIXELS = 110
OTHER_PIXELS = 150
"""Margins, time axis and legend."""
MOST_SPANS = 6000
"""With more spans than this, touching ones of one kind are drawn as one."""
MOST_IDLE = 200
"""Stretches of idleness that are shaded, the longest."""
EDGED_PER_WIDTH = 200
"""Bars have edges up to so many of them in the width of the figure."""
EDGED_STEPS = 400
"""Areas of more steps have no edges, which would hide them."""
LABEL_CHARACTERS = 22
HOVER_CHARACTERS = 60
LOOKS: dict[Kind, dict[str, Any]] = {
    Kind.PREFILL: {"marker": {"color": "#1b4f72", "line": {"color": "black", "width": 0.5}}},
    Kind.DECODE: {"marker": {"color": "#f8c471", "line": {"color": "#7e5109", "width": 0.5}}},
    Kind.EVICTED: {"marker": {"color": "white", "line": {"color": "#922b21", "width": 1},
                   "pattern": {"shape": "x", "fgcolor": "#922b21", "bgcolor": "white"}}},
    Kind.PAUSED: {"offset": -0.2, "width": 0.14,
                  "marker": {"color": "white", "line": {"color": "#595959", "width": 1}}},
    Kind.QUEUED: {"offset": -0.165, "width": 0.07, "marker": {"color": "#999999"}},
}  # fmt: skip
BAR = {"offset": -0.4, "width": 0.54}
"""Where a bar lies from the middle of its row (down is positive), unless it is thinner."""
MIDDLE = -0.13
"""Middle of a bar."""
STATE_COLOURS = {"prefill chunk": "#1b4f72", "decode": "#f8c471", "paused": "#ffffff", "evicted": "#c98880",
                 "queued": "#999999"}  # fmt: skip


def safe(text: str, width: int = HOVER_CHARACTERS) -> str:
    """Return a name that plotly shows as it is: shortened, and none of its characters taken for a tag."""
    return escape(short(text, width), quote=False).replace("$", "&#36;")  # two dollars would be a formula


def schedule_figure(timeline: Timeline) -> Figure:
    """Return a figure of all rows of a timeline, with budget and KV below (and requests by state, if some are hidden).

    Parameters
    ----------
    timeline
        Of a schedule, valid or not.
    """
    from plotly.subplots import make_subplots

    rows = max(2, len(timeline.rows)) * ROW_PIXELS + 20
    heights = [rows, *[PANEL_PIXELS] * (3 if timeline.hidden else 2)]
    figure = make_subplots(len(heights), 1, shared_xaxes=True, row_heights=heights, vertical_spacing=18 / sum(heights))
    unit, size = time_unit(timeline)
    figure.add_traces([*_bars(timeline, size), *_marks(timeline, size)], rows=1, cols=1)
    if timeline.hidden:
        figure.add_traces(_states(timeline, size), rows=2, cols=1)
    budget = len(heights) - 1
    figure.add_traces(_budget(timeline, size, unit), rows=budget, cols=1)
    kv = _area(kv_line(timeline), size, "KV", "#bfbfbf", f"%{{y:,}} {kv_unit(timeline)} from %{{x}} {unit}")
    figure.add_traces([kv], rows=budget + 1, cols=1)
    engine = timeline.instance.engine
    limits = ((budget, "budget", engine.max_num_batched_tokens), (budget + 1, "pool", engine.num_kv_blocks))
    for row, name, limit in limits:
        if limit is not None:
            line = {"dash": "dash", "width": 1}
            figure.add_hline(limit, row=row, col=1, line=line, annotation_text=f"{name} {limit:,}")
    _axes(figure, timeline, unit, size)
    _layout(figure, timeline, size, sum(heights) + OTHER_PIXELS)
    return figure


def _axes(figure: Any, timeline: Timeline, unit: str, size: int) -> None:
    labels = [safe(row.request.id, LABEL_CHARACTERS) for row in timeline.rows]
    figure.update_yaxes(row=1, tickvals=list(range(len(labels))), ticktext=labels, range=[len(labels) - 0.4, -0.75],
                        showgrid=False, zeroline=False, fixedrange=True, automargin=True)  # fmt: skip
    last = 4 if timeline.hidden else 3
    for row, title in ((last - 1, "tokens per<br>iteration"), (last, f"KV<br>({kv_unit(timeline)})")):
        figure.update_yaxes(row=row, title_text=title, rangemode="tozero", fixedrange=True, automargin=True)
    if timeline.hidden:
        figure.update_yaxes(row=2, title_text="all<br>requests", rangemode="tozero", fixedrange=True)
    figure.update_xaxes(range=[timeline.start_us / size, timeline.end_us / size])
    figure.update_xaxes(row=last, title={"text": f"time ({unit})", "standoff": 14})


def _layout(figure: Any, timeline: Timeline, size: int, height: int) -> None:
    idle = sorted(timeline.idle(), key=lambda span: span[0] - span[1])[:MOST_IDLE]
    shapes = [{"type": "rect", "xref": "x", "yref": "paper", "x0": start / size, "x1": end / size, "y0": 0, "y1": 1,
               "fillcolor": "#eeeeee", "line": {"width": 0}, "layer": "below"} for start, end in idle]  # fmt: skip
    figure.update_layout(
        template="none", barmode="overlay", height=height, hovermode="closest", dragmode="zoom",
        margin={"l": 60, "r": 70, "t": 50, "b": 60}, font={"size": 12}, legend={"orientation": "h", "x": 0,
        "y": 1, "yanchor": "bottom"}, shapes=[*figure.layout.shapes, *shapes],
    )  # fmt: skip


def _bars(timeline: Timeline, size: int) -> Iterator[Any]:
    from plotly.graph_objects import Bar

    many = sum(len(row.spans) for row in timeline.rows) > MOST_SPANS
    drawn = [(at, row, span) for at, row in enumerate(timeline.rows)
             for span in (merged(row.spans) if many else row.spans)]  # fmt: skip
    for kind in LOOKS:
        spans = [(at, row, span) for at, row, span in drawn if span.kind is kind]
        if not spans:
            continue
        looks: dict[str, Any] = {**BAR, **LOOKS[kind]}
        if kind in WORK and _narrow([span for _, _, span in spans], timeline):  # edges would hide the faces
            looks = {**looks, "marker": {**looks["marker"], "line": {"width": 0}}}
        yield Bar(
            name=KIND_WORDS[kind], orientation="h", y=[at for at, _, _ in spans],
            base=[span.start_us / size for *_, span in spans], x=[span.duration_us / size for *_, span in spans],
            hovertext=[_hover(row, span) for _, row, span in spans], hoverinfo="text",
            text=[str(span.tokens) if kind is Kind.PREFILL else "" for *_, span in spans], textposition="inside",
            insidetextanchor="middle", textangle=0, constraintext="both", **looks,
        )  # fmt: skip


def _narrow(spans: Sequence[Span], timeline: Timeline) -> bool:
    """Return whether spans are on average too narrow for an edge, before any zoom."""
    mean = sum(span.duration_us for span in spans) / len(spans)
    return mean * EDGED_PER_WIDTH < timeline.end_us - timeline.start_us


def _hover(row: Row, span: Span) -> str:
    """Return all about a span, for the pointer over it."""
    when = f"{span.start_us / 1000:g} to {span.end_us / 1000:g} ms ({duration(span.duration_us)})"
    lines = [f"<b>{safe(row.request.id)}</b>: {KIND_WORDS[span.kind]}", when]
    if span.kind in WORK:
        lines.append(f"iteration {span.iteration}, {span.tokens:,} token{'s' * (span.tokens != 1)}")
    lines.append(f"then {span.computed:,} KV tokens, {span.emitted} of {row.request.output_tokens} tokens emitted")
    return "<br>".join(lines)


def _marks(timeline: Timeline, size: int) -> Iterator[Any]:
    """Yield brackets of stalls, crosses of evictions, triangles where rules are broken."""
    from plotly.graph_objects import Scatter

    places = {row.request.id: at for at, row in enumerate(timeline.rows)}
    if timeline.stalls:
        xs: list[float | None] = []
        ys: list[float | None] = []
        for gap in timeline.stalls:
            y = places[gap.request] + 0.36
            xs += [max(gap.start_us, timeline.start_us) / size, gap.end_us / size, None]
            ys += [y, y, None]
        words = [stall_words(gap) for gap in timeline.stalls]
        yield Scatter(x=xs, y=ys, mode="lines+markers", name=stall_rule(timeline),
                      marker={"symbol": "line-ns-open", "size": 8, "color": "black"},
                      hovertext=[text for word in words for text in (word, word, "")],
                      line={"color": "black", "width": 1.5},
                      hovertemplate="gap of %{hovertext}<extra></extra>")  # fmt: skip
        # a trace of their own: plotly mixes up texts of which some are empty when it draws anew
        yield Scatter(x=xs[1::3], y=ys[1::3], mode="text", text=[f" {word}" for word in words], showlegend=False,
                      textposition="middle right", textfont={"size": 10}, cliponaxis=False, hoverinfo="skip",
                      name="length of stalls")  # fmt: skip
    evicted = [(moment / size, at + MIDDLE) for at, row in enumerate(timeline.rows) for moment in row.evictions]
    if evicted:
        marker = {"symbol": "x", "size": 9, "color": "#922b21"}
        yield Scatter(x=[x for x, _ in evicted], y=[y for _, y in evicted], mode="markers", showlegend=False,
                      marker=marker, hovertemplate="evicted at %{x}<extra></extra>")  # fmt: skip
    starts = {beat.index: beat.start_us for beat in timeline.beats}
    broken = [v for v in timeline.violations if v.iteration in starts]
    if broken:
        yield Scatter(x=[starts[v.iteration] / size for v in broken if v.iteration is not None], y=[-0.6] * len(broken),
                      mode="markers", name="broken rule", hoverinfo="text", hovertext=[
                      f"{v.rule}: {escape(visible(v.message), quote=False)}" for v in broken],
                      marker={"symbol": "triangle-down", "size": 12, "color": "black"})  # fmt: skip


def _area(line: StepLine, size: int, name: str, colour: str, hover: str) -> Any:
    from plotly.graph_objects import Scatter

    width = 1 if len(line[0]) <= EDGED_STEPS else 0
    return Scatter(x=[moment / size for moment in line[0]], y=line[1], mode="lines", name=name, showlegend=False,
                   line={"shape": "hv", "width": width, "color": "#404040"}, fill="tozeroy", fillcolor=colour,
                   hovertemplate=f"{hover}<extra></extra>")  # fmt: skip


def _budget(timeline: Timeline, size: int, unit: str) -> list[Any]:
    lines = budget_lines(timeline)
    return [
        _area(lines["all"], size, "tokens", "#f8c471", f"%{{y:,}} tokens from %{{x}} {unit}"),
        _area(lines["prefill"], size, "prefill", "#1b4f72", f"%{{y:,}} of them prefill, from %{{x}} {unit}"),
    ]


def _states(timeline: Timeline, size: int) -> list[Any]:
    below: dict[int, int] = {}
    traces = []
    lines = state_lines(timeline)
    for words, line in lines.items():
        counts = [value - below.get(moment, 0) for moment, value in zip(*line, strict=True)]
        below = dict(zip(*line, strict=True))
        trace = _area(line, size, words, STATE_COLOURS[words], f"%{{text}} {words}")
        traces.append(trace.update(text=[str(count) for count in counts]))
    return traces[::-1]  # the highest first, the lower ones cover it
