"""solve(): one optimum with its proof status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ortools.sat.python import cp_model

from instances.instance import Instance
from instances.metrics import report
from instances.objectives import Objective, amount_key, objective
from instances.schedule import Schedule
from solver.acceptance import fixed
from solver.answer import Answer
from solver.choices import Fixing
from solver.conflicts import conflict
from solver.evicting_search import EvictingSearch
from solver.raising import could_help, eviction_notes
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Result
from solver.run import Progress, Settings


def solve(
    instance: Instance,
    minimize: str = "makespan",
    limits: Mapping[str, float] | None = None,
    *,
    no_pause: bool = False,
    time_limit: float = 60.0,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    max_preemptions: int = 1,
    known: Iterable[Schedule] = (),
    fixing: Fixing | None = None,
    explain: bool = True,
    on_progress: Progress | None = None,
) -> Result:
    """Return the best schedule for one objective, with a proved bound.

    Parameters
    ----------
    instance
        The problem; the optimum knows all arrivals and output lengths (clairvoyant).
    minimize
        Name of an objective (`slo_attainment` and `throughput` are maximised).
    limits
        Metric name -> limit in the metric's unit: from above, `throughput` and `slo_attainment` from below.
    no_pause
        Demand that every resident whose prefill is complete decodes in every iteration.
    time_limit
        Seconds for everything, building included.
    workers, seed
        Of CP-SAT.
    deterministic
        One worker, and a `time_limit` in units of work (about seconds of that worker) instead of time: the same
        answer twice. `wall_s` is None then.
    max_preemptions
        Evictions allowed per request, where the engine evicts; the optimum is one within this bound, and the result's
        notes say whether a larger one could help.
    known
        Schedules from elsewhere: the answer is never worse than a valid one among them.
    fixing
        Choices that are held as some schedule made them (`solver.choices`); value and bound are those of the
        schedules that choose alike.
    explain
        Where no schedule obeys the limits, find some that conflict and how far to loosen them, in the time left.
    on_progress
        Called with one line now and then.

    Raises
    ------
    InputError
        For an unknown objective, a bad limit, or an instance that this version cannot model.
    """
    wanted = objective(minimize)
    settings = Settings(workers, seed, deterministic)
    search = EvictingSearch(
        instance, settings, settings.clock(time_limit), no_pause=no_pause, max_preemptions=max_preemptions, known=known,
        fixing=fixing, tell=on_progress,
    )  # fmt: skip
    caps = search.problem.limits(limits)
    answer = search.optimum(wanted.name, caps)
    more = could_help(search, wanted.name, caps, answer) if fixing is None else None
    infeasible = answer.proved and answer.best is None
    why = conflict(search, limits or {}, max_preemptions) if infeasible and explain and fixing is None else ()
    notes = eviction_notes(wanted.name, max_preemptions, more) + (() if answer.proved else search.guard.notes)
    result = _result(search, wanted, answer)
    return replace(result, conflict=why, notes=notes, more_preemptions_could_help=more)


def accepts(instance: Instance, schedule: Schedule, *, no_pause: bool = False, max_preemptions: int = 1) -> bool:
    """Return whether `schedule` is a solution of the model's rules (no objective, no cuts, no dominance).

    Parameters
    ----------
    instance, schedule
        The schedule may be anything; its tokens, members and ends are fixed, and each of its durations must be the
        shortest that the model allows then.
    no_pause, max_preemptions
        As for `solve`.

    Raises
    ------
    RuntimeError
        Where CP-SAT does not decide it.
    """
    trial = fixed(instance, schedule, no_pause=no_pause, max_preemptions=max_preemptions)
    if trial is None:
        return False
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(trial)
    if status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
        raise RuntimeError(f"CP-SAT says {solver.status_name(status)}")
    return status == cp_model.OPTIMAL and round(solver.objective_value) == sum(
        iteration.duration_us for iteration in schedule.iterations
    )


def _result(searched: EvictingSearch, known: Objective, answer: Answer) -> Result:
    """Return an answer in the unit of its metric, with its schedule and metrics."""
    instance, key = searched.instance, amount_key(known.name)
    seconds = searched.clock.wall_s
    if answer.best is None:
        status = INFEASIBLE if answer.proved else UNKNOWN
        bound = None if answer.bound is None else known.value(instance, answer.bound)
        return Result(status, known.name, bound=bound, bound_amount=answer.bound, wall_s=seconds,
                      interrupted=searched.interrupted)
    amount = answer.best.amounts[key]
    bound_amount = amount if answer.proved or answer.bound is None else answer.bound
    value, bound = known.value(instance, amount), known.value(instance, bound_amount)
    better, worse = (bound, value) if known.maximise else (value, bound)
    return Result(
        status=OPTIMAL if answer.proved else FEASIBLE,
        minimize=known.name,
        value=value,
        bound=bound,
        gap=(better - worse) / better if better else 0.0,
        wall_s=seconds,
        schedule=answer.best.schedule,
        metrics=report(instance, answer.best.schedule),
        amount=amount,
        bound_amount=bound_amount,
        interrupted=searched.interrupted,
    )
