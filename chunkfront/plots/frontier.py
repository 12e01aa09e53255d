"""The frontier as a staircase, the heuristics as labelled markers, the ideal corner; PNG and SVG.

Takes finished results and computes nothing. No GUI backend is chosen and pyplot is not imported, so that it works
without a display and leaves the state of a notebook alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chunkfront.compare import ComparedPolicy
from chunkfront.curves import Curve
from chunkfront.plots.curves import Line, draw_lines, legend_entries, line_labels, lines_of
from chunkfront.plots.files import figure_file, new_figure
from chunkfront.plots.labels import place_labels
from instances.objectives import OBJECTIVES
from solver.result import OPTIMAL, Frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = ("s", "^", "D", "v", "P", "<", "p", ">", "h", "8", "d", "H")
"""Marker shapes of the heuristics, told apart without colour; they also carry their names."""
HEURISTIC_FACE = "0.8"
"""Light, and larger than the points, which are drawn on top: a heuristic on the frontier hides no point."""
LOG_FROM = 20
"""Ratio of largest to smallest value from which an axis is logarithmic."""
LABEL_WIDTH = 38
"""Characters per line of a label."""
MARGIN = 0.08
"""Room around the outermost points, as a share of their spread."""

Marker = tuple[float, float]


def plot_frontier(
    frontier: Frontier, policies: Sequence[ComparedPolicy] = (), ax: Axes | None = None, title: str = "",
    curves: Sequence[Curve] = (),
) -> Axes:  # fmt: skip
    """Draw a frontier, the heuristics and the curves of a sweep in the same plane.

    Parameters
    ----------
    frontier
        Finished, with any number of points.
    policies
        Heuristics with values on the same axes; those without are left out.
    ax
        Where to draw; a figure of its own by default.
    title
        Of the axes.
    curves
        Of a sweep; their points are labelled with the swept values.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    axes = new_figure(8, 5.5).subplots() if ax is None else ax
    points = [(point.values[0], point.values[1]) for point in frontier.points]
    groups = _by_place(policies)
    swept = lines_of(curves)
    set_limits(axes, [*points, *(place for place, _ in groups), *((s.x, s.y) for line in swept for s in line.spots)])
    _open_intervals(axes, frontier)
    stairs = staircase(axes, frontier)
    _points(axes, frontier)
    ideal = _ideal_corner(axes, frontier)
    _heuristics(axes, groups)
    draw_lines(axes, swept)
    for drawn, name, unit in zip((axes.xaxis, axes.yaxis), frontier.axes, frontier.units, strict=True):
        remarks = [", larger is better"] * OBJECTIVES[name].maximise + [", logarithmic"] * (drawn.get_scale() == "log")
        drawn.set_label_text(f"{name} ({unit}{''.join(remarks)})")
    axes.set_title(title, loc="left", fontsize="medium", parse_math=False)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if not points:
        axes.text(0.5, 0.5, f"no point found: {frontier.status}", transform=axes.transAxes, ha="center", va="center")
    _legend(axes, policies, swept)
    labels = [(place[0], place[1], _names(members)) for place, members in groups]
    labels += line_labels(swept, {(x, y): names for x, y, names in labels})
    place_labels(axes, labels, [*points, *([ideal] if ideal else [])], stairs)
    return axes


def figure_bytes(axes: Axes, kind: str) -> bytes:
    """Return the figure of `axes` as a file of kind ``png`` or ``svg``; the same input gives the same bytes."""
    figure: Any = axes.figure.get_figure(root=True)
    return figure_file(figure, kind)


def _by_place(policies: Sequence[ComparedPolicy]) -> list[tuple[Marker, list[ComparedPolicy]]]:
    """Return the policies grouped by equal values and comparability, so that no marker hides another."""
    groups: dict[tuple[float, float, bool], list[ComparedPolicy]] = {}
    for policy in policies:
        x, y = policy.values
        if x is not None and y is not None:
            groups.setdefault((x, y, policy.comparable), []).append(policy)
    return [((x, y), members) for (x, y, _), members in groups.items()]


def _names(policies: Sequence[ComparedPolicy]) -> str:
    """Return the names of policies at one place, in lines that fit beside a marker."""
    lines = textwrap.wrap(", ".join(policy.name for policy in policies), LABEL_WIDTH, break_on_hyphens=False)
    return "\n".join(lines)


