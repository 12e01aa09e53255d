"""The rows of ``simulate --sweep``: one per value, with metrics, standing, and schedule and decisions where kept."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from chunkfront import output
from chunkfront.documents import run_document
from chunkfront.sweep import Sweep, Variant, failure_of, looser, shown, variants
from heuristics.simulator import simulate, summarise
from instances.errors import InputError
from instances.instance import Instance


@dataclass(frozen=True)
class Row:
    """One value of a sweep.

    Parameters
    ----------
    value, name
        The value, and the policy with it.
    document
        What ``simulate --json`` says about the run: policy, metrics and more; no metrics where it failed.
    reason
        Why the run is not comparable with the instance's optimum; None where it is.
    """

    value: Any
    name: str
    document: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None

    @property
    def metrics(self) -> Mapping[str, Any]:
        """All metrics, keys with units; empty where the run failed."""
        found: Mapping[str, Any] = self.document.get("metrics", {})
        return found


def sweep_rows(instance: Instance, sweep: Sweep, *, summary: bool) -> list[Row]:
    """Run the one policy of a sweep at every value.

    Parameters
    ----------
    instance, sweep
        What to run.
    summary
        Keep metrics only.

    Raises
    ------
    InputError
        Where no value could be run, with the reason of the first.
    """
    rows = []
    with output.progress(f"sweep of {sweep.key}") as show:
        for variant in variants(instance, sweep):
            show(shown(variant.value))
            try:
                with redirect_stdout(sys.stderr):  # what a scheduler prints is no answer of ours
                    rows.append(_row(instance, sweep, variant, summary=summary))
            except Exception as problem:
                reason = failure_of(variant.policy, problem)
                rows.append(Row(variant.value, variant.name, reason=reason))
    if not any(row.document for row in rows):
        raise InputError(f"no value can be run: {rows[0].reason}", field="--sweep")
    return rows


def _row(instance: Instance, sweep: Sweep, variant: Variant, *, summary: bool) -> Row:
    if variant.instance is None:
        return Row(variant.value, variant.name, reason=variant.problem)
    reason = looser(instance, sweep, variant.value)
    if summary:
        brief = summarise(variant.instance, variant.policy)
        own_rules = brief.instance.engine != variant.instance.engine
        same = not own_rules and reason is None
        document: dict[str, Any] = {"policy": brief.policy, "metrics": brief.metrics, "instance_rules": same}
        reason = reason or ("it runs on its engine's own rules" if own_rules else None)
        return Row(variant.value, variant.name, document, reason)
    run = simulate(variant.instance, variant.policy)
    document = run_document(run, instance, variant.instance)
    broken = document["violations"]
    if broken and reason is None:
        reason = f"breaks {broken[0]['rule']}: {broken[0]['message']}"
    return Row(variant.value, variant.name, document, reason)


def sweep_document(instance: Instance, sweep: Sweep, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the document of ``simulate --sweep --json``: every run as without a sweep, with value and standing."""
    return {
        "instance": instance.name,
        "policy": sweep.policies[0].spec,
        "sweep": {"key": sweep.key, "kind": sweep.kind, "values": list(sweep.values)},
        "runs": [
            {"value": row.value, "name": row.name, "comparable": row.reason is None,
             **({} if row.reason is None else {"reason": row.reason}), **row.document}
            for row in rows
        ],
    }  # fmt: skip


def sweep_csv(sweep: Sweep, rows: Sequence[Row]) -> str:
    """Return one line per value, with all metrics."""
    keys = list(dict.fromkeys(key for row in rows for key in row.metrics))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([sweep.key, "name", "comparable", "reason", *keys])
    for row in rows:
        standing = [str(row.reason is None).lower(), row.reason]
        writer.writerow([shown(row.value), row.name, *standing, *(row.metrics.get(key) for key in keys)])
    return text.getvalue()
