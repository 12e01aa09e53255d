"""``chunkfront simulate``: one heuristic's schedule, its decisions and metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output

if TYPE_CHECKING:
    from chunkfront.sweep import Sweep
    from heuristics.recorder import Run
    from heuristics.summary import Summary
    from instances.instance import Instance


def simulate(
    instance: options.InstanceArgument,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME[:key=value,...]", help="See `chunkfront policies`.", show_default=False),
    ],
    sweep: options.SweepOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the schedule there; of a sweep its JSON document, or a table where FILE ends in .csv.",
            show_default=False,
        ),
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Metrics only, no schedule: for long traces, in little memory.")
    ] = False,
    json: options.JsonOption = False,
) -> int:
    """Run one heuristic: its schedule and all metrics.

    With --sweep it runs once per value of a knob or an engine limit; one row of metrics each.
    """
    problem = options.load_instance(instance)
    from chunkfront.running import parse_policy

    chosen = parse_policy(policy)
    output.check_writable_file(out, "--out")

    from heuristics.simulator import simulate as run_policy
    from heuristics.simulator import summarise
    from instances.errors import InputError

    if sweep is not None:
        from chunkfront.sweep import parse_sweep

        swept = parse_sweep(sweep, [policy])
        if swept.policies[0].spec != chosen.spec:
            raise InputError.expected(f"a sweep of {chosen.spec}, the --policy", sweep, "--sweep")
        return _show_sweep(problem, swept, out, summary=summary, json=json)
    if summary and out is not None:
        raise InputError.expected("no --out beside it: there is no schedule to write", str(out), "--summary")
    with _faults_told(policy):
        if summary:
            told = summarise(problem, chosen)
        else:
            run = run_policy(problem, chosen)
    if summary:
        return _show_summary(told, problem, json=json)
    if out is not None:
        output.write_file(out, run.schedule.to_json())
        output.message(f"wrote {out}")
    return _show_run(run, problem, json=json)


@contextmanager
def _faults_told(policy: str) -> Iterator[None]:
    """Tell a fault of the policy in a sentence; what it prints goes to stderr, for it is no answer of ours."""
    from chunkfront.validate.blame import described
    from chunkfront.validate.loading import names_a_class
    from heuristics.policy import PolicyError
    from instances.errors import InputError

    try:
        with redirect_stdout(sys.stderr):
            yield
    except PolicyError as failure:
        raise InputError(str(failure), field="--policy") from None
    except Exception as fault:
        if isinstance(fault, InputError) or not names_a_class(policy):
            raise
        raise InputError(f"fails: {described(fault)}", field="--policy") from fault


def _show_run(run: Run, problem: Instance, *, json: bool) -> int:
    if json:
        from chunkfront.documents import run_document

        output.emit_json(run_document(run, problem))
        return 0
    from chunkfront import tables
    from instances.check import violations
    from instances.metrics import report

    parts: list[Any] = [tables.schedule_table(run.schedule), "", tables.metrics_table(report(problem, run.schedule))]
    broken = violations(problem, run.schedule)  # a policy may make moves that this instance forbids
    if broken:
        parts += ["The policy makes moves that this instance forbids, so it is not comparable with an optimum.", ""]
        parts.append(tables.violations_table(broken))
    output.emit_rich(*parts)
    return 0


def _show_sweep(problem: Instance, sweep: Sweep, out: Path | None, *, summary: bool, json: bool) -> int:
    from chunkfront.sweep_rows import sweep_csv, sweep_document, sweep_rows

    rows = sweep_rows(problem, sweep, summary=summary)
    document = sweep_document(problem, sweep, rows)
    if out is not None:
        output.write_file(out, sweep_csv(sweep, rows) if out.suffix == ".csv" else output.json_text(document))
        output.message(f"wrote {out}")
    if json:
        output.emit_json(document)
        return 0
    from chunkfront import tables

    output.emit_rich(tables.sweep_table(document), *tables.reasons({row.name: row.reason for row in rows}))
    return 0


def _show_summary(summary: Summary, problem: Instance, *, json: bool) -> int:
    same_rules = summary.instance.engine == problem.engine
    if json:
        output.emit_json({"policy": summary.policy, "metrics": summary.metrics, "instance_rules": same_rules})
        return 0
    from chunkfront import tables

    parts: list[Any] = [tables.metrics_table(summary.metrics)]
    if not same_rules:
        parts.append("The policy runs on its engine's own rules, which differ from this instance's.")
    output.emit_rich(*parts)
    return 0
