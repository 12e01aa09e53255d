"""A frontier as one HTML file: tables that need no JavaScript, a plot whose points show their schedules, settings."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from chunkfront import tables
from chunkfront.compare import ComparedPolicy
from chunkfront.pages.render import render, script_json, script_safe
from chunkfront.pages.schedule_figure import schedule_figure
from chunkfront.report.figure import frontier_figure
from chunkfront.report.read import FrontierFile, PolicyFile, frontier_of, parse_document, policies_of
from chunkfront.report.words import command, conditions, question
from chunkfront.sentences import conflict_sentences, hypervolume_sentence, took
from chunkfront.tables import SHOWN_METRICS, number, percent
from chunkfront.timeline.build import build_timeline
from instances.instance import Instance
from instances.metrics import UNITS, json_key
from instances.objectives import OBJECTIVES
from instances.schedule import Schedule
from solver.result import OPTIMAL, Frontier

MOST_PICTURES = 150
"""Points that show their schedule; of more, evenly spread ones do."""
Cell = dict[str, Any]


def report_page(document: Mapping[str, Any], instance: Instance) -> str:
    """Return the page of a frontier.

    Parameters
    ----------
    document
        Of ``frontier --json``.
    instance
        What it is the frontier of.

    Raises
    ------
    InputError
        Where `document` is no such document.
    """
    found = parse_document(document)
    frontier = frontier_of(found)
    pictures = _Pictures(instance)
    described = instance.to_dict()
    return render(
        "report.html",
        instance=instance, axes=found.axes, complete=found.complete, notes=found.notes,
        question=question(instance, found), conditions=conditions(found),
        verdict=tables.frontier_sentence(instance, frontier, found.wall_s),
        still=_still(frontier, policies_of(found), instance),
        columns=_columns(found), more_columns=_more_columns(found),
        points=_point_rows(found, pictures),
        policies=[_policy_row(found, policy, pictures) for policy in found.policies],
        hypervolume=_hypervolume(found), clairvoyant=tables.CLAIRVOYANT, sweep=_sweep(found),
        proofs=_proofs(found), conflict=conflict_sentences(frontier.conflict),
        open_intervals=tables.open_interval_sentences(frontier),
        requests=_requests(instance), engine=_text(described["engine"]), cost=_text(described["cost"]),
        command=command(found), settings=_text(found.settings),
        figure=script_safe(frontier_figure(found).to_json()), pictures=pictures.figures,
        document=script_json(document), instance_json=script_json(described),
    )  # fmt: skip


class _Pictures:
    """The schedules' figures, each different one once."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.figures: list[str] = []
        self._known: dict[Any, int] = {}

    def add(self, raw: dict[str, Any] | None) -> int | None:
        """Return the index of the picture of a schedule, None for none."""
        if raw is None:
            return None
        schedule = Schedule.from_dict(raw)
        key = tuple(
            (it.start_us, it.duration_us, tuple(it.prefill.items()), it.decode, it.evict, it.restore)
            for it in schedule.iterations
        )
        if key not in self._known:
            self._known[key] = len(self.figures)
            self.figures.append(script_safe(schedule_figure(build_timeline(self.instance, schedule)).to_json()))
        return self._known[key]


def _cell(value: float | int | None, *, ratio: bool = False) -> Cell:
    """Return a number as a table shows it, and as it is."""
    return {"text": percent(value, signed=True) if ratio else number(value), "value": value}


def _columns(found: FrontierFile) -> list[str]:
    return [f"{axis} ({unit})" for axis, unit in zip(found.axes, found.units, strict=True)]


def _more(found: FrontierFile) -> list[str]:
    return [name for name in SHOWN_METRICS if name not in found.axes]


def _more_columns(found: FrontierFile) -> list[str]:
    return [f"{name} ({UNITS[name]})" for name in _more(found)]


