"""The events of the pooled relaxation, and what may come next after a label."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.pooled.pool import Member, Pool, Units
from solver.pooled.sets import Sets

Live = tuple[tuple[int, int], ...]
"""Per live request (iterations left, weight of its last token), in order."""
Marks = tuple[tuple[int, int], ...]
"""(arrival's number, units processed since), where some of these belong to requests that are not yet done."""


Flags = NDArray[np.bool_]
FIRST, LAST, END = "first", "last", "end"
"""What is minimised: Σ weight x first token, Σ weight x last token, or the end."""
FINISHED, AWAITED, START = -1, -2, -3
"""Events that are no first tokens: the last token of a live request, the next arrival, the start."""


class Label(NamedTuple):
    """A state of the relaxation with the best that is known about reaching it."""

    estimate: int
    order: int
    paid: int
    time: int
    iterations: int
    needed: int
    units: int
    done: int
    arrived: int
    joinable: bool
    spare: bool
    marks: Marks
    live: Live
    parent: int
    event: int


@dataclass(frozen=True)
class Demand:
    """That the first token of the member at a place comes within a window, in ps."""

    place: int
    earliest: int = 0
    latest: int = 1 << 62


@dataclass
class Choices:
    """Candidates for the next event of one label, as arrays over the units processed until then.

    Parameters
    ----------
    units, count, time
        Units in the pool at the event, iterations since the label, and time of the event.
    done, arrived
        Members with their first token out, and number of arrivals passed.
    event
        Place of the member with its first token, or `FINISHED`, `AWAITED`.
    joinable
        Whether more first tokens may come out of the same iteration.
    least
        Units that the event needs in the pool.
    idle
        Iterations of `count` that only decode while an arrival is awaited: schedules may do without them.
    paid
        Weights x times of the tokens that are out.
    """

    units: Units
    count: Units
    time: Units
    done: int
    arrived: int
    event: int
    joinable: bool = True
    least: int = 0
    idle: Units | int = 0
    paid: Units = field(init=False)

    def __post_init__(self) -> None:
        self.paid = np.zeros(self.units.size, dtype=np.int64)

    def chosen(self, order: Units) -> Choices:
        """Return the choices at some places, in that order."""
        idle = self.idle if isinstance(self.idle, int) else self.idle[order]
        some = replace(self, units=self.units[order], count=self.count[order], time=self.time[order], idle=idle)
        some.paid = self.paid[order]
        return some


class Transitions:
    """The events that may come next."""

    def __init__(self, pool: Pool, sets: Sets, aim: str, demand: Demand | None = None) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.demand = demand
        self.last_tokens = aim == LAST
        self.available = [self._arrived_units(b) for b in range(len(pool.arrivals) + 1)]
        self.place = {member.index: i for i, member in enumerate(pool.members)}

    def _arrived_units(self, arrived: int) -> int:
        return sum(m.units for m in self.pool.members if self.here(m, arrived))

    def here(self, member: Member, arrived: int) -> bool:
        """Return whether a member has arrived when `arrived` arrivals after the first have passed."""
        return arrived == len(self.pool.arrivals) or member.arrival < self.pool.arrivals[arrived]

    def after(self, label: Label) -> Iterator[Choices]:
        """Yield the choices for every event that may come next."""
        for choices in self._all_after(label):
            if choices.units.size:
                yield fullest(choices) if self.aim == END else choices

    def _all_after(self, label: Label) -> Iterator[Choices]:
        for member in self.sets[label.done].rest:
            if self.here(member, label.arrived):
                yield from self._first_token(label, member)
        if self.last_tokens and label.live:
            yield from self._last_token(label)
        if label.arrived < len(self.pool.arrivals):
            yield from self._arrival(label)

    def _first_token(self, label: Label, member: Member) -> Iterator[Choices]:
        pool, place = self.pool, self.place[member.index]
        done = label.done | 1 << place
        facts = self.sets[done]
        required = facts.units
        for number, before in label.marks:
            required = max(required, label.units - before + self.sets.units_since(done, pool.arrivals[number]))
        least = max(label.units, required)
        units = np.arange(least, self.available[label.arrived] + 1)
        count = pool.iterations(longest(label.live), member.tail)[units - label.units]
        time = label.time + pool.base * count + pool.work(units - label.units) + member.tail * pool.rate
        keep = self._starts_in_time(label, units, count)
        if self.last_tokens and label.live:
            keep &= count <= label.live[0][0]
        if label.spare:
            keep &= pool.iterations(longest(label.live), member.tail)[units - label.units + 1] > count
        units, count, time = units[keep], count[keep], time[keep]
        if label.joinable and least == label.units:
            units = np.append(units, label.units)
            count = np.append(count, 0)
            time = np.append(time, label.time + member.tail * pool.rate)
        if units.size:
            time = np.maximum(time, self._worked(label, facts.units, facts.work, units, count))
            yield self._demanded(Choices(units, count, time, done, label.arrived, place, least=required))

    def _demanded(self, choices: Choices) -> Choices:
        """Return the choices as the demand wants them."""
        if self.demand is None or self.demand.place != choices.event:
            return choices
        choices.time = np.maximum(choices.time, self.demand.earliest)
        return choices.chosen(np.nonzero(choices.time <= self.demand.latest)[0])

    def _worked(self, label: Label, units: int, work: int, pooled: Units, count: Units) -> Units:
        """Return base x iterations + the exact work of whole prefills + the least work of the units beyond."""
        return self.pool.base * (label.needed + count) + work + self.pool.work(pooled - units)

    def _starts_in_time(self, label: Label, units: Units, count: Units) -> Flags:
        """Return whether the last of the iterations may start before the next arrival."""
        if label.arrived == len(self.pool.arrivals):
            return np.ones(units.size, dtype=bool)
        before = np.maximum(0, units - label.units - self.pool.full_units)
        start = label.time + self.pool.base * (count - 1) + self.pool.work(before)
        early: Flags = start < self.pool.arrivals[label.arrived]
        return early

    def _last_token(self, label: Label) -> Iterator[Choices]:
        pool, count = self.pool, label.live[0][0]
        full = label.units + count * pool.live_units
        most = min(self.available[label.arrived], full)
        units = np.arange(full if label.spare else label.units, most + 1)
        counts = np.full(units.size, count)
        keep = self._starts_in_time(label, units, counts)
        units, counts = units[keep], counts[keep]
        if units.size:
            time = label.time + pool.base * count + pool.work(units - label.units)
            yield Choices(units, counts, time, label.done, label.arrived, FINISHED)

    def _arrival(self, label: Label) -> Iterator[Choices]:
        """The next arrival is awaited, or some iteration ends after it; decodes go on meanwhile."""
        pool, when = self.pool, self.pool.arrivals[label.arrived]
        units = np.arange(label.units, self.available[label.arrived] + 1)
        if label.time >= when:
            passed = bisect_right(pool.arrivals, label.time)
            now = np.array([label.units]), np.zeros(1, dtype=np.int64), np.array([label.time])
            yield Choices(*now, label.done, passed, AWAITED, joinable=False)
            return
        count = pool.iterations(longest(label.live), 0)[units - label.units]
        count[0] = 0  # no units, no iteration
        keep = self._starts_in_time(label, units, count)
        keep[0] = True
        units, count = units[keep], count[keep]
        busy = label.time + pool.base * count + pool.work(units - label.units)
        room = np.maximum(0, when - busy)
        more = np.zeros(units.size, dtype=np.int64)
        if label.live:
            left = (label.live[0][0] if self.last_tokens else longest(label.live)) - count
            possible = left >= 0  # a last token would have been the next event
            if not self.last_tokens:
                left, possible = np.maximum(left, 0), np.ones(units.size, dtype=bool)
            units, count, busy, room, left = (x[possible] for x in (units, count, busy, room, left))
            more = np.minimum(room // pool.base, left)
            across = (room > more * pool.base) & (more < left)
            if across.any():
                late = more[across] + 1
                yield Choices(units[across], count[across] + late, busy[across] + late * pool.base, label.done,
                              label.arrived + 1, AWAITED, joinable=False, idle=late)
        if units.size:
            yield Choices(units, count + more, np.maximum(busy, when), label.done, label.arrived + 1, AWAITED,
                          joinable=False, idle=more)


def fullest(choices: Choices) -> Choices:
    """Return, per number of iterations, the choice with the most units.

    Proof for the end: the work that is done now need not be done later, and no event but the end has a price.
    """
    order = np.lexsort((choices.units, choices.count))
    last = np.append(choices.count[order][1:] != choices.count[order][:-1], True)
    return choices.chosen(order[last])


def longest(live: Live) -> int:
    """Return the iterations until no request is live."""
    return live[-1][0] if live else 0
