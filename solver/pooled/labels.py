"""A* over the pooled relaxation: labels at events, in the order of a bound on every completion of theirs.

Events are first tokens, the arrival of the next request and, where last tokens count, the last token of a live
request. Between two events nothing but the number of iterations and of units matters, and fewer iterations for the
same units are never worse: an iteration that is left out can be put after the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from instances.units import PS_PER_US
from solver.pooled.events import Transitions
from solver.pooled.front import Front
from solver.pooled.late import Late, Splits
from solver.pooled.payments import Payments
from solver.pooled.pool import Member, Pool
from solver.pooled.queue import Pending, Queue
from solver.pooled.refining import refined
from solver.pooled.remaining import Remaining
from solver.pooled.sets import Sets
from solver.pooled.states import AWAITED, END, FINISHED, LAST, START, Demand, Label, Live, States

MOST_AT_ONCE = 128
"""Labels that are expanded at once."""
MOST_LABELS = 800_000
"""Labels that are made at all; more would take gigabytes."""
LOOKS = 512
"""Choices that become labels between two looks at the clock."""


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
    demand
        On one first token.
    exact
        Whether token times are known to the µs where nothing idles; it costs time, for fewer labels are dominated.
    late
        Members that arrive late, with what their tokens cost at least.

    Attributes
    ----------
    settled
        Labels that have been expanded, parents before children.
    proved
        A lower bound that holds even if `run` is interrupted.
    """

    def __init__(
        self, pool: Pool, sets: Sets, aim: str, *, cutoff: int | None = None,
        demand: Demand | None = None, exact: bool = True, late: Sequence[Late] = (),
    ) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.last_tokens = aim == LAST
        self.cutoff = cutoff
        self.demand = demand
        self.transitions = Transitions(pool, sets, aim, demand)
        self.everything = (1 << len(pool.members)) - 1
        self.queue = Queue(cutoff)
        self.settled: list[Label] = []
        exact = exact or any(sets.prefills[m.index] > pool.plain_work(m) + PS_PER_US for m in pool.members)
        self.front = Front(pool, aim, exact_work=exact)
        self.payments = Payments(pool, sets, aim, exact=exact)
        self.remaining = Remaining(pool, sets, Splits(pool, sets, late), aim)
        self.advanced = self.proved = 0
        self.queue.put(self.start())

    def start(self) -> Label:
        """Return the label at time 0: what has been prefilled already is done, and decodes."""
        done, paid, live = 0, 0, []
        for place, member in enumerate(self.pool.members):
            if not self.pool.problem.jobs[member.index].left:
                done |= 1 << place
                live.append(self._entering(member))
                paid += member.weight * member.own_ps if self.last_tokens else 0
        alive = self._alive(live)
        units = int(self.sets.units[self.sets.row(done)])
        return Label(0, 0, paid, 0, 0, 0, units, done, 0, False, False, (), alive, -1, START)

    def _entering(self, member: Member) -> tuple[int, int, int]:
        return member.decodes, member.weight if self.last_tokens else 0, member.token_ps

    def _alive(self, live: list[tuple[int, int, int]]) -> Live:
        """Return the requests still live, in order; the longest one alone where only first tokens count."""
        left = sorted(item for item in live if item[0] > 0)
        return tuple(left) if self.last_tokens or not left else ((left[-1][0], 0, 0),)

    def run(self, stop: Callable[[], bool]) -> bool:
        """Settle labels until the best complete one, the cutoff, or `stop()`; return whether it is decided."""
        while True:
            self.proved = self.bound or self.proved
            labels, stopped = self._best(min(MOST_AT_ONCE, 1 + len(self.settled) // 4), stop)
            if stopped or stop() or self.front.added > MOST_LABELS:
                for label in labels:
                    self.queue.put(label)
                return False
            if not labels:
                return not self.queue.gave_up or bool(self.path)
            self._expand(labels)

    def _best(self, most: int, stop: Callable[[], bool]) -> tuple[list[Label], bool]:
        """Take about `most` of the best labels off the queue, none where the search is over; say if it is stopped."""
        labels: list[Label] = []
        fresh: list[Label] = []
        while len(labels) < most:
            first = self.queue.first
            if first is None or self._ends(first):
                if not fresh:
                    break
                labels, fresh = labels + self._refined(fresh), []
                continue
            if isinstance(first, Pending):
                self.advanced += 1
                if self.advanced % LOOKS == 0 and stop():
                    return labels + fresh, True
            item = self.queue.take()
            if not isinstance(item, Label):
                label = self.made(*item)
                if label is not None:
                    self.queue.put(label)
            elif item.parent < 0 or self.front.holds(item):
                (labels if item.split >= 0 else fresh).append(item)
                if len(fresh) == most:
                    labels, fresh = labels + self._refined(fresh), []
        return labels + self._refined(fresh), False

    def _ends(self, item: Label | Pending) -> bool:
        return isinstance(item, Label) and self.is_complete(item)

    def _refined(self, labels: list[Label]) -> list[Label]:
        """Return the labels whose estimates a bound that knows arrivals does not raise; the others are put back."""
        if self.aim == END:
            return labels
        kept = []
        for label, better in zip(labels, refined(self.remaining, labels), strict=True):
            if better.estimate == label.estimate:
                kept.append(better)
            else:
                self.queue.put(better)
        return kept

    def is_complete(self, label: Label) -> bool:
        """Return whether all tokens that count are out."""
        return label.done == self.everything and not (self.last_tokens and label.live)

    @property
    def bound(self) -> int | None:
        """A lower bound on the amount in ps: the cutoff where all labels reach it, None where there are no labels."""
        return self.queue.bound

    @property
    def path(self) -> list[Label]:
        """The labels from the start to the best complete one; empty where none has been found."""
        label = self.queue.first
        return self.path_to(label) if isinstance(label, Label) and self.is_complete(label) else []

    def path_to(self, label: Label) -> list[Label]:
        """Return the labels from the start to one, in order."""
        path = [label]
        while path[-1].parent >= 0:
            path.append(self.settled[path[-1].parent])
        return path[::-1]

    def _expand(self, labels: Sequence[Label]) -> None:
        """Settle labels and store what may come after them."""
        pending = self.settle(labels)
        if pending is not None:
            self.queue.store(pending)

    def settle(self, labels: Sequence[Label]) -> Pending | None:
        """Settle labels and return what may come after them, None where nothing does."""
        numbers = range(len(self.settled), len(self.settled) + len(labels))
        self.settled += labels
        states = States.of(labels, self.sets)
        choices = self.transitions.after(states)
        choices.paid = self.payments.paid(states, choices)
        ahead = self.remaining.after(states, choices)
        choices.estimate = np.maximum(choices.paid + ahead, states.estimate[choices.label])
        if self.queue.limit is not None:
            choices = choices.chosen(choices.estimate < self.queue.limit)
        if not choices.label.size:
            return None
        return Pending(labels, numbers, choices.chosen(np.argsort(choices.estimate, kind="stable")).packed())

    def made(self, pending: Pending, n: int) -> Label | None:
        """Return the label of a choice, None where a known one is at least as good."""
        choices = pending.choices
        at = int(choices.label[n])
        label, event, row = pending.labels[at], int(choices.event[n]), int(choices.row[n])
        units, run, done = int(choices.units[n]), int(choices.count[n]), int(self.sets.masks[row])
        live = [(left - run, weight, token) for left, weight, token in label.live]
        marks = [(number, since + units - label.units) for number, since in label.marks]
        if event >= 0:
            live.append(self._entering(self.pool.members[event]))
        elif event == AWAITED:
            marks.append((label.arrived, 0))
        waits = self.demand is not None and event == self.demand.place  # moving units then gains no time
        spare = self.aim != END and self.pool.rate > 0 and not waits
        spare = spare and _has_spare(label, event, units, int(choices.least[n]))
        state = (
            int(choices.paid[n]), int(choices.time[n]), label.iterations + run,
            self.payments.floor(label, choices, n, live), units, done, int(choices.arrived[n]),
            bool(choices.joinable[n]), spare,
            tuple(mark for mark in marks if units - mark[1] > self.sets.early[row, mark[0]]), self._alive(live),
        )
        if not self.front.add(*state):
            return None
        return Label(int(choices.estimate[n]), -done.bit_count(), *state, pending.numbers[at], event)


def _has_spare(label: Label, event: int, units: int, least: int) -> bool:
    """Return whether a unit was processed before the event that could be processed after it.

    Where one was, the next block of iterations has to be full. Proof: else move that unit there; the event comes
    earlier, and nothing later changes: a path without that rule is worse, as its tokens have weights.
    """
    if event == AWAITED or not (label.spare or units > label.units):
        return False
    return event == FINISHED or units > least
