"""A schedule as a picture: requests as rows over time, budget and KV below; PNG and SVG, readable in grey.

Example
-------
>>> from chunkfront.plots.schedule import draw_schedule
>>> from heuristics.simulator import simulate
>>> from instances.bundled import load_bundled
>>> instance = load_bundled("utilisation")
>>> figure = draw_schedule(instance, simulate(instance, "static").schedule)
>>> len(figure.axes)
3
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from chunkfront.plots.files import new_figure
from chunkfront.plots.schedule_rows import CHARACTER_INCHES, KIND_STYLE, draw_rows, inches
from chunkfront.timeline.build import build_timeline
from chunkfront.timeline.lines import StepLine, budget_lines, kv_line, state_lines
from chunkfront.timeline.spans import Kind, Timeline
from chunkfront.timeline.words import (
    KIND_WORDS,
    broken_moments,
    choice_sentence,
    headline,
    kv_unit,
    stall_rule,
    time_unit,
    violation_lines,
)
from instances.instance import Instance
from instances.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 10.0
ROW_HEIGHT = 0.42
PANEL_HEIGHT = 0.95
TITLE_CHARACTERS = 125
MOST_COUNTS = 300
"""Iterations whose tokens may be written; with more there is no room."""
EDGED_STEPS = 400
"""Areas of more steps have no edges."""
FAR_LIMIT = 5
"""A limit above so many times the peak is named, not drawn: it would press the curve flat."""
STATES = {words: kind for kind, words in KIND_WORDS.items()}


def draw_schedule(instance: Instance, schedule: Schedule, *, stall_ms: float | None = None) -> Figure:
    """Return a picture of a schedule, valid or not.

    Parameters
    ----------
    instance, schedule
        The problem and the answer.
    stall_ms
        Mark gaps between tokens above this; by default those above the TBT SLOs, and the longest.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    stall_us = None if stall_ms is None else round(stall_ms * 1000)
    return plot_timeline(build_timeline(instance, schedule, stall_us=stall_us))


def plot_timeline(timeline: Timeline) -> Figure:
    """Return a figure with the rows of a timeline, then requests by state (where not all have a row), budget, KV."""
    heights = [max(3, len(timeline.rows)) * ROW_HEIGHT, PANEL_HEIGHT, PANEL_HEIGHT]
    if timeline.hidden:
        heights.insert(1, 1.6 * PANEL_HEIGHT)
    title = _title(timeline)
    figure = new_figure(WIDTH, sum(heights) + 1.1 + 0.17 * title.count("\n"))
    panels = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    rows, *states, budget, kv = panels
    unit, size = time_unit(timeline)
    rows.set_xlim(timeline.start_us / size, timeline.end_us / size)
    for axes in panels:
        axes.tick_params(labelsize="small")
        _idle(axes, timeline, size)
    draw_rows(rows, timeline, size, figure.get_figwidth())
    if states:
        _states(states[0], timeline, size)
    _budget(budget, timeline, size)
    _limit(kv, timeline.instance.engine.num_kv_blocks, _area(kv, kv_line(timeline), size, "0.75"), "pool")
    kv.set_ylabel(f"KV\n({kv_unit(timeline)})", fontsize="small")
    for moment in broken_moments(timeline):
        rows.plot([moment / size], [1.0], "v", color="black", markersize=7, transform=rows.get_xaxis_transform(),
                  clip_on=False, zorder=8)  # fmt: skip
    rows.set_title(title, loc="left", fontsize="small", parse_math=False)
    rows.set_ylabel("request\n(prompt + output)", fontsize="small")
    kv.set_xlabel(f"time ({unit})", fontsize="small")
    _legend(figure, timeline)
    return figure


def _title(timeline: Timeline) -> str:
    lines = [headline(timeline)]
    lines += filter(None, [choice_sentence(timeline)])
    lines += [f"▼ {line}" if at == 0 else line for at, line in enumerate(violation_lines(timeline.violations))]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, TITLE_CHARACTERS))


