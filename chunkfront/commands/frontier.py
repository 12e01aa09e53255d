"""``chunkfront frontier``: the exact frontier, every heuristic in the same plane, table, plot and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output
from chunkfront.effort import Effort

if TYPE_CHECKING:
    from chunkfront.compare import ComparedPolicy, PolicyRun, Rules
    from chunkfront.curves import Curve
    from instances.instance import Instance
    from solver.result import Frontier


def frontier(
    instance: options.InstanceArgument,
    axes: Annotated[
        str | None,
        typer.Option(
            "--axes",
            metavar="A,B[,C]",
            help="Two or three objectives.",
            show_default="the instance's, else makespan,max_tbt",
        ),
    ] = None,
    policies: options.PoliciesOption = "all",
    sweep: options.SweepOption = None,
    limit: options.LimitOption = None,
    resolution: Annotated[
        float | None,
        typer.Option(
            "--resolution",
            parser=options.positive,
            metavar="MS",
            help="Grid on every axis but the first, in its unit; bounds the number of points.",
            show_default="complete",
        ),
    ] = None,
    time_limit: options.TimeLimitOption = 300.0,
    no_pause: options.NoPauseOption = False,
    max_preemptions: options.MaxPreemptionsOption = 1,
    workers: options.WorkersOption = None,
    seed: options.SeedOption = 0,
    deterministic: options.DeterministicOption = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write frontier.json, .csv, .png and .svg there, and instance.json.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write all of it as one HTML page.", show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """The main job: the exact frontier, heuristics in the same plane.

    Every point of the frontier comes with its proof; the heuristics are placed in the same plane.
    Ctrl-C or the time limit end it early with what is proved so far. The plots may take a few seconds more.
    """
    effort = Effort(time_limit, workers, seed, deterministic)
    limits = options.parse_limits(limit)
    problem = options.load_instance(instance)
    names = options.parse_axes(axes, problem)
    from chunkfront.running import parse_policies, run_policies
    from solver.size import require_searchable

    specs = parse_policies(policies)
    require_searchable(problem)
    from chunkfront.curves import curves, run_variants
    from chunkfront.sweep import parse_sweep, variants

    swept = None if sweep is None else parse_sweep(sweep, specs)
    output.make_directory(out, "--out")
    output.check_writable_file(report, "--report")

    from chunkfront.compare import Rules, compare_with_frontier, hypervolumes
    from chunkfront.documents import frontier_csv, frontier_document
    from chunkfront.running import exit_code

    rules = Rules(limits, no_pause, max_preemptions)
    runs, stopped = run_policies(problem, specs, deadline=effort.deadline)
    tried = [] if swept is None or stopped else variants(problem, swept)
    swept_runs, stopped_sweep = run_variants(tried, deadline=effort.deadline)
    known = [*runs, *swept_runs]
    cut = stopped or stopped_sweep
    found = _cut_short(names) if cut else _solve(problem, names, rules, resolution, effort, known)
    compared = compare_with_frontier(problem, runs, found, rules)
    drawn = () if swept is None else curves(problem, swept, tried, swept_runs, found, rules)
    area = hypervolumes(found, compared)
    document = frontier_document(problem.name, found, compared, area, effort.wall_s, drawn)
    document["settings"] = _settings(rules, policies, sweep, resolution, effort)
    _write(out, {"json": lambda: output.json_text(document), "csv": lambda: frontier_csv(found, compared, drawn)})
    if json:
        output.emit_json(document)
    else:
        _show(problem, found, compared, document, drawn)
    _write(out, {kind: partial(_plot, problem, found, compared, drawn, kind) for kind in ("png", "svg")})
    _write_more(out, report, document, problem)
    return exit_code(found.status, interrupted=found.interrupted)


def _solve(
    problem: Instance,
    axes: tuple[str, ...],
    rules: Rules,
    resolution: float | None,
    effort: Effort,
    runs: Sequence[PolicyRun],
) -> Frontier:
    """Return the frontier that can be proved in the time left; of an interrupted one what there is."""
    from solver.frontier import frontier as solve_frontier

    try:
        with output.progress(f"frontier of {problem.name}") as show:
            return solve_frontier(
                problem,
                axes,
                limits=dict(rules.limits),
                resolution=resolution,
                no_pause=rules.no_pause,
                time_limit=effort.share(),
                **effort.settings,
                max_preemptions=rules.max_preemptions,
                known=[run.schedule for run in runs if run.schedule is not None],
                on_progress=show,
            )
    except KeyboardInterrupt:
        return _cut_short(axes)


def _cut_short(axes: tuple[str, ...]) -> Frontier:
    """Return the frontier of which nothing is known yet, because the user stopped."""
    from instances.objectives import OBJECTIVES
    from solver.result import UNKNOWN, Frontier

    units = tuple(OBJECTIVES[axis].unit for axis in axes)
    if len(axes) > 2:
        zone = {"better_than": dict.fromkeys(axes), "bounds": {}}
        return Frontier(axes, units, (), False, (), UNKNOWN, interrupted=True, open_zones=(zone,))
    nothing = {"axis": axes[0], "above": None, "below": None}
    return Frontier(axes, units, (), False, (nothing,), UNKNOWN, interrupted=True)


def _show(
    problem: Instance, found: Frontier, compared: Sequence[ComparedPolicy], document: dict[str, Any],
    drawn: Sequence[Curve],
) -> None:  # fmt: skip
    from chunkfront import tables
    from chunkfront.sentences import conflict_sentences, hypervolume_sentence

    parts: list[Any] = [tables.frontier_sentence(problem, found, document["wall_s"])]
    parts += [*tables.open_interval_sentences(found), *found.notes, *conflict_sentences(found.conflict)]
    if found.points:
        parts += ["", tables.frontier_table(found)]
    if compared:
        parts += [
            "",
            tables.policies_table(found, compared),
            *tables.reasons({policy.name: policy.reason for policy in compared}),
        ]
        if document["hypervolume"] is not None:
            share = tables.percent(document["hypervolume"]["ratio"])
            parts.append(hypervolume_sentence(share, len(found.axes), complete=found.complete))
    if drawn:
        from chunkfront.curves import reasons_of

        parts += ["", tables.curves_table(found, drawn), *tables.reasons(reasons_of(drawn))]
    if compared or drawn:
        parts.append(tables.CLAIRVOYANT)
    output.emit_rich(*parts)


def _settings(
    rules: Rules, policies: str, sweep: str | None, resolution: float | None, effort: Effort
) -> dict[str, Any]:
    """Return what the answer depends on beside instance and axes."""
    from chunkfront.report.versions import versions

    return {
        "limits": dict(rules.limits),
        "policies": policies,
        "sweep": sweep,
        "resolution": resolution,
        "time_limit_s": effort.time_limit,
        "no_pause": rules.no_pause,
        "max_preemptions": rules.max_preemptions,
        **effort.settings,
        "versions": versions(),
    }


def _write_more(out: Path | None, report: Path | None, document: dict[str, Any], problem: Instance) -> None:
    """Write the instance beside the results, so that they can be read without it being found again; and the page."""
    if out is not None:
        output.write_file(out / "instance.json", problem.to_json())
    if report is not None:
        from chunkfront.report.page import report_page

        output.write_file(report, report_page(document, problem), "--report")
        output.message(f"wrote {report}")


def _plot(
    problem: Instance, found: Frontier, compared: Sequence[ComparedPolicy], drawn: Sequence[Curve], kind: str
) -> bytes:
    if len(found.axes) > 2:
        from chunkfront.plots.files import figure_file
        from chunkfront.plots.projections import plot_projections

        places = [*compared, *(place for curve in drawn for place in curve.places)]
        return figure_file(plot_projections(found, places, title=problem.name), kind)
    from chunkfront.plots.frontier import figure_bytes, plot_frontier

    return figure_bytes(plot_frontier(found, compared, curves=drawn, title=problem.name), kind)


def _write(directory: Path | None, contents: Mapping[str, Callable[[], str | bytes]]) -> None:
    """Write ``frontier.<kind>`` files, each made when its turn comes."""
    if directory is None:
        return
    for kind, make in contents.items():
        path = directory / f"frontier.{kind}"
        output.write_file(path, make())
        output.message(f"wrote {path}")
