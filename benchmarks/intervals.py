"""The slot model of arXiv 2502.07115: what intervals prove, beside its time-indexed IP on HiGHS, and MC-SF's ratio.

Usage, in the repository::

    python -m benchmarks.intervals [--sizes 8,12,20,50] [--seeds 0-19] [--limits 8=20,12=60] [--ip] [--ip-limit S]

Per size the instances of Model 1 (all requests at time 0, `instances.generate.rounds_instance`), mean E2E minimised
without pauses. A row per instance as soon as it is solved, then the means: gap, MC-SF's ratio to the best schedule
and to the proved bound, and how many times faster to proof than the IP, which counts with its limit where it runs
out of time. The exit code is 1 where the two contradict each other.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # as a script, the folder of this file stands there alone

import numpy as np  # noqa: E402

from heuristics.simulator import simulate  # noqa: E402
from instances.generate import rounds_instance  # noqa: E402
from instances.instance import Instance  # noqa: E402
from instances.metrics import amounts  # noqa: E402
from instances.units import US_PER_MS  # noqa: E402
from solver.model import solve  # noqa: E402
from solver.result import OPTIMAL  # noqa: E402

PAPER = 1.005
"""Mean of TEL(MC-SF) / TEL(OPT) that the paper reports for Model 1 with 40 to 60 requests."""
DEFAULT_LIMITS = {8: 20.0, 12: 60.0, 20: 120.0}
OTHER_LIMIT = 300.0


@dataclass(frozen=True)
class Row:
    """One instance: sums of ends in rounds, seconds; the IP's fields are None where it did not run."""

    seed: int
    value: int
    bound: int
    seconds: float
    mc_sf: int
    ip_value: int | None = None
    ip_bound: int | None = None
    ip_seconds: float | None = None

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return (self.value - self.bound) / self.value


def time_indexed_ip(
    instance: Instance, cap: int, time_limit: float, threads: int
) -> tuple[int | None, int, float]:
    """Solve the paper's IP on HiGHS; return (value, bound, seconds), the value None without a schedule.

    ``x[i, t]`` starts request i in round t; each starts once, and in every round the KV of all is within the pool. The
    paper does not say how it bounds the rounds: here starts are left out that alone would exceed `cap`, the sum of
    ends of the best heuristic, everybody else starting at once.
    """
    import highspy

    started = time.monotonic()
    spans = [(r.prompt_tokens, r.output_tokens) for r in instance.requests]
    spare = cap - sum(o for _, o in spans)
    last = min(spare, sum(o for _, o in spans))
    entries = [(i, t) for i in range(len(spans)) for t in range(last + 1)]
    columns = {entry: k for k, entry in enumerate(entries)}
    rows: list[dict[int, int]] = [{} for _ in range(len(spans) + last + max(o for _, o in spans))]
    for (i, t), k in columns.items():
        prompt, outputs = spans[i]
        rows[i][k] = 1
        for j in range(outputs):
            rows[len(spans) + t + j][k] = prompt + j
    once = len(spans)
    pool = float(instance.engine.num_kv_blocks or 0)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(entries), len(rows)
    model.col_cost_ = np.array([t + spans[i][1] for i, t in entries], dtype=np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(len(entries)), np.ones(len(entries))
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(entries)
    model.row_lower_ = np.array([1.0 if k < once else -highspy.kHighsInf for k in range(len(rows))])
    model.row_upper_ = np.array([1.0 if k < once else pool for k in range(len(rows))])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row) for row in rows)])
    model.a_matrix_.index_ = np.array([k for row in rows for k in row])
    model.a_matrix_.value_ = np.array([v for row in rows for v in row.values()], dtype=np.float64)
    highspy.Highs.resetGlobalScheduler(True)  # else it refuses another number of threads than the first one
    highs = highspy.Highs()
    highs.silent()
    for option, value in (("threads", threads), ("mip_rel_gap", 0.0), ("time_limit", time_limit)):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    highs.run()
    info = highs.getInfo()
    found = round(info.objective_function_value) if math.isfinite(info.objective_function_value) else None
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        found = None
    bound = math.ceil(info.mip_dual_bound - 1e-6) if math.isfinite(info.mip_dual_bound) else 0
    return found, bound, time.monotonic() - started


