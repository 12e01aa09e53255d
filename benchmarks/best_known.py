"""Makes the library of best-known values: ``python -m benchmarks.best_known [--time-limit S] [--again] [--only KEYS]``.

Solves every objective of every instance of the library, one after the other, and writes the file that is shipped,
``instances/data/best_known.json``, after each instance. What is there and proved stays (``--again``: is proved anew);
what is open is tried again, and the narrower answer is kept. Instances that the exact model refuses are named and left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tomllib
from datetime import date
from importlib.metadata import version
from pathlib import Path

from chunkfront.validate.library import METRICS, BestKnown, fingerprint, library_text
from chunkfront.validate.suite import instance_of
from instances.bundled import bundled_names
from instances.check import violations
from instances.errors import InputError
from instances.instance import Instance
from solver.model import solve
from solver.result import OPTIMAL

FILE = Path(__file__).parents[1] / "instances" / "data" / "best_known.json"
KEYS = (
    *bundled_names(),
    *(f"serving:{seed}" for seed in range(12)),
    *(f"rounds:4:{seed}" for seed in range(6)),
    *(f"random:{seed}" for seed in range(60)),
)


def main() -> None:
    """Bring the library up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="seconds of one solve")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads of a solve")
    parser.add_argument("--again", action="store_true", help="prove again what is proved")
    parser.add_argument("--only", default="", metavar="KEYS", help="instances whose keys stand in this comma list")
    options = parser.parse_args()
    there = json.loads(FILE.read_text(encoding="utf-8"))["entries"] if FILE.exists() else []
    entries = {(entry["instance"], entry["metric"]): BestKnown(**entry) for entry in there}
    known = {}
    for key in KEYS:
        instance = instance_of(key)
        if len(instance.requests) < 2 or (options.only and key not in options.only.split(",")):
            continue
        for metric in METRICS:
            old = entries.get((key, metric))
            if old is not None and (options.again or old.fingerprint != fingerprint(instance)):
                old = None
            if old is None or old.status != OPTIMAL:
                old = found(key, instance, metric, old, options.time_limit, options.workers)
            if old is not None:
                known[key, metric] = old
        rest = [entry for place, entry in entries.items() if place not in known and place[0] in KEYS]
        done = sorted([*known.values(), *rest], key=lambda e: (KEYS.index(e.instance), METRICS.index(e.metric)))
        FILE.write_text(library_text(done), encoding="utf-8")


def found(
    key: str, instance: Instance, metric: str, old: BestKnown | None, time_limit: float, workers: int
) -> BestKnown | None:
    """Return what is known about a metric after another solve."""
    try:
        result = solve(instance, metric, time_limit=time_limit, workers=workers)
    except InputError as problem:
        print(f"{key}: left out: {problem}", flush=True)
        return old
    print(f"{key} {metric}: {result.status} {result.value} >= {result.bound} ({result.wall_s:.1f} s)", flush=True)
    if result.schedule is None or result.amount is None or result.bound_amount is None:
        return old
    assert result.value is not None
    assert result.bound is not None
    assert not violations(instance, result.schedule)
    if old is not None and not old.bound_amount <= result.amount >= result.bound_amount <= old.amount:
        raise SystemExit(f"{key} {metric}: contradicts what is known ({old.bound} .. {old.value}): try --again")
    if old is not None and result.status != OPTIMAL and (
        result.amount - result.bound_amount >= old.amount - old.bound_amount
    ):  # fmt: skip
        return old
    return BestKnown(
        key, fingerprint(instance), metric, result.status, result.value, result.bound, result.amount,
        result.bound_amount, round(result.wall_s or 0.0, 2), date.today().isoformat(),
        f"chunkfront {own_version()}, ortools {version('ortools')}", hardware(workers), "valid",
    )  # fmt: skip


def own_version() -> str:
    """Return the version of this program, as its project file says."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def hardware(workers: int) -> str:
    """Return processor and threads in words."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, {workers} workers"


if __name__ == "__main__":
    main()
