"""A schedule laid on the model: every variable that it determines is fixed, so model and checker can be compared."""

from __future__ import annotations

from ortools.sat.python import cp_model

from instances.instance import Instance
from instances.schedule import Iteration, Schedule
from solver.constraints import Constraints
from solver.evicting import constraints_for, variables_for
from solver.evictions import evicting_problem


def fixed(
    instance: Instance, schedule: Schedule, *, no_pause: bool = False, max_preemptions: int = 1
) -> cp_model.CpModel | None:
    """Return the rules of the model with `schedule` fixed, its durations to be minimised within those given.

    None where the schedule has no place in the model at all: names that do not exist or stand twice, chunks below one
    token, evictions where the model has none, iterations that overlap.
    """
    problem = evicting_problem(instance, max_preemptions)
    problem.tick_us = 1
    rows, origin = schedule.iterations, problem.origin_us
    if not rows or not all(_is_well_formed(instance, row) for row in rows):
        return None
    variables = variables_for(problem, len(rows), max(0, rows[-1].end_us - origin))
    constraints = constraints_for(variables, complete=True, no_pause=no_pause)
    constraints.add_all()
    before, durations = origin, []
    for k, row in enumerate(rows):
        if row.start_us < before or not _fix(constraints, k, row):
            return None
        before = row.end_us
        duration = variables.model.new_int_var(0, max(0, row.duration_us), f"duration_{k}")
        for cost in constraints.costs:
            variables.model.add(duration >= cost[k])
        durations.append(duration)
    variables.model.minimize(sum(durations))
    return variables.model


def _fix(constraints: Constraints, k: int, row: Iteration) -> bool:
    """Fix iteration k to `row`; False where it moves requests and the model does not."""
    v, model = constraints.v, constraints.model
    model.add(v.used[k] == 1)
    model.add(v.end[k] == row.end_us - v.problem.origin_us)
    for named, flags in ((row.evict, v.evict), (row.restore, v.restore)):
        if named and not flags:
            return False
        for job, line in zip(v.problem.jobs, flags, strict=False):
            model.add(line[k] == (job.request.id in named))
    for job in v.problem.jobs:
        model.add(v.chunk(job, k) == row.prefill.get(job.request.id, 0))
        model.add(v.decode[job.index][k] == (job.request.id in row.decode))
    return True


def _is_well_formed(instance: Instance, row: Iteration) -> bool:
    """Return whether all names exist, none works twice or stands twice in a list, and no chunk is below one token."""
    known = {request.id for request in instance.requests}
    lists = ([*row.prefill, *row.decode], list(row.evict), list(row.restore))
    return all(known.issuperset(names) and len(set(names)) == len(names) for names in lists) and all(
        tokens >= 1 for tokens in row.prefill.values()
    )
