"""Timing of one given sequence of batches, by relaxing its constraints until nothing changes (Bellman, Ford).

The slow and plain counterpart of `tests.judges.timing`; it also gives the ends of a witness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from instances.instance import Instance
from tests.judges.batches import Batch
from tests.judges.labels import Bounds


def earliest_ends(instance: Instance, way: Sequence[Batch], bounds: Bounds) -> list[int] | None:
    """Return the least ends of the batches that obey the bounds, None where there are none."""
    tokens: dict[int, list[int]] = {i: [] for i in range(len(instance.requests))}  # request -> batches that emit
    for k, batch in enumerate(way):
        for emission in batch.emissions:
            tokens[emission.request].append(k)
    start = min(r.arrival_us for r in instance.requests)
    ends = [start] * len(way)
    for _ in range(len(way) + 1):
        before = list(ends)
        for k, batch in enumerate(way):
            ends[k] = max(ends[k], batch.release + batch.duration, (ends[k - 1] if k else start) + batch.duration)
        for i, emitting in tokens.items():
            gap = bounds.gap[i]
            if gap is not None:
                for a, b in zip(emitting[-2::-1], emitting[:0:-1], strict=True):
                    ends[a] = max(ends[a], ends[b] - gap)
        if ends == before:
            return ends if _meets_deadlines(instance, tokens, ends, bounds) else None
    return None  # still rising after as many rounds as there are nodes: a positive cycle


def _meets_deadlines(instance: Instance, tokens: Mapping[int, list[int]], ends: Sequence[int], bounds: Bounds) -> bool:
    for i, request in enumerate(instance.requests):
        first, last, gap = ends[tokens[i][0]], ends[tokens[i][-1]], bounds.gap[i]
        if request.starts_in_decode:
            if gap is not None and first - request.progress.last_token_us > gap:
                return False
        elif bounds.first_by[i] is not None and first > bounds.first_by[i]:
            return False
        if bounds.last_by[i] is not None and last > bounds.last_by[i]:
            return False
    return True


def amounts_of(instance: Instance, way: Sequence[Batch], ends: Sequence[int]) -> dict[str, int]:
    """Return the amounts of all objectives of model.md §6, from the token times."""
    times: list[list[int]] = [[] for _ in instance.requests]
    for batch, end in zip(way, ends, strict=True):
        for emission in batch.emissions:
            times[emission.request].append(end)
    ttft, e2e, weighted, gaps, missed = [], [], [], [0], 0
    for request, emitted in zip(instance.requests, times, strict=True):
        own = [] if not request.starts_in_decode else [emitted[0] - request.progress.last_token_us]
        own += [b - a for a, b in pairwise(emitted)]
        first = None if request.starts_in_decode else emitted[0] - request.arrival_us
        last = emitted[-1] - request.arrival_us
        missed += not (
            (request.ttft_slo_us is None or first is None or first <= request.ttft_slo_us)
            and (request.tbt_slo_us is None or all(gap <= request.tbt_slo_us for gap in own))
            and (request.e2e_slo_us is None or last <= request.e2e_slo_us)
        )
        gaps += own
        ttft += [] if first is None else [first]
        e2e.append(last)
        weighted.append(request.weight * last)
    return {
        "makespan": max(ends) - min(r.arrival_us for r in instance.requests),
        "max_tbt": max(gaps),
        "mean_ttft": sum(ttft),
        "max_ttft": max(ttft, default=0),
        "mean_e2e": sum(e2e),
        "max_e2e": max(e2e),
        "weighted_e2e": sum(weighted),
        "slo_attainment": missed,
    }


def smallest_gap(
    instance: Instance, way: Sequence[Batch], bounds: Bounds, gap: int | None, amounts: Mapping[str, int]
) -> int:
    """Return the least G such that the sequence has a timing with all gaps <= G, within bounds and `amounts`.

    `gap` is a bound at which it has one, None for none at all.
    """

    def feasible(g: int | None) -> int | None:
        """Return the largest gap of the least timing under the bound g, None where there is none."""
        ends = earliest_ends(instance, way, bounds.with_gap(g))
        if ends is None:
            return None
        reached = amounts_of(instance, way, ends)
        caps = [*amounts.items(), *bounds.caps]
        return reached["max_tbt"] if all(reached[name] <= cap for name, cap in caps) else None

    high = feasible(gap)
    assert high is not None, "the labels promised a timing that this sequence does not have"
    low = 0  # all values below it are infeasible
    while low < high:
        middle = (low + high) // 2
        reached = feasible(middle)
        if reached is None:
            low = middle + 1
        else:
            high = reached
    return high
