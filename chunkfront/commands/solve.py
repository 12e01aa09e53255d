"""``chunkfront solve``: one optimum with its proof status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chunkfront import options, output
from chunkfront.effort import Effort


def solve(
    instance: options.InstanceArgument,
    minimize: Annotated[
        str,
        typer.Option("--minimize", metavar="METRIC", help="Objective; slo_attainment and throughput are maximised."),
    ] = "makespan",
    limit: options.LimitOption = None,
    no_pause: options.NoPauseOption = False,
    max_preemptions: options.MaxPreemptionsOption = 1,
    time_limit: options.TimeLimitOption = 60.0,
    workers: options.WorkersOption = None,
    seed: options.SeedOption = 0,
    deterministic: options.DeterministicOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the schedule there.", show_default=False)
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """One optimum with its proof status."""
    effort = Effort(time_limit, workers, seed, deterministic)
    objective = options.parse_metric(minimize, "--minimize")
    limits = options.parse_limits(limit)
    problem = options.load_instance(instance)
    output.check_writable_file(out, "--out")

    from chunkfront.documents import solve_document
    from chunkfront.running import exit_code
    from instances.objectives import OBJECTIVES
    from solver.model import solve as solve_model
    from solver.result import UNKNOWN, Result

    try:
        with output.progress(f"{objective} of {problem.name}") as show:
            result = solve_model(
                problem,
                objective,
                limits,
                no_pause=no_pause,
                time_limit=effort.share(),
                **effort.settings,
                max_preemptions=max_preemptions,
                on_progress=show,
            )
    except KeyboardInterrupt:
        result = Result(UNKNOWN, objective, wall_s=effort.wall_s, interrupted=True)
    if out is not None and result.schedule is not None:
        output.write_file(out, result.schedule.to_json())
        output.message(f"wrote {out}")
    if json:
        output.emit_json(solve_document(result))
    else:
        from chunkfront import tables
        from chunkfront.sentences import conflict_sentences

        parts: list[Any] = [tables.result_sentence(result, OBJECTIVES[objective].unit), *result.notes]
        parts += conflict_sentences(result.conflict)
        if result.schedule is not None:
            parts += ["", tables.schedule_table(result.schedule), "", tables.metrics_table(result.metrics)]
        output.emit_rich(*parts)
    return exit_code(result.status, interrupted=result.interrupted)
