"""What is measured: one task in, one run out; JSON lines, so that a run can be continued and drawn again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from instances.errors import InputError

OURS, PLAIN, MIP = "ours", "plain", "mip"
METHODS = (OURS, PLAIN, MIP)
PROVED = frozenset({"OPTIMAL", "INFEASIBLE"})
BROKEN = frozenset({"ERROR", "KILLED"})
"""The process died or overran its limit: tried again when a run is continued."""


@dataclass(frozen=True)
class Task:
    """One solve or frontier of one window by one method.

    Parameters
    ----------
    file, window, requests, cost
        The instance's file, name and size, and ``linear`` or ``context``.
    problem
        An objective, or two axes of a frontier as ``makespan:max_tbt``.
    method
        ``ours``, ``plain`` (CP-SAT) or ``mip`` (HiGHS).
    limit_s, workers
        Seconds for everything, and threads.
    max_tbt_ms
        Limit under which one objective is minimised; a frontier has none.
    resolution_ms
        Of a frontier, on its second axis.
    extra_iterations
        Baselines model only so many iterations more than greedy chunking needs; None for as many as always suffice.
    """

    file: str
    window: str
    requests: int
    cost: str
    problem: str
    method: str
    limit_s: float
    workers: int = 2
    max_tbt_ms: float = 35.0
    resolution_ms: float = 1.0
    extra_iterations: int | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """One objective, or two."""
        return tuple(self.problem.split(":"))

    @property
    def is_frontier(self) -> bool:
        """Whether two axes are asked for."""
        return len(self.axes) == 2

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two tasks the same; the place of the file does not."""
        return tuple(value for name, value in asdict(self).items() if name != "file")


@dataclass(frozen=True)
class Run:
    """A task and what came out.

    Parameters
    ----------
    task
        What was asked.
    status
        Status word of model.md §6 (for a frontier ``OPTIMAL`` when complete), ``REFUSED`` (with the reason in
        `note`), ``ERROR`` or ``KILLED``.
    seconds
        Wall clock of building, solving and checking; imports and the start of the process left out.
    value, bound, gap
        In ms, and (value - bound) / value; None for frontiers and where there is none.
    points, proved_points
        Of a frontier.
    ends
        First point of a frontier in ms, which every method must agree on.
    cpu_s
        CPU seconds of all threads in the same time: on a machine that does other things too, the steadier figure.
    memory_mib
        Peak resident memory of the process that did nothing else.
    load
        Load average of the machine when it started: above 0, other jobs were running.
    note
        Why it failed or was refused.
    """

    task: Task
    status: str
    seconds: float
    value: float | None = None
    bound: float | None = None
    gap: float | None = None
    points: int | None = None
    proved_points: int | None = None
    ends: tuple[float, ...] | None = None
    cpu_s: float | None = None
    memory_mib: float | None = None
    load: float | None = None
    note: str = ""

    @property
    def proved(self) -> bool:
        """Whether the answer is proved, the whole frontier for one."""
        return self.status in PROVED

    @property
    def counted_s(self) -> float:
        """Seconds that it counts with: its limit where it proved nothing."""
        return max(self.seconds, 0.01) if self.proved else self.task.limit_s

    def to_line(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Run:
        """Return the run that a line of JSON says."""
        raw = json.loads(line)
        ends = raw.pop("ends")
        return cls(Task(**raw.pop("task")), ends=None if ends is None else tuple(ends), **raw)


def read_runs(path: Path) -> list[Run]:
    """Return the runs in a file; a last line that was cut off is left out.

    Raises
    ------
    InputError
        For any other line that is no run.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    runs = []
    for number, line in enumerate(lines, 1):
        try:
            runs.append(Run.from_line(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            if number < len(lines):
                raise InputError("expected a run of this benchmark", file=str(path), field=f"line {number}") from None
    return runs


def by_problem(runs: Iterable[Run]) -> dict[tuple[str, str], dict[str, Run]]:
    """Return (window, problem) -> method -> run; the last one of a method counts."""
    found: dict[tuple[str, str], dict[str, Run]] = {}
    for run in runs:
        found.setdefault((run.task.window, run.task.problem), {})[run.task.method] = run
    return found
