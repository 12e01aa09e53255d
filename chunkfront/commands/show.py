"""``chunkfront show``: a schedule as a picture, in the terminal, as PNG or SVG, or as an interactive page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output, schedules
from instances.errors import InputError

if TYPE_CHECKING:
    from chunkfront.timeline.spans import Timeline

PICTURES = (".png", ".svg", ".html")


def show(
    schedule: schedules.ScheduleArgument,
    instance: schedules.InstanceOption = None,
    stall: Annotated[
        float | None,
        typer.Option(
            "--stall",
            parser=options.not_negative,
            metavar="MS",
            help="Mark gaps between tokens above this.",
            show_default="above the TBT SLOs, and the longest",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .png or .svg picture, or an .html page.", show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """A picture of a schedule: who does what when, stalls, budget and KV.

    In the terminal, or in the file that --out names. Up to 20 requests are shown in full, of more the most telling 12
    beside totals of all. A schedule that breaks rules is shown with them marked; the exit code is then 1.
    """
    if out is not None and out.suffix.lower() not in PICTURES:
        raise InputError.expected(f"a file that ends in {', '.join(PICTURES)}", str(out), "--out")
    output.check_writable_file(out, "--out")
    answer, problem = schedules.load_schedule(schedule, instance)

    from chunkfront.timeline.build import build_timeline

    timeline = build_timeline(problem, answer, stall_us=None if stall is None else round(stall * 1000))
    if out is not None:
        output.write_file(out, _picture(timeline, out.suffix.lower()[1:]))
        output.message(f"wrote {out}")
    if json:
        from chunkfront.timeline.document import timeline_document

        output.emit_json(timeline_document(timeline))
    elif out is None:
        output.emit_rich(*_terminal(timeline))
    elif timeline.violations:
        from chunkfront.tables import violations_table

        output.emit_rich(violations_table(timeline.violations))
    return 1 if timeline.violations else 0


def _picture(timeline: Timeline, kind: str) -> str | bytes:
    if kind == "html":
        from chunkfront.pages.schedule_page import schedule_page

        return schedule_page(timeline)
    from chunkfront.plots.files import figure_file
    from chunkfront.plots.schedule import plot_timeline

    return figure_file(plot_timeline(timeline), kind)


def _terminal(timeline: Timeline) -> list[Any]:
    from chunkfront.terminal.schedule import schedule_lines

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return list(schedule_lines(timeline, output.width(), ascii_only=not encoding.startswith("utf")))
