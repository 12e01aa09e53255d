"""A schedule as a warm start of the model, and the model's answer as a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortools.sat.python import cp_model

from instances.replay import Step, replay
from instances.schedule import Iteration, Schedule
from solver.timing import Batch, durations, earliest
from solver.variables import Variables


def hint(variables: Variables, schedule: Schedule) -> bool:
    """Give `schedule` to the model as a hint; False where it evicts and the model does not (no hint then).

    A model with fewer iterations is given those that it holds.
    """
    problem, model = variables.problem, variables.model
    if not variables.evict and any(iteration.evict for iteration in schedule.iterations):
        return False
    steps = replay(problem.instance, schedule).steps[: variables.iterations]
    done = {job.request.id: not job.left for job in problem.jobs}
    left = {job.request.id: job.request.outputs_left for job in problem.jobs}
    end = 0
    for k in range(variables.iterations):
        step = steps[k] if k < len(steps) else Step(k, Iteration(0, 0))
        end = problem.ticks(step.iteration.end_us - problem.origin_us) if k < len(steps) else end
        model.add_hint(variables.used[k], k < len(steps))
        model.add_hint(variables.end[k], min(end, variables.horizon))
        for job in problem.jobs:
            name, i = job.request.id, job.index
            dropped = name in step.moved_out and problem.engine.preemption == "recompute"
            done[name] = name in step.emitted or (done[name] and not dropped)
            left[name] -= name in step.emitted
            model.add_hint(variables.units[i][k], step.iteration.prefill.get(name, 0) // job.unit)
            model.add_hint(variables.done[i][k], done[name])
            model.add_hint(variables.decode[i][k], name in step.contexts)
            if job.decodes:
                model.add_hint(variables.finished[i][k], not left[name])
            for rows, named in ((variables.evict, step.moved_out), (variables.restore, step.moved_in)):
                if rows:
                    model.add_hint(rows[i][k], name in named)
    return True


def extract(variables: Variables, solver: cp_model.CpSolver) -> list[Batch]:
    """Return the batches of the iterations that the solution uses."""
    batches: list[Batch] = []
    for k in range(variables.iterations):
        if not solver.value(variables.used[k]):
            break
        prefill = {}
        for job in variables.problem.jobs:
            tokens = solver.value(variables.chunk(job, k)) if job in variables.problem.prefilling else 0
            if tokens:
                prefill[job.request.id] = tokens
        decode = _chosen(variables, variables.decode, solver, k)
        evict, restore = (_chosen(variables, rows, solver, k) for rows in (variables.evict, variables.restore))
        batches.append(Batch(prefill, decode, evict, restore))
    return batches


def _chosen(
    variables: Variables, rows: Sequence[Sequence[cp_model.IntVar]], solver: cp_model.CpSolver, k: int
) -> list[str]:
    """Return the requests whose flag is set in k (rows per job, or none at all)."""
    pairs = zip(variables.problem.jobs, rows, strict=False)
    return [job.request.id for job, row in pairs if solver.value(row[k])]


def finish(variables: Variables, batches: list[Batch]) -> list[Batch]:
    """Return the batches of a prefix with the missing decodes appended, all unfinished requests in each."""
    left = {job.request.id: job.decodes for job in variables.problem.jobs}
    for batch in batches:
        for name in batch.decode:
            left[name] -= 1
    result = list(batches)
    budget = variables.problem.engine.max_num_batched_tokens
    while unfinished := [name for name, count in left.items() if count]:
        working = sorted(unfinished, key=lambda name: -left[name])[:budget]
        result.append(Batch({}, working))
        for name in working:
            left[name] -= 1
    return result


def timed(variables: Variables, batches: list[Batch], gap_limits: Mapping[str, int]) -> Schedule | None:
    """Return the batches as a schedule at the earliest times under gap limits in µs, None where impossible."""
    problem = variables.problem
    return earliest(
        problem.instance, durations(problem.instance, batches, "exact"), gap_limits, problem.releases_us
    )
