"""``chunkfront why``: where a schedule loses against the optimum, or where one request's latency went."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output

if TYPE_CHECKING:
    from chunkfront.regret.online import Online
    from chunkfront.regret.split import Regret
    from instances.instance import Instance
    from instances.schedule import Schedule

ONLINE_SHARE = 0.3
"""Share of the time for the online runs."""


def why(
    instance: options.InstanceArgument,
    schedule: Annotated[
        Path | None, typer.Argument(metavar="[SCHEDULE]", help="A schedule's file, instead of --policy.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME|MODULE:CLASS", help="Whose schedule to explain.", show_default=False),
    ] = None,
    metric: Annotated[str, typer.Option("--metric", metavar="METRIC", help="What to lose in.")] = "mean_ttft",
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="ID", help="Explain this request's latency instead.", show_default=False),
    ] = None,
    limit: options.LimitOption = None,
    no_pause: options.NoPauseOption = False,
    max_preemptions: options.MaxPreemptionsOption = 1,
    online: Annotated[
        bool, typer.Option("--online/--no-online", help="Also re-solve online, to price not knowing the future.")
    ] = True,
    time_limit: options.TimeLimitOption = 120.0,
    workers: options.WorkersOption = None,
    seed: options.SeedOption = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the JSON document there.", show_default=False)
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Where a schedule loses against the optimum, by kind of decision; or where one request's latency went."""
    deadline = time.monotonic() + time_limit
    objective, limits = options.parse_metric(metric, "--metric"), options.parse_limits(limit)
    problem = options.load_instance(instance)
    output.check_writable_file(out, "--out")
    made = _schedule(problem, schedule, policy)
    if request is not None:
        return _explain_request(problem, made, request, out, json=json)

    from chunkfront.compare import Rules
    from chunkfront.regret.documents import regret_document
    from chunkfront.regret.lattice import Effort
    from chunkfront.regret.online import best_online
    from chunkfront.regret.split import require_comparable, split_regret

    require_comparable(problem, made, objective, Rules(limits, no_pause, max_preemptions))
    price, interrupted = None, False
    with output.progress(f"{objective} of {problem.name}") as show:
        if online:
            show("re-solving online")
            try:
                price = best_online(problem, objective, limits, no_pause=no_pause, max_preemptions=max_preemptions,
                                    time_limit=ONLINE_SHARE * time_limit)  # fmt: skip
            except KeyboardInterrupt:
                interrupted = True
        known = [] if price is None or price.schedule is None else [price.schedule]
        left = 0.01 if interrupted else max(0.01, deadline - time.monotonic())
        regret = split_regret(problem, made, objective, limits, no_pause=no_pause, max_preemptions=max_preemptions,
                              known=known, effort=Effort(workers, seed), tell=show, time_limit=left)  # fmt: skip
    interrupted = interrupted or regret.interrupted
    document = regret_document(problem, made.producer, regret, price, interrupted=interrupted)
    _write(document, out, json=json)
    if not json:
        _show(problem, made.producer, regret, price)
    return 130 if interrupted else 0


def _schedule(problem: Instance, path: Path | None, policy: str | None) -> Schedule:
    """Return the schedule to explain: the file's, or the policy's."""
    from chunkfront.validate.loading import load_policy
    from chunkfront.validate.scheduled import run_source
    from instances.errors import InputError
    from instances.schedule import Schedule

    if (path is None) == (policy is None):
        raise InputError(f"expected a schedule's file or --policy, got {'neither' if path is None else 'both'}",
                         field="SCHEDULE")  # fmt: skip
    if path is not None:
        return Schedule.read(path)
    run = run_source(problem, load_policy(str(policy)))
    if run.schedule is None:
        raise InputError(str(run.failure), field="--policy")
    return run.schedule


def _explain_request(problem: Instance, made: Schedule, request: str, out: Path | None, *, json: bool) -> int:
    from chunkfront.regret.documents import path_document
    from chunkfront.regret.path import latency_path
    from chunkfront.regret.words import path_sentences
    from instances.check import violations
    from instances.errors import InputError

    broken = violations(problem, made)
    if broken:
        raise InputError(f"breaks {broken[0].rule}: {broken[0].message}; only valid schedules are explained",
                         field=made.producer)  # fmt: skip
    path = latency_path(problem, made, request)
    _write(path_document(problem, made.producer, path), out, json=json)
    if not json:
        output.emit_rich(*path_sentences(path))
    return 0


def _write(document: dict[str, Any], out: Path | None, *, json: bool) -> None:
    if out is not None:
        output.write_file(out, output.json_text(document))
        output.message(f"wrote {out}")
    if json:
        output.emit_json(document)


def _show(problem: Instance, producer: str, regret: Regret, online: Online | None) -> None:
    from chunkfront import tables
    from chunkfront.regret.report import notes, online_sentence, regret_sentence, regret_table

    parts: list[Any] = [regret_sentence(problem, producer, regret)]
    if regret.gap.high:
        parts += ["", regret_table(problem, regret), *notes()]
    if online is not None:
        parts += ["", online_sentence(problem, producer, regret, online)]
    output.emit_rich(*parts, tables.CLAIRVOYANT)
