"""Runs CP-SAT so that Ctrl-C and the clock always win: the search runs in a thread, the caller's thread waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

GRACE_S = 2.0
"""Seconds that a search may overrun its limit before it is stopped from outside."""
BUILDING = 2e-5
"""Units of work that building one constraint of a model counts for."""
PORTFOLIO = (
    "max_lp", "pseudo_costs", "reduced_costs", "no_lp", "default_lp", "quick_restart", "core", "lb_tree_search",
)  # fmt: skip
"""Subsolvers, the best prover first: measured on the ladder, the ones that lean on the LP prove alone in seconds what
the default portfolio of eight workers does not in a minute of two cores."""
Progress = Callable[[str], None]
"""Told one line about the search, now and then."""


@dataclass
class Work:
    """Work done so far, in CP-SAT's deterministic units: the same for the same search on every machine."""

    done: float = 0.0


@dataclass
class Clock:
    """A limit that is shared by everything that one command does: on time, or on work where `work` is given.

    Parameters
    ----------
    limit_s
        Seconds from its creation, or units of work (about seconds of one thread).
    work
        What counts instead of time, in deterministic mode.
    """

    limit_s: float
    work: Work | None = None
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self._now

    @property
    def _now(self) -> float:
        return time.monotonic() if self.work is None else self.work.done

    @property
    def elapsed_s(self) -> float:
        """Seconds (or units of work) since the start."""
        return self._now - self.started

    @property
    def wall_s(self) -> float | None:
        """Seconds since the start, None in deterministic mode: no answer may depend on them there."""
        return self.elapsed_s if self.work is None else None

    @property
    def left_s(self) -> float:
        """Seconds (or units of work) left, never negative."""
        return max(0.0, self.limit_s - self.elapsed_s)

    def part(self, seconds: float | None = None) -> Clock:
        """Return a clock that ends with this one, or before."""
        return Clock(self.left_s if seconds is None else min(seconds, self.left_s), self.work)

    def share(self, share: float) -> Clock:
        """Return a clock with a share of what is left, but a second if there is one."""
        return self.part(max(share * self.left_s, 1.0))

    def charge(self, work: float) -> None:
        """Count work that was done; without effect where time itself counts."""
        if self.work is not None:
            self.work.done += work


@dataclass(frozen=True)
class Settings:
    """How to search.

    Parameters
    ----------
    workers
        Threads of CP-SAT; None takes one per core, but at least two.
    seed
        Of the search.
    deterministic
        One worker, and limits that count work instead of time: the same answer twice.
    log
        Print CP-SAT's own log.
    portfolio
        Subsolvers, the best first; one thread alone takes CP-SAT's default one.
    """

    workers: int | None = None
    seed: int = 0
    deterministic: bool = False
    log: bool = False
    portfolio: tuple[str, ...] = PORTFOLIO

    @property
    def threads(self) -> int:
        """Number of CP-SAT workers."""
        if self.deterministic:
            return 1
        return self.workers or max(2, os.cpu_count() or 1)

    def clock(self, limit_s: float) -> Clock:
        """Return the clock of a command with this limit."""
        return Clock(limit_s, Work() if self.deterministic else None)


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Tells value and bound of each solution found."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        super().__init__()
        self._tell = tell

    def on_solution_callback(self) -> None:
        self._tell(round(self.objective_value), round(self.best_objective_bound))


def _solver(settings: Settings, limit_s: float) -> cp_model.CpSolver:
    """Return a solver with its parameters set."""
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = settings.threads
    if settings.threads == 1:
        parameters.linearization_level = 2
    else:
        parameters.subsolvers.extend(settings.portfolio[: settings.threads])
    parameters.random_seed = settings.seed
    parameters.catch_sigint_signal = False
    parameters.log_search_progress = settings.log
    if settings.deterministic:
        parameters.max_deterministic_time = limit_s
    else:
        parameters.max_time_in_seconds = limit_s
    return solver


def search(
    model: cp_model.CpModel, settings: Settings, clock: Clock, tell: Callable[[int, int], None] | None = None
) -> tuple[cp_model.CpSolver, int]:
    """Solve `model` in the time left on `clock`, which is charged for it; return the solver with its status.

    `tell` is given value and bound of each solution that is found.

    Raises
    ------
    KeyboardInterrupt
        After the search has been stopped.
    """
    clock.charge(len(model.proto.constraints) * BUILDING)
    solver = _solver(settings, clock.left_s)
    watcher = _Watcher(tell) if tell else None
    found: list[int | BaseException] = []
    done = threading.Event()  # not Thread.join: interrupted, it takes the thread for finished (bpo-45274)

    def work() -> None:
        try:
            found.append(int(solver.solve(model, watcher)))
        except BaseException as error:
            found.append(error)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    overrun = Clock(clock.left_s + GRACE_S)
    try:
        while not done.wait(0.1):
            if not overrun.left_s and not settings.deterministic:
                solver.stop_search()
                done.wait(GRACE_S)
                overrun = Clock(GRACE_S)
    except KeyboardInterrupt:
        solver.stop_search()
        done.wait(5 * GRACE_S)
        raise
    outcome = found[0]
    if isinstance(outcome, BaseException):
        raise outcome
    clock.charge(solver.response_proto.deterministic_time)
    return solver, outcome
