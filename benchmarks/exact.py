"""Time to proof on real windows, beside a plain CP-SAT model and a MIP on HiGHS.

Usage, in the repository::

    python -m benchmarks.exact [LADDER] [--sizes 3,4,6] [--costs linear,context] [--problems ...]
                               [--plain] [--mip] [--out DIR [--resume | --plot-only]]

LADDER is a folder of instances or some files of one (default: ``../shared/bench/ladder`` beside the checkout). Each
objective is minimised under max TBT <= 35 ms; ``a:b`` is the frontier of two axes at ``--resolution`` 1 ms. Every
solve runs in a fresh process, so that its time and peak memory are its own. Baselines count with their limit where
they run out of time. ``--out`` keeps the runs as JSON lines and draws time to proof and gap against size.
Ctrl-C ends it with what is there; ``--resume`` goes on. The exit code is 1 where two methods contradict each other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # as a script, the folder of this file stands there alone

from benchmarks.exact_tables import HEADER, contradictions, ratio_lines, ratio_to_ours, row, size_lines  # noqa: E402
from benchmarks.runs import BROKEN, MIP, OURS, PLAIN, Run, Task, by_problem, read_runs  # noqa: E402
from instances.errors import InputError  # noqa: E402
from instances.instance import Instance  # noqa: E402
from instances.objectives import objective  # noqa: E402

LADDER = ROOT.parent / "shared/bench/ladder"
PROBLEMS = "makespan,mean_ttft,mean_e2e,makespan:max_tbt,mean_e2e:max_tbt"
GRACE_S = 60.0
"""Seconds that a process may overrun its limit, start, building and a slow machine included, before it is killed."""


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exact", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("ladder", nargs="*", type=Path, default=[LADDER], help="folders of instances, or instances")
    add("--sizes", help="numbers of requests, like 3,4,6; all by default")
    add("--costs", default="linear,context")
    add("--only", default="*", help="pattern of the windows' names, like 'code-03-?-linear'")
    add("--problems", default=PROBLEMS, help=f"objectives, and frontiers as a:b (default: {PROBLEMS})")
    add("--plain", action="store_true", help="the plain CP-SAT model beside ours")
    add("--mip", action="store_true", help="the MIP on HiGHS beside ours")
    add("--baseline-sizes", help="sizes that the baselines solve; all of --sizes by default")
    add("--time-limit", type=float, default=180.0, help="seconds per solve of ours")
    add("--frontier-limit", type=float, default=600.0, help="seconds per frontier of ours")
    add("--baseline-limit", type=float, default=300.0, help="seconds per solve or frontier of a baseline")
    add("--extra-iterations", type=int,
        help="a favour to the baselines: only so many iterations more than greedy chunking needs")  # fmt: skip
    add("--workers", type=int, default=2)
    add("--max-tbt", type=float, default=35.0, help="ms")
    add("--resolution", type=float, default=1.0, help="ms, of frontiers")
    add("--out", type=Path, help="folder of results.jsonl and the pictures")
    add("--resume", action="store_true", help="keep the runs that are in --out")
    add("--plot-only", action="store_true", help="solve nothing: tables and pictures of the runs in --out")
    options = parser.parse_args(arguments)
    if (options.resume or options.plot_only) and options.out is None:
        parser.error("--resume and --plot-only need --out DIR")
    return options


def windows(options: argparse.Namespace) -> list[tuple[Path, Instance]]:
    """Return the instances that were asked for, small ones first.

    Raises
    ------
    InputError
        Where there are none, or a file is no instance.
    """
    files = []
    for place in options.ladder:
        if not place.exists():
            what = "a folder of instances or an instance (the ladder lies beside the checkout, or is given)"
            raise InputError(f"not found, expected {what}", file=str(place))
        files += sorted(place.glob("*.json")) if place.is_dir() else [place]
    sizes = numbers(options.sizes, "--sizes")
    found = [(path, Instance.read(path)) for path in files]
    found = [
        (path, instance) for path, instance in found
        if (sizes is None or len(instance.requests) in sizes) and cost_of(instance) in options.costs.split(",")
        and fnmatch(instance.name, options.only)
    ]  # fmt: skip
    if not found:
        asked = f"--sizes {options.sizes}, --costs {options.costs}, --only {options.only}"
        raise InputError(f"no instance fits {asked}", file=", ".join(map(str, options.ladder)))
    return sorted(found, key=lambda pair: (len(pair[1].requests), pair[1].name))


def numbers(text: str | None, option: str) -> set[int] | None:
    """Return the numbers in ``3,4,6``, None for no text."""
    try:
        return None if text is None else {int(part) for part in text.split(",")}
    except ValueError:
        raise InputError.expected("numbers like 3,4,6", text, option) from None


def cost_of(instance: Instance) -> str:
    """Return ``linear`` or ``context``: whether the cost knows the context."""
    return "linear" if instance.cost.is_linear else "context"


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Yield what to run: per window and problem ours first, then the baselines."""
    problems = options.problems.split(",")
    for problem in problems:
        names = [objective(name, "--problems").name for name in problem.split(":")]
        if len(names) > 2:
            raise InputError.expected("an objective or two axes a:b", problem, "--problems")
    baseline_sizes = numbers(options.baseline_sizes, "--baseline-sizes")
    for path, instance in windows(options):
        size = len(instance.requests)
        for problem in problems:
            ours_s = options.frontier_limit if ":" in problem else options.time_limit
            methods = [(OURS, ours_s)]
            if baseline_sizes is None or size in baseline_sizes:
                methods += [(PLAIN, options.baseline_limit)] * options.plain
                methods += [(MIP, options.baseline_limit)] * options.mip
            for method, limit in methods:
                yield Task(
                    str(path.resolve()), instance.name, size, cost_of(instance), problem, method, limit,
                    options.workers, options.max_tbt, options.resolution,
                    None if method == OURS else options.extra_iterations,
                )  # fmt: skip


