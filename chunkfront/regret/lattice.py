"""Optima of one instance with some freedoms held as one schedule chose them, for many subsets of freedoms.

Holding more can only cost more. So a schedule that holds more is one that holds less, and a bound for less is a bound
for more: every optimum proved and every schedule found serves all other subsets, and many need no solve at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from chunkfront.compare import Rules
from instances.instance import Instance
from instances.metrics import amounts
from instances.objectives import limit_amounts
from instances.schedule import Schedule
from solver.choices import Choices, Fixing, choices_of, freedoms
from solver.model import solve
from solver.result import FEASIBLE, OPTIMAL
from solver.run import Progress

Kinds = frozenset[str]


@dataclass(frozen=True)
class Held:
    """The optimum with some freedoms held, as exact amounts.

    Parameters
    ----------
    amount
        Of the best schedule known.
    bound
        No schedule that holds them has a smaller amount.
    """

    amount: int
    bound: int

    @property
    def status(self) -> str:
        """OPTIMAL where it is proved, else FEASIBLE."""
        return OPTIMAL if self.amount <= self.bound else FEASIBLE


@dataclass(frozen=True)
class Effort:
    """How to solve: as for `solver.model.solve`."""

    workers: int | None = None
    seed: int = 0
    deterministic: bool = False


class Lattice:
    """The optima of an objective under limits, by the freedoms that are held.

    Parameters
    ----------
    instance, objective
        As for `solver.model.solve`; the objective is one whose amount is its value (not ``throughput``).
    reference
        The schedule whose choices are held; valid, and within the rules.
    rules
        What every schedule has to obey.
    effort, tell
        How to solve; who is told about the progress.
    """

    def __init__(
        self,
        instance: Instance,
        objective: str,
        reference: Schedule,
        rules: Rules,
        *,
        effort: Effort | None = None,
        tell: Progress | None = None,
    ) -> None:
        self.instance, self.objective, self.rules = instance, objective, rules
        self.freedoms = freedoms(instance)
        self.effort, self.tell = effort or Effort(), tell
        self.choices: Choices = choices_of(instance, reference)
        self.reference = amounts(instance, reference)[objective]
        self.interrupted = False
        self._caps = limit_amounts(instance, rules.limits)
        self._known: dict[Schedule, int] = {}
        self._bounds: dict[Kinds, int] = {frozenset(): 0}
        self.learn(reference)

    def learn(self, schedule: Schedule) -> None:
        """Take note of a valid schedule; one beyond the limits is left out."""
        reached = amounts(self.instance, schedule)
        if all(reached[name] <= cap for name, cap in self._caps.items()):
            self._known[schedule] = reached[self.objective]

    def held(self, kinds: Kinds) -> Held:
        """Return what is known by now of the optimum with `kinds` held."""
        fixing = Fixing(self.choices, kinds)
        amount = min(a for schedule, a in self._known.items() if fixing.admits(self.instance, schedule))
        bound = max(bound for fewer, bound in self._bounds.items() if fewer <= kinds)
        return Held(amount, min(bound, amount))

    def solve(self, kinds: Kinds, time_limit: float) -> None:
        """Improve what is known of the optimum with `kinds` held; nothing where it is proved already."""
        if self.held(kinds).status == OPTIMAL or self.interrupted:
            return
        result = solve(
            self.instance, self.objective, dict(self.rules.limits), no_pause=self.rules.no_pause,
            max_preemptions=self.rules.max_preemptions, time_limit=time_limit, workers=self.effort.workers,
            seed=self.effort.seed, deterministic=self.effort.deterministic, known=list(self._known),
            fixing=Fixing(self.choices, kinds) if kinds else None, on_progress=self.tell,
        )  # fmt: skip
        self.interrupted = result.interrupted
        if result.schedule is not None:
            self.learn(result.schedule)
        if result.bound_amount is not None:
            self._bounds[kinds] = max(result.bound_amount, self._bounds.get(kinds, 0))