def _idle(axes: Axes, timeline: Timeline, size: int) -> None:
    for start, end in timeline.idle():
        axes.axvspan(start / size, end / size, facecolor="0.95", edgecolor="0.75", hatch="..", linewidth=0, zorder=0)


def _area(axes: Axes, line: StepLine, size: int, colour: str, **style: Any) -> int:
    """Draw a step line as an area down to 0; return its peak."""
    times, values = [moment / size for moment in line[0]], line[1]
    edge = 0.5 if len(times) <= EDGED_STEPS else 0  # the edges of too many steps would hide the area
    axes.fill_between(times, values, step="post", facecolor=colour, edgecolor="0.25", linewidth=edge, **style)
    return max(values)


def _states(axes: Axes, timeline: Timeline, size: int) -> None:
    lines = state_lines(timeline)
    for at, (words, line) in enumerate(reversed(lines.items())):  # the highest first, the lower ones cover it
        style = KIND_STYLE[STATES[words]]
        _area(axes, line, size, style["facecolor"], hatch=style.get("hatch"), zorder=1 + at)
    axes.set_ylim(0, None)
    axes.set_ylabel("all\nrequests", fontsize="small")


def _budget(axes: Axes, timeline: Timeline, size: int) -> None:
    lines = budget_lines(timeline)
    peak = _area(axes, lines["all"], size, KIND_STYLE[Kind.DECODE]["facecolor"], zorder=1)
    _area(axes, lines["prefill"], size, KIND_STYLE[Kind.PREFILL]["facecolor"], zorder=2)
    _limit(axes, timeline.instance.engine.max_num_batched_tokens, peak, "budget")
    _counts(axes, timeline, size)
    axes.set_ylabel("tokens per\niteration", fontsize="small")


def _counts(axes: Axes, timeline: Timeline, size: int) -> None:
    """Write "prefill + decode" tokens over each iteration where they fit; decodes alone are a thin line."""
    per_inch = inches(timeline, WIDTH)
    for beat in timeline.beats[:MOST_COUNTS]:
        parts = [str(tokens) for tokens in (beat.prefill_tokens, beat.decode_tokens) if tokens]
        text = " + ".join(parts)
        if (beat.end_us - beat.start_us) / per_inch > CHARACTER_INCHES * (len(text) + 1):
            top = beat.prefill_tokens + beat.decode_tokens
            axes.annotate(text, ((beat.start_us + beat.end_us) / 2 / size, top), xytext=(0, 1.5), zorder=5,
                          textcoords="offset points", ha="center", va="bottom", fontsize="x-small",
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8})  # fmt: skip


def _limit(axes: Axes, limit: int | None, peak: int, name: str) -> None:
    """Draw a limit as a dashed line, or say that it is far above or that there is none."""
    peak = max(1, peak)
    axes.grid(True, axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if limit is not None and limit <= FAR_LIMIT * peak:
        axes.axhline(limit, color="black", linewidth=1, linestyle="--", zorder=3)
        peak = max(limit, peak)
        text = f"{name} {limit:,}"
    else:
        text = f"no {name} limit" if limit is None else f"{name} {limit:,}: far above"
    axes.set_ylim(0, peak * 1.35)
    axes.text(0.995, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize="x-small", zorder=4,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8})  # fmt: skip


def _legend(figure: Figure, timeline: Timeline) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = {span.kind for row in timeline.rows for span in row.spans}
    handles: list[Any] = [
        Patch(label=words, **KIND_STYLE[kind]) for kind, words in KIND_WORDS.items() if kind in present
    ]
    if timeline.stalls:
        handles.append(Line2D([], [], color="black", marker="|", linewidth=1.2, label=stall_rule(timeline)))
    if any(True for _ in timeline.idle()):
        handles.append(Patch(facecolor="0.95", edgecolor="0.6", hatch="..", linewidth=0, label="engine idle"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize="small")
