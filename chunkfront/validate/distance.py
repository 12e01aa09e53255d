"""Distance: how far a scheduler is from what is proved, instance by instance, beside the built-in policies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chunkfront.compare import PolicyRun
from chunkfront.gaps import Comparison, PolicyGaps, compare_with_optima
from chunkfront.running import run_policy
from chunkfront.validate.attempt import attempt
from chunkfront.validate.checks import Source
from chunkfront.validate.finding import ERROR
from chunkfront.validate.library import known_results
from instances.instance import Instance
from instances.metrics import report
from solver.result import OPTIMAL


@dataclass(frozen=True)
class Row:
    """One metric of one instance.

    Parameters
    ----------
    instance, metric
        Which.
    value
        What the scheduler reaches, in the metric's unit.
    best_known, bound
        Best value found by the solver, and proved bound.
    proved
        Whether the two are one; otherwise the gap is an upper limit.
    gap
        Of `value` to `bound` (model.md §6).
    least_gap
        Of `value` to `best_known`: the scheduler is at least so far away.
    nearest, nearest_gap
        The built-in policy that comes nearest, and its gap; None without one.
    """

    instance: str
    metric: str
    value: float
    best_known: float
    bound: float
    proved: bool
    gap: float
    least_gap: float
    nearest: str | None = None
    nearest_gap: float | None = None


@dataclass(frozen=True)
class Distance:
    """A scheduler and the policies that it is compared with, over a library of instances.

    Parameters
    ----------
    scheduler
        Its name; the first of `names`.
    metrics
        In order.
    comparisons
        Per instance, everybody's values and gaps.
    left
        Instances that were not run for lack of time.
    interrupted
        Whether the user stopped it.
    """

    scheduler: str
    metrics: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    left: int = 0
    interrupted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The scheduler, then the policies."""
        return tuple(p.run.name for p in self.comparisons[0].policies) if self.comparisons else (self.scheduler,)

    def gaps(self, name: str, metric: str) -> list[float]:
        """Return the gaps of one of `names`, one per instance on which it is comparable and something is known."""
        found = (self._of(comparison, name).gaps[metric] for comparison in self.comparisons)
        return [gap for gap in found if gap is not None]

    def ratios(self, name: str, metric: str) -> list[float]:
        """Return, per instance on which somebody has a gap, its value over the best value of all `names`.

        Infinite where it is not comparable, and where only the best value is 0 (Dolan and Moré 2002).
        """
        found = []
        for comparison in self.comparisons:
            values = {p.run.name: p.values[metric] for p in comparison.policies if p.gaps[metric] is not None}
            numbers = {who: value for who, value in values.items() if value is not None}
            if numbers:
                found.append(_ratio(numbers.get(name), min(numbers.values())))
        return found

    def rows(self) -> list[Row]:
        """Return the scheduler's gaps, the worst first: by what is sure of them."""
        found = [row for c in self.comparisons for metric in self.metrics if (row := self._row(c, metric)) is not None]
        return sorted(found, key=lambda row: (-row.least_gap, -row.gap))

    def not_comparable(self) -> dict[str, str]:
        """Return why the scheduler has no gap, by instance."""
        mine = ((c.instance, self._of(c, self.scheduler).reason) for c in self.comparisons)
        return {instance: reason for instance, reason in mine if reason is not None}

    @staticmethod
    def _of(comparison: Comparison, name: str) -> PolicyGaps:
        return next(p for p in comparison.policies if p.run.name == name)

    def _row(self, comparison: Comparison, metric: str) -> Row | None:
        mine = self._of(comparison, self.scheduler)
        gap, value, result = mine.gaps[metric], mine.values[metric], comparison.results.get(metric)
        if gap is None or value is None or result is None or result.value is None or result.bound is None:
            return None
        others = [(other.gaps[metric], other.run.name) for other in comparison.policies if other is not mine]
        near = min(((g, name) for g, name in others if g is not None), default=(None, None))
        proved = result.status == OPTIMAL
        least = gap if proved or not value else (value - result.value) / value
        return Row(comparison.instance, metric, value, result.value, result.bound, proved, gap, least, near[1], near[0])


def _ratio(value: float | None, best: float) -> float:
    if value is None:
        return math.inf
    if value == best:
        return 1.0
    return value / best if best else math.inf


def measure(
    source: Source, name: str, instances: Sequence[Instance], metrics: Sequence[str], policies: Sequence[str] = (), *,
    deadline: float | None = None, tell: Callable[[str], None] = lambda text: None,
) -> Distance:  # fmt: skip
    """Return how far a scheduler is from what the library of best-known values proves.

    Parameters
    ----------
    source, name
        Makes a new policy per run, and what to call it.
    instances
        Of the library; of others nothing is known, and nothing is solved here.
    metrics
        Objectives that are minimised.
    policies
        Built-in policies to compare with.
    deadline
        On the clock of `time.monotonic`: no further instance is begun after it.
    tell
        Called with the name of every instance.
    """
    done: list[Comparison] = []
    others = [spec for spec in policies if spec != name]
    interrupted = False
    try:
        for instance in instances:
            if deadline is not None and done and time.monotonic() > deadline:
                break
            tell(instance.name)
            runs = [run_source(instance, source, name), *(run_policy(instance, spec) for spec in others)]
            done.append(compare_with_optima(instance, runs, metrics, known_results(instance)))
    except KeyboardInterrupt:
        interrupted = True
    return Distance(name, tuple(metrics), tuple(done), len(instances) - len(done), interrupted)


def run_source(instance: Instance, source: Source, name: str) -> PolicyRun:
    """Run somebody's scheduler; whatever goes wrong is the reason why there is no schedule."""
    found = attempt(instance, source())
    if found.run is None:
        return PolicyRun(name, failure=found.findings[-1].message)
    broken = next((f for f in found.findings if f.severity == ERROR), None)
    if broken is not None:
        return PolicyRun(name, failure=broken.message)
    return PolicyRun(name, found.run.schedule, report(instance, found.run.schedule))
