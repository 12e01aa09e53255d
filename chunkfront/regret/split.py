"""Regret of a schedule, split by kind of decision: how much of its distance from the optimum each freedom causes.

Let v(S) be the optimum with the freedoms S held as the schedule chose them (`solver.choices`), v(∅) the optimum, and P
the schedule's own value; all are amounts that are minimised.

- **Gap**: P - v(∅).
- **Cost** of a freedom f: v({f}) - v(∅), what it costs to choose as the schedule does in f alone and the best in all
  others. Never negative, never more than the gap.
- **Interaction**: the gap less all costs. Positive where choices hurt only together; negative where each alone does the
  harm that they share. With it the shares add up to the gap, exactly. On an engine that evicts it also holds what the
  freedoms cost that cannot be held there.
- **Gain** of a freedom f: P - v(all others), what the schedule would win if it were the best in f alone, all its other
  choices kept: what to mend first.

Where an optimum is not proved, every figure is an interval that holds the true one, and the figure itself is that of
the best schedules found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chunkfront.compare import PolicyRun, Rules, broken_rule
from chunkfront.regret.lattice import Effort, Held, Kinds, Lattice
from instances.errors import InputError
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from instances.schedule import Schedule
from solver.result import FEASIBLE, OPTIMAL
from solver.run import Progress

NOTHING: Kinds = frozenset()
FREE_SHARE = 0.3
"""Share of the time for the optimum itself, on which all figures lean."""


@dataclass(frozen=True)
class Figure:
    """A difference of amounts, and an interval that holds the true one."""

    amount: int
    low: int
    high: int

    @property
    def status(self) -> str:
        """OPTIMAL where it is proved, else FEASIBLE."""
        return OPTIMAL if self.low == self.high else FEASIBLE


@dataclass(frozen=True)
class Share:
    """What one freedom causes: see the module's text.

    Parameters
    ----------
    freedom
        One of `solver.choices.freedoms`.
    cost, gain
        Of choosing as the schedule does in it alone; of being the best in it alone.
    """

    freedom: str
    cost: Figure
    gain: Figure


@dataclass(frozen=True)
class Regret:
    """The gap of a schedule and its shares, in amounts of the objective (`instances.objectives`).

    Parameters
    ----------
    objective
        Its metric name.
    amount
        The schedule's own.
    optimum
        The optimum, or the best schedule known and a bound.
    gap, shares, interaction
        ``gap.amount == Σ cost.amount + interaction.amount``.
    wall_s, interrupted
        Seconds; whether the user stopped it.
    """

    objective: str
    amount: int
    optimum: Held
    gap: Figure
    shares: tuple[Share, ...]
    interaction: Figure
    wall_s: float
    interrupted: bool


def split_regret(
    instance: Instance,
    schedule: Schedule,
    objective: str,
    limits: Mapping[str, float] | None = None,
    *,
    no_pause: bool = False,
    max_preemptions: int = 1,
    known: Iterable[Schedule] = (),
    time_limit: float = 120.0,
    effort: Effort | None = None,
    tell: Progress | None = None,
) -> Regret:
    """Return the regret of a schedule, split by kind of decision.

    Parameters
    ----------
    instance, schedule
        The schedule is valid and obeys `limits`, `no_pause` and `max_preemptions`.
    objective, limits, no_pause, max_preemptions
        As for `solver.model.solve`.
    known
        Other schedules that obey the same rules: no optimum is shown worse than they are.
    time_limit
        Seconds for all solves.
    effort, tell
        How to solve; who is told about the progress.

    Raises
    ------
    InputError
        For ``throughput`` (its regret is that of the makespan), and for a schedule that is not comparable with the
        optimum.
    """
    rules = Rules(limits or {}, no_pause, max_preemptions)
    require_comparable(instance, schedule, objective, rules)
    started = time.monotonic()
    lattice = Lattice(instance, objective, schedule, rules, effort=effort, tell=tell)
    for other in known:
        lattice.learn(other)
    try:
        _solve_all(lattice, time_limit)
    except KeyboardInterrupt:  # between two solves; what is known by now is answered
        lattice.interrupted = True
    return _regret(lattice, time.monotonic() - started)


def require_comparable(instance: Instance, schedule: Schedule, objective: str, rules: Rules) -> None:
    """Raise the InputError of `split_regret` where a schedule has no regret."""
    if objective not in OBJECTIVES or objective == "throughput":
        names = ", ".join(name for name in OBJECTIVES if name != "throughput")
        raise InputError.expected(f"one of {names} (throughput is the makespan read backwards)", objective, "metric")
    reason = broken_rule(instance, PolicyRun(schedule.producer, schedule), rules)
    if reason is not None:
        raise InputError(f"the schedule is not comparable with an optimum: it {reason}", field=schedule.producer)


def alone(freedom: str) -> Kinds:
    """Return the one freedom as a set."""
    return frozenset([freedom])


def others(lattice: Lattice, freedom: str) -> Kinds:
    """Return all freedoms but one."""
    return frozenset(lattice.freedoms) - {freedom}


def _solve_all(lattice: Lattice, time_limit: float) -> None:
    """Solve for the optimum, each freedom alone, and all but each; the time left is shared evenly."""
    deadline = time.monotonic() + time_limit
    lattice.solve(NOTHING, FREE_SHARE * time_limit)
    tasks = [alone(freedom) for freedom in lattice.freedoms]
    tasks += [others(lattice, freedom) for freedom in lattice.freedoms]
    for index, kinds in enumerate(tasks):
        left = max(0.01, deadline - time.monotonic())
        if lattice.tell is not None:
            lattice.tell(f"{' and '.join(sorted(kinds))} held")
        lattice.solve(kinds, left / (len(tasks) - index))
    lattice.solve(NOTHING, max(0.01, deadline - time.monotonic()))


def _regret(lattice: Lattice, wall_s: float) -> Regret:
    best, reference = lattice.held(NOTHING), lattice.reference
    held = {freedom: lattice.held(alone(freedom)) for freedom in lattice.freedoms}
    gap = Figure(reference - best.amount, reference - best.amount, reference - best.bound)
    shares = []
    for freedom, fixed in held.items():
        rest = lattice.held(others(lattice, freedom))
        cost = Figure(fixed.amount - best.amount, max(0, fixed.bound - best.amount), fixed.amount - best.bound)
        gain = Figure(reference - rest.amount, reference - rest.amount, reference - rest.bound)
        shares.append(Share(freedom, cost, gain))
    more = len(held) - 1
    values, bounds = sum(h.amount for h in held.values()), sum(h.bound for h in held.values())
    interaction = Figure(
        reference + more * best.amount - values, reference + more * best.bound - values,
        reference + more * best.amount - bounds,
    )  # fmt: skip
    return Regret(lattice.objective, reference, best, gap, tuple(shares), interaction, wall_s, lattice.interrupted)
