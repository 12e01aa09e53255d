"""What a search has yet to look at: labels, and choices that become labels one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

import numpy as np

from solver.pooled.states import Choices, Label

MOST_STORED = 5_000_000
"""Choices that are kept at once; more would take gigabytes."""
LABEL = 10
"""Choices that take as much memory as a label."""
KEPT = 0.5
"""Share of the choices that is kept when there are too many: the best ones."""


@dataclass
class Pending:
    """Choices after some labels that become labels one by one, the best estimate first."""

    labels: Sequence[Label]
    numbers: Sequence[int]
    choices: Choices
    next: int = 0

    @property
    def estimate(self) -> int:
        """The best one's."""
        return int(self.choices.estimate[self.next])

    @property
    def is_over(self) -> bool:
        """Whether all have become labels."""
        return self.next == self.choices.label.size

    def below(self, ceiling: int) -> Pending | None:
        """Return the choices whose estimates are below a ceiling, None where there are none."""
        stop = int(np.searchsorted(self.choices.estimate, ceiling))
        return None if stop <= self.next else Pending(
            self.labels, self.numbers, self.choices.chosen(np.arange(self.next, stop))
        )


class Queue:
    """Labels and choices, the best estimate first.

    Parameters
    ----------
    cutoff
        Estimates from which on nothing is looked at, None without one.

    Attributes
    ----------
    limit
        Estimates from which on nothing is kept: the cutoff, or less where things were given up.
    gave_up
        Whether they were, for want of memory.
    stored
        Choices that are kept, and labels, each as so many as it weighs.
    """

    def __init__(self, cutoff: int | None) -> None:
        self.limit = cutoff
        self.gave_up = False
        self.stored = 0
        self._heap: list[tuple[int, int, int, Label | Pending]] = []
        self._ties = count()

    @property
    def first(self) -> Label | Pending | None:
        """What comes next, None where there is nothing below the limit."""
        if not self._heap or (self.limit is not None and self._heap[0][0] >= self.limit):
            return None
        return self._heap[0][3]

    @property
    def bound(self) -> int | None:
        """The least estimate of what is left, the limit at most; None where there is neither."""
        if not self._heap:
            return self.limit
        least = self._heap[0][0]
        return least if self.limit is None else min(least, self.limit)

    def put(self, label: Label) -> None:
        """Add a label."""
        if self.limit is None or label.estimate < self.limit:
            heappush(self._heap, (label.estimate, label.order, next(self._ties), label))
            self.stored += LABEL

    def store(self, pending: Pending) -> None:
        """Add choices, sorted by estimate."""
        self.stored += pending.choices.label.size
        self._push(pending)
        if self.stored > MOST_STORED:
            self._shed()

    def take(self) -> Label | tuple[Pending, int]:
        """Remove the first label, or the first choice: (choices, its number)."""
        item = heappop(self._heap)[3]
        if isinstance(item, Label):
            self.stored -= LABEL
            return item
        number = item.next
        item.next += 1
        self.stored -= 1
        if not item.is_over:
            self._push(item)
        return item, number

    def _push(self, pending: Pending) -> None:
        heappush(self._heap, (pending.estimate, 0, next(self._ties), pending))

    def _shed(self) -> None:
        """Give up the choices and labels with the worst estimates: the bound will not get there."""
        estimates = [
            np.full(LABEL, item.estimate) if isinstance(item, Label) else item.choices.estimate[item.next :]
            for _, _, _, item in self._heap
        ]
        self.limit = ceiling = int(np.quantile(np.concatenate(estimates), KEPT))
        self.gave_up = True
        self._heap = [
            (least, order, tie, part) for least, order, tie, item in self._heap if least < ceiling
            and (part := item if isinstance(item, Label) else item.below(ceiling)) is not None
        ]
        heapify(self._heap)
        self.stored = sum(
            LABEL if isinstance(item, Label) else item.choices.label.size for _, _, _, item in self._heap
        )
