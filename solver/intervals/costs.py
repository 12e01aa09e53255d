"""Objectives as functions of the starts, in rounds (misses for `slo_attainment`), and the starts that caps leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from solver.intervals.setting import COUNTED, SUMS, Rounds

Integers = npt.NDArray[np.int64]


def costs_of(rounds: Rounds, name: str) -> list[Integers]:
    """Return per request what each start up to the latest one costs; nothing for an objective that is a maximum."""
    spans = rounds.spans
    reach = [np.arange(rounds.last_start(s) + 1, dtype=np.int64) for s in spans]
    if name == COUNTED:
        return [(r > rounds.on_time(s)).astype(np.int64) for r, s in zip(reach, spans, strict=True)]
    if name not in SUMS:
        return []
    return [a * r + b for r, (a, b) in zip(reach, rounds.weights(name), strict=True)]


def measure_of(rounds: Rounds, name: str) -> Callable[[Sequence[int]], int]:
    """Return the objective as a function of one start per request."""
    costs, offsets = costs_of(rounds, name), rounds.offsets(name)

    def total(starts: Sequence[int]) -> int:
        return sum(int(cost[start]) for cost, start in zip(costs, starts, strict=True))

    def longest(starts: Sequence[int]) -> int:
        return max(start + offset for start, offset in zip(starts, offsets, strict=True))

    return total if costs else longest


def latest_starts(rounds: Rounds, caps: Mapping[str, int]) -> list[int]:
    """Return the latest start of every request under caps in µs, negative where there is none.

    Under a cap on a sum all others start at once.
    """
    last = [rounds.last_start(span) for span in rounds.spans]
    for name, cap in caps.items():
        if name in (COUNTED, "max_tbt"):
            continue
        most = cap // rounds.unit_us
        if name in SUMS:
            weights = rounds.weights(name)
            spare = most - sum(b for _, b in weights)
            last = [min(s, spare // a) for s, (a, _) in zip(last, weights, strict=True)]
        else:
            last = [min(s, most - b) for s, b in zip(last, rounds.offsets(name), strict=True)]
    return last
