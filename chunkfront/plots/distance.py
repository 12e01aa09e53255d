"""How far schedulers are from the optimum over many instances: distributions of gaps, and performance profiles.

Two rows of panels, one column per metric. Above, the empirical distribution of the gap to the proved bound: how many
instances are within a gap. Below, the performance profile (Dolan and Moré 2002, doi 10.1007/s101070100263): on how
many instances a scheduler is within a factor of the best of those compared. Takes a finished distance, computes nothing
but steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from chunkfront.plots.files import new_figure
from chunkfront.validate.distance import Distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = ("--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)), "-")
GREYS = ("0.25", "0.5", "0.35", "0.6", "0.15", "0.45", "0.3", "0.55")
"""Of the policies beside the scheduler, told apart by their dashes; the scheduler is a thick black line."""
MARKERS = ("s", "^", "D", "v", "o", "P", "X", "d")
WIDEST_RATIO = 8.0
"""The profile's axis ends here at the latest; whoever is not there by then is further away."""


def plot_distance(distance: Distance) -> Figure:
    """Return the figure of a distance with at least one instance; one scheduler alone has no profile."""
    columns, rows = len(distance.metrics), 2 if len(distance.names) > 1 else 1
    figure = new_figure(max(5.0, 3.1 * columns + 0.6), 2.9 * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    handles: list[Any] = []
    for at, metric in enumerate(distance.metrics):
        gaps = {name: distance.gaps(name, metric) for name in distance.names}
        ratios = {name: distance.ratios(name, metric) for name in distance.names}
        count = max((len(found) for found in ratios.values()), default=0)
        handles = _panel(panels[0][at], gaps, count, start=0.0, scale=100.0)
        panels[0][at].set_title(metric, loc="left", fontsize="medium")
        panels[0][at].set_xlabel("gap to the proved bound (%)")
        if rows > 1:
            _panel(panels[1][at], ratios, count, start=1.0, scale=1.0)
            panels[1][at].set_xlabel("value / best value of those compared")
    for row in panels:
        row[0].set_ylabel("share of instances within")
    figure.suptitle(f"{distance.scheduler}: distance to the optimum over {len(distance.comparisons)} instances",
                    x=0.01, ha="left", fontsize="medium")  # fmt: skip
    figure.legend(handles, distance.names, loc="outside lower center", ncols=min(4, len(handles)), frameon=False,
                  handlelength=3.5)  # fmt: skip
    return figure


def _panel(axes: Axes, samples: dict[str, list[float]], count: int, *, start: float, scale: float) -> list[Any]:
    """Draw one distribution per scheduler over the same `count` instances; return their lines."""
    finite = [value * scale for found in samples.values() for value in found if math.isfinite(value)]
    end = max(finite, default=start) * (1.0 if start == 0 else 1.02)
    end = min(end, WIDEST_RATIO) if start else end
    end = max(end, start + (1.0 if start == 0 else 0.1))
    styles = zip(cycle(DASHES), cycle(GREYS), cycle(MARKERS))
    lines = []
    for at, (name, found) in enumerate(samples.items()):
        xs, ys = _steps([value * scale for value in found], count, start, end)
        if at == 0:
            lines += axes.plot(xs, ys, color="black", linewidth=2.4, drawstyle="steps-post", label=name, zorder=3)
            continue
        dash, grey, marker = next(styles)
        lines += axes.plot(xs, ys, color=grey, linestyle=dash, linewidth=1.2, drawstyle="steps-post", label=name,
                           marker=marker, markersize=4, markevery=(0.05 + 0.04 * at, 0.3), zorder=2)  # fmt: skip
    margin = (end - start) * 0.02
    axes.set_xlim(start - margin, end + margin)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return lines


def _steps(values: Sequence[float], count: int, start: float, end: float) -> tuple[list[float], list[float]]:
    """Return the corners of an empirical distribution; those who have no value never come within."""
    inside = sorted(value for value in values if value <= end)
    at_start = sum(value <= start for value in inside)
    xs, ys = [start], [at_start / count if count else 0.0]
    for index, value in enumerate(inside[at_start:], start=at_start + 1):
        xs.append(value)
        ys.append(index / count)
    return [*xs, end], [*ys, ys[-1]]
