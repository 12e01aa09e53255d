"""A frontier by the plain ε-constraint method, for the baselines: two solves per point, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Optimum = Callable[[str, Mapping[str, int], float], tuple[str, int | None, int | None]]
"""(objective, limits on amounts, seconds) -> status word, amount, bound."""


def epsilon_frontier(
    optimum: Optimum, axes: tuple[str, str], step: int, time_limit: float
) -> tuple[list[tuple[int, int]], bool]:
    """Return proved nondominated points (amounts) by the first axis, and whether they are all (up to `step`).

    Parameters
    ----------
    optimum
        Solves one problem.
    axes
        Two objectives.
    step
        By how much the limit on the second axis falls below each point, in its amounts; 1 for the complete set.
    time_limit
        Seconds for everything.
    """
    started = time.monotonic()
    first, second = axes
    points: list[tuple[int, int]] = []
    limits: dict[str, int] = {}

    def left() -> float:
        return time_limit - (time.monotonic() - started)

    while left() > 0:
        status, x, _ = optimum(first, limits, left())
        if status == "INFEASIBLE":
            return points, True
        if status != "OPTIMAL" or x is None or left() <= 0:
            return points, False
        status, y, _ = optimum(second, {**limits, first: x}, left())
        if status != "OPTIMAL" or y is None:
            return points, False
        points.append((x, y))
        if y < step:
            return points, True
        limits = {second: y - step}
    return points, False
