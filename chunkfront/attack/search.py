"""The search of an attack: seeded hill climbing over small instances, then shrinking of the worst one found."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from chunkfront.attack.genes import Genes, Ranges, changed, drawn, smaller
from chunkfront.attack.judge import Question, Verdict, judge

PATIENCE = 25
"""Judged changes in a row without a better ratio, after which the climb starts again elsewhere."""
DRAWS = 6
"""Random instances of which a climb starts from the worst."""
CLIMBING = 0.6
"""Share of the time and of the instances for the search; the rest is for shrinking."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Find:
    """The worst instance that an attack found.

    Parameters
    ----------
    verdict
        Its proof, None where no instance was comparable and proved.
    first_ratio
        Of the worst instance before it was shrunk.
    judged
        Instances looked at.
    finished
        False where time or the user ended the attack before it had looked at as many as it was asked to; only a
        finished one is the same on every machine.
    wall_s, interrupted
        Seconds; whether the user stopped it.
    """

    verdict: Verdict | None
    first_ratio: Fraction
    judged: int
    finished: bool
    wall_s: float
    interrupted: bool = False


class Attack:
    """One search: what it asks, where, and what it knows.

    Parameters
    ----------
    question, ranges, seed
        What to ask, of which instances.
    evaluations
        Most instances to look at, shrinking included.
    time_limit
        Seconds; one proof may overrun it.
    tell
        Told one line now and then.
    """

    def __init__(
        self, question: Question, ranges: Ranges, *, seed: int, evaluations: int, time_limit: float,
        tell: Tell = lambda text: None,
    ) -> None:  # fmt: skip
        self.question, self.ranges, self.tell = question, ranges, tell
        self.rng = random.Random(seed)
        self.evaluations, self.time_limit = evaluations, time_limit
        self.started = time.monotonic()
        self.seen: dict[Genes, Verdict | None] = {}
        self.best: tuple[Genes, Verdict] | None = None
        self.out_of_time = False

    def run(self) -> Find:
        """Search and shrink; a KeyboardInterrupt ends it with what is found."""
        first, interrupted = Fraction(0), False
        try:
            known = -1
            while self._goes_on(CLIMBING) and len(self.seen) > known:  # ranges may hold few instances
                known = len(self.seen)
                self._climb()
            if self.best is not None:
                first = self.best[1].ratio
                self._shrink(first)
        except KeyboardInterrupt:
            interrupted = True
        verdict = None if self.best is None else self.best[1]
        seconds = time.monotonic() - self.started
        finished = not (self.out_of_time or interrupted)
        return Find(verdict, first, len(self.seen), finished, seconds, interrupted)

    def _goes_on(self, share: float = 1.0) -> bool:
        """Return whether that share of time and instances is left."""
        late = time.monotonic() - self.started >= share * self.time_limit
        self.out_of_time = self.out_of_time or late
        return not late and len(self.seen) < share * self.evaluations

    def _judged(self, genes: Genes, at_least: Fraction) -> Verdict | None:
        """Return the verdict on an instance, None without one or where its ratio is below `at_least`.

        The first answer is kept: an instance that was too mild for one climb is not looked at again by a later one.
        """
        if genes not in self.seen:
            self.seen[genes] = judge(genes.instance("attack"), self.question, at_least)
        verdict = self.seen[genes]
        return None if verdict is None or verdict.ratio < at_least else verdict

    def _keep(self, genes: Genes, verdict: Verdict, what: str) -> None:
        self.best = (genes, verdict)
        self.tell(f"{what}: ratio {float(verdict.ratio):.2f}, {len(genes.requests)} requests, {len(self.seen)} judged")

    def _climb(self) -> None:
        """Go from a random instance to worse ones until nothing gets worse any more."""
        genes, ratio, idle = self._start(), Fraction(0), 0
        while idle < PATIENCE and self._goes_on(CLIMBING):
            other = changed(genes, self.rng, self.ranges) if ratio else genes
            verdict = self._judged(other, ratio)
            idle += 1
            if verdict is None:
                genes = genes if ratio else drawn(self.rng, self.ranges)
                continue
            idle = idle if verdict.ratio == ratio else 0
            genes, ratio = other, verdict.ratio
            if self.best is None or ratio > self.best[1].ratio:
                self._keep(genes, verdict, "worse")

    def _start(self) -> Genes:
        """Return the worst of some random instances."""
        worst, ratio = drawn(self.rng, self.ranges), Fraction(0)
        for _ in range(DRAWS):
            genes = drawn(self.rng, self.ranges)
            verdict = self._judged(genes, ratio) if self._goes_on(CLIMBING) else None
            if verdict is not None and verdict.ratio > ratio:
                worst, ratio = genes, verdict.ratio
        return worst

    def _shrink(self, keep: Fraction) -> None:
        """Replace the worst instance by simpler ones that are no milder than it (`keep`), until none is left."""
        assert self.best is not None
        steps = smaller(self.best[0])
        while self._goes_on():
            simpler = next(steps, None)
            if simpler is None:
                return
            verdict = self._judged(simpler, keep)
            if verdict is not None:
                self._keep(simpler, verdict, "simpler")
                steps, keep = smaller(simpler), verdict.ratio
