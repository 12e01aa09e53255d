"""``chunkfront check``: every rule that a schedule breaks, or all of its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chunkfront import options, output


def check(
    instance: options.InstanceArgument,
    schedule: Annotated[
        Path, typer.Argument(metavar="SCHEDULE", help="A schedule file, as solve --out writes it.", show_default=False)
    ],
    no_pause: options.NoPauseOption = False,
    json: options.JsonOption = False,
) -> int:
    """Every rule that a schedule breaks, or all of its metrics.

    Each violation comes with iteration, request, value and limit (times in ms).
    """
    problem = options.load_instance(instance)

    from instances.check import violations
    from instances.metrics import report
    from instances.schedule import Schedule

    answer = Schedule.read(schedule)
    found = violations(problem, answer, no_pause=no_pause)
    metrics = None if found else report(problem, answer)
    if json:
        from chunkfront.documents import violation_document

        output.emit_json({
            "valid": not found,
            "violations": [violation_document(violation) for violation in found],
            "metrics": metrics,
        })  # fmt: skip
    else:
        from chunkfront import tables

        if metrics is None:
            output.emit_rich(tables.violations_table(found))
        else:
            output.emit_rich("Valid: no rule is broken.", "", tables.metrics_table(metrics))
    return 1 if found else 0
