"""A regret split by kind of decision as sentences and a table; they compute nothing but units."""

from __future__ import annotations

from rich.table import Table

from chunkfront.regret.documents import lost
from chunkfront.regret.online import Online
from chunkfront.regret.split import Figure, Regret
from chunkfront.tables import number, percent, plain_table
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from solver.result import OPTIMAL

WORDS = {
    "order": "order of prefills",
    "chunks": "chunk sizes",
    "admissions": "admission times",
    "decodes": "who decodes",
    "preemptions": "who is evicted",
}


def regret_sentence(instance: Instance, producer: str, regret: Regret) -> str:
    """Return value, optimum and gap in one sentence."""
    objective, best = OBJECTIVES[regret.objective], regret.optimum
    own, value, bound = (number(objective.value(instance, x)) for x in (regret.amount, best.amount, best.bound))
    text = f"{producer} on {instance.name}: {regret.objective} {own} {objective.unit}"
    if best.status == OPTIMAL and not regret.gap.amount:
        return f"{text}, which is optimal (proved). There is nothing to explain."
    if best.status == OPTIMAL:
        return f"{text}, optimum {value} (proved): {_amount(instance, regret, regret.gap)} {objective.unit} lost."
    return (f"{text}, optimum between {bound} and {value}: "
            f"{_amount(instance, regret, regret.gap)} {objective.unit} lost.")  # fmt: skip


def regret_table(instance: Instance, regret: Regret) -> Table:
    """Return what each freedom costs alone, and gains alone; the first column adds up to the gap."""
    unit = OBJECTIVES[regret.objective].unit
    rows = [
        [WORDS[s.freedom], _amount(instance, regret, s.cost), _share(regret, s.cost),
         _amount(instance, regret, s.gain)]
        for s in regret.shares
    ]  # fmt: skip
    rows.append(["interaction", _amount(instance, regret, regret.interaction), _share(regret, regret.interaction), "-"])
    rows.append(["gap", _amount(instance, regret, regret.gap), _share(regret, regret.gap), "-"])
    columns = [("decision", "left"), (f"costs alone ({unit})", "right"), ("of the gap", "right"),
               (f"gains alone ({unit})", "right")]  # fmt: skip
    return plain_table(f"Where {regret.objective} is lost", columns, rows)


def notes() -> list[str]:
    """Return what the columns mean."""
    return [
        "Costs alone: the optimum with only this held as the schedule chose it, less the optimum.",
        "Interaction: the rest of the gap; negative where several decisions each do the harm that they share.",
        "Gains alone: what the schedule would win by the best choice in this, all others kept.",
        "An interval stands where not all is proved.",
    ]


def online_sentence(instance: Instance, producer: str, regret: Regret, online: Online) -> str:
    """Return the price of not knowing the future."""
    objective = OBJECTIVES[regret.objective]
    if online.amount is None:
        return f"Online: no comparable run of {online.policy}: it {online.reason}."
    best = regret.optimum
    price = Figure(online.amount - best.amount, online.amount - best.amount, online.amount - best.bound)
    value, more = number(objective.value(instance, online.amount)), regret.amount - online.amount
    side = "more" if more >= 0 else "less"
    return (
        f"Not knowing the future: a rolling exact re-solve ({online.policy}) reaches {value} {objective.unit} online, "
        f"{_amount(instance, regret, price)} {objective.unit} from the optimum. {producer} loses "
        f"{number(lost(instance, objective.name, abs(more)))} {objective.unit} {side} than that."
    )


def _amount(instance: Instance, regret: Regret, figure: Figure) -> str:
    value, low, high = (number(lost(instance, regret.objective, x)) for x in (figure.amount, figure.low, figure.high))
    return value if figure.status == OPTIMAL else f"{value} ({low} .. {high})"


def _share(regret: Regret, figure: Figure) -> str:
    return percent(figure.amount / regret.gap.amount if regret.gap.amount else None)
