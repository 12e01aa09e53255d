"""The sentences of a report: what was asked, and how to ask it again."""

from __future__ import annotations

import shlex
from typing import Any

from chunkfront.report.read import FrontierFile
from instances.instance import Instance
from instances.objectives import OBJECTIVES


def question(instance: Instance, found: FrontierFile) -> str:
    """Return the question that the frontier answers."""
    axes = [
        f"{name} ({unit}, {'larger' if OBJECTIVES[name].maximise else 'smaller'} is better)"
        for name, unit in zip(found.axes, found.units, strict=True)
    ]
    count = len(instance.requests)
    whose = f"{count} requests" if count != 1 else "one request"
    text = f"Which combinations of {', '.join(axes[:-1])} and {axes[-1]} can any schedule of these {whose} reach"
    return f"{text}, and how far from them are the heuristics?"


def conditions(found: FrontierFile) -> list[str]:
    """Return what every schedule must obey beside the instance's own limits, one sentence each."""
    sentences = []
    for name, limit in found.settings.get("limits", {}).items():
        if name in OBJECTIVES:
            most = "at least" if OBJECTIVES[name].maximise else "at most"
            sentences.append(f"Limit: {name} is {most} {limit:g} {OBJECTIVES[name].unit}.")
    if found.settings.get("no_pause"):
        sentences.append("No pauses: every prefilled resident decodes in every iteration.")
    if found.resolution is not None:
        unit = found.units[1] if len(found.axes) == 2 else "ms"
        later = " and ".join(found.axes[1:])
        sentences.append(f"Grid: points are told apart by {found.resolution:g} {unit} on {later}.")
    return sentences


def command(found: FrontierFile) -> str:
    """Return the command that asks the same question, given the instance as ``instance.json``."""
    settings: dict[str, Any] = found.settings
    parts = ["chunkfront", "frontier", "instance.json", "--axes", ",".join(found.axes)]
    for name, limit in settings.get("limits", {}).items():
        parts += ["--limit", f"{name}={limit!r}"]
    for key in ("policies", "sweep", "resolution", "time_limit_s", "max_preemptions", "workers", "seed"):
        if settings.get(key) is not None:
            parts += [f"--{key.removesuffix('_s').replace('_', '-')}", str(settings[key])]
    parts += [f"--{key.replace('_', '-')}" for key in ("no_pause", "deterministic") if settings.get(key)]
    return shlex.join(parts)
