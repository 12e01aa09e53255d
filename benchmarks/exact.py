"""Time to proof on real windows: ``python benchmarks/exact.py [--time-limit S] [--plain] WINDOW.json...``

Per window it minimises makespan and mean TTFT under max TBT <= 35 ms, and max TBT alone, and prints value, bound, gap
and seconds. With ``--plain`` the plain CP-SAT model of ``tests/judges`` solves the same problems in the same run, and
the ratio of the times is printed (a baseline that runs out of time counts with its limit).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from instances.instance import Instance
from instances.objectives import limit_amounts
from solver.model import solve
from tests.judges.plain_model import plain_optimum

PROBLEMS: tuple[tuple[str, dict[str, float]], ...] = (
    ("makespan", {"max_tbt": 35.0}),
    ("mean_ttft", {"max_tbt": 35.0}),
    ("max_tbt", {}),
)


def main() -> None:
    """Run the benchmark and print one line per window and problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("windows", nargs="+", type=Path)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--plain", action="store_true", help="solve with the plain model too")
    options = parser.parse_args()
    print(f"{'window':24}{'objective':12}{'status':11}{'value ms':>10}{'bound ms':>10}{'gap':>8}{'s':>8}")
    for path in options.windows:
        instance = Instance.read(path)
        for name, limits in PROBLEMS:
            result = solve(instance, name, limits, time_limit=options.time_limit)
            value, bound, gap = (f"{v:.3f}" if v is not None else "-" for v in (result.value, result.bound, result.gap))
            seconds_used = result.wall_s or 0.0
            line = f"{instance.name:24}{name:12}{result.status:11}{value:>10}{bound:>10}{gap:>8}{seconds_used:8.1f}"
            if options.plain:
                started = time.monotonic()
                status, *_ = plain_optimum(
                    instance, name, limit_amounts(instance, limits), time_limit=options.time_limit, workers=2
                )
                seconds = time.monotonic() - started
                line += f"  plain: {status} {seconds:.1f} s, x {seconds / max(seconds_used, 0.01):.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
