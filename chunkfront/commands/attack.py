"""``chunkfront attack``: small instances on which a policy is furthest from the proved optimum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chunkfront import options, output

if TYPE_CHECKING:
    from chunkfront.attack.judge import Question
    from chunkfront.attack.search import Find

UNKNOWN = 3


def _most(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, parser=options.whole(0, 10_000), metavar="N", help=what)
    return option


def attack(
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME|MODULE:CLASS", help="Whom to attack; knobs as usual.",
                     show_default=False),
    ],
    metric: Annotated[str, typer.Option("--metric", metavar="METRIC", help="An objective in ms.")] = "max_tbt",
    no_worse: Annotated[
        str | None,
        typer.Option(
            "--no-worse", metavar="A,B|none", help="The optimum must be no worse than the policy in these.",
            show_default="makespan for max_tbt, else none",
        ),
    ] = None,
    limit: options.LimitOption = None,
    no_pause: options.NoPauseOption = False,
    requests: Annotated[int, _most("--requests", "Most requests.")] = 4,
    prompt: Annotated[int, _most("--prompt", "Longest prompt, in tokens.")] = 24,
    outputs: Annotated[int, _most("--output", "Most output tokens.")] = 8,
    arrival: Annotated[int, _most("--arrival", "Latest arrival, in ms.")] = 20,
    budget: Annotated[int, _most("--budget", "Largest token budget.")] = 32,
    kv: Annotated[int, _most("--kv", "Largest KV pool, in tokens; 0: no limit.")] = 0,
    preemption: Annotated[
        str, typer.Option("--preemption", metavar="none|recompute|swap", help="Whether engine and optimum may evict.")
    ] = "none",
    max_preemptions: options.MaxPreemptionsOption = 1,
    evaluations: Annotated[
        int, typer.Option("--evaluations", parser=options.whole(1), metavar="N", help="Instances to judge.")
    ] = 300,
    time_limit: options.TimeLimitOption = 120.0,
    seed: options.SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write instance there, schedules and proof beside it.",
                     show_default=False),
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """Search small instances on which a policy is furthest from the optimum, shrink the worst, and prove it.

    With the same seed the same find, unless the time limit ends the search (then the document says so).
    """  # fmt: skip
    from chunkfront.attack.genes import Ranges
    from chunkfront.attack.judge import Question
    from chunkfront.attack.proof import named, proof_document, write_find
    from chunkfront.attack.search import Attack
    from chunkfront.validate.loading import load_policy

    objective = options.parse_metric(metric, "--metric")
    question = Question(load_policy(policy), objective, options.parse_limits(limit), _others(no_worse, objective),
                        no_pause, max_preemptions)  # fmt: skip
    ranges = Ranges(requests, arrival, prompt, outputs, budget, kv=kv, preemption=preemption)
    output.check_writable_file(out, "--out")
    with output.progress(f"{policy} on {objective}") as show:
        find = Attack(question, ranges, seed=seed, evaluations=evaluations, time_limit=time_limit, tell=show).run()
    name = out.stem if out is not None else f"{policy.partition(':')[0]}-{objective}"
    document = proof_document(find, question, name)
    if find.verdict is not None:
        found = named(find.verdict, question, name, f"chunkfront attack --policy {policy} --metric {objective} "
                      f"--seed {seed}")  # fmt: skip
        for path in write_find(out, found, document) if out is not None else ():
            output.message(f"wrote {path}")
        document["found"] = found.to_dict()
    if json:
        output.emit_json(document)
    else:
        _show(find, question)
    if find.interrupted:
        return 130
    return 0 if find.verdict is not None else UNKNOWN


def _others(text: str | None, metric: str) -> tuple[str, ...]:
    """Return the metrics of --no-worse; serving one after the other makes the best gaps, so makespan for max_tbt."""
    if text is None:
        return ("makespan",) if metric == "max_tbt" else ()
    return () if text.strip() == "none" else options.parse_metrics(text, "--no-worse")


def _show(find: Find, question: Question) -> None:
    from chunkfront import tables
    from chunkfront.attack.report import engine_sentence, find_sentence, requests_table

    verdict = find.verdict
    parts: list[Any] = [find_sentence(find, question)]
    if verdict is not None and verdict.optimum.schedule is not None:
        schedules = [tables.schedule_table(made) for made in (verdict.schedule, verdict.optimum.schedule)]
        parts += [engine_sentence(verdict.instance), "", requests_table(verdict.instance), *schedules]
        parts.append(tables.CLAIRVOYANT)
    output.emit_rich(*parts)
