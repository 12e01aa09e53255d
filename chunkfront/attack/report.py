"""A find as a sentence and a table."""

from __future__ import annotations

from rich.table import Table

from chunkfront.attack.judge import Question
from chunkfront.attack.search import Find
from chunkfront.tables import number, plain_table
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from instances.units import ms_from_ps, ms_from_us


def find_sentence(find: Find, question: Question) -> str:
    """Return what was found, in one sentence or two."""
    cut = "" if find.finished else ", cut short"
    effort = f"({find.judged} instances judged in {find.wall_s:.1f} s{cut})"
    verdict = find.verdict
    if verdict is None:
        return f"No instance was comparable and proved {effort}."
    value = number(OBJECTIVES[question.metric].value(verdict.instance, verdict.amount))
    allowed = f" among schedules no worse in {' and '.join(question.no_worse)}" if question.no_worse else ""
    return (
        f"{verdict.policy}: {question.metric} {value} ms, {float(verdict.ratio):.2f} times the optimum"
        f"{allowed}, {number(verdict.optimum.value)} ms, proved {effort}."
    )


def engine_sentence(instance: Instance) -> str:
    """Return the engine and the cost of an instance that an attack made, in one sentence."""
    engine, piece = instance.engine, instance.cost.pieces[0]
    seats = "" if engine.max_num_seqs is None else f", {engine.max_num_seqs} seats"
    seats += "" if engine.num_kv_blocks is None else f", {engine.num_kv_blocks} KV tokens"
    costs = (f"{ms_from_ps(amount):g} ms per {what}" for amount, what in (
        (piece.base_ps, "iteration"), (piece.prefill_ps, "prefill token"), (piece.decode_ps, "decode")
    ))  # fmt: skip
    evicts = "" if engine.preemption == "none" else f", preemption by {engine.preemption}"
    return f"Budget {engine.max_num_batched_tokens} tokens{seats}{evicts}; {', '.join(costs)}."


def requests_table(instance: Instance) -> Table:
    """Return the requests of an instance."""
    rows = [[r.id, number(ms_from_us(r.arrival_us)), str(r.prompt_tokens), str(r.output_tokens)]
            for r in instance.requests]  # fmt: skip
    return plain_table("Requests", [("request", "left"), ("arrival (ms)", "right"), ("prompt", "right"),
                               ("output", "right")], rows)  # fmt: skip
