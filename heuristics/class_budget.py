"""class-budget: flow control, so many requests of a class per iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from heuristics.class_counts import class_counts
from heuristics.knobs import knob
from heuristics.state import RequestState
from heuristics.walks import McBenchmark


@dataclass
class ClassBudget(McBenchmark):
    """Flow-controlled scheduling (Dong, Cao, 2604.11001): at most a budget of requests of each class per iteration.

    In the order of arrival, as far as the KV pool suffices for all to their ends. Where the budgets times the volumes
    of the classes stay below the pool, that is always the case.
    """

    name: ClassVar[str] = "class-budget"
    summary: ClassVar[str] = "so many requests of each class per iteration (flow control, arXiv 2604.11001)"

    budget: int = knob(4, "requests of a class that may enter in one iteration", minimum=1)
    budgets: str = knob("", "budgets of single classes, like chat:4/code:2")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._budgets = class_counts(self.budgets, "budgets")

    def candidates(self) -> Iterator[RequestState]:
        """Yield the waiting requests in order, of each class as many as its budget says."""
        left: Counter[str] = Counter()
        for request in self.queue:
            left[request.group] += 1
            if left[request.group] <= self._budgets.get(request.group, self.budget):
                yield request
