"""``chunkfront validate``: is a scheduler right, and how far is it from the optimum."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output

if TYPE_CHECKING:
    from chunkfront.validate.conformance import Conformance
    from chunkfront.validate.distance import Distance
    from chunkfront.validate.loading import PolicySource
    from instances.instance import Instance

CONFORMANCE_SHARE = 0.6
"""Share of the time limit after which no further instance is tried for conformance."""
TEMPLATE_FILE = "my_scheduler.py"


def validate(
    scheduler: Annotated[
        str | None,
        typer.Argument(
            metavar="SCHEDULER",
            help="module:Class, path/to/file.py:Class, or a built-in policy; knobs as :key=value,...",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        bool, typer.Option("--template", help="Print a scheduler to begin with (into a file of --out DIR).")
    ] = False,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on", metavar="INSTANCE", help="Try it on this one only; may be repeated.", show_default=False
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", parser=options.whole(0, 10**6), metavar="N", help="Random instances of the suite.")
    ] = 100,
    policies: Annotated[
        str, typer.Option("--policies", metavar="all|none|A,B:key=v,...", help="Built-in policies to compare with.")
    ] = "static,prefill-first,greedy-chunked,vllm-v1,sglang,trtllm",
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="A,B,...", help="Objectives to measure the distance on.")
    ] = "makespan,max_tbt,mean_ttft,mean_e2e",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    time_limit: options.TimeLimitOption = 300.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write report, plots and failing instances.", show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Is a scheduler right, and how far is it from the optimum?

    Runs it on bundled instances, edge cases and seeded random ones: every broken rule comes with iteration, request,
    value and limit, and a shrunk instance that shows it. Then its gaps to proved optima, beside the built-in policies.
    Exit code 1 where a rule is broken.
    """
    from instances.errors import InputError

    started = time.monotonic()
    if template == (scheduler is not None):
        raise InputError.expected("module:Class, path/to/file.py:Class, a built-in policy, or --template", scheduler,
                                  "SCHEDULER")  # fmt: skip
    output.make_directory(out, "--out")
    if scheduler is None:
        return _template(out)
    from chunkfront.running import parse_policies
    from chunkfront.validate.loading import load_policy

    source = load_policy(scheduler)
    specs, names = parse_policies(policies), _known_metrics(metrics)
    given = None if on is None else [_instance(text) for text in on]
    found = _conformance(source, given, seeds, started + CONFORMANCE_SHARE * time_limit)
    distance = None if found.interrupted else _distance(source, given, names, specs, started + time_limit)
    _report(source, found, distance, started, out, json=json)
    if found.interrupted or (distance is not None and distance.interrupted):
        return 130
    return 1 if not found.conforms or (strict and found.faults) else 0


def _template(out: Path | None) -> int:
    from chunkfront.validate.template import TEMPLATE

    if out is None:
        output.emit(TEMPLATE)
    else:
        output.write_file(out / TEMPLATE_FILE, TEMPLATE)
        output.message(f"wrote {out / TEMPLATE_FILE}")
    return 0


def _known_metrics(text: str) -> tuple[str, ...]:
    from chunkfront.validate.library import METRICS
    from instances.errors import InputError

    names = options.parse_metrics(text)
    for name in names:
        if name not in METRICS:
            raise InputError.expected(f"metrics with best-known values ({', '.join(METRICS)})", name, "--metrics")
    return names


def _instance(text: str) -> Instance:
    """Return the instance of a file, a bundled name or a key of the suite."""
    from chunkfront.validate.suite import instance_of
    from instances.errors import InputError
    from instances.instance import Instance

    if Path(text).exists():
        return Instance.read(text)
    try:
        return instance_of(text)
    except InputError as problem:
        raise InputError(problem.message, field="--on") from None


def _conformance(source: PolicySource, given: Sequence[Instance] | None, seeds: int, deadline: float) -> Conformance:
    from chunkfront.validate.conformance import examine
    from chunkfront.validate.suite import suite, suite_keys

    instances = list(suite(suite_keys(seeds))) if given is None else given
    with output.progress("conformance") as show:
        return examine(source, instances, deadline=deadline, tell=show)


def _distance(
    source: PolicySource, given: Sequence[Instance] | None, metrics: Sequence[str], specs: Sequence[str],
    deadline: float,
) -> Distance:  # fmt: skip
    from chunkfront.validate.distance import measure
    from chunkfront.validate.library import known_keys, known_results
    from chunkfront.validate.suite import instance_of

    instances = [instance_of(key) for key in known_keys()] if given is None else given
    known = [instance for instance in instances if known_results(instance)]
    with output.progress("distance") as show:
        return measure(source, source.label, known, metrics, specs, deadline=deadline, tell=show)


def _report(
    source: PolicySource, found: Conformance, distance: Distance | None, started: float, out: Path | None, *,
    json: bool,
) -> None:  # fmt: skip
    """Print and write everything."""
    from chunkfront.validate import report

    files = _write_faults(found, out)
    commands = {
        rule: f"chunkfront validate {shlex.quote(source.text)} --on {shlex.quote(file)}" for rule, file in files.items()
    }
    shown = distance if distance is not None and distance.comparisons else None
    document: dict[str, Any] = {
        "scheduler": source.text,
        "file": source.file,
        "clairvoyant": source().clairvoyant,
        "knows_future": source().knows_future,
        "conformance": report.conformance_document(found, commands, files),
        "distance": None if shown is None else report.distance_document(shown),
        "interrupted": found.interrupted or (distance is not None and distance.interrupted),
        "wall_s": time.monotonic() - started,
    }
    if json:
        output.emit_json(document)
    else:
        from chunkfront.tables import CLAIRVOYANT

        output.emit_rich(report.verdict(source.label, found), *report.faults_lines(found, commands))
        if shown is not None:
            output.emit_rich("", report.distance_table(shown), report.worst_table(shown),
                             *report.distance_sentences(shown), CLAIRVOYANT)  # fmt: skip
    if out is not None:
        _write(out, document, shown)


def _write_faults(found: Conformance, out: Path | None) -> dict[str, str]:
    """Write the small instances of all faults; return their files by rule."""
    if out is None:
        return {}
    files = {}
    for fault in found.faults:
        path = out / f"{fault.finding.rule}.json"
        output.write_file(path, fault.instance.to_json())
        files[fault.finding.rule] = str(path)
    return files


def _write(out: Path, document: dict[str, Any], distance: Distance | None) -> None:
    output.write_file(out / "validation.json", output.json_text(document))
    output.message(f"wrote {out / 'validation.json'}")
    if distance is None:
        return
    from chunkfront.plots.distance import plot_distance
    from chunkfront.plots.files import figure_file

    figure = plot_distance(distance)
    for kind in ("png", "svg"):
        output.write_file(out / f"distance.{kind}", figure_file(figure, kind))
        output.message(f"wrote {out / f'distance.{kind}'}")