def isolated(task: Task) -> Run:
    """Return the run of a task in a fresh process; Ctrl-C reaches this one only, which then ends it."""
    command = [sys.executable, "-m", "benchmarks.run_one", json.dumps(asdict(task))]
    limit = task.limit_s + GRACE_S
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=limit, start_new_session=True, check=False
        )
    except subprocess.TimeoutExpired:
        return Run(task, "KILLED", limit, note=f"still running {GRACE_S:g} s after its limit")
    try:
        return Run.from_line(done.stdout.splitlines()[-1])
    except (IndexError, ValueError, TypeError, KeyError, AttributeError):
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return Run(task, "ERROR", 0.0, note=said)


def solved(options: argparse.Namespace, runs: list[Run]) -> bool:
    """Run the tasks, add their runs to `runs` and print them; return whether it was interrupted."""
    todo = list(tasks(options))
    kept = {run.task.key: run for run in runs if run.status not in BROKEN}
    print(HEADER)
    try:
        for task in todo:
            run = kept.get(task.key)
            if run is None:
                run = isolated(task)
                runs.append(run)
                if options.out is not None:
                    with (options.out / "results.jsonl").open("a", encoding="utf-8") as file:
                        file.write(run.to_line() + "\n")
            ours = by_problem(runs)[task.window, task.problem].get(OURS)
            print(row(run, ratio_to_ours(run, ours)), flush=True)
    except KeyboardInterrupt:
        print("interrupted: what follows is about the runs above", file=sys.stderr)
        return True
    return False


def previous(options: argparse.Namespace) -> list[Run]:
    """Return the runs that are in ``--out``.

    Raises
    ------
    InputError
        Where there are some and nothing says what to do with them, or none to draw.
    """
    if options.out is None:
        return []
    file = options.out / "results.jsonl"
    if file.exists() and not (options.resume or options.plot_only):
        raise InputError("is there already: --resume goes on with it, another --out starts anew", file=str(file))
    if options.plot_only and not file.exists():
        raise InputError("not found, expected runs to draw", file=str(file))
    options.out.mkdir(parents=True, exist_ok=True)
    runs = read_runs(file) if file.exists() else []
    if options.resume:  # a last line that was cut off goes
        file.write_text("".join(run.to_line() + "\n" for run in runs), encoding="utf-8")
    return runs


def machine() -> str:
    """Return what ran it."""
    found = [f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
    for name in ("ortools", "highspy"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    options = parsed(arguments)
    try:
        runs = previous(options)
        print(machine())
        interrupted = False if options.plot_only else solved(options, runs)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    for lines in (size_lines(runs), ratio_lines(runs), contradictions(runs)):
        print()
        for line in lines:
            print(line)
    if options.out is not None and runs:
        from benchmarks.exact_plot import draw  # matplotlib is slow to import

        for path in draw(by_problem(runs).values(), options.out):
            print(path)
    if interrupted:
        return 130
    return 1 if any(contradictions(runs)) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` and job queues end it like Ctrl-C
    sys.exit(main())