def solved(seed: int, size: int, limit: float, ip_limit: float | None, workers: int) -> Row:
    """Solve one instance by intervals, and by the IP where it has a limit."""
    instance = rounds_instance(seed, size)
    mc_sf = amounts(instance, simulate(instance, "mc-sf").schedule)["mean_e2e"] // US_PER_MS
    started = time.monotonic()
    result = solve(instance, "mean_e2e", no_pause=True, time_limit=limit, workers=workers)
    seconds = time.monotonic() - started
    assert result.amount is not None
    assert result.bound_amount is not None
    value, bound = result.amount // US_PER_MS, -(-result.bound_amount // US_PER_MS)
    assert (result.status == OPTIMAL) == (value == bound)
    if ip_limit is None:
        return Row(seed, value, bound, seconds, mc_sf)
    return Row(seed, value, bound, seconds, mc_sf, *time_indexed_ip(instance, mc_sf, ip_limit, workers))


def shown(row: Row) -> str:
    """Return the line of one instance."""
    line = f"{row.seed:6}{row.value:8}{row.bound:8}{row.gap:8.1%}{row.seconds:8.1f}{row.mc_sf / row.value:8.3f}"
    if row.ip_seconds is None:
        return line
    ip_value = "-" if row.ip_value is None else str(row.ip_value)
    return f"{line}{ip_value:>10}{row.ip_bound or 0:8}{row.ip_seconds:8.1f}"


def summary(size: int, rows: Sequence[Row], ip_limit: float | None) -> str:
    """Return the lines about one size."""
    count = len(rows)
    proved = [row for row in rows if row.value == row.bound]
    lines = [
        f"n = {size}: {len(proved)} of {count} proved, mean gap {sum(r.gap for r in rows) / count:.1%}, largest "
        f"{max(r.gap for r in rows):.1%}, seconds mean {sum(r.seconds for r in rows) / count:.1f}, "
        f"largest {max(r.seconds for r in rows):.1f}",
        f"  MC-SF / best: mean {sum(r.mc_sf / r.value for r in rows) / count:.3f}, largest "
        f"{max(r.mc_sf / r.value for r in rows):.3f}; MC-SF / bound: mean "
        f"{sum(r.mc_sf / r.bound for r in rows) / count:.3f} (the paper, 40 to 60 requests: {PAPER})",
    ]
    raced = [(row, row.ip_seconds) for row in proved if row.ip_seconds is not None]
    if raced and ip_limit is not None:
        ratios = [math.log(seconds / max(row.seconds, 0.01)) for row, seconds in raced]
        ended = sum(row.ip_value == row.ip_bound for row, _ in raced)
        lines.append(
            f"  time to proof against the IP on HiGHS, {len(raced)} proved instances (the IP proved {ended} of them in "
            f"{ip_limit:g} s): {math.exp(sum(ratios) / len(ratios)):.1f} x faster (geometric mean)"
        )
    return "\n".join(lines)


def contradicts(row: Row) -> bool:
    """Return whether a bound of one side lies above a value of the other."""
    below_theirs = row.ip_value is not None and row.ip_value < row.bound
    return below_theirs or (row.ip_bound is not None and row.ip_bound > row.value)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.intervals", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="8,12,20,50", help="numbers of requests")
    parser.add_argument("--seeds", default="0-19", help="first and last seed")
    defaults = ",".join(f"{size}={limit:g}" for size, limit in DEFAULT_LIMITS.items())
    parser.add_argument("--limits", default=defaults, help=f"seconds per size (default {defaults}; {OTHER_LIMIT:g})")
    parser.add_argument("--ip", action="store_true", help="the paper's time-indexed IP on HiGHS beside it")
    parser.add_argument("--ip-limit", type=float, default=300.0, help="seconds per instance of the IP")
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = parsed(arguments)
    limits = {int(size): float(limit) for size, _, limit in (e.partition("=") for e in options.limits.split(","))}
    first, _, last = options.seeds.partition("-")
    ip_limit = options.ip_limit if options.ip else None
    bad = False
    for size in map(int, options.sizes.split(",")):
        limit = limits.get(size, OTHER_LIMIT)
        head = f"{'seed':>6}{'value':>8}{'bound':>8}{'gap':>8}{'s':>8}{'MC-SF/':>8}"
        print(f"n = {size}, {limit:g} s\n{head}" + (f"{'IP value':>10}{'bound':>8}{'s':>8}" if options.ip else ""))
        rows = []
        for seed in range(int(first), int(last or first) + 1):
            rows.append(solved(seed, size, limit, ip_limit, options.workers))
            bad = bad or contradicts(rows[-1])
            print(shown(rows[-1]) + ("  CONTRADICTION" if contradicts(rows[-1]) else ""), flush=True)
        print(summary(size, rows, ip_limit), flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
