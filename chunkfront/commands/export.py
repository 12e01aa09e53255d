"""``chunkfront export``: a schedule as a trace for Perfetto, or as tables in CSV or parquet."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chunkfront import options, output, schedules
from instances.errors import InputError

if TYPE_CHECKING:
    from chunkfront.timeline.spans import Timeline
    from instances.instance import Instance
    from instances.schedule import Schedule

KINDS = ("perfetto", "csv", "parquet")


def export(
    schedule: schedules.ScheduleArgument,
    to: Annotated[str, typer.Option("--to", metavar="|".join(KINDS), help="What to write.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="The trace's file; for tables a directory.", show_default=False),
    ],
    instance: schedules.InstanceOption = None,
    json: options.JsonOption = False,
) -> int:
    """A schedule for other tools: a trace for Perfetto, or tables.

    perfetto: Chrome trace-event JSON, to be opened in ui.perfetto.dev. csv, parquet: the tables iterations, requests
    and tokens in the directory. A schedule that breaks rules is exported too; the exit code is then 1.
    """
    if to not in KINDS:
        raise InputError.expected(f"one of {', '.join(KINDS)}", to, "--to")
    if to == "perfetto":
        output.check_writable_file(out, "--out")
    else:
        output.make_directory(out, "--out")
    answer, problem = schedules.load_schedule(schedule, instance)

    from chunkfront.timeline.build import build_timeline

    timeline = build_timeline(problem, answer, most_rows=None)
    contents = _contents(problem, answer, timeline, to, out)
    for path, content in contents.items():
        output.write_file(path, content)
        output.message(f"wrote {path}")
    files = [str(path) for path in contents]
    if json:
        from chunkfront.documents import violation_document

        broken = [violation_document(violation) for violation in timeline.violations]
        output.emit_json({"to": to, "files": files, "valid": not broken, "violations": broken})
    else:
        from chunkfront.tables import violations_table

        output.emit_rich(*files, *([violations_table(timeline.violations)] if timeline.violations else []))
    return 1 if timeline.violations else 0


def _contents(problem: Instance, answer: Schedule, timeline: Timeline, to: str, out: Path) -> dict[Path, bytes | str]:
    if to == "perfetto":
        from chunkfront.export.perfetto import perfetto_trace

        return {out: json_module.dumps(perfetto_trace(timeline), separators=(",", ":"))}
    from chunkfront.export.tables import WRITERS, schedule_tables

    tables = schedule_tables(problem, answer, timeline)
    return {out / f"{name}.{to}": WRITERS[to](table) for name, table in tables.items()}
