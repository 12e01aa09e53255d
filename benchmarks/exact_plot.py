"""Time to proof and gap against the number of requests, one panel per cost and problem; readable in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.exact_tables import TITLES, geometric_mean
from benchmarks.runs import METHODS, MIP, OURS, PLAIN, Run

LOOKS = {OURS: ("o", "0.0", "-"), PLAIN: ("s", "0.40", "--"), MIP: ("^", "0.62", ":")}
"""Marker, grey and line of a method."""
SHIFT = {OURS: -0.2, PLAIN: 0.0, MIP: 0.2}
"""Methods stand side by side at each size."""
TICKS_S = (0.1, 1, 10, 60, 300, 600)
PANEL = (2.35, 2.2)
"""Width and height of a panel in inches."""
WIDE = 7.0
"""Inches from which the legend fits into one line."""
GAP_LINEAR = 1.0
"""Gaps in % below it are drawn on a linear scale, so that 0 has a place on a logarithmic one."""


def draw(by_method: Iterable[Mapping[str, Run]], folder: Path) -> list[Path]:
    """Write time.png, time.svg, gap.png and gap.svg for finished runs, and return their paths.

    Parameters
    ----------
    by_method
        Per window and problem, method -> run.
    folder
        Where to.
    """
    runs = [run for group in by_method for run in group.values() if run.status not in ("REFUSED", "ERROR")]
    solves = [run for run in runs if not run.task.is_frontier]
    figures = {}
    if runs:
        figures["time"] = _figure(runs, "seconds to proof", lambda run: run.counted_s, _time_axis)
    if solves:
        figures["gap"] = _figure(solves, "gap, %", _gap_percent, _gap_axis)
    paths = []
    for name, figure in figures.items():
        for suffix in ("png", "svg"):
            paths.append(folder / f"{name}.{suffix}")
            figure.savefig(paths[-1], dpi=150)
    return paths


def _gap_percent(run: Run) -> float:
    """Return the gap in %; 100 where there is no value or no bound."""
    return 100.0 if run.gap is None else 100 * run.gap


def _figure(
    runs: Sequence[Run], label: str, height: Callable[[Run], float], axis: Callable[[Axes], None]
) -> Figure:
    """Return the panels of one quantity: costs below each other, problems side by side."""
    costs = sorted({run.task.cost for run in runs}, reverse=True)
    problems = list(dict.fromkeys(run.task.problem for run in runs))
    sizes = sorted({run.task.requests for run in runs})
    width = max(4.8, PANEL[0] * len(problems) + 0.7)
    figure = Figure(figsize=(width, PANEL[1] * len(costs) + 1.1), layout="constrained")
    panels = figure.subplots(len(costs), len(problems), sharex=True, sharey=True, squeeze=False)
    for r, cost in enumerate(costs):
        for c, problem in enumerate(problems):
            panel = panels[r][c]
            shown = [run for run in runs if (run.task.cost, run.task.problem) == (cost, problem)]
            _points(panel, shown, sizes, height)
            axis(panel)
            panel.set_xticks(range(len(sizes)), [str(size) for size in sizes])
            panel.set_xlim(-0.5, len(sizes) - 0.5)
            panel.grid(axis="y", color="0.88", linewidth=0.6)
            panel.set_axisbelow(True)
            if r == 0:
                panel.set_title(" x ".join(problem.split(":")), fontsize="small")
            if r == len(costs) - 1:
                panel.set_xlabel("requests")
            if c == 0:
                panel.set_ylabel(f"{cost} cost\n{label}")
    columns = 4 if width >= WIDE else 2
    figure.legend(handles=_keys(runs), loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
    return figure


def _points(panel: Axes, runs: Sequence[Run], sizes: Sequence[int], height: Callable[[Run], float]) -> None:
    """Draw each run, hollow where it is not proved, and a line through the geometric means of a method's sizes."""
    for method in METHODS:
        marker, grey, style = LOOKS[method]
        means = []
        for place, size in enumerate(sizes):
            found = [run for run in runs if (run.task.method, run.task.requests) == (method, size)]
            spread = _spread(len(found))
            for run, offset in zip(sorted(found, key=lambda run: run.task.window), spread, strict=True):
                face = grey if run.proved else "white"
                panel.plot(place + SHIFT[method] + offset, height(run), marker, color=grey, markerfacecolor=face,
                           markersize=5, markeredgewidth=1.1, zorder=3, clip_on=False)  # fmt: skip
            if found and all(height(run) > 0 for run in found):
                means.append((place + SHIFT[method], geometric_mean([height(run) for run in found])))
            elif found:
                means.append((place + SHIFT[method], sum(map(height, found)) / len(found)))
        panel.plot(*zip(*means, strict=True), style, color=grey, linewidth=1.1, zorder=2) if means else None


def _spread(count: int) -> list[float]:
    """Return small shifts that keep the windows of one size apart."""
    return [0.05 * (place - (count - 1) / 2) for place in range(count)]


def _time_axis(panel: Axes) -> None:
    panel.set_yscale("log")
    panel.set_ylim(0.05, 1000)
    panel.set_yticks(TICKS_S, [f"{tick:g}" for tick in TICKS_S])
    panel.yaxis.set_minor_locator(NullLocator())


def _gap_axis(panel: Axes) -> None:
    panel.set_yscale("symlog", linthresh=GAP_LINEAR)
    panel.set_ylim(-0.12, 130)
    panel.set_yticks([0, 1, 5, 20, 100])
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def _keys(runs: Sequence[Run]) -> list[Line2D]:
    """Return the legend: the methods that are there, and what hollow means."""
    keys = []
    for method in METHODS:
        if any(run.task.method == method for run in runs):
            marker, grey, style = LOOKS[method]
            keys.append(Line2D([], [], marker=marker, color=grey, linestyle=style, markersize=5, label=TITLES[method]))
    if any(not run.proved for run in runs):
        hollow = {"marker": "o", "linestyle": "none", "color": "0.0", "markerfacecolor": "white", "markersize": 5}
        keys.append(Line2D([], [], label="hollow: not proved within its limit", **hollow))
    return keys
