"""The curves of a sweep in the plot of a frontier: one line per policy, its points labelled with the swept values.

A few lines have every value written at its point, and their policies in the legend. Of many, markers stand for values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from chunkfront.curves import Curve
from chunkfront.sweep import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

STYLES = ((0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3)))
"""Dashes of the lines, told apart without colour."""
COLOURS = ("#0072b2", "#b8500a", "#00735a", "#7d3c98", "#5c5c00")
"""Dark on white, of like weight in grey."""
MARKS = ("o", "^", "s", "D", "v", "P", "<", "p")
"""Markers of the values, where there are many lines."""
LABELLED = 4
"""Up to so many lines have every value written at its point and a place in the legend."""
NAMES_WIDTH = 34
"""Characters of the names of a line."""


@dataclass(frozen=True)
class Spot:
    """One point of a line.

    Parameters
    ----------
    x, y
        In data coordinates.
    values
        The swept values that lead there, in words.
    comparable
        Whether the runs with them may be compared with the frontier.
    """

    x: float
    y: float
    values: tuple[str, ...]
    comparable: bool


@dataclass(frozen=True)
class Line:
    """What one or more policies reach along a sweep.

    Parameters
    ----------
    names
        Of the policies.
    key
        What was swept.
    spots
        In the order of the values; equal neighbours are one.
    """

    names: tuple[str, ...]
    key: str
    spots: tuple[Spot, ...]


def lines_of(curves: Sequence[Curve]) -> list[Line]:
    """Return the lines to draw: policies that reach the same along a sweep share one."""
    names: dict[tuple[str, tuple[Spot, ...]], list[str]] = {}
    for curve in curves:
        if spots := _spots(curve):
            names.setdefault((curve.sweep.key, spots), []).append(curve.policy)
    return [Line(tuple(alike), key, spots) for (key, spots), alike in names.items()]


def _spots(curve: Curve) -> tuple[Spot, ...]:
    spots: list[Spot] = []
    for value, reached in zip(curve.values, curve.places, strict=True):
        x, y = reached.values[:2]
        if x is None or y is None:
            continue
        last = spots[-1] if spots else None
        if last is not None and (last.x, last.y, last.comparable) == (x, y, reached.comparable):
            spots[-1] = Spot(x, y, (*last.values, shown(value)), last.comparable)
        else:
            spots.append(Spot(x, y, (shown(value),), reached.comparable))
    return tuple(spots)


def draw_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw every line: filled markers where the run is comparable, crosses (of many lines: hollow ones) where not."""
    many = len(lines) > LABELLED
    for line, style, colour in zip(lines, cycle(STYLES), cycle(COLOURS), strict=False):
        axes.plot([s.x for s in line.spots], [s.y for s in line.spots], color=colour, linestyle=style, zorder=2.5,
                  linewidth=0.8 if many else 1.4, label="_" if many else _listed(line.names))  # fmt: skip
        for spot in line.spots:
            shape = _mark(lines, spot) if many else "o" if spot.comparable else "x"
            axes.plot([spot.x], [spot.y], shape, color=colour, markerfacecolor=colour if spot.comparable else "white",
                      markersize=5, zorder=5)  # fmt: skip


def legend_entries(lines: Sequence[Line]) -> tuple[list[Line2D], str | None]:
    """Return the legend's markers of the values, of many lines, and its title, None without a sweep."""
    from matplotlib.lines import Line2D

    if not lines:
        return [], None
    key, many = lines[0].key, len(lines) > LABELLED
    marks = {f"{key} = {spot.values[-1]}": _mark(lines, spot) for line in lines for spot in line.spots} if many else {}
    handles = [Line2D([], [], color="0.2", marker=mark, markersize=5, linestyle=STYLES[0], linewidth=0.8, label=text)
               for text, mark in marks.items()]  # fmt: skip
    return handles, f"dashed lines: policies by {key}"


def line_labels(lines: Sequence[Line], known: Mapping[tuple[float, float], str]) -> list[tuple[float, float, str]]:
    """Return x, y and text of the labels: the swept values at each place.

    Of many lines the policies, at the end, and only where the line does not pass through the marker that names them.

    Parameters
    ----------
    lines
        To label.
    known
        Names that stand at places already.
    """
    labels: dict[tuple[float, float], list[str]] = {}
    for line in lines:
        if len(lines) <= LABELLED:
            for spot in line.spots:
                labels.setdefault((spot.x, spot.y), []).append(", ".join(spot.values))
        elif not any(line.names[0] in known.get((spot.x, spot.y), "") for spot in line.spots):
            end = line.spots[-1]
            labels.setdefault((end.x, end.y), []).append(f"({_listed(line.names)})")
    return [(x, y, "\n".join(dict.fromkeys(texts))) for (x, y), texts in labels.items()]


def _mark(lines: Sequence[Line], spot: Spot) -> str:
    """Return the marker of a spot: that of the last value that leads there."""
    values = list(dict.fromkeys(value for line in lines for each in line.spots for value in each.values))
    return MARKS[values.index(spot.values[-1]) % len(MARKS)]


def _listed(names: Sequence[str]) -> str:
    """Return names in a list, the first and their number where they are many."""
    shown = list(names)
    while len(shown) > 1 and len(", ".join(shown)) > NAMES_WIDTH:
        shown.pop()
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
