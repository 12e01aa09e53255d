"""Labels of the pooled relaxation, alone and side by side as arrays, and the choices of what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.pooled.pool import Units
from solver.pooled.sets import Sets

Live = tuple[tuple[int, int, int], ...]
"""Per live request (iterations left, weight of its last token, ps that one of its decodes is charged), in order."""
Marks = tuple[tuple[int, int], ...]
"""(arrival's number, units processed since), where some of these belong to requests that are not yet done."""
Flags = NDArray[np.bool_]
FIRST, LAST, END = "first", "last", "end"
"""What is minimised: Σ weight x first token, Σ weight x last token, or the end."""
FINISHED, AWAITED, START = -1, -2, -3
"""Events that are no first tokens: the last token of a live request, the next arrival, the start."""
NOT_KNOWN = -1
"""How best to take late requests apart, where nobody has tried."""
UNMARKED = -1
"""Units since an arrival that does not matter."""


class Label(NamedTuple):
    """A state of the relaxation with the best that is known about reaching it.

    Its `floor` and all that has been processed since the start (whole prefills, the least that units of others take,
    decodes) are together a time that is not later than its own, up to rounding: base x iterations, and what idling
    adds. `split` is the number of the best way to take late requests apart.
    """

    estimate: int
    order: int
    paid: int
    time: int
    iterations: int
    floor: int
    units: int
    done: int
    arrived: int
    joinable: bool
    spare: bool
    marks: Marks
    live: Live
    parent: int
    event: int
    split: int = NOT_KNOWN


def longest(live: Live) -> int:
    """Return the iterations until no request is live."""
    return live[-1][0] if live else 0


@dataclass(frozen=True)
class States:
    """Labels side by side: an array per field, a row per label.

    Parameters
    ----------
    row
        Of the set of members that are done, in the table of sets.
    left, weight, token
        Of live requests, a column each; 0 where there are fewer.
    marks
        Units since an arrival, a column each; `UNMARKED` where that does not matter.
    """

    estimate: Units
    paid: Units
    time: Units
    floor: Units
    units: Units
    row: Units
    done: Units
    arrived: Units
    joinable: Flags
    spare: Flags
    left: Units
    weight: Units
    token: Units
    marks: Units
    split: Units

    @classmethod
    def of(cls, labels: Sequence[Label], sets: Sets) -> States:
        """Put labels side by side."""
        wide = max(1, *(len(label.live) for label in labels))
        left, weight, token = np.zeros((3, len(labels), wide), dtype=np.int64)
        marks = np.full((len(labels), len(sets.pool.arrivals)), UNMARKED, dtype=np.int64)
        for n, label in enumerate(labels):
            for i, live in enumerate(label.live):
                left[n, i], weight[n, i], token[n, i] = live
            for number, units in label.marks:
                marks[n, number] = units
        plain = {
            name: np.array([getattr(label, name) for label in labels])
            for name in ("estimate", "paid", "time", "floor", "units", "done", "arrived", "joinable", "spare",
                         "split")
        }
        return cls(row=sets.rows(label.done for label in labels), left=left, weight=weight,
                   token=token, marks=marks, **plain)

    @property
    def longest(self) -> Units:
        """Iterations until no request is live."""
        most: Units = self.left.max(axis=1)
        return most

    @property
    def decoding(self) -> Units:
        """What the decodes of an iteration are charged."""
        total: Units = self.token.sum(axis=1)
        return total

    @property
    def soonest(self) -> Units:
        """Iterations until the first live request ends; 0 without one."""
        first: Units = self.left[:, 0]
        return first


@dataclass(frozen=True)
class Demand:
    """That the first token of the member at a place comes within a window, in ps."""

    place: int
    earliest: int = 0
    latest: int = 1 << 62


WIDE = frozenset({"time", "paid", "estimate", "joinable"})
"""Fields of choices that are kept as they are."""


@dataclass
class Choices:
    """Candidates for the next event of some labels, an array per field.

    Parameters
    ----------
    label
        Row of the label.
    units, count, time
        Units in the pool at the event, iterations since the label, and time of the event.
    row, arrived
        Set of the members with their first token out, and number of arrivals passed.
    event
        Place of the member with its first token, or `FINISHED`, `AWAITED`.
    joinable
        Whether more first tokens may come out of the same iteration.
    least
        Units that the event needs in the pool.
    idle
        Iterations of `count` that only decode while an arrival is awaited: schedules may do without them.
    paid, estimate
        Weights x times of the tokens that are out; a lower bound on those of all.
    """

    label: Units
    units: Units
    count: Units
    time: Units
    row: Units
    arrived: Units
    event: Units
    joinable: Flags
    least: Units
    idle: Units
    paid: Units = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    estimate: Units = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def place(self) -> Units:
        """The member of each first token, and just any where the event is none."""
        return np.maximum(self.event, 0)

    def chosen(self, which: Units | Flags) -> Choices:
        """Return some of the choices."""
        return replace(self, **{
            f.name: values[which] for f in fields(self) if (values := getattr(self, f.name)).size or not self.label.size
        })

    def packed(self) -> Choices:
        """Return the same choices in less memory: all but times and amounts fit into 32 bits."""
        small = {f.name: getattr(self, f.name).astype(np.int32) for f in fields(self) if f.name not in WIDE}
        return replace(self, **small)

    @classmethod
    def joined(cls, parts: Sequence[Choices]) -> Choices:
        """Return the choices of all parts."""
        return cls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)})


def unchanged(states: States) -> Choices:
    """Return one choice per label: to stay."""
    none = np.zeros_like(states.row)
    return Choices(np.arange(none.size), states.units, none, states.time, states.row, states.arrived,
                   none + FINISHED, none > 0, none, none)


def ranges(first: Units, last: Units) -> tuple[Units, Units]:
    """Return (row, value) for all values from `first` to `last`, both included, of every row."""
    lengths = np.maximum(0, last - first + 1)
    rows = np.repeat(np.arange(first.size), lengths)
    starts = np.cumsum(lengths) - lengths
    return rows, np.arange(rows.size) - starts[rows] + first[rows]
