"""``chunkfront compare``: policies x metrics with their gap to the proved optimum or bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chunkfront import options, output
from chunkfront.effort import Effort

if TYPE_CHECKING:
    from chunkfront.compare import Rules
    from chunkfront.gaps import Comparison
    from instances.instance import Instance
    from solver.result import Result


def compare(
    instances: Annotated[
        list[str],
        typer.Argument(metavar="INSTANCE...", help="Files, or names of bundled instances.", show_default=False),
    ],
    policies: options.PoliciesOption = "all",
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="A,B,...", help="Objectives to compare on.")
    ] = "makespan,max_tbt,mean_ttft,mean_e2e",
    limit: options.LimitOption = None,
    no_pause: options.NoPauseOption = False,
    max_preemptions: options.MaxPreemptionsOption = 1,
    time_limit: options.TimeLimitOption = 300.0,
    workers: options.WorkersOption = None,
    seed: options.SeedOption = 0,
    deterministic: options.DeterministicOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the JSON document there.", show_default=False)
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Policies x metrics, with their gap to the proved optimum.

    The time left is shared evenly among the optima still to be found. Ctrl-C shows what is done so far.
    """
    effort = Effort(time_limit, workers, seed, deterministic)
    names = options.parse_metrics(metrics)
    limits = options.parse_limits(limit)
    problems = [options.load_instance(name) for name in instances]
    from chunkfront.running import parse_policies, run_policies
    from solver.size import require_searchable

    specs = parse_policies(policies)
    for problem in problems:
        require_searchable(problem)
    output.check_writable_file(out, "--out")

    from chunkfront.compare import Rules
    from chunkfront.documents import comparison_document
    from chunkfront.gaps import compare_with_optima
    from chunkfront.running import exit_code

    rules = Rules(limits, no_pause, max_preemptions)
    done: list[Comparison] = []
    for index, problem in enumerate(problems):
        runs, stopped = run_policies(problem, specs, deadline=effort.deadline)
        results = {} if stopped else _optima(problem, names, rules, effort, len(problems) - index, len(problems))
        done.append(compare_with_optima(problem, runs, names, results, rules))
        if not json:
            _show(done[-1])
        if stopped or any(result.interrupted for result in results.values()):
            break
    interrupted = len(done) < len(problems) or len(done[-1].results) < len(names) or any(
        result.interrupted for result in done[-1].results.values()
    )  # fmt: skip
    document = comparison_document(done, interrupted=interrupted, wall_s=effort.wall_s)
    if out is not None:
        output.write_file(out, output.json_text(document))
        output.message(f"wrote {out}")
    if json:
        output.emit_json(document)
    statuses = [result.status for comparison in done for result in comparison.results.values()]
    return exit_code(*statuses, interrupted=interrupted)


def _optima(
    problem: Instance,
    names: tuple[str, ...],
    rules: Rules,
    effort: Effort,
    instances_left: int,
    instances: int,
) -> dict[str, Result]:
    """Return the optimum of each metric, as far as the user lets it go on."""
    from solver.model import solve

    results: dict[str, Result] = {}
    try:
        for index, name in enumerate(names):
            solves_left = len(names) * instances_left - index
            with output.progress(f"{name} of {problem.name}") as show:
                results[name] = solve(
                    problem,
                    name,
                    dict(rules.limits),
                    no_pause=rules.no_pause,
                    time_limit=effort.share(solves_left, len(names) * instances),
                    explain=not results,
                    **effort.settings,
                    max_preemptions=rules.max_preemptions,
                    on_progress=show,
                )
            if results[name].interrupted:
                break
    except KeyboardInterrupt:
        pass
    return results


def _show(comparison: Comparison) -> None:
    from chunkfront import tables
    from chunkfront.sentences import conflict_sentences

    lines = tables.reasons({policy.run.name: policy.reason for policy in comparison.policies})
    lines += dict.fromkeys(note for result in comparison.results.values() for note in result.notes)
    for result in comparison.results.values():
        lines += conflict_sentences(result.conflict)
    output.emit_rich(tables.comparison_table(comparison), *lines, tables.CLAIRVOYANT, "")
