"""``chunkfront simulate``: one heuristic's schedule, its decisions and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chunkfront import options, output


def simulate(
    instance: options.InstanceArgument,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME[:key=value,...]", help="See `chunkfront policies`.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the schedule there.", show_default=False)
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Run one heuristic: its schedule and all metrics."""
    problem = options.load_instance(instance)
    from chunkfront.running import parse_policy

    chosen = parse_policy(policy)
    output.check_writable_file(out, "--out")

    from heuristics.policy import PolicyError
    from heuristics.simulator import simulate as run_policy
    from instances.check import violations
    from instances.errors import InputError
    from instances.metrics import report

    try:
        run = run_policy(problem, chosen)
    except PolicyError as failure:
        raise InputError(str(failure), field="--policy") from None
    metrics = report(problem, run.schedule)
    broken = violations(problem, run.schedule)  # a policy may make moves that this instance forbids
    if out is not None:
        output.write_file(out, run.schedule.to_json())
        output.message(f"wrote {out}")
    if json:
        from chunkfront.documents import violation_document

        output.emit_json({
            "policy": run.policy,
            "metrics": metrics,
            "schedule": run.schedule.to_dict(),
            "decisions": run.decisions,
            "violations": [violation_document(violation) for violation in broken],
        })  # fmt: skip
    else:
        from chunkfront import tables

        parts: list[Any] = [tables.schedule_table(run.schedule), "", tables.metrics_table(metrics)]
        if broken:
            parts += ["The policy makes moves that this instance forbids, so it is not comparable with an optimum.", ""]
            parts.append(tables.violations_table(broken))
        output.emit_rich(*parts)
    return 0
