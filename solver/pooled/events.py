"""The events of the pooled relaxation: what may come next after each of some labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from solver.pooled.pool import Member, Pool, Units
from solver.pooled.sets import Sets
from solver.pooled.states import AWAITED, END, FINISHED, LAST, UNMARKED, Choices, Demand, Flags, States, ranges


class Transitions:
    """The events that may come next.

    Parameters
    ----------
    pool, sets
        Of the problem.
    aim
        `FIRST`, `LAST` or `END`.
    demand
        On one first token.
    """

    def __init__(self, pool: Pool, sets: Sets, aim: str, demand: Demand | None = None) -> None:
        self.pool = pool
        self.sets = sets
        self.aim = aim
        self.demand = demand
        self.last_tokens = aim == LAST
        everyone = range(len(pool.arrivals) + 1)
        self.available = np.array([sum(m.units for m in pool.members if self.here(m, b)) for b in everyone])
        self.present = np.array([[self.here(m, b) for m in pool.members] for b in everyone])
        self.place = {member.index: i for i, member in enumerate(pool.members)}
        self.when = np.array([*pool.arrivals, 1 << 62])

    def here(self, member: Member, arrived: int) -> bool:
        """Return whether a member has arrived when `arrived` arrivals after the first have passed."""
        return arrived == len(self.pool.arrivals) or member.arrival < self.pool.arrivals[arrived]

    def after(self, states: States) -> Choices:
        """Return the choices for every event that may come next after each label."""
        parts = list(self._all_after(states))
        return Choices.joined([fullest(part) for part in parts] if self.aim == END else parts)

    def _all_after(self, states: States) -> Iterator[Choices]:
        for place in range(len(self.pool.members)):
            waits = (states.done >> place & 1 == 0) & self.present[states.arrived, place]
            if waits.any():
                yield self._first_tokens(states, np.nonzero(waits)[0], place)
        if self.last_tokens:
            yield self._last_tokens(states, np.nonzero(states.soonest > 0)[0])
        waits = states.arrived < len(self.pool.arrivals)
        early = states.time < self.when[states.arrived]
        yield self._passed(states, np.nonzero(waits & ~early)[0])
        yield from self._arrivals(states, np.nonzero(waits & early)[0])

    def _first_tokens(self, states: States, some: Units, place: int) -> Choices:
        """The first token of one member, whose units are in the pool by then."""
        pool, sets, member = self.pool, self.sets, self.pool.members[place]
        row = sets.rows(int(mask) | 1 << place for mask in states.done[some])
        marks, pooled = states.marks[some], states.units[some]
        since = np.where(marks == UNMARKED, 0, pooled[:, None] - marks + sets.since[row])
        required = np.maximum(sets.units[row], since.max(axis=1, initial=0))
        least = np.maximum(pooled, required)
        which, units = ranges(least, self.available[states.arrived[some]])
        label = some[which]
        added = units - states.units[label]
        table, live = pool.iterations(member.tail), np.minimum(states.longest[label], pool.longest)
        count = table[live, added]
        keep = self._starts_in_time(states, label, units, count)
        if self.last_tokens:
            keep &= (count <= states.soonest[label]) | (states.soonest[label] == 0)
        keep &= ~states.spare[label] | (table[live, added + 1] > count)
        joins = np.nonzero(states.joinable[some] & (least == pooled))[0]
        which, units = np.append(which[keep], joins), np.append(units[keep], pooled[joins])
        count, label = np.append(count[keep], np.zeros_like(joins)), some[which]
        row, required = row[which], required[which]
        time = self._passing(states, label, units, count) + member.tail * pool.rate
        time, arrived = np.maximum(time, self._worked(states, label, row, units, count)), states.arrived[label]
        made = _made(label, units, count, time, row, arrived, place, joinable=True, least=required)
        return self._demanded(states, made, place)

    def _passing(self, states: States, label: Units, units: Units, count: Units) -> Units:
        """Return when iterations end that follow a label at once and leave so many units in the pool."""
        each = self.pool.base + states.decoding[label]
        time: Units = states.time[label] + each * count + self.pool.work(units - states.units[label])
        return time

    def _worked(self, states: States, label: Units, row: Units, units: Units, count: Units) -> Units:
        """Return the floor + base x iterations + the work of whole prefills + the least work of the units beyond."""
        sets = self.sets
        work: Units = sets.works[row] + sets.partial[row, units - sets.units[row]]
        return states.floor[label] + self.pool.base * count + work

    def _demanded(self, states: States, choices: Choices, place: int) -> Choices:
        """Return the choices as the demand wants them; decodes go on while its earliest time is awaited."""
        if self.demand is None or self.demand.place != place:
            return choices
        base, label, time = self.pool.base, choices.label, choices.time
        left = np.maximum(self._ends(states)[label] - choices.count, 0)
        room = np.maximum(0, self.demand.earliest - time)
        more = np.minimum(room // base, left)
        across = (room > more * base) & (more < left)  # one more iteration ends after the earliest time
        waited = replace(
            choices, count=choices.count + more, idle=more, time=np.maximum(time, self.demand.earliest)
        )
        late = replace(choices, count=choices.count + more + 1, idle=more + 1, time=time + (more + 1) * base)
        both = Choices.joined([waited, late.chosen(across)])
        return both.chosen(both.time <= self.demand.latest)

    def _ends(self, states: States) -> Units:
        """Return the iterations within which decodes go on without another event."""
        return states.soonest if self.last_tokens else states.longest

    def _starts_in_time(self, states: States, label: Units, units: Units, count: Units) -> Flags:
        """Return whether the last of the iterations may start before the next arrival."""
        before = np.maximum(0, units - states.units[label] - self.pool.full_units)
        start = states.time[label] + self.pool.base * (count - 1) + self.pool.work(before)
        early: Flags = start < self.when[states.arrived[label]]
        return early

    def _last_tokens(self, states: States, some: Units) -> Choices:
        """The last token of the live request that ends first."""
        pool, pooled = self.pool, states.units[some]
        full = pooled + states.soonest[some] * pool.live_units
        least = np.where(states.spare[some], full, pooled)
        which, units = ranges(least, np.minimum(self.available[states.arrived[some]], full))
        label = some[which]
        count = states.soonest[label]
        keep = self._starts_in_time(states, label, units, count)
        label, units, count = label[keep], units[keep], count[keep]
        time = self._passing(states, label, units, count)
        row = states.row[label]
        time = np.maximum(time, self._worked(states, label, row, units, count))
        return _made(label, units, count, time, row, states.arrived[label], FINISHED)

    def _passed(self, states: States, some: Units) -> Choices:
        """The arrivals that have passed while an iteration ran."""
        time, none = states.time[some], np.zeros_like(some)
        passed = np.searchsorted(self.when[:-1], time, side="right")
        return _made(some, states.units[some], none, time, states.row[some], passed, AWAITED)

    def _arrivals(self, states: States, some: Units) -> Iterator[Choices]:
        """The next arrival is awaited, or some iteration ends after it; decodes go on meanwhile."""
        pool = self.pool
        which, units = ranges(states.units[some], self.available[states.arrived[some]])
        label = some[which]
        added = units - states.units[label]
        live = np.minimum(states.longest[label], pool.longest)
        count = np.where(added == 0, 0, pool.iterations(0)[live, added])  # no units, no iteration
        ends = self._ends(states)[label]
        left = ends - count
        keep = (added == 0) | self._starts_in_time(states, label, units, count)
        if self.last_tokens:  # a last token would have been the next event
            keep &= (left >= 0) | (ends == 0)
        label, units, count, left = label[keep], units[keep], count[keep], np.maximum(left[keep], 0)
        when = self.when[states.arrived[label]]
        busy = self._passing(states, label, units, count)
        room = np.maximum(0, when - busy)
        more = np.minimum(room // pool.base, left)
        across = (room > more * pool.base) & (more < left)
        row, arrived = states.row[label], states.arrived[label] + 1
        yield _made(label, units, count + more, np.maximum(busy, when), row, arrived, AWAITED, idle=more)
        late = more + 1
        yield _made(
            label, units, count + late, busy + late * pool.base, row, arrived, AWAITED, idle=late
        ).chosen(across)


def _made(
    label: Units, units: Units, count: Units, time: Units, row: Units, arrived: Units, event: int, *,
    joinable: bool | None = None, least: Units | None = None, idle: Units | None = None,
) -> Choices:
    none = np.zeros_like(label)
    joins = np.full(label.size, event == FINISHED if joinable is None else joinable)
    return Choices(
        label, units, count, time, row, arrived, np.full_like(label, event), joins,
        none if least is None else least, none if idle is None else idle,
    )


def fullest(choices: Choices) -> Choices:
    """Return, per label and number of iterations, the choice with the most units, of choices for one event.

    Proof for the end: the work that is done now need not be done later, and no event but the end has a price.
    """
    order = np.lexsort((choices.units, choices.count, choices.label))
    label, count = choices.label[order], choices.count[order]
    last = np.append((label[1:] != label[:-1]) | (count[1:] != count[:-1]), True)[: order.size]
    return choices.chosen(order[last])
