"""A find as files: the instance, both schedules, and the proof that says what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chunkfront import output
from chunkfront.attack.judge import Question, Verdict
from chunkfront.attack.search import Find
from instances.instance import Instance
from instances.objectives import OBJECTIVES

FORMAT = "chunkfront/worst-case@1"


def named(verdict: Verdict, question: Question, name: str, origin: str) -> Instance:
    """Return the instance of a find under a name, saying what it shows and where it comes from."""
    metric = question.metric
    value, best = (OBJECTIVES[metric].value(verdict.instance, x) for x in (verdict.amount, verdict.optimum.amount or 0))
    allowed = "".join(f", no worse in {other}" for other in question.no_worse)
    description = (
        f"A worst case of {verdict.policy}: {metric} {value:g} ms, {float(verdict.ratio):.3g} times the optimum of "
        f"{best:g} ms{allowed}."
    )
    axes = (metric, question.no_worse[0] if question.no_worse else "makespan" if metric != "makespan" else "mean_e2e")
    found = verdict.instance
    return Instance(name, found.requests, found.engine, found.cost, description, origin,
                    None if axes[0] == axes[1] else axes)  # fmt: skip


def proof_document(find: Find, question: Question, name: str) -> dict[str, Any]:
    """Return the proof of a find; ``ratio`` is value over optimum as a number, and exact as [numerator, denominator].

    The policy's schedule shows its value, the optimum's schedule that so little is possible; that nothing less is, the
    solver proved (``bound``, ``status``) under ``limits``.
    """
    verdict = find.verdict
    if verdict is None:
        return {"format": FORMAT, "instance": None, "metric": question.metric, "judged": find.judged,
                "finished": find.finished, "wall_s": find.wall_s, "interrupted": find.interrupted}  # fmt: skip
    objective = OBJECTIVES[question.metric]
    return {
        "format": FORMAT,
        "instance": name,
        "policy": verdict.policy,
        "metric": question.metric,
        "unit": objective.unit,
        "value": objective.value(verdict.instance, verdict.amount),
        "optimum": verdict.optimum.value,
        "bound": verdict.optimum.bound,
        "status": verdict.optimum.status,
        "ratio": float(verdict.ratio),
        "exact_ratio": [verdict.ratio.numerator, verdict.ratio.denominator],
        "no_worse": list(question.no_worse),
        "limits": dict(verdict.limits),
        "no_pause": question.no_pause,
        "max_preemptions": question.max_preemptions,
        "judged": find.judged,
        "finished": find.finished,
        "wall_s": find.wall_s,
        "interrupted": find.interrupted,
        "policy_schedule": verdict.schedule.to_dict() | {"instance": name},
        "optimal_schedule": {} if verdict.optimum.schedule is None
        else verdict.optimum.schedule.to_dict() | {"instance": name},
    }  # fmt: skip


def write_find(path: Path, instance: Instance, document: dict[str, Any]) -> list[Path]:
    """Write the instance to `path`, and beside it the schedules and the proof; return the files."""
    beside = {end: path.with_name(f"{path.stem}.{end}.json") for end in ("policy", "optimum", "proof")}
    output.write_file(path, instance.to_json())
    output.write_file(beside["policy"], output.json_text(document["policy_schedule"]))
    output.write_file(beside["optimum"], output.json_text(document["optimal_schedule"]))
    output.write_file(beside["proof"], output.json_text(document))
    return [path, *beside.values()]
