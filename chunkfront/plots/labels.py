"""Labels beside markers that do not cover each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chunkfront.plots.files import missing_glyphs_allowed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

DIRECTIONS = tuple(math.radians(degrees) for degrees in (20, -20, 160, 200, 60, -60, 120, 240, 90, 270, 0, 180))
DISTANCES = (9, 16, 26, 40, 58, 80, 110, 145, 185, 230, 280, 340)
"""Distances tried between a marker and its label, in points."""
LEADER_FROM = 16
"""From this distance on a thin line ties the label to its marker."""
BACKGROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
MARKER_ROOM = 6
"""Half the side of the square that a marker needs, in points."""


def place_labels(
    axes: Axes,
    labels: Sequence[tuple[float, float, str]],
    avoid: Iterable[tuple[float, float]] = (),
    stairs: Sequence[tuple[float, float]] = (),
) -> None:
    """Write each label near its point: inside the axes, clear of all markers and of the labels before it.

    Parameters
    ----------
    axes
        With its final limits.
    labels
        x, y and text, in data coordinates.
    avoid
        More points whose markers must stay visible.
    stairs
        Corners of a line with level and upright parts that should stay visible.
    """
    figure: Any = axes.figure.get_figure(root=True)
    with missing_glyphs_allowed():
        figure.draw_without_rendering()  # lays the axes out as they will be
    renderer = figure._get_renderer()  # the only way to measure text on every backend
    pixels = figure.dpi / 72
    inside = axes.get_window_extent(renderer)
    centres = [axes.transData.transform(point) for point in (*((x, y) for x, y, _ in labels), *avoid)]
    taken = [_box(x, y, MARKER_ROOM * pixels) for x, y in centres]
    corners: list[Any] = [axes.transData.transform(corner) for corner in stairs]
    taken += [_around(start, end) for start, end in pairwise(corners)]
    for x, y, text in labels:
        note = axes.annotate(
            text, (x, y), xytext=(0, 0), textcoords="offset points", fontsize="small", ha="center", va="center",
            annotation_clip=False, zorder=6, bbox=BACKGROUND,
        )  # fmt: skip
        note.set_in_layout(False)
        extent = note.get_window_extent(renderer)
        half = extent.width / 2 / pixels, extent.height / 2 / pixels
        offset, box = _best_place(axes, (x, y), half, pixels, inside, taken)
        note.set_position(offset)
        taken.append(box)
        if math.hypot(*_to_edge(offset, half)) >= LEADER_FROM:
            line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": half[1], "shrinkB": 4}
            leader = axes.annotate("", (x, y), xytext=offset, textcoords="offset points", arrowprops=line, zorder=1)
            leader.set_in_layout(False)


def _box(x: float, y: float, half: float, half_height: float | None = None) -> Bbox:
    from matplotlib.transforms import Bbox

    tall = half if half_height is None else half_height
    return Bbox.from_extents(x - half, y - tall, x + half, y + tall)


def _around(start: tuple[float, float], end: tuple[float, float]) -> Bbox:
    """Return the box of one level or upright part of a line, in pixels."""
    from matplotlib.transforms import Bbox

    (x0, x1), (y0, y1) = sorted((start[0], end[0])), sorted((start[1], end[1]))
    return Bbox.from_extents(x0 - 1, y0 - 1, x1 + 1, y1 + 1)


def _to_edge(offset: tuple[float, float], half: tuple[float, float]) -> tuple[float, float]:
    """Return the distance from the marker to the nearest point of the label, per axis."""
    return max(0.0, abs(offset[0]) - half[0]), max(0.0, abs(offset[1]) - half[1])


def _direction(angle: float) -> tuple[float, float]:
    return math.cos(angle), math.sin(angle)


def _reach(part: float, distance: float, half: float) -> float:
    """Return how far the centre of a label lies off along one axis: its near edge is `distance` away, if not level."""
    return part * distance + math.copysign(half if abs(part) > 0.2 else 0.0, part)


def _best_place(
    axes: Axes, point: tuple[float, float], half: tuple[float, float], pixels: float, inside: Bbox, taken: list[Bbox]
) -> tuple[tuple[float, float], Bbox]:
    """Return the nearest free offset (points) and its box; the place with the least overlap if none is free."""
    at_x, at_y = axes.transData.transform(point)
    best: tuple[float, tuple[float, float], Bbox] | None = None
    for distance in DISTANCES:
        for angle in DIRECTIONS:
            dx, dy = (_reach(part, distance, room) for part, room in zip(_direction(angle), half, strict=True))
            box = _box(at_x + dx * pixels, at_y + dy * pixels, (half[0] + 1) * pixels, (half[1] + 1) * pixels)
            cost = _overlap(box, inside, taken)
            if best is None or cost < best[0]:
                best = cost, (dx, dy), box
            if cost == 0:
                return (dx, dy), box
    assert best is not None
    return best[1], best[2]


def _overlap(box: Bbox, inside: Bbox, taken: Iterable[Bbox]) -> float:
    """Return the area of `box` outside the axes or over something else."""
    from matplotlib.transforms import Bbox

    kept = Bbox.intersection(box, inside)
    area = box.width * box.height - (0.0 if kept is None else kept.width * kept.height)
    for other in taken:
        common = Bbox.intersection(box, other)
        area += 0.0 if common is None else common.width * common.height
    return area
