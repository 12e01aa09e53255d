"""Summary: all metrics of model.md §5 of a simulation that keeps no schedule.

Exact, percentiles included: pooled TBT gaps are counted per length in µs. Memory grows with the number of requests
and of different gap lengths, not with the number of iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heuristics.engine import Engine
from heuristics.state import RequestState
from heuristics.stretch import Stretch
from instances.instance import Instance
from instances.metrics import STATISTICS, UNITS, Value, json_key
from instances.objectives import US_PER_SECOND, outputs_counted
from instances.request import Request
from instances.units import ms_from_us


class Tally:
    """What the metrics are made of, counted while a simulation runs. Times in µs, per request by its index."""

    def __init__(self, instance: Instance) -> None:
        requests = instance.requests
        self.first: list[int | None] = [None] * len(requests)
        self.last: list[int | None] = [None] * len(requests)
        self.longest = [0] * len(requests) if any(r.tbt_slo_us is not None for r in requests) else None
        self.gaps: Counter[int] = Counter()
        self.busy = self.iterations = self.tokens = self.active = self.emitted = 0
        self.preemptions = self.prefilled = self.moved = self.peak = 0

    def add(self, stretch: Stretch, engine: Engine, finished: Sequence[RequestState]) -> None:
        """Count a stretch that has just run; finishing requests still hold their blocks."""
        durations, decodes, count = stretch.durations_us, len(stretch.decodes), len(stretch.durations_us)
        end = engine.now_us
        if decodes:
            self._decodes(stretch)
        for request, since in zip(stretch.ended, stretch.ended_since_us, strict=True):
            if self.first[request.index] is None:
                self.first[request.index] = end
            if since is not None:
                self._gap(request, end - since)
        for request in finished:
            self.last[request.index] = end
        prefilled = sum([tokens for _, tokens in stretch.prefills])
        self.busy += sum(durations)
        self.iterations += count
        self.tokens += count * (prefilled + decodes)
        self.active += count * len(stretch.tokens)
        self.emitted += count * decodes + len(stretch.ended)
        self.prefilled += count * prefilled
        self.preemptions += len(stretch.evict)
        self.moved += sum(stretch.moved_out)
        self.peak = max(self.peak, engine.used_blocks)

    def _decodes(self, stretch: Stretch) -> None:
        """Count the gaps of the decodes: each ends one with the first iteration, and has one per later iteration."""
        start, decodes, (first, *later) = stretch.start_us, stretch.decodes, stretch.durations_us
        steady = stretch.since_us.count(start)  # those that emitted at the end of the iteration before
        if steady:
            self.gaps[first] += steady
        if steady < len(decodes):
            for since in stretch.since_us:
                if since != start and since is not None:
                    self.gaps[start + first - since] += 1
        if later and later[0] == later[-1] and later.count(later[0]) == len(later):
            self.gaps[later[0]] += len(decodes) * len(later)
        else:
            for duration in later:
                self.gaps[duration] += len(decodes)
        if self.longest is not None:
            most = max(later, default=0)
            for request, since in zip(decodes, stretch.since_us, strict=True):
                gap = 0 if since is None else start + first - since
                self.longest[request.index] = max(self.longest[request.index], gap, most)

    def _gap(self, request: RequestState, gap: int) -> None:
        self.gaps[gap] += 1
        if self.longest is not None:
            self.longest[request.index] = max(self.longest[request.index], gap)


@dataclass(frozen=True)
class Summary:
    """A finished simulation without its schedule.

    Parameters
    ----------
    instance, policy
        As in `heuristics.recorder.Run`.
    tally
        What was counted.
    """

    instance: Instance
    policy: str
    tally: Tally

    @cached_property
    def metrics(self) -> dict[str, Value]:
        """Every metric with its unit in the key, as `instances.metrics.report` gives them for the schedule."""
        values = _times(self.instance, self.tally) | _usage(self.instance, self.tally)
        return {json_key(name): values[name] for name in UNITS}


def _times(instance: Instance, tally: Tally) -> dict[str, Value]:
    """Return the metrics that are made of token times."""
    requests = instance.requests
    last = [time or 0 for time in tally.last]  # every request has finished
    e2e = [end - r.arrival_us for r, end in zip(requests, last, strict=True)]
    fresh = [(r, first, last[k]) for k, (r, first) in enumerate(zip(requests, tally.first, strict=True))
             if first is not None and not r.starts_in_decode]  # fmt: skip
    ttft = [first - r.arrival_us for r, first, _ in fresh]
    tpot = [(end - first) / (r.output_tokens - 1) for r, first, end in fresh if r.output_tokens > 1]
    normalised = [us / r.output_tokens for r, us in zip(requests, e2e, strict=True)]
    makespan = max(last) - instance.origin_us
    seconds = makespan / US_PER_SECOND
    met = sum(_met(r, tally, k) for k, r in enumerate(requests))
    outputs, prompts = outputs_counted(instance), sum(r.prompt_tokens for r in requests)
    values: dict[str, Value] = {"makespan": ms_from_us(makespan), "slo_attainment": met / len(requests)}
    rates = {"throughput": outputs, "total_throughput": outputs + prompts, "request_throughput": len(requests),
             "goodput": met}  # fmt: skip
    values |= {name: total / seconds if seconds else None for name, total in rates.items()}
    values |= _statistics("ttft", Counter(ttft)) | _statistics("tbt", tally.gaps)
    values |= _statistics("tpot", Counter(tpot)) | _statistics("e2e", Counter(e2e))
    weighted = sum(r.weight * us for r, us in zip(requests, e2e, strict=True))
    values["weighted_e2e"] = weighted / sum(r.weight for r in requests) / 1000
    values["mean_normalised_latency"] = sum(normalised) / len(normalised) / 1000
    squares = sum(value * value for value in normalised)
    values["fairness"] = sum(normalised) ** 2 / (len(normalised) * squares) if squares else None
    return values


def _met(request: Request, tally: Tally, index: int) -> bool:
    """Return whether a request kept all of its SLOs."""
    first, last = tally.first[index], tally.last[index]
    e2e = (last or 0) - request.arrival_us
    late = request.ttft_slo_us is not None and not request.starts_in_decode and first is not None and (
        first - request.arrival_us > request.ttft_slo_us)  # fmt: skip
    stalled = tally.longest is not None and request.tbt_slo_us is not None and tally.longest[index] > request.tbt_slo_us
    return not late and not stalled and (request.e2e_slo_us is None or e2e <= request.e2e_slo_us)


def _usage(instance: Instance, tally: Tally) -> dict[str, Value]:
    """Return how well budget, seats and time were used, and what preemption cost."""
    engine, count = instance.engine, tally.iterations
    makespan = max(time or 0 for time in tally.last) - instance.origin_us
    needed = sum(r.prefill_left for r in instance.requests)
    return {
        "budget_utilisation": tally.tokens / (engine.max_num_batched_tokens * count),
        "slot_utilisation": tally.active / (engine.max_num_seqs * count) if engine.max_num_seqs else None,
        "busy_share": tally.busy / makespan if makespan else None,
        "iterations": count,
        "preemptions": tally.preemptions,
        "recomputed_tokens": max(0, tally.prefilled - needed),
        "swapped_tokens": tally.moved,
        "output_tokens": tally.emitted,
        "peak_kv_blocks": tally.peak,
    }


def _statistics(name: str, counts: Mapping[Any, int]) -> dict[str, Value]:
    """Return mean, max and percentiles (linear interpolation) in ms of values given with their counts."""
    if not counts:
        return {f"{statistic}_{name}": None for statistic in STATISTICS}
    values = sorted(counts)
    below = np.cumsum([counts[value] for value in values])
    size = int(below[-1])

    def percentile(share: int) -> float:
        place, rest = divmod((size - 1) * share, 100)
        low, high = (values[int(np.searchsorted(below, min(k, size - 1), side="right"))] for k in (place, place + 1))
        return float(low + (high - low) * rest / 100) / 1000

    mean = sum(value * count for value, count in counts.items()) / size / 1000
    found = (mean, values[-1] / 1000, percentile(50), percentile(90), percentile(99))
    return dict(zip((f"{statistic}_{name}" for statistic in STATISTICS), found, strict=True))
