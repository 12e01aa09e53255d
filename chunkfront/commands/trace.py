"""``chunkfront trace``: a window of a real trace as an instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chunkfront import options, output
from instances.errors import InputError

WINDOW_OPTIONS = ("start", "count", "duration", "compress", "format")
"""Fields that the readers name in errors, and that are options here."""


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The trace.", show_default=False)],
    format: Annotated[
        str, typer.Option("--format", metavar="azure|mooncake|burstgpt|csv", help="What FILE is.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Write the instance there.", show_default=False)],
    start: Annotated[
        float,
        typer.Option(
            "--start", parser=options.not_negative, metavar="S", help="Seconds after the first request of the trace."
        ),
    ] = 0.0,
    count: Annotated[
        int | None,
        typer.Option("--count", parser=options.whole(1), metavar="N", help="Requests to take.", show_default="all"),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option("--duration", parser=options.positive, metavar="S", help="Seconds to take.", show_default="all"),
    ] = None,
    compress: Annotated[
        float,
        typer.Option("--compress", parser=options.positive, metavar="X", help="Divide the gaps between arrivals by X."),
    ] = 1.0,
    engine: Annotated[
        Path | None,
        typer.Option(
            "--engine", metavar="FILE", help="JSON of the engine's limits.", show_default="512 tokens, 64 seats"
        ),
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option("--cost", metavar="FILE", help="JSON of the costs.", show_default="Llama-3.1-70B on 4 x H100"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the instance.", show_default="file and line")
    ] = None,
    sort: Annotated[
        bool, typer.Option("--sort", help="Put rows in order of arrival; else disorder is an error.")
    ] = False,
    drop_zeros: Annotated[
        bool, typer.Option("--drop-zeros", help="Leave out rows without prompt or output; else an error.")
    ] = False,
    json: options.JsonOption = False,
) -> int:
    """A window of a real trace as an instance."""
    output.check_writable_file(out, "--out")

    from instances.conversion import read_cost, read_engine
    from instances.traces.build import DEFAULT_COST, DEFAULT_ENGINE, to_instance
    from instances.traces.read import read_trace
    from instances.traces.window import window

    limits = DEFAULT_ENGINE if engine is None else read_engine(engine)
    costs = DEFAULT_COST if cost is None else read_cost(cost)
    try:
        whole = read_trace(file, format, sort=sort, drop_zeros=drop_zeros)
        chosen = window(whole, start_s=start, count=count, duration_s=duration, compress=compress)
    except InputError as problem:
        if problem.field in WINDOW_OPTIONS:
            raise InputError(problem.message, field=f"--{problem.field}") from None
        raise
    made = to_instance(chosen, limits, costs, name=name)
    output.write_file(out, made.instance.to_json())
    output.message(f"wrote {out}")
    requests = len(made.instance.requests)
    if json:
        output.emit_json({
            "instance": made.instance.to_dict(),
            "out": str(out),
            "requests": requests,
            "rows_read": whole.rows_read,
            "dropped_zeros": whole.dropped_zeros,
            "never_fit": made.never_fit,
            "notices": list(made.notices),
        })  # fmt: skip
    else:
        text = f"{made.instance.name}: {requests} request{'s' * (requests != 1)} of {whole.rows_read} rows, in {out}"
        output.emit("\n".join([text, *made.notices]) + "\n")
    return 0
