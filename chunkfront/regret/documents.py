"""The JSON documents of ``chunkfront why``. Keys are stable: scripts read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkfront.regret.online import Online
from chunkfront.regret.path import LatencyPath, Part
from chunkfront.regret.split import Figure, Regret
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from instances.units import ms_from_us


def lost(instance: Instance, objective: str, amount: int) -> float:
    """Return a difference of amounts in the metric's unit, positive where value is lost."""
    of = OBJECTIVES[objective].value_of
    difference = of(instance, amount) - of(instance, 0)
    return float(-difference if OBJECTIVES[objective].maximise else difference)


def regret_document(
    instance: Instance, producer: str, regret: Regret, online: Online | None, *, interrupted: bool
) -> dict[str, Any]:
    """Return the document of a regret split by kind of decision; values in the unit of the metric."""
    objective = OBJECTIVES[regret.objective]

    def figure(found: Figure) -> dict[str, Any]:
        value, low, high = (lost(instance, objective.name, x) for x in (found.amount, found.low, found.high))
        return {"value": value, "bounds": [low, high], "status": found.status}

    def of_gap(found: Figure) -> float | None:
        return found.amount / regret.gap.amount if regret.gap.amount else None

    document: dict[str, Any] = {
        "instance": instance.name,
        "policy": producer,
        "metric": objective.name,
        "unit": objective.unit,
        "value": objective.value(instance, regret.amount),
        "optimum": {
            "value": objective.value(instance, regret.optimum.amount),
            "bound": objective.value(instance, regret.optimum.bound),
            "status": regret.optimum.status,
        },
        "gap": figure(regret.gap),
        "shares": [
            {"freedom": s.freedom, **figure(s.cost), "share": of_gap(s.cost), "gain": figure(s.gain)}
            for s in regret.shares
        ],
        "interaction": {**figure(regret.interaction), "share": of_gap(regret.interaction)},
        "wall_s": regret.wall_s,
        "interrupted": interrupted,
    }
    if online is not None:
        document["online"] = _online(instance, regret, online)
    return document


def _online(instance: Instance, regret: Regret, online: Online) -> dict[str, Any]:
    if online.amount is None:
        return {"policy": online.policy, "value": None, "reason": online.reason}
    low, high = online.amount - regret.optimum.amount, online.amount - regret.optimum.bound
    return {
        "policy": online.policy,
        "value": OBJECTIVES[regret.objective].value(instance, online.amount),
        "price": lost(instance, regret.objective, low),
        "price_bounds": [lost(instance, regret.objective, x) for x in (low, high)],
        "lost_online": lost(instance, regret.objective, regret.amount - online.amount),
    }


def path_document(instance: Instance, producer: str, path: LatencyPath) -> dict[str, Any]:
    """Return the document of one request's critical path; the parts sum to the latency."""
    return {
        "instance": instance.name,
        "policy": producer,
        "request": path.request,
        "ttft_ms": None if path.ttft_us is None else ms_from_us(path.ttft_us),
        "ttft_parts": None if path.first is None else _parts(path.first),
        "e2e_ms": ms_from_us(path.e2e_us),
        "e2e_parts": _parts(path.last),
    }


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [{"state": p.state, "cause": p.cause, "request": p.request, "ms": ms_from_us(p.us)} for p in parts]
