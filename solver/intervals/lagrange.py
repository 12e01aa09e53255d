"""Bounds on sums over the requests: all rows priced, every request starts where it is cheapest (Lagrangian relaxation).

For prices u >= 0 on the rows, ``L(u) = sum_i min_s (cost_i(s) + what i's profile pays from s on) - sum capacity · u``
is a lower bound; the best u give the bound of the linear program over start booleans. Prices are found by a
subgradient method in floats; what is proved is evaluated again in integers, with prices rounded to multiples of
1 / `SCALE`, so that no rounding error enters a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.intervals.rows import Family
from solver.run import Clock

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
SCALE = 4096
"""Prices are multiples of one over this."""
LARGEST_SUM = 2.0**60
"""Largest sum of 64-bit integers that a proof relies on."""
PATIENCE = 25
"""Steps without a better bound after which steps become shorter."""
SHORTER, SHORTEST = 0.85, 0.002
"""Factor by which they do, and the length (of Polyak's) at which the method stops."""
MEMORY = 0.8
"""Share of the direction before in each direction."""
_correlate: Callable[..., Floats | Integers] = np.correlate
STEP_WORK = 2e-8
"""Units of work per request and round of a family in one step."""


@dataclass(frozen=True)
class Proof:
    """What prices prove.

    Parameters
    ----------
    bound
        No schedule costs less.
    allowed
        Per request, the starts that a schedule below the cap may have.
    """

    bound: int
    allowed: tuple[Integers, ...]


class Lagrangian:
    """The relaxation of one objective.

    Parameters
    ----------
    families
        Rows; the ones that are left out are relaxed without a price.
    costs
        Per request, its cost at each start from 0 to the latest one allowed.
    """

    def __init__(self, families: Sequence[Family], costs: Sequence[Integers]) -> None:
        self.families = families
        self.costs = costs
        self.before = max((-min(0, *f.offsets) for f in families), default=0)
        after = max((o + len(p) for f in families for o, p in zip(f.offsets, f.profiles, strict=True)), default=0)
        self.width = self.before + max(len(c) for c in costs) + max(after, 1)
        heaviest = max(sum(int(f.profiles[i].sum()) for f in families) for i in range(len(costs)))
        self._largest_price = LARGEST_SUM / (SCALE * max(heaviest, self.width))  # in integers, sums stay in 64 bits
        self._floats = [[p.astype(np.float64) for p in f.profiles] for f in families]

    def improve(self, clock: Clock, cap: int, prices: Floats | None = None) -> Floats:
        """Return good prices, one row per family, found by steps towards `cap` (an amount that can be reached)."""
        rows = len(self.families)
        current = np.zeros((rows, self.width)) if prices is None else prices.copy()
        best, best_value, length, since = current, -np.inf, 1.0, 0
        direction = np.zeros_like(current)
        capacity = np.array([[f.capacity] for f in self.families], dtype=np.float64)
        work = STEP_WORK * rows * self.width * len(self.costs)
        while clock.left_s and length > SHORTEST and best_value <= cap - 1:
            value, starts = self._cheapest(current)
            if value > best_value + 1e-4 * abs(best_value):
                since = 0
            if value > best_value:
                best, best_value = current, value
            since += 1
            if since > PATIENCE:
                length, since, current = length * SHORTER, 0, best
                direction = np.zeros_like(current)
                value, starts = self._cheapest(current)
            # rows of large capacity are divided by it, so that all have prices of one kind
            slope = self._usage(starts) / capacity - 1.0
            direction = MEMORY * direction + slope
            free = (current > 0) | (direction > 0)
            norm = float((direction[free] ** 2).sum())
            if not norm:
                break
            step = length * (cap - value) / norm
            current = np.maximum(0.0, current + step * np.where(free, direction, 0.0) / capacity)
            clock.charge(work)
        return best

    def proof(self, prices: Floats, cap: int) -> Proof:
        """Return what prices prove, in integers; `cap` is the largest amount that a better schedule may have."""
        whole = np.rint(np.minimum(prices, self._largest_price) * SCALE).astype(np.int64)
        total = -sum(f.capacity * int(row.sum()) for f, row in zip(self.families, whole, strict=True))
        paid, least = [], []
        for i, cost in enumerate(self.costs):
            own = SCALE * cost
            for k in range(len(self.families)):
                own = own + self._pay(whole[k], k, i).astype(np.int64)
            paid.append(own)
            least.append(int(own.min()))
        total += sum(least)
        spare = SCALE * cap - total
        allowed = tuple(np.flatnonzero(own - low <= spare) for own, low in zip(paid, least, strict=True))
        return Proof(-(-total // SCALE), allowed)

    def _pay(self, prices: Floats | Integers, k: int, i: int) -> Floats | Integers:
        """Return what the profile of request i pays in family k for each of its starts, in the type of the prices."""
        count, family = len(self.costs[i]), self.families[k]
        profile = family.profiles[i] if prices.dtype == np.int64 else self._floats[k][i]
        if not len(profile):
            return 0 * prices[:count]
        first = self.before + family.offsets[i]
        return _correlate(prices[first : first + count + len(profile) - 1], profile, "valid")

    def _cheapest(self, prices: Floats) -> tuple[float, list[int]]:
        """Return the value of prices in floats, and a cheapest start per request."""
        total = -sum(f.capacity * float(row.sum()) for f, row in zip(self.families, prices, strict=True))
        starts = []
        for i, cost in enumerate(self.costs):
            own = cost.astype(np.float64)
            for k in range(len(self.families)):
                own += self._pay(prices[k], k, i)
            start = int(own.argmin())
            starts.append(start)
            total += float(own[start])
        return total, starts

    def _usage(self, starts: Sequence[int]) -> Floats:
        """Return what starts use of each row."""
        used = np.zeros((len(self.families), self.width))
        for k, family in enumerate(self.families):
            for i, start in enumerate(starts):
                profile = self._floats[k][i]
                first = self.before + family.offsets[i] + start
                used[k, first : first + len(profile)] += profile
        return used
