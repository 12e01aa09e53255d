"""A frontier of three axes as small multiples: one panel per pair of axes, the third one as the shade of a point.

Shades run from dark to light, so they can be told apart in grey. The heuristics are numbered squares with a key below.
Takes finished results and computes nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from chunkfront.compare import ComparedPolicy
from chunkfront.plots.files import new_figure
from chunkfront.plots.frontier import HEURISTIC_FACE, Marker, set_limits, staircase
from instances.objectives import OBJECTIVES
from solver.result import OPTIMAL, Frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHADES = "viridis"
"""A colour map whose lightness never falls."""
KEY_WIDTH = 52
"""Characters per line of the key."""


def plot_projections(frontier: Frontier, policies: Sequence[ComparedPolicy] = (), title: str = "") -> Figure:
    """Draw a frontier of three axes and the heuristics beside it.

    Parameters
    ----------
    frontier
        Finished, of three axes, with any number of points.
    policies
        Heuristics with values on the same axes; those without are left out.
    title
        Of the figure.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    groups = _by_place(policies)
    key_rows = -(-len(groups) // 3)
    figure = new_figure(14, 5.0 + 0.3 * key_rows)
    panels = figure.subplots(1, 3)
    for axes, pair in zip(panels, combinations(range(3), 2), strict=True):
        _panel(figure, axes, frontier, groups, pair)
    zones = len(frontier.open_zones)
    status = "" if frontier.complete else f"  (cut short, {zones} open zone{'s' * (zones != 1)})"
    figure.suptitle(title + status, x=0.01, ha="left", fontsize="medium", parse_math=False)
    _key(figure, frontier, groups)
    return figure


def _by_place(policies: Sequence[ComparedPolicy]) -> list[list[ComparedPolicy]]:
    """Return the policies that have values, grouped by equal ones."""
    groups: dict[tuple[Any, ...], list[ComparedPolicy]] = {}
    for policy in policies:
        if None not in policy.values:
            groups.setdefault((*policy.values, policy.comparable), []).append(policy)
    return list(groups.values())


def _panel(
    figure: Figure, axes: Axes, frontier: Frontier, groups: Sequence[list[ComparedPolicy]], pair: tuple[int, int]
) -> None:
    (third,) = set(range(3)) - set(pair)
    at_x, at_y = pair
    points = [(point.values[at_x], point.values[at_y]) for point in frontier.points]
    places = [(members[0].values[at_x] or 0.0, members[0].values[at_y] or 0.0) for members in groups]
    set_limits(axes, [*points, *places])
    staircase(axes, _projected(frontier, pair))
    _points(figure, axes, frontier, points, third)
    _heuristics(axes, groups, places)
    for drawn, at in ((axes.xaxis, at_x), (axes.yaxis, at_y)):
        name = frontier.axes[at]
        remarks = [", larger is better"] * OBJECTIVES[name].maximise + [", logarithmic"] * (drawn.get_scale() == "log")
        drawn.set_label_text(f"{name} ({frontier.units[at]}{''.join(remarks)})")
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if not points:
        axes.text(0.5, 0.5, f"no point found: {frontier.status}", transform=axes.transAxes, ha="center", va="center")


def _projected(frontier: Frontier, pair: tuple[int, int]) -> Frontier:
    """Return the points that no other one reaches or betters on two of the axes."""
    signs = [-1 if OBJECTIVES[frontier.axes[at]].maximise else 1 for at in pair]
    flat = [
        replace(point, values=tuple(point.values[at] for at in pair), bounds=tuple(point.bounds[at] for at in pair))
        for point in frontier.points
    ]
    kept: list[Any] = []
    for point in sorted(flat, key=lambda p: [s * v for s, v in zip(signs, p.values, strict=True)]):
        if not kept or signs[1] * point.values[1] < signs[1] * kept[-1].values[1]:
            kept.append(point)
    axes, units = ([names[at] for at in pair] for names in (frontier.axes, frontier.units))
    return replace(frontier, axes=tuple(axes), units=tuple(units), points=tuple(kept))


def _points(figure: Figure, axes: Axes, frontier: Frontier, points: Sequence[Marker], third: int) -> None:
    """Draw the points, shaded by the third axis: proved ones as discs, others as rings of their shade."""
    if not points:
        return
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    values = [point.values[third] for point in frontier.points]
    room = 0.0 if min(values) < max(values) else 0.1 * abs(values[0]) or 1.0  # equal values: the middle shade
    shades = ScalarMappable(Normalize(min(values) - room, max(values) + room), colormaps[SHADES])
    for point, (x, y), value in zip(frontier.points, points, values, strict=True):
        shade, proved = shades.to_rgba(value), point.status == OPTIMAL  # type: ignore[arg-type]
        face, edge, width = (shade, "black", 0.8) if proved else ("white", shade, 2.4)
        axes.plot([x], [y], "o", markersize=8, color=edge, markerfacecolor=face, markeredgewidth=width,
                  linestyle="none", zorder=4)  # fmt: skip
    figure.colorbar(shades, ax=axes, location="top", aspect=40,
                    label=f"shade: {frontier.axes[third]} ({frontier.units[third]})")  # fmt: skip


def _heuristics(axes: Axes, groups: Sequence[list[ComparedPolicy]], places: Sequence[Marker]) -> None:
    numbers: dict[Marker, list[str]] = {}
    for number, (members, (x, y)) in enumerate(zip(groups, places, strict=True), start=1):
        face = HEURISTIC_FACE if members[0].comparable else "none"
        axes.plot([x], [y], "s", color="0.5", markerfacecolor=face, markersize=13, linestyle="none", zorder=3)
        numbers.setdefault((x, y), []).append(str(number))
    for place, here in numbers.items():
        axes.annotate(", ".join(here), place, xytext=(8, 8), textcoords="offset points", va="center", fontsize=8,
                      zorder=5)  # fmt: skip


def _key(figure: Figure, frontier: Frontier, groups: Sequence[list[ComparedPolicy]]) -> None:
    """Put the key below the panels: what the marks are, and which heuristic has which number."""
    from matplotlib.lines import Line2D

    entries: list[tuple[Any, str]] = []
    for proved, label in ((True, "proved point"), (False, "point, not proved")):
        if any((point.status == OPTIMAL) is proved for point in frontier.points):
            face, edge = ("0.5", "black") if proved else ("white", "0.5")
            entries.append((Line2D([], [], marker="o", color=edge, markerfacecolor=face, linestyle="none",
                                   markersize=8, markeredgewidth=0.8 if proved else 2.4), label))  # fmt: skip
    if frontier.points:
        entries.append((Line2D([], [], color="0.25", linestyle="-" if frontier.complete else "--"),
                        "edge of the two axes alone"))  # fmt: skip
    for number, members in enumerate(groups, start=1):
        names = ", ".join(policy.name for policy in members)
        text = f"{number}: {names}" + ("" if members[0].comparable else " (not comparable)")
        face = HEURISTIC_FACE if members[0].comparable else "none"
        handle = Line2D([], [], marker="s", color="0.5", markerfacecolor=face, linestyle="none", markersize=9)
        entries.append((handle, "\n".join(textwrap.wrap(text, KEY_WIDTH, break_on_hyphens=False))))
    if entries:
        figure.legend([handle for handle, _ in entries], [text for _, text in entries], loc="outside lower left",
                      ncols=3, frameon=False, fontsize="small")  # fmt: skip
