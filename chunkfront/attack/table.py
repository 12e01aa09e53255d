"""The bundled worst cases as a table in Markdown, one row per policy, as the documentation shows it."""

from __future__ import annotations

from typing import Any

from heuristics.registry import policy_names
from instances.bundled import WORST, worst_names, worst_proof


def worst_table() -> str:
    """Return the table: per policy and metric the ratio, and the two values in ms."""
    proofs = {name.removeprefix(WORST): worst_proof(name) for name in worst_names()}
    metrics = sorted({proof["metric"] for proof in proofs.values()})
    lines = [
        "| policy | " + " | ".join(_heading(metric, proofs) for metric in metrics) + " |",
        "|---" * (len(metrics) + 1) + "|",
    ]
    for policy in policy_names():
        cells = [_cell(proofs.get(f"{policy}-{metric}")) for metric in metrics]
        lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _heading(metric: str, proofs: dict[str, dict[str, Any]]) -> str:
    no_worse = next(proof["no_worse"] for proof in proofs.values() if proof["metric"] == metric)
    return f"{metric}, no worse in {' and '.join(no_worse)}" if no_worse else metric


def _cell(proof: dict[str, Any] | None) -> str:
    if proof is None:
        return "none found"
    return f"**{proof['ratio']:.2f}** ({proof['value']:g} : {proof['optimum']:g})"
