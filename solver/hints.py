"""A schedule as a warm start of the model, and the model's answer as a schedule."""

from __future__ import annotations

from collections.abc import Mapping

from ortools.sat.python import cp_model

from instances.replay import replay
from instances.schedule import Schedule
from solver.timing import Batch, durations, earliest
from solver.variables import Variables


def hint(variables: Variables, schedule: Schedule) -> bool:
    """Give `schedule` to the model as a hint; False where it has more iterations than the model (no hint then).

    A prefix model is given the iterations that it holds.
    """
    problem, model = variables.problem, variables.model
    steps = replay(problem.instance, schedule).steps[: variables.iterations]
    done = {job.request.id: not job.left for job in problem.jobs}
    left = {job.request.id: job.decodes for job in problem.jobs}
    end = 0
    for k in range(variables.iterations):
        step = steps[k] if k < len(steps) else None
        end = problem.ticks(step.iteration.end_us - problem.origin_us) if step else end
        model.add_hint(variables.used[k], step is not None)
        model.add_hint(variables.end[k], min(end, variables.horizon))
        for job in problem.jobs:
            name, i = job.request.id, job.index
            tokens = step.iteration.prefill.get(name, 0) if step else 0
            decodes = step is not None and name in step.contexts
            if step is not None and name in step.emitted and not decodes:
                done[name] = True
            left[name] -= decodes
            model.add_hint(variables.units[i][k], tokens // job.unit)
            model.add_hint(variables.done[i][k], done[name])
            model.add_hint(variables.decode[i][k], decodes)
            if job.decodes:
                model.add_hint(variables.finished[i][k], done[name] and not left[name])
    return True


def extract(variables: Variables, solver: cp_model.CpSolver) -> list[Batch]:
    """Return the batches of the iterations that the solution uses."""
    batches: list[Batch] = []
    for k in range(variables.iterations):
        if not solver.value(variables.used[k]):
            break
        prefill = {}
        for job in variables.problem.jobs:
            tokens = solver.value(variables.chunk(job, k)) if job.left else 0
            if tokens:
                prefill[job.request.id] = tokens
        decode = [job.request.id for job in variables.problem.jobs if solver.value(variables.decode[job.index][k])]
        batches.append((prefill, decode))
    return batches


def finish(variables: Variables, batches: list[Batch]) -> list[Batch]:
    """Return the batches of a prefix with the missing decodes appended, all unfinished requests in each."""
    left = {job.request.id: job.decodes for job in variables.problem.jobs}
    for _, decode in batches:
        for name in decode:
            left[name] -= 1
    result = list(batches)
    budget = variables.problem.engine.max_num_batched_tokens
    while unfinished := [name for name, count in left.items() if count]:
        working = sorted(unfinished, key=lambda name: -left[name])[:budget]
        result.append(({}, working))
        for name in working:
            left[name] -= 1
    return result


def timed(variables: Variables, batches: list[Batch], gap_limits: Mapping[str, int]) -> Schedule | None:
    """Return the batches as a schedule at the earliest times under gap limits in µs, None where impossible."""
    problem = variables.problem
    return earliest(
        problem.instance, durations(problem.instance, batches, "exact"), gap_limits, problem.releases_us
    )
