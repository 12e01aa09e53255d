"""The library of best-known values: proved optima and bounds of bundled and generated instances, shipped as JSON.

``instances/data/best_known.json`` is made by ``python -m benchmarks.best_known`` and nothing else. An entry belongs to
one instance and one metric and says what is proved, when, by what, on what, in what time, and whether the checker
accepted the schedule that shows the value. It holds for the instance as it was: a fingerprint guards that. Where the
engine may evict, it holds within one eviction per request (`solver.model.solve`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from instances.instance import Instance
from solver.result import Result

FORMAT = "chunkfront/best-known@1"
METRICS = ("makespan", "max_tbt", "mean_ttft", "mean_e2e")
"""Objectives that the library knows."""
NOT_THE_PROBLEM = ("name", "description", "source", "axes", "format")
"""Fields of an instance that do not change its optima."""


@dataclass(frozen=True)
class BestKnown:
    """What is known about one metric of one instance.

    Parameters
    ----------
    instance
        Its key (`chunkfront.validate.suite.instance_of`).
    fingerprint
        Of the instance (`fingerprint`).
    metric
        Name of the objective.
    status
        ``OPTIMAL`` or ``FEASIBLE``.
    value, bound
        In the metric's unit: of the best schedule found, and proved.
    amount, bound_amount
        The same as exact integers (`instances.objectives`).
    wall_s
        Seconds that it took.
    date, solver, hardware
        When, with which versions, and on what it was computed.
    checker
        The checker's word on the schedule: ``valid``.
    """

    instance: str
    fingerprint: str
    metric: str
    status: str
    value: float
    bound: float
    amount: int
    bound_amount: int
    wall_s: float
    date: str
    solver: str
    hardware: str
    checker: str

    def result(self) -> Result:
        """Return it in the form of a solver's answer, without a schedule."""
        return Result(self.status, self.metric, self.value, self.bound, wall_s=self.wall_s, amount=self.amount,
                      bound_amount=self.bound_amount)  # fmt: skip


def fingerprint(instance: Instance) -> str:
    """Return what tells two problems apart: a hash of requests, engine and cost, whatever the names."""
    document = {key: value for key, value in instance.to_dict().items() if key not in NOT_THE_PROBLEM}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def best_known() -> tuple[BestKnown, ...]:
    """Return all entries that are shipped."""
    text = (files("instances") / "data" / "best_known.json").read_text(encoding="utf-8")
    return tuple(BestKnown(**entry) for entry in json.loads(text)["entries"])


def known_keys() -> tuple[str, ...]:
    """Return the keys of the instances that the library knows, in its order."""
    return tuple(dict.fromkeys(entry.instance for entry in best_known()))


def known_results(instance: Instance) -> Mapping[str, Result]:
    """Return what is known about an instance, by metric; empty for one that the library does not hold."""
    mark = fingerprint(instance)
    return {entry.metric: entry.result() for entry in best_known() if entry.fingerprint == mark}


def library_text(entries: Sequence[BestKnown]) -> str:
    """Return the JSON text of these entries, one per line."""
    lines = ",\n".join(f"  {json.dumps(vars(entry))}" for entry in entries)
    return f'{{"format": "{FORMAT}", "entries": [\n{lines}\n]}}\n'
