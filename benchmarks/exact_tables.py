"""The rows and summaries that `benchmarks/exact.py` prints, from finished runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.runs import BROKEN, METHODS, MIP, OURS, PLAIN, Run, by_problem

TITLES = {OURS: "chunkfront", PLAIN: "plain CP-SAT", MIP: "MIP, HiGHS"}
HEADER = (
    f"{'window':19}{'problem':19}{'method':14}{'status':11}{'value ms':>10}{'bound ms':>10}{'gap %':>7}"
    f"{'s':>8}{'CPU s':>8}{'MiB':>7}{'ratio':>9}"
)


def row(run: Run, ratio: float | None = None) -> str:
    """Return one line; a frontier shows its points and how many of them are proved instead of value and bound."""
    numbers = [f"{x:.3f}" if x is not None else "-" for x in (run.value, run.bound)]
    if run.points is not None:
        numbers = [f"{run.points} points", f"{run.proved_points} proved"]
    gap = "-" if run.gap is None else f"{100 * run.gap:.1f}"
    cpu, memory = ("-" if x is None else f"{x:.{n}f}" for x, n in ((run.cpu_s, 1), (run.memory_mib, 0)))
    times = "" if ratio is None else f"{'' if run.proved else '>'}x{ratio:.1f}"
    line = (
        f"{run.task.window:19}{run.task.problem:19}{TITLES[run.task.method]:14}{run.status:11}{numbers[0]:>10}"
        f"{numbers[1]:>10}{gap:>7}{run.seconds:8.1f}{cpu:>8}{memory:>7}{times:>9}"
    )
    return f"{line}  {run.note}" if run.note else line


def ratio_to_ours(run: Run, ours: Run | None) -> float | None:
    """Return how many times longer a baseline takes to the proof than we; None where we have none or it did not run."""
    if ours is None or run.task.method == OURS or not ours.proved or run.status in ("REFUSED", "ERROR"):
        return None
    return run.counted_s / ours.counted_s


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def ratio_lines(runs: Iterable[Run]) -> Iterator[str]:
    """Yield the geometric means over what we prove, per baseline: of single objectives, of frontiers, of everything."""
    found = by_problem(runs)
    for method in (PLAIN, MIP):
        for what, wanted in (("objectives", (False,)), ("frontiers", (True,)), ("all", (False, True))):
            ratios, ran_out = [], 0
            for by_method in found.values():
                run, ours = by_method.get(method), by_method.get(OURS)
                ratio = None if run is None else ratio_to_ours(run, ours)
                if run is not None and ratio is not None and run.task.is_frontier in wanted:
                    ratios.append(ratio)
                    ran_out += not run.proved
            if ratios:
                limits = f"; {ran_out} ran out of time and count with their limit" if ran_out else ""
                mean = geometric_mean(ratios)
                yield f"{TITLES[method]}, {what}: x {mean:.1f} over {len(ratios)} proved by us{limits}"


def size_lines(runs: Iterable[Run]) -> Iterator[str]:
    """Yield per method, size, cost and problem how many were proved, and the worst time, gap and memory."""
    heads = f"{'proved':>8}{'max s':>9}{'max gap %':>11}{'max MiB':>9}"
    yield f"{'method':14}{'requests':>8}  {'cost':9}{'problem':19}{heads}"
    groups: dict[tuple[int, int, str, str], list[Run]] = {}
    for by_method in by_problem(runs).values():
        for run in by_method.values():
            task = run.task
            groups.setdefault((METHODS.index(task.method), task.requests, task.cost, task.problem), []).append(run)
    for (method, requests, cost, problem), group in sorted(groups.items()):
        proved = f"{sum(run.proved for run in group)}/{len(group)}"
        gaps = [run.gap for run in group]
        gap = "-" if any(g is None for g in gaps) else f"{100 * max(gaps):.1f}"
        memory = max((run.memory_mib for run in group if run.memory_mib is not None), default=math.nan)
        yield (f"{TITLES[METHODS[method]]:14}{requests:8}  {cost:9}{problem:19}{proved:>8}"
               f"{max(run.seconds for run in group):9.1f}{gap:>11}{memory:9.0f}")  # fmt: skip


def contradictions(runs: Iterable[Run]) -> Iterator[str]:
    """Yield where two methods cannot both be right: a proved bound above a found value, or different frontiers.

    A baseline with fewer iterations than always suffice solves a smaller problem, so its bounds prove nothing here.
    """
    tolerance = 1e-6
    for (window, problem), by_method in by_problem(runs).items():
        usable = [run for run in by_method.values() if run.status not in BROKEN]
        sound = [run for run in usable if run.task.extra_iterations is None or run.task.method == OURS]
        for one in sound:
            for other in usable:
                if one.bound is not None and other.value is not None and one.bound > other.value + tolerance:
                    yield (f"{window}, {problem}: {TITLES[one.task.method]} proves {one.bound} ms, "
                           f"{TITLES[other.task.method]} has {other.value} ms")  # fmt: skip
        ends = {run.ends for run in sound if run.ends is not None}
        if len(ends) > 1:
            yield f"{window}, {problem}: the first points differ: {sorted(ends)}"