def set_limits(axes: Axes, places: Sequence[Marker]) -> None:
    """Set scales and limits such that everything is inside, with room around it."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    drawn: tuple[tuple[Any, Any, Any], ...] = (
        (axes.xaxis, axes.set_xscale, axes.set_xlim),
        (axes.yaxis, axes.set_yscale, axes.set_ylim),
    )
    for at, (axis, set_scale, set_limits) in enumerate(drawn):
        values = [place[at] for place in places] or [0.0, 1.0]
        low, high = min(values), max(values)
        if low > 0 and high > LOG_FROM * low:
            set_scale("log")
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())
            room = (high / low) ** MARGIN
            set_limits(low / room, high * room)
            continue
        spread = high - low or abs(high) or 1.0
        set_limits(low - MARGIN * spread, high + MARGIN * spread)


def staircase(axes: Axes, frontier: Frontier) -> list[Marker]:
    """Draw the edge of what can be reached, on to the borders of the axes; return its corners."""
    if not frontier.points:
        return []
    first_up, second_up = (OBJECTIVES[axis].maximise for axis in frontier.axes)
    ordered = sorted((point.values[0], point.values[1]) for point in frontier.points)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    bad_y = bottom if second_up else top
    end = ordered[0] if first_up else ordered[-1]
    start = ordered[-1] if first_up else ordered[0]
    xs, ys = [x for x, _ in ordered], [y for _, y in ordered]
    if first_up:
        xs, ys = [left, *xs, start[0]], [end[1], *ys, bad_y]
    else:
        xs, ys = [start[0], *xs, right], [bad_y, *ys, end[1]]
    style = "-" if frontier.complete else "--"
    axes.step(xs, ys, where="pre" if first_up else "post", color="0.25", linewidth=1.3, linestyle=style, zorder=2,
              label="frontier" if frontier.complete else "best found so far")  # fmt: skip
    corners: list[Marker] = []
    for (x, y), (next_x, next_y) in pairwise(zip(xs, ys, strict=True)):
        corners += [(x, y), (x, next_y) if first_up else (next_x, y)]
    return [*corners, (xs[-1], ys[-1])]


def _points(axes: Axes, frontier: Frontier) -> None:
    for proved, face, label in ((True, "black", "proved point"), (False, "white", "point, not proved")):
        chosen = [point.values for point in frontier.points if (point.status == OPTIMAL) is proved]
        if chosen:
            axes.plot([v[0] for v in chosen], [v[1] for v in chosen], "o", color="black", markerfacecolor=face,
                      markersize=6, linestyle="none", zorder=4, label=label)  # fmt: skip


def _open_intervals(axes: Axes, frontier: Frontier) -> None:
    """Shade where points may be missing."""
    label: str | None = "points may be missing"
    for interval in frontier.open_intervals:
        along_x = interval["axis"] == frontier.axes[0]
        low, high = axes.get_xlim() if along_x else axes.get_ylim()
        above = low if interval.get("above") is None else interval["above"]
        below = high if interval.get("below") is None else interval["below"]
        span = axes.axvspan if along_x else axes.axhspan
        span(max(low, above), min(high, below), facecolor="0.94", edgecolor="0.7", hatch="///", linewidth=0, zorder=0,
             label=label)  # fmt: skip
        label = None


def _ideal_corner(axes: Axes, frontier: Frontier) -> Marker | None:
    """Mark the corner of the best values of both axes, which no single schedule need reach."""
    if not frontier.points:
        return None
    best = [max if OBJECTIVES[axis].maximise else min for axis in frontier.axes]
    x, y = (choose(point.values[at] for point in frontier.points) for at, choose in enumerate(best))
    axes.plot([x], [y], marker="*", color="0.35", markerfacecolor="white", markersize=18, linestyle="none", zorder=3,
              label="ideal corner")  # fmt: skip
    return x, y


def _heuristics(axes: Axes, groups: Sequence[tuple[Marker, list[ComparedPolicy]]]) -> None:
    for index, ((x, y), members) in enumerate(groups):
        comparable = members[0].comparable
        face = HEURISTIC_FACE if comparable else "none"
        axes.plot([x], [y], marker=SHAPES[index % len(SHAPES)] if comparable else "X", color="0.2",
                  markerfacecolor=face, markersize=11, linestyle="none", zorder=3)  # fmt: skip


def _legend(axes: Axes, policies: Sequence[ComparedPolicy], swept: Sequence[Line]) -> None:
    """Put the legend below the axes, where it covers nothing."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    drawn = {policy.comparable for policy in policies if None not in policy.values}
    for comparable, marker, face, label in (
        (True, "s", HEURISTIC_FACE, "heuristic"), (False, "X", "none", "heuristic, not comparable")
    ):  # fmt: skip
        if comparable in drawn:
            handles.append(Line2D([], [], marker=marker, color="0.2", markerfacecolor=face, linestyle="none"))
            labels.append(label)
    marks, title = legend_entries(swept)
    handles += marks
    labels += [str(mark.get_label()) for mark in marks]
    axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3 if swept else 5,
                frameon=False, fontsize="small", title=title, title_fontsize="small")  # fmt: skip
