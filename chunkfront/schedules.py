"""Reading a schedule file together with the instance that it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chunkfront import options
from instances.errors import InputError
from instances.instance import Instance
from instances.schedule import Schedule

ScheduleArgument = Annotated[
    Path,
    typer.Argument(metavar="SCHEDULE", help="A file, as solve and simulate --out write it.", show_default=False),
]
InstanceOption = Annotated[
    str | None,
    typer.Option(
        "--instance",
        metavar="INSTANCE",
        help="What was scheduled: a file, or a bundled name.",
        show_default="the bundled instance that the schedule names",
    ),
]


def load_schedule(path: Path, instance: str | None) -> tuple[Schedule, Instance]:
    """Return the schedule in a file, and its instance.

    Parameters
    ----------
    path
        The schedule.
    instance
        Where its instance is; None for the bundled one of the name that the schedule gives.

    Raises
    ------
    InputError
        Where the file cannot be read, names no bundled instance, or names another one than that of `instance`.
    """
    from instances.bundled import bundled_names, load_bundled

    schedule = Schedule.read(path)
    if instance is None:
        if schedule.instance in bundled_names():
            return schedule, load_bundled(schedule.instance)
        raise InputError(
            f"the schedule is of {schedule.instance!r}, which is no bundled instance: say where it is with "
            "--instance FILE",
            file=str(path),
            field="instance",
        )
    problem = options.load_instance(instance)
    if problem.name != schedule.instance:
        raise InputError(
            f"expected the instance {schedule.instance!r} that the schedule names, got {problem.name!r}",
            field="--instance",
        )
    return schedule, problem
