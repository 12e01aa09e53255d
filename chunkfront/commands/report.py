"""``chunkfront report``: what ``frontier --out`` wrote, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chunkfront import options, output


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `frontier --out DIR` wrote.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The page.", show_default="DIR/report.html")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance", metavar="INSTANCE", help="A file, or a bundled name.", show_default="DIR/instance.json"
        ),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """A frontier as one HTML page that works off-line.

    The question, the frontier (a click on a point shows its schedule), every heuristic, proofs and times, the instance,
    and what reproduces them. The tables need no JavaScript.
    """
    page = directory / "report.html" if out is None else out
    from chunkfront.report.read import read_results

    document, problem = read_results(directory, None if instance is None else options.load_instance(instance))
    output.check_writable_file(page, "--out")
    from chunkfront.report.page import report_page

    output.write_file(page, report_page(document, problem))
    if json:
        output.emit_json({"file": str(page), "instance": problem.name, "points": len(document["points"])})
    else:
        output.emit_rich(str(page))
    return 0