def _metrics(found: FrontierFile, metrics: Mapping[str, Any]) -> list[Cell]:
    return [_cell(metrics.get(json_key(name))) for name in _more(found)]


def _point_rows(found: FrontierFile, pictures: _Pictures) -> list[dict[str, Any]]:
    every = -(-len(found.points) // MOST_PICTURES) or 1
    last = len(found.points) - 1
    return [
        {
            "title": f"Schedule of point {index}",
            "picture": pictures.add(point.schedule) if index % every == 0 or index == last else None,
            "proved": point.status == OPTIMAL,
            "status": point.status.lower(),
            "values": [_cell(value) for value in point.values],
            "bounds": [_cell(bound) for bound in point.bounds],
            "gaps": [
                _cell(_gap(axis, value, bound), ratio=True)
                for axis, value, bound in zip(found.axes, point.values, point.bounds, strict=True)
            ],
            "metrics": _metrics(found, point.metrics),
        }
        for index, point in enumerate(found.points)
    ]


def _gap(axis: str, value: float, bound: float | None) -> float | None:
    """Return the gap of a value to its bound, as model.md §6 defines it."""
    if bound is None:
        return None
    best, worst = (value, bound) if OBJECTIVES[axis].maximise else (bound, value)
    if best == worst:
        return 0.0
    reference = bound if OBJECTIVES[axis].maximise else value
    return (worst - best) / reference if reference else None


def _policy_row(found: FrontierFile, policy: PolicyFile, pictures: _Pictures | None = None) -> dict[str, Any]:
    return {
        "name": policy.name,
        "title": f"Schedule by {policy.name}",
        "picture": None if pictures is None else pictures.add(policy.schedule),
        "values": [_cell(value) for value in policy.values],
        "excess": [_cell(policy.excess.get(axis), ratio=True) for axis in found.axes],
        "metrics": _metrics(found, policy.metrics),
        "dominated_by": policy.dominated_by,
        "comparable": policy.comparable,
        "reason": policy.reason,
    }


def _sweep(found: FrontierFile) -> dict[str, Any] | None:
    if found.sweep is None:
        return None
    places = [place for curve in found.sweep.curves for place in curve.points]
    rows = [{**_policy_row(found, place), "value": place.value} for place in places]
    return {"key": found.sweep.key, "rows": rows}


def _hypervolume(found: FrontierFile) -> str | None:
    if found.hypervolume is None:
        return None
    share = percent(found.hypervolume["ratio"])
    return hypervolume_sentence(share, len(found.axes), complete=found.complete)


def _proofs(found: FrontierFile) -> str:
    proved = sum(point.status == OPTIMAL for point in found.points)
    count = len(found.points)
    comparable = sum(policy.comparable for policy in found.policies)
    text = f"{proved} of {count} point{'s' * (count != 1)} proved ({took(found.wall_s)} for everything)"
    return f"{text}; {comparable} of {len(found.policies)} heuristics are comparable with the frontier."


def _requests(instance: Instance) -> list[dict[str, Any]]:
    shown = ("id", "arrival_ms", "prompt_tokens", "output_tokens")
    rows = []
    for request in instance.to_dict()["requests"]:
        more = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in request.items() if key not in shown]
        rows.append({"arrival_ms": 0, **request, "more": "; ".join(more)})
    return rows


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


def _still(frontier: Frontier, compared: Sequence[ComparedPolicy], instance: Instance) -> str | None:
    """Return a picture of a frontier of two or three axes for readers without JavaScript, as a data address."""
    if len(frontier.axes) > 3:
        return None
    from chunkfront.plots.files import figure_file
    from chunkfront.plots.frontier import figure_bytes, plot_frontier
    from chunkfront.plots.projections import plot_projections

    if len(frontier.axes) == 3:
        picture = figure_file(plot_projections(frontier, compared, title=instance.name), "svg")
    else:
        picture = figure_bytes(plot_frontier(frontier, compared, title=instance.name), "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
