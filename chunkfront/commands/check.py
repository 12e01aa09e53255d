"""``chunkfront check``: every rule that a schedule or a decision log breaks, or all of its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output

if TYPE_CHECKING:
    from instances.check import Violation
    from instances.instance import Instance
    from instances.schedule import Schedule


def check(
    instance: options.InstanceArgument,
    schedule: Annotated[
        Path | None,
        typer.Argument(metavar="SCHEDULE", help="A schedule file, as solve --out writes it.", show_default=False),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="A decision log instead of a schedule: one JSON object per line, like `decisions` of simulate --json.",
            show_default=False,
        ),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured", help="The log's times come from a machine: keep them, and show how far the cost model is off."
        ),
    ] = False,
    no_pause: options.NoPauseOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the schedule of the log there.", show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Every rule that a schedule (or a decision log) breaks, or all of its metrics.

    Each violation comes with iteration, request, value and limit (times in ms); those of a log with their line.
    """
    from instances.errors import InputError

    if (schedule is None) == (log is None):
        given = None if schedule is None else str(schedule)
        raise InputError.expected("a schedule file or --log FILE, one of the two", given, "SCHEDULE")
    for used, option in ((measured, "--measured"), (out is not None, "--out")):
        if used and log is None:
            raise InputError.expected("--log FILE beside it", True if option == "--measured" else str(out), option)
    problem = options.load_instance(instance)
    output.check_writable_file(out, "--out")
    if log is not None:
        return _check_log(problem, log, measured=measured, no_pause=no_pause, out=out, json=json)

    from instances.check import violations
    from instances.schedule import Schedule

    answer = Schedule.read(schedule or "")
    return _show(problem, answer, violations(problem, answer, no_pause=no_pause), {}, [], json=json)


def _check_log(
    problem: Instance, path: Path, *, measured: bool, no_pause: bool, out: Path | None, json: bool
) -> int:
    from chunkfront.validate.log_report import log_sentences, log_summary
    from instances.decision_log import read_decisions
    from instances.log_check import check_log

    log = read_decisions(path)
    found = check_log(problem, log, measured=measured, no_pause=no_pause)
    if out is not None:
        output.write_file(out, found.schedule.to_json())
        output.message(f"wrote {out}")
    summary = log_summary(problem, log, found, measured=measured)
    return _show(problem, found.schedule, found.violations, {"log": summary}, log_sentences(summary), json=json)


def _show(
    problem: Instance, answer: Schedule, found: Sequence[Violation], more: dict[str, Any], lines: list[str], *,
    json: bool,
) -> int:  # fmt: skip
    """Print the verdict; `more` is added to the document, `lines` to the text."""
    from instances.metrics import report

    metrics = None if found else report(problem, answer)
    if json:
        from chunkfront.documents import violation_document

        output.emit_json({
            "valid": not found,
            "violations": [violation_document(violation) for violation in found],
            "metrics": metrics,
            **more,
        })  # fmt: skip
    else:
        from chunkfront import tables

        if metrics is None:
            output.emit_rich(tables.violations_table(found), *lines)
        else:
            output.emit_rich("Valid: no rule is broken.", *lines, "", tables.metrics_table(metrics))
    return 1 if found else 0
