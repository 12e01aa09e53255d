"""The plane of a frontier as an interactive figure: points, heuristics, sweeps; hover tells their metrics.

Three axes and more are drawn as one panel per pair of axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from chunkfront.pages.schedule_figure import safe
from chunkfront.report.read import FrontierFile, PolicyFile
from chunkfront.tables import SHOWN_METRICS, number
from instances.metrics import UNITS, json_key
from instances.objectives import OBJECTIVES
from solver.result import OPTIMAL

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LOG_FROM = 20
"""Ratio of largest to smallest value from which an axis is logarithmic."""
FEW_DECADES = 300
"""Up to this ratio a logarithmic axis has ticks at 1, 2 and 5."""
MARGIN = 0.1
"""Room around the points when they are shown alone, as a share of their spread."""
HEIGHT = 460
SHOWN_NAMES = 6
"""Names of heuristics at one place that a hover lists."""


def frontier_figure(found: FrontierFile) -> Figure:
    """Return the figure of a frontier; each marker carries ``["point" or "policy", index]`` as custom data."""
    from plotly.subplots import make_subplots

    pairs = list(combinations(range(len(found.axes)), 2))
    figure = make_subplots(1, len(pairs), horizontal_spacing=0.08)
    for column, pair in enumerate(pairs, start=1):
        traces = [*_stairs(found), *_heuristics(found, pair), *_curves(found, pair), *_points(found, pair)]
        for trace in traces:
            figure.add_trace(trace.update(showlegend=column == 1 and trace.showlegend is not False), 1, column)
        _axis(figure.update_xaxes, found, pair[0], column)
        _axis(figure.update_yaxes, found, pair[1], column)
        _open_intervals(figure, found, pair, column)
    if found.points and len(pairs) == 1:
        figure.update_layout(updatemenus=_views(found))
    if not found.points:
        figure.add_annotation(text=f"no point found: {found.status}", x=0.5, y=0.5, xref="paper", yref="paper",
                              showarrow=False)  # fmt: skip
    figure.update_layout(
        template="none", height=HEIGHT, hovermode="closest", margin={"l": 75, "r": 20, "t": 40, "b": 60},
        legend={"orientation": "h", "y": -0.16}, hoverlabel={"align": "left", "bgcolor": "white"}, clickmode="event",
    )  # fmt: skip
    return figure


def _places(found: FrontierFile, at: int) -> list[float]:
    reached = [*found.policies, *(place for curve in _all_curves(found) for place in curve.points)]
    values = [policy.values[at] for policy in reached] + [point.values[at] for point in found.points]
    return [value for value in values if value is not None]


def _all_curves(found: FrontierFile) -> Sequence[Any]:
    return found.sweep.curves if found.sweep is not None else ()


def _axis(update: Any, found: FrontierFile, at: int, column: int) -> None:
    """Name an axis, with what is better, and make it logarithmic where values are far apart."""
    name = found.axes[at]
    remarks = [", larger is better"] * OBJECTIVES[name].maximise
    settings: dict[str, Any] = {}
    if _is_log(found, at):
        remarks.append(", logarithmic")
        values = _places(found, at)
        steps = (1, 2, 5) if max(values) < FEW_DECADES * min(values) else (1,)
        ticks = [step * 10.0**power for power in range(-6, 16) for step in steps]
        shown = [tick for tick in ticks if min(values) / 2 <= tick <= max(values) * 2]
        settings = {"type": "log", "tickvals": shown, "ticktext": [f"{tick:g}" for tick in shown]}
    title = f"{name} ({found.units[at]}{''.join(remarks)})"
    update(row=1, col=column, title_text=title, zeroline=False, showline=True, mirror=True, **settings)


def _is_log(found: FrontierFile, at: int) -> bool:
    values = _places(found, at)
    return bool(values) and min(values) > 0 and max(values) > LOG_FROM * min(values)


def _views(found: FrontierFile) -> list[dict[str, Any]]:
    """Return buttons that show everything, or the frontier alone, which a far heuristic may press together."""
    ranges = []
    for at in (0, 1):
        values = [point.values[at] for point in found.points]
        low, high = min(values), max(values)
        room = MARGIN * (high - low or abs(high) or 1.0)
        if _is_log(found, at):
            ranges.append([math.log10(low * (1 - MARGIN)), math.log10(high * (1 + MARGIN))])
        else:
            ranges.append([low - room, high + room])
    everything = {"xaxis.autorange": True, "yaxis.autorange": True}
    buttons = [
        {"label": "everything", "method": "relayout", "args": [everything]},
        {"label": "the frontier", "method": "relayout", "args": [{"xaxis.range": ranges[0], "yaxis.range": ranges[1]}]},
    ]
    return [{"type": "buttons", "direction": "right", "buttons": buttons, "x": 0, "xanchor": "left", "y": 1.0,
             "yanchor": "bottom", "pad": {"b": 4}, "font": {"size": 11}}]  # fmt: skip


def _stairs(found: FrontierFile) -> Iterator[Any]:
    """Yield the edge of what can be reached; with more than two axes a projection has none."""
    from plotly.graph_objects import Scatter

    if len(found.axes) > 2 or not found.points:
        return
    ordered = sorted((point.values[0], point.values[1]) for point in found.points)
    first_up = OBJECTIVES[found.axes[0]].maximise
    dash = "solid" if found.complete else "dash"
    yield Scatter(
        x=[x for x, _ in ordered], y=[y for _, y in ordered], mode="lines", hoverinfo="skip",
        line={"shape": "vh" if first_up else "hv", "color": "#404040", "width": 1.5, "dash": dash},
        name="frontier" if found.complete else "best found so far",
    )  # fmt: skip


def _points(found: FrontierFile, pair: tuple[int, int]) -> Iterator[Any]:
    from plotly.graph_objects import Scatter

    for proved, colour, name in ((True, "black", "proved point"), (False, "white", "point, not proved")):
        chosen = [(k, point) for k, point in enumerate(found.points) if (point.status == OPTIMAL) is proved]
        if chosen:
            yield Scatter(
                x=[point.values[pair[0]] for _, point in chosen], y=[point.values[pair[1]] for _, point in chosen],
                mode="markers", name=name, customdata=[["point", k] for k, _ in chosen],
                hovertext=[_hover(found, f"point {k}, {p.status}", p.values, p.metrics) for k, p in chosen],
                hoverinfo="text", marker={"color": colour, "size": 9, "line": {"color": "black", "width": 1.5}},
            )  # fmt: skip


def _heuristics(found: FrontierFile, pair: tuple[int, int]) -> Iterator[Any]:
    from plotly.graph_objects import Scatter

    looks = (
        (True, "square", "#cccccc", "heuristic"), (False, "x-thin-open", "#333333", "heuristic, not comparable"),
    )  # fmt: skip
    for comparable, symbol, colour, name in looks:
        groups: dict[tuple[float, float], list[int]] = {}
        for index, policy in enumerate(found.policies):
            x, y = (policy.values[at] for at in pair)
            if policy.comparable is comparable and x is not None and y is not None:
                groups.setdefault((x, y), []).append(index)
        if groups:
            yield Scatter(
                x=[x for x, _ in groups], y=[y for _, y in groups], mode="markers", name=name,
                customdata=[["policy", members[0]] for members in groups.values()],
                hovertext=[_group_hover(found, members) for members in groups.values()], hoverinfo="text",
                marker={"symbol": symbol, "color": colour, "size": 13, "line": {"color": "#333333", "width": 1.5}},
            )  # fmt: skip


def _curves(found: FrontierFile, pair: tuple[int, int]) -> Iterator[Any]:
    from plotly.graph_objects import Scatter

    for curve in _all_curves(found):
        assert found.sweep is not None
        places = [place for place in curve.points if None not in [place.values[at] for at in pair]]
        yield Scatter(
            x=[place.values[pair[0]] for place in places], y=[place.values[pair[1]] for place in places],
            mode="lines+markers+text", name=f"{safe(curve.policy, 30)}, {found.sweep.key} swept",
            text=[safe(str(place.value), 20) for place in places], textposition="top right", textfont={"size": 10},
            hovertext=[_policy_hover(found, place) for place in places], hoverinfo="text",
            line={"color": "#666666", "width": 1, "dash": "dot"}, marker={"symbol": "diamond-open", "size": 8},
        )  # fmt: skip


def _open_intervals(figure: Any, found: FrontierFile, pair: tuple[int, int], column: int) -> None:
    """Shade where points may be missing, as far as both ends are known."""
    for interval in found.open_intervals:
        for at, shade in ((pair[0], figure.add_vrect), (pair[1], figure.add_hrect)):
            values = _places(found, at)
            if interval.get("axis") != found.axes[at] or not values:
                continue
            above, below = interval.get("above"), interval.get("below")
            shade(min(values) if above is None else above, max(values) if below is None else below, row=1, col=column,
                  fillcolor="#eeeeee", line_width=0, layer="below")  # fmt: skip


def _hover(found: FrontierFile, title: str, values: Sequence[float | None], metrics: dict[str, Any]) -> str:
    lines = [f"<b>{title}</b>"]
    for axis, value, unit in zip(found.axes, values, found.units, strict=True):
        lines.append(f"{axis}: {number(value)} {unit}")
    for name in SHOWN_METRICS:
        if name not in found.axes and metrics.get(json_key(name)) is not None:
            lines.append(f"{name}: {number(metrics[json_key(name)])} {UNITS[name]}")
    return "<br>".join([*lines, "<i>click: its schedule</i>"])


def _group_hover(found: FrontierFile, members: Sequence[int]) -> str:
    names = [safe(found.policies[index].name) for index in members]
    if len(names) > SHOWN_NAMES:
        names[SHOWN_NAMES:] = [f"and {len(names) - SHOWN_NAMES} more"]
    return _policy_hover(found, found.policies[members[0]], "<br>".join(names))


def _policy_hover(found: FrontierFile, policy: PolicyFile, title: str | None = None) -> str:
    return _hover(found, title or safe(policy.name), policy.values, policy.metrics)
