"""Results as tables and sentences for people; they compute nothing. Readable at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from chunkfront.compare import ComparedPolicy
from chunkfront.curves import Curve
from chunkfront.gaps import Comparison
from chunkfront.sentences import open_zone_sentences, took
from chunkfront.sweep import shown
from instances.check import Violation
from instances.instance import Instance
from instances.metrics import UNITS, json_key
from instances.objectives import OBJECTIVES
from instances.schedule import Schedule
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, Frontier, Result

CLAIRVOYANT = "The optimum is clairvoyant: it knows all arrivals and output lengths, an online policy does not."
SHOWN_METRICS = ("makespan", "max_tbt", "mean_ttft", "mean_e2e", "throughput")
"""Metrics that tables show beside the axes, as far as there is room."""
SHOWN_ITERATIONS = 40
SHOWN_INTERVALS = 5


def number(value: float | int | None) -> str:
    """Return a value as tables show it: integers as they are, others with 3 decimals, None as a dash."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def percent(ratio: float | None, *, signed: bool = False) -> str:
    """Return a ratio as a percentage with one decimal, None as a dash."""
    if ratio is None:
        return "-"
    return f"{ratio:+.1%}" if signed and ratio else f"{ratio:.1%}"


def plain_table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; `columns` are pairs of heading and alignment (left or right), the first is never wrapped."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for at, (heading, align) in enumerate(columns):
        table.add_column(
            Text(heading), justify="right" if align == "right" else "left", overflow="fold", no_wrap=at == 0
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def frontier_sentence(instance: Instance, frontier: Frontier, wall_s: float | None) -> str:
    """Return what was found, in one sentence."""
    count = len(frontier.points)
    proved = sum(point.status == OPTIMAL for point in frontier.points)
    axes = " x ".join(frontier.axes)
    if frontier.status == INFEASIBLE:
        verdict = "no schedule obeys the limits (proved)"
    elif frontier.complete:
        unit = frontier.units[1] if len(frontier.axes) == 2 else "ms"
        grid = "" if frontier.resolution is None else f" on a grid of {frontier.resolution:g} {unit}"
        verdict = f"{count} point{'s' * (count != 1)}, all proved, none missing{grid}"
    elif count:
        verdict = f"cut short: {count} point{'s' * (count != 1)}, {proved} of them proved; more may exist"
    else:
        verdict = "nothing found and nothing proved within the time limit"
    stopped = ", interrupted" if frontier.interrupted else ""
    return f"Frontier of {instance.name}, {axes}: {verdict} ({took(wall_s)}{stopped})."


def open_interval_sentences(frontier: Frontier) -> list[str]:
    """Return one sentence per interval (zone of three axes) where points may be missing, and what helps."""
    if frontier.open_zones:
        return open_zone_sentences(frontier)
    units = dict(zip(frontier.axes, frontier.units, strict=True))
    sentences = []
    for interval in frontier.open_intervals:
        ends = [f"{word} {interval[word]:g} {units[interval['axis']]}" for word in ("above", "below")
                if interval.get(word) is not None]  # fmt: skip
        sentences.append(f"Open: points may be missing where {interval['axis']} is {' and '.join(ends) or 'anything'}.")
    if len(sentences) > SHOWN_INTERVALS:
        sentences[SHOWN_INTERVALS:] = [f"... and {len(sentences) - SHOWN_INTERVALS} more intervals like these."]
    if sentences and frontier.resolution is None and not frontier.interrupted:
        sentences.append(f"More time helps, or a grid on {frontier.axes[1]} (--resolution, in {frontier.units[1]}).")
    return sentences


def frontier_table(frontier: Frontier) -> Table:
    """Return the points with their proof status, and more metrics of the schedules that show them."""
    more = [name for name in SHOWN_METRICS if name not in frontier.axes][:3]
    columns = [("#", "right")]
    columns += [(f"{axis} ({unit})", "right") for axis, unit in zip(frontier.axes, frontier.units, strict=True)]
    columns += [("status", "left"), *((f"{name} ({UNITS[name]})", "right") for name in more)]
    rows = [
        [str(index), *map(number, point.values), point.status.lower(),
         *(number(point.metrics.get(json_key(name))) for name in more)]
        for index, point in enumerate(frontier.points)
    ]  # fmt: skip
    return plain_table("Frontier", columns, rows)


def policies_table(frontier: Frontier, compared: Sequence[ComparedPolicy]) -> Table:
    """Return the heuristics in the plane of the frontier."""
    rows = [[policy.name, *_plane_cells(frontier, policy)] for policy in compared]
    columns = [("policy", "left"), *_plane_columns(frontier)]
    return plain_table("Heuristics in the same plane", columns, rows)


def curves_table(frontier: Frontier, curves: Sequence[Curve]) -> Table:
    """Return what the policies of a sweep reached in the plane of the frontier, value by value."""
    key = curves[0].sweep.key
    rows = [
        [curve.policy, shown(value), *_plane_cells(frontier, place)]
        for curve in curves
        for value, place in zip(curve.values, curve.places, strict=True)
    ]
    return plain_table(f"Sweep of {key}", [("policy", "left"), (key, "right"), *_plane_columns(frontier)], rows)


def _plane_columns(frontier: Frontier) -> list[tuple[str, str]]:
    columns = [(f"{axis} ({unit})", "right") for axis, unit in zip(frontier.axes, frontier.units, strict=True)]
    return [*columns, *((f"excess {axis}", "right") for axis in frontier.axes), ("dominated by", "left")]


def _plane_cells(frontier: Frontier, policy: ComparedPolicy) -> list[str]:
    excess = [percent(policy.excess[axis], signed=True) for axis in frontier.axes]
    return [*map(number, policy.values), *excess, _standing(policy)]


def _standing(policy: ComparedPolicy) -> str:
    if not policy.comparable:
        return "see below"
    return "-" if policy.dominated_by is None else f"#{policy.dominated_by}"


def reasons(reason_of: Mapping[str, str | None]) -> list[str]:
    """Return why policies are not comparable, one sentence per reason; `reason_of` holds None for the others."""
    names: dict[str, list[str]] = {}
    for name, reason in reason_of.items():
        if reason is not None:
            names.setdefault(reason, []).append(name)
    return [f"Not comparable: {', '.join(who)}: {reason}." for reason, who in names.items()]


def result_sentence(result: Result, unit: str) -> str:
    """Return the answer of a solve in one sentence."""
    tail = f"({took(result.wall_s)}{', interrupted' if result.interrupted else ''})."
    if result.status == INFEASIBLE:
        return f"INFEASIBLE: no schedule obeys the limits, proved {tail}"
    if result.value is None:
        bound = "" if result.bound is None else f"; proved bound on {result.minimize}: {number(result.bound)} {unit}"
        return f"UNKNOWN: neither a schedule nor a proof that there is none{bound} {tail}"
    text = f"{result.status}: {result.minimize} = {number(result.value)} {unit}"
    if result.status == FEASIBLE:
        return f"{text}, proved bound {number(result.bound)} {unit}, gap {percent(result.gap)} {tail}"
    return f"{text}, proved {tail}"


def comparison_table(comparison: Comparison) -> Table:
    """Return policies x metrics, each value with its gap to what is proved; the first row is what is proved."""
    units = {name: OBJECTIVES[name].unit for name in comparison.metrics}
    columns = [("", "left"), *((f"{name} ({units[name]})", "right") for name in comparison.metrics)]
    rows = [["optimum", *(_proved(comparison.results.get(name)) for name in comparison.metrics)]]
    for policy in comparison.policies:
        cells = [policy.run.name]
        for name in comparison.metrics:
            gap = policy.gaps[name]
            cells.append(number(policy.values[name]) + ("" if gap is None else f" ({percent(gap)})"))
        rows.append(cells)
    return plain_table(f"{comparison.instance}: values, and gaps to the optimum", columns, rows)


def _proved(result: Result | None) -> str:
    if result is None:
        return "not run"
    if result.status == OPTIMAL:
        return number(result.value)
    if result.value is None:
        return result.status.lower()
    return f"within {number(result.bound)} .. {number(result.value)}"


def metrics_table(metrics: Mapping[str, Any]) -> Table:
    """Return all metrics, two per line."""
    cells = [(name, number(value)) for name, value in metrics.items()]
    half = -(-len(cells) // 2)
    rows = [[*cells[k], *(cells[k + half] if k + half < len(cells) else ("", ""))] for k in range(half)]
    return plain_table("Metrics", [("metric", "left"), ("value", "right")] * 2, rows)


def sweep_table(document: Mapping[str, Any]) -> Table:
    """Return one row of metrics per value, of the document of ``simulate --sweep``."""
    key = document["sweep"]["key"]
    columns = [(key, "right"), *((f"{name} ({UNITS[name]})", "right") for name in SHOWN_METRICS), ("", "left")]
    rows = [
        [shown(run["value"]), *(number(run.get("metrics", {}).get(json_key(name))) for name in SHOWN_METRICS),
         "" if run["comparable"] else "see below"]
        for run in document["runs"]
    ]  # fmt: skip
    return plain_table(f"{document['policy']} on {document['instance']}, by {document['sweep']['kind']}", columns, rows)


def schedule_table(schedule: Schedule) -> Table:
    """Return the first iterations: when, how long, and who does what."""
    rows = []
    for index, iteration in enumerate(schedule.iterations[:SHOWN_ITERATIONS]):
        work = [f"{name}+{tokens}" for name, tokens in iteration.prefill.items()]
        moves = [f"evict {name}" for name in iteration.evict] + [f"restore {name}" for name in iteration.restore]
        rows.append([str(index), number(iteration.start_us / 1000), number(iteration.duration_us / 1000),
                     " ".join(work), " ".join(iteration.decode), ", ".join(moves)])  # fmt: skip
    columns = [("#", "right"), ("start (ms)", "right"), ("lasts (ms)", "right"), ("prefill", "left"),
               ("decode", "left"), ("moves", "left")]  # fmt: skip
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    count = len(schedule.iterations)
    shown = f", the first {SHOWN_ITERATIONS}" if count > SHOWN_ITERATIONS else ""
    return plain_table(f"Schedule by {schedule.producer}: {count} iteration{'s' * (count != 1)}{shown}", columns, rows)


def violations_table(violations: Sequence[Violation]) -> Table:
    """Return every broken rule."""
    rows = [
        [v.rule, number(v.iteration), v.request or "-", number(v.value), number(v.limit), v.message]
        for v in violations
    ]  # fmt: skip
    columns = [("rule", "left"), ("iteration", "right"), ("request", "left"), ("value", "right"), ("limit", "right"),
               ("message", "left")]  # fmt: skip
    return plain_table(f"Invalid: {len(rows)} broken rule{'s' * (len(rows) != 1)}", columns, rows)
