"""A* over the pooled relaxation: labels at events, in the order of a bound on every completion of theirs.

Events are first tokens, the arrival of the next request and, where last tokens count, the last token of a live
request. Between two events nothing but the number of iterations and of units matters, and fewer iterations for the
same units are never worse: an iteration that is left out can be put after the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from instances.units import PS_PER_US
from solver.pooled.events import AWAITED, END, FINISHED, LAST, START, Choices, Demand, Label, Live, Transitions
from solver.pooled.front import Front
from solver.pooled.pool import Pool, Units
from solver.pooled.remaining import remaining
from solver.pooled.sets import Sets

MOST_STORED = 12_000_000
"""Choices that are kept at once; more would take gigabytes."""
LOOKS = 32
"""Labels between two looks at the clock."""


@dataclass
class Pending:
    """Choices after a label that become labels one by one, the best estimate first."""

    label: Label
    number: int
    choices: Choices
    estimate: Units
    next: int = 0


class Relaxation:
    """The search for the optimum of the pooled relaxation.

    Parameters
    ----------
    pool, sets
        Of the problem.
    aim
        `FIRST` or `LAST`: the sum of weighted times of first or of last tokens; `END`: the time of the very last one.
    cutoff
        Amounts (ps, absolute token times) from which on labels do not matter, None without one.
    narrow
        Only so many first tokens may be the next one: good paths are found early, but nothing is proved.
    demand
        On one first token.

    Attributes
    ----------
    settled
        Labels that have been expanded, parents before children.
    """

    def __init__(
        self, pool: Pool, sets: Sets, aim: str, *, cutoff: int | None = None, narrow: int | None = None,
        demand: Demand | None = None,
    ) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.last_tokens = aim == LAST
        self.cutoff = cutoff
        self.narrow = narrow
        self.demand = demand
        self.transitions = Transitions(pool, sets, aim, demand)
        self.everything = (1 << len(pool.members)) - 1
        self.heap: list[tuple[int, int, int, Label | Pending]] = []
        self.settled: list[Label] = []
        self.front = Front(pool, aim, exact_work=any(
            sets.works[m.index] > pool.plain_work(m) + PS_PER_US for m in pool.members
        ))
        self.stored = 0
        self._ties = count()
        self._put(self._start())

    def _start(self) -> Label:
        """Return the label at time 0: what has been prefilled already is done, and decodes."""
        done, paid, live = 0, 0, []
        for place, member in enumerate(self.pool.members):
            if not self.pool.problem.jobs[member.index].left:
                done |= 1 << place
                live.append((member.decodes, member.weight if self.last_tokens else 0))
                paid += member.weight * member.decode_ps if self.last_tokens else 0
        alive = self._alive(live)
        return Label(0, 0, paid, 0, 0, 0, self.sets[done].units, done, 0, False, False, (), alive, -1, START)

    def _alive(self, live: list[tuple[int, int]]) -> Live:
        """Return the requests still live, in order; the longest one alone where only first tokens count."""
        left = sorted(item for item in live if item[0] > 0)
        return tuple(left) if self.last_tokens or not left else ((left[-1][0], 0),)

    def run(self, stop: Callable[[], bool]) -> bool:
        """Settle labels until the best complete one, the cutoff, or `stop()`; return whether it is decided."""
        while self.heap:
            estimate, _, _, item = self.heap[0]
            if self.cutoff is not None and estimate >= self.cutoff:
                break
            if isinstance(item, Pending):
                heappop(self.heap)
                self._advance(item)
                continue
            if self._is_complete(item):
                break
            if len(self.settled) % LOOKS == 0 and (self.stored > MOST_STORED or stop()):
                return False
            heappop(self.heap)
            if item.parent < 0 or self.front.holds(item):
                for pending in self._expand(item):
                    self.stored += pending.estimate.size
                    self._await(pending)
        return True

    def _is_complete(self, label: Label) -> bool:
        return label.done == self.everything and not (self.last_tokens and label.live)

    @property
    def bound(self) -> int | None:
        """A lower bound on the amount in ps: the cutoff where all labels reach it, None where there are no labels."""
        if not self.heap:
            return self.cutoff
        least = self.heap[0][0]
        return least if self.cutoff is None else min(least, self.cutoff)

    @property
    def path(self) -> list[Label]:
        """The labels from the start to the best complete one; empty where none has been found."""
        if not self.heap or not isinstance(label := self.heap[0][3], Label) or not self._is_complete(label):
            return []
        return self._path_to(label)

    def _path_to(self, label: Label) -> list[Label]:
        path = [label]
        while path[-1].parent >= 0:
            path.append(self.settled[path[-1].parent])
        return path[::-1]

    def _put(self, label: Label) -> None:
        heappush(self.heap, (label.estimate, label.order, next(self._ties), label))

    def _await(self, pending: Pending) -> None:
        heappush(self.heap, (int(pending.estimate[pending.next]), 0, next(self._ties), pending))

    def _advance(self, pending: Pending) -> None:
        """Turn the best of the pending choices into a label."""
        label = self._made(pending, pending.next)
        if label is not None:
            self._put(label)
        self.stored -= 1
        pending.next += 1
        if pending.next < pending.estimate.size:
            self._await(pending)

    def _expand(self, label: Label) -> Iterator[Pending]:
        """Settle a label and yield what may come after it."""
        number = len(self.settled)
        self.settled.append(label)
        for choices in self.transitions.after(label):
            if self.narrow is not None and not self._is_likely(label, choices.event):
                continue
            self._pay(label, choices)
            ahead = remaining(self.pool, self.sets, self.aim, label, choices)
            estimate = np.maximum(choices.paid + ahead, label.estimate)
            order = np.argsort(estimate, kind="stable")
            if self.cutoff is not None:
                order = order[: np.searchsorted(estimate[order], self.cutoff)]
            if order.size:
                yield Pending(label, number, choices.chosen(order), estimate[order])

    def _is_likely(self, label: Label, event: int) -> bool:
        """Return whether an event is no first token, or one of the likely ones: many decodes, or few units."""
        if event < 0:
            return True
        here = [m for m in self.sets[label.done].rest if self.transitions.here(m, label.arrived)]
        here.sort(key=lambda m: (-m.decodes if self.aim == END else m.units, m.index))
        return self.pool.members[event] in here[: self.narrow]

    def _pay(self, label: Label, choices: Choices) -> None:
        """Add what the event costs to what has been paid: weights x token times."""
        choices.paid += label.paid
        if self.aim == END:
            return
        if choices.event >= 0:
            member = self.pool.members[choices.event]
            if self.last_tokens:
                choices.paid += member.weight * member.decode_ps
            if not self.last_tokens or not member.decodes:
                choices.paid += member.weight * choices.time
        for left, weight in label.live:
            choices.paid += np.where(choices.count == left, weight * choices.time, 0)

    def _made(self, pending: Pending, n: int) -> Label | None:
        """Return the label of a choice, None where a known one is at least as good."""
        label, choices = pending.label, pending.choices
        units, run = int(choices.units[n]), int(choices.count[n])
        live = [(left - run, weight) for left, weight in label.live]
        marks = [(number, since + units - label.units) for number, since in label.marks]
        if choices.event >= 0:
            member = self.pool.members[choices.event]
            live.append((member.decodes, member.weight if self.last_tokens else 0))
        elif choices.event == AWAITED:
            marks.append((label.arrived, 0))
        idle = choices.idle if isinstance(choices.idle, int) else int(choices.idle[n])
        waits = self.demand is not None and choices.event == self.demand.place  # moving units then gains no time
        spare = self.aim != END and self.pool.rate > 0 and not waits and _has_spare(label, choices, units)
        state = (
            int(choices.paid[n]), int(choices.time[n]), label.iterations + run, label.needed + run - idle, units,
            choices.done, choices.arrived, choices.joinable, spare,
            tuple(mark for mark in marks if self._matters(mark, choices.done, units)), self._alive(live),
        )
        if not self.front.add(*state):
            return None
        order = -choices.done.bit_count()
        return Label(int(pending.estimate[n]), order, *state, pending.number, choices.event)

    def _matters(self, mark: tuple[int, int], done: int, units: int) -> bool:
        """Return whether units of requests not yet done were processed before an arrival."""
        number, since = mark
        early = self.sets[done].units - self.sets.units_since(done, self.pool.arrivals[number])
        return units - since > early


def _has_spare(label: Label, choices: Choices, units: int) -> bool:
    """Return whether a unit was processed before the event that could be processed after it.

    Where one was, the next block of iterations has to be full. Proof: else move that unit there; the event comes
    earlier, and nothing later changes: a path without that rule is worse, as its tokens have weights.
    """
    if choices.event == AWAITED or not (label.spare or units > label.units):
        return False
    return choices.event == FINISHED or units > choices.least
