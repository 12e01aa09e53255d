"""Good starts by simulated annealing over orders: requests are placed one by one, each at the earliest start that fits.

Not every optimum comes from an order (with ramps two requests may each keep the other from moving up), so this finds
schedules and proves nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from solver.intervals.rows import Family
from solver.intervals.setting import Rounds
from solver.run import Clock

HEAT = 0.004
"""Share of the value by which a step may be worse, at the beginning."""
PLACE_WORK = 1e-7
"""Units of work per round in which a request is looked for room."""
WINDOW = 64
"""Starts that are tried at once."""


class Placement:
    """Places requests in an order.

    Parameters
    ----------
    rounds, families
        The instance, and its rows; only limits of the engine matter.
    """

    def __init__(self, rounds: Rounds, families: Sequence[Family]) -> None:
        self.rounds = rounds
        self.limits = [family for family in families if family.needed]
        self.width = rounds.horizon + WINDOW + max(span.rounds for span in rounds.spans)

    def starts(self, order: Sequence[int]) -> list[int]:
        """Return the start of every request, placed in this order."""
        used = [np.zeros(self.width, dtype=np.int64) for _ in self.limits]
        starts = [0] * len(order)
        for i in order:
            start = self._earliest(used, i)
            for row, family in zip(used, self.limits, strict=True):
                row[start : start + len(family.profiles[i])] += family.profiles[i]
            starts[i] = start
        return starts

    def _earliest(self, used: Sequence[npt.NDArray[np.int64]], i: int) -> int:
        """Return the earliest start with which request i fits; behind all others it always does."""
        length = self.rounds.spans[i].rounds
        for begin in range(0, self.width, WINDOW):
            fits = np.ones(WINDOW, dtype=np.bool_)
            for row, family in zip(used, self.limits, strict=True):
                windows = sliding_window_view(row[begin : begin + WINDOW + length - 1], length)
                fits[: len(windows)] &= ((windows + family.profiles[i]) <= family.capacity).all(axis=1)
            at = int(fits.argmax())
            if fits[at]:
                return begin + at
        raise AssertionError("a request that can be served alone fits behind all others")


def anneal(
    placement: Placement,
    orders: Sequence[Sequence[int]],
    value: Callable[[Sequence[int]], int],
    clock: Clock,
    seed: int,
) -> list[int]:
    """Return the best starts found.

    Parameters
    ----------
    placement
        Of the instance.
    orders
        Orders to begin with; the best one is improved.
    value
        Of starts, smaller is better.
    clock
        When to stop.
    seed
        Of the random moves: one request moves to another place, or two change places.
    """
    rng = random.Random(seed)
    work = PLACE_WORK * placement.width * len(placement.rounds.spans)
    found = [(value(starts), starts, list(order)) for order in orders for starts in [placement.starts(order)]]
    best_value, best, order = min(found, key=lambda f: f[0])
    now, limit = best_value, clock.left_s
    while clock.left_s and len(order) > 1:
        heat = HEAT * best_value * clock.left_s / limit
        trial = _moved(order, rng)
        starts = placement.starts(trial)
        clock.charge(work)
        worse = value(starts) - now
        if worse <= 0 or (heat > 0 and rng.random() < math.exp(-worse / heat)):
            now, order = now + worse, trial
            if now < best_value:
                best_value, best = now, starts
    return best


def _moved(order: Sequence[int], rng: random.Random) -> list[int]:
    moved = list(order)
    a, b = rng.sample(range(len(moved)), 2)
    if rng.random() < 0.5:
        moved[a], moved[b] = moved[b], moved[a]
    else:
        moved.insert(b, moved.pop(a))
    return moved
