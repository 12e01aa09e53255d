"""One task in a process of its own, so that time and memory are its own: ``python -m benchmarks.run_one TASK``.

TASK is a task as JSON; the last line on stdout is the run as JSON (`benchmarks.runs`).
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.epsilon import epsilon_frontier
from benchmarks.runs import OURS, PLAIN, Run, Task
from heuristics.simulator import simulate
from instances.errors import InputError
from instances.instance import Instance
from instances.objectives import OBJECTIVES, limit_amounts
from solver.frontier import frontier
from solver.model import solve
from solver.result import OPTIMAL
from tests.judges.plain_model import plain_optimum


def peak_memory_mib() -> float:
    """Return the largest resident memory of this process.

    Linux hands the peak of the parent down to `getrusage` of a child, so its own count is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def ours(instance: Instance, task: Task) -> Run:
    """Solve with the product."""
    if task.is_frontier:
        front = frontier(
            instance, task.axes, resolution=task.resolution_ms, time_limit=task.limit_s, workers=task.workers
        )
        proved = sum(point.status == OPTIMAL for point in front.points)
        ends = front.points[0].values if front.points and front.complete else None
        return Run(task, front.status, 0.0, points=len(front.points), proved_points=proved, ends=ends)
    limits = {"max_tbt": task.max_tbt_ms}
    result = solve(instance, task.problem, limits, time_limit=task.limit_s, workers=task.workers)
    return Run(task, result.status, 0.0, result.value, result.bound, result.gap)


class Baseline:
    """One of the baselines on one instance.

    Parameters
    ----------
    instance, task
        What to solve, and by which method.
    """

    def __init__(self, instance: Instance, task: Task) -> None:
        self.instance, self.task = instance, task
        self.iterations: int | None = None
        if task.extra_iterations is not None:
            greedy = simulate(instance, f"greedy-chunked:stall_ms={task.max_tbt_ms}").schedule
            self.iterations = len(greedy.iterations) + task.extra_iterations

    def optimum(
        self, name: str, limits: Mapping[str, int], seconds: float
    ) -> tuple[str, int | None, int | None]:
        """Return status, amount and bound of one solve."""
        if self.task.method == PLAIN:
            return plain_optimum(
                self.instance, name, limits, time_limit=seconds, workers=self.task.workers, iterations=self.iterations
            )
        from benchmarks.mip import mip_optimum  # highspy is an extra

        answer = mip_optimum(
            self.instance, name, limits, time_limit=seconds, threads=self.task.workers, iterations=self.iterations
        )
        return answer.status, answer.amount, answer.bound

    def run(self) -> Run:
        """Solve the task."""
        task, known = self.task, [OBJECTIVES[name] for name in self.task.axes]
        if task.is_frontier:
            step = max(1, known[1].limit_amount(self.instance, task.resolution_ms))
            points, complete = epsilon_frontier(self.optimum, task.axes, step, task.limit_s)
            ends = tuple(o.value(self.instance, x) for o, x in zip(known, points[0], strict=True)) if points else None
            status = "OPTIMAL" if complete else "FEASIBLE" if points else "UNKNOWN"
            return Run(task, status, 0.0, points=len(points), proved_points=len(points), ends=ends)
        limits = limit_amounts(self.instance, {"max_tbt": task.max_tbt_ms})
        status, amount, least = self.optimum(task.problem, limits, task.limit_s)
        least = None if least is None else max(0, least)  # no amount is negative, which a relaxation may not see
        value, bound = (None if x is None else known[0].value(self.instance, x) for x in (amount, least))
        gap = None if value is None or bound is None else (value - bound) / value if value else 0.0
        return Run(task, status, 0.0, value, bound, gap)


def measured(task: Task) -> Run:
    """Return the run of a task, with its time and the memory of this process."""
    instance, load = Instance.read(task.file), os.getloadavg()[0]
    started, cpu = time.monotonic(), time.process_time()
    try:
        run = ours(instance, task) if task.method == OURS else Baseline(instance, task).run()
    except InputError as error:
        run = Run(task, "REFUSED", 0.0, note=str(error))
    seconds, cpu = round(time.monotonic() - started, 3), round(time.process_time() - cpu, 3)
    return replace(run, seconds=seconds, cpu_s=cpu, memory_mib=round(peak_memory_mib(), 1), load=round(load, 1))


if __name__ == "__main__":
    print(measured(Task(**json.loads(sys.argv[1]))).to_line(), flush=True)
