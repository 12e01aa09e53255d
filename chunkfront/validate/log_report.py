"""What there is to say about a decision log beside its violations and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkfront.compare import PolicyRun
from chunkfront.gaps import compare_with_optima
from chunkfront.tables import number, percent
from chunkfront.validate.library import METRICS, known_results
from instances.decision_log import DecisionLog
from instances.instance import Instance
from instances.log_check import CheckedLog
from instances.units import ms_from_us


def log_summary(instance: Instance, log: DecisionLog, found: CheckedLog, *, measured: bool) -> dict[str, Any]:
    """Return the part ``log`` of ``check --log --json``.

    Keys: ``file``, ``iterations``, ``computed_ends`` (from the cost model), ``ignored_keys``, ``cost_model`` (how far
    it is from measured durations, None unless the times are measured) and ``gaps`` (to best-known values, where the
    library holds the instance and the log is valid).
    """
    return {
        "file": log.file,
        "iterations": len(log.decisions),
        "computed_ends": found.computed_ends,
        "ignored_keys": list(log.ignored),
        "cost_model": _cost_model(log, found) if measured else None,
        "gaps": None if found.violations else _gaps(instance, found),
    }


def _cost_model(log: DecisionLog, found: CheckedLog) -> dict[str, Any] | None:
    """Return measured against modelled durations, over the iterations whose end the log tells."""
    iterations = zip(log.decisions, found.schedule.iterations, found.modelled_us, strict=True)
    pairs = [(decision.line, iteration.duration_us, modelled) for decision, iteration, modelled in iterations
             if decision.end_us is not None]  # fmt: skip
    if not pairs:
        return None
    line, took, said = max(pairs, key=lambda pair: abs(pair[1] - pair[2]))
    return {
        "iterations": len(pairs),
        "measured_ms": ms_from_us(sum(took for _, took, _ in pairs)),
        "modelled_ms": ms_from_us(sum(said for _, _, said in pairs)),
        "mean_error_ms": ms_from_us(sum(abs(took - said) for _, took, said in pairs)) / len(pairs),
        "worst": {"line": line, "measured_ms": ms_from_us(took), "modelled_ms": ms_from_us(said)},
    }


def _gaps(instance: Instance, found: CheckedLog) -> dict[str, float | None]:
    run = PolicyRun("log", found.schedule)
    return dict(compare_with_optima(instance, [run], METRICS, known_results(instance)).policies[0].gaps)


def log_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return the summary in words."""
    lines = []
    if summary["ignored_keys"]:
        lines.append(f"Ignored keys: {', '.join(summary['ignored_keys'])}.")
    if summary["computed_ends"]:
        lines.append(f"{summary['computed_ends']} of {summary['iterations']} ends come from the cost model.")
    model = summary["cost_model"]
    if model is not None:
        worst = model["worst"]
        lines.append(
            f"Cost model: {number(model['modelled_ms'])} ms in all, measured {number(model['measured_ms'])} ms; off by "
            f"{number(model['mean_error_ms'])} ms per iteration, most on line {worst['line']} "
            f"({number(worst['measured_ms'])} ms measured, {number(worst['modelled_ms'])} ms modelled)."
        )
    known = {name: gap for name, gap in (summary["gaps"] or {}).items() if gap is not None}
    if known:
        gaps = ", ".join(f"{name} {percent(gap)}" for name, gap in known.items())
        lines.append(f"Gap to what is proved: {gaps}.")
    return lines
