"""What a validation found, as tables for people and as the JSON document of ``validate --json``."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from rich.table import Table

from chunkfront.tables import number, percent, plain_table
from chunkfront.validate.conformance import Conformance, Fault
from chunkfront.validate.distance import Distance, Row
from chunkfront.validate.finding import ERROR
from instances.instance import Instance

SHOWN_ROWS = 10
SHOWN_INSTANCES = 4


def conformance_document(found: Conformance, commands: dict[str, str], files: dict[str, str]) -> dict[str, Any]:
    """Return the part ``conformance``; `commands` and `files` say per rule how to see it again."""
    return {
        "conforms": found.conforms,
        "instances": found.tried,
        "not_tried": found.left,
        "findings": [
            {
                "rule": fault.finding.rule,
                "severity": fault.finding.severity,
                "check": fault.check,
                "message": fault.finding.message,
                "iteration": fault.finding.iteration,
                "request": fault.finding.request,
                "value": fault.finding.value,
                "limit": fault.finding.limit,
                "place": fault.finding.place,
                "seen_on": list(fault.seen_on),
                "shrunk_from": fault.shrunk_from,
                "instance": fault.instance.to_dict(),
                "file": files.get(fault.finding.rule),
                "reproduce": commands.get(fault.finding.rule),
            }
            for fault in found.faults
        ],
    }


def distance_document(distance: Distance) -> dict[str, Any]:
    """Return the part ``distance``: everybody's gaps in short, and the scheduler's instance by instance."""
    return {
        "metrics": list(distance.metrics),
        "instances": len(distance.comparisons),
        "not_run": distance.left,
        "policies": [
            {"name": name, **{metric: _spread(distance.gaps(name, metric)) for metric in distance.metrics}}
            for name in distance.names
        ],
        "not_comparable": distance.not_comparable(),
        "rows": [_row(row) for row in distance.rows()],
    }


def _row(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__dataclass_fields__}


def _spread(gaps: Sequence[float]) -> dict[str, Any]:
    if not gaps:
        return {"instances": 0, "optimal": 0, "mean_gap": None, "median_gap": None, "max_gap": None}
    return {"instances": len(gaps), "optimal": sum(gap == 0 for gap in gaps), "mean_gap": mean(gaps),
            "median_gap": median(gaps), "max_gap": max(gaps)}  # fmt: skip


def verdict(name: str, found: Conformance) -> str:
    """Return what the conformance suite says in one sentence."""
    errors = sum(fault.finding.severity == ERROR for fault in found.faults)
    warnings = len(found.faults) - errors
    words = "conforms" if not errors else f"does not conform: {errors} rule{'s' * (errors != 1)} broken"
    remarks = f", {warnings} warning{'s' * (warnings != 1)}" if warnings else ""
    left = f"; {found.left} more were not tried within the time limit" if found.left else ""
    return f"{name} {words}{remarks} ({found.tried} instances{left})."


def faults_lines(found: Conformance, commands: dict[str, str]) -> list[str]:
    """Return every fault in words: what, on which small instance, and how to see it again."""
    lines: list[str] = []
    for fault in found.faults:
        finding = fault.finding
        lines += ["", f"{finding.severity.upper()} {finding.rule}: {finding.message}"]
        numbers = [("iteration", finding.iteration), ("request", finding.request), ("value", finding.value),
                   ("limit", finding.limit)]  # fmt: skip
        lines.append("  " + ", ".join(f"{name} {_said(value)}" for name, value in numbers))
        lines += [f"  on: {text}" for text in described(fault.instance)]
        lines.append(f"  {_seen(fault)}")
        if finding.rule in commands:
            lines.append(f"  again: {commands[finding.rule]}")
    return lines


def _said(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:g}"


def _seen(fault: Fault) -> str:
    names = ", ".join(fault.seen_on[:SHOWN_INSTANCES])
    more = len(fault.seen_on) - SHOWN_INSTANCES
    others = f" and {more} more" if more > 0 else ""
    shrunk = f"; shrunk from {fault.shrunk_from}" if fault.instance.name != fault.shrunk_from else ""
    return f"seen on {names}{others}{shrunk}"


def described(instance: Instance) -> list[str]:
    """Return a small instance in two lines: its requests, and the limits that it sets."""
    document = instance.to_dict()
    requests = "; ".join(
        f"{r['id']} at {r.get('arrival_ms', 0):g} ms, {r['prompt_tokens']} prompt, {r['output_tokens']} output tokens"
        + "".join(f", {key} {value}" for key, value in r.items()
                  if key not in ("id", "arrival_ms", "prompt_tokens", "output_tokens", "class"))
        for r in document["requests"][:SHOWN_INSTANCES]
    )  # fmt: skip
    more = len(document["requests"]) - SHOWN_INSTANCES
    limits = ", ".join(f"{key} {value}" for key, value in document["engine"].items() if value is not None)
    return [requests + (f"; and {more} more requests" if more > 0 else ""), limits]


def distance_table(distance: Distance) -> Table:
    """Return everybody's gaps per metric: mean and worst, and on how many instances optimal."""
    columns = [("policy", "left"), *((metric, "right") for metric in distance.metrics), ("optimal", "right")]
    rows = []
    for name in distance.names:
        spreads = [_spread(distance.gaps(name, metric)) for metric in distance.metrics]
        cells = [f"{percent(s['mean_gap'])}, {percent(s['max_gap'])}" for s in spreads]
        optimal, known = (sum(s[key] for s in spreads) for key in ("optimal", "instances"))
        rows.append([name, *cells, f"{optimal} of {known}"])
    count = len(distance.comparisons)
    return plain_table(f"Gaps to what is proved, over {count} instance{'s' * (count != 1)}: mean, worst", columns, rows)


def worst_table(distance: Distance) -> Table:
    """Return the scheduler's worst instances, the worst first."""
    rows = [
        [row.instance, row.metric, number(row.value), number(row.best_known) + ("" if row.proved else " *"),
         percent(row.gap) if row.proved else f"{percent(row.least_gap)} .. {percent(row.gap)}",
         "-" if row.nearest is None else f"{row.nearest} ({percent(row.nearest_gap)})"]
        for row in distance.rows()[:SHOWN_ROWS]
    ]  # fmt: skip
    columns = [("worst instances", "left"), ("metric", "left"), ("value (ms)", "right"), ("best known", "right"),
               ("gap", "right"), ("nearest built-in policy", "left")]  # fmt: skip
    return plain_table(f"{distance.scheduler}: the worst first (*: not proved optimal)", columns, rows)


def distance_sentences(distance: Distance) -> list[str]:
    """Return what the tables leave out: instances without a gap, and those that were not run."""
    lines = []
    reasons = distance.not_comparable()
    if reasons:
        instance, reason = next(iter(reasons.items()))
        lines.append(f"No gap on {len(reasons)} of {len(distance.comparisons)} instances, like {instance}: {reason}.")
    if distance.left:
        lines.append(f"{distance.left} instances were not run within the time limit.")
    return lines
