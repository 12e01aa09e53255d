"""All metrics of model.md §5, recomputed from the schedule by code that knows neither solver nor policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.instance import Instance
from instances.objectives import OBJECTIVES, US_PER_SECOND, gaps_us, meets_slos, outputs_counted
from instances.replay import Replay, Step, replay
from instances.roofline import figures
from instances.schedule import Schedule
from instances.units import ms_from_us

Value = float | int | None
STATISTICS = ("mean", "max", "p50", "p90", "p99")
UNIT_SUFFIX = {
    "ms": "_ms", "tokens/s": "_tokens_per_s", "requests/s": "_requests_per_s", "share": "", "tokens": "", "count": "",
    "ratio": "", "ms/token": "_ms_per_token",
}  # fmt: skip
UNITS: dict[str, str] = {
    "makespan": "ms",
    "throughput": "tokens/s",
    "total_throughput": "tokens/s",
    "request_throughput": "requests/s",
    **{f"{statistic}_{name}": "ms" for name in ("ttft", "tbt", "tpot", "e2e") for statistic in STATISTICS},
    "weighted_e2e": "ms",
    "mean_normalised_latency": "ms/token",
    "slo_attainment": "share",
    "goodput": "requests/s",
    "budget_utilisation": "share",
    "slot_utilisation": "share",
    "busy_share": "share",
    "fairness": "ratio",
    "iterations": "count",
    "preemptions": "count",
    "recomputed_tokens": "tokens",
    "swapped_tokens": "tokens",
    "output_tokens": "tokens",
    "peak_kv_blocks": "count",
}
"""Unit of each metric, by name."""


def json_key(name: str) -> str:
    """Return the key of a metric in JSON: its name with its unit."""
    if name in ("total_throughput", "request_throughput"):
        return {"total_throughput": "total_tokens_per_s", "request_throughput": "requests_per_s"}[name]
    return name + UNIT_SUFFIX[UNITS[name]]


@dataclass(frozen=True)
class _Samples:
    """What the statistics are made of, in µs (TPOT and normalised latency may be fractions of µs)."""

    ttft: Sequence[float]
    tbt: Sequence[float]
    tpot: Sequence[float]
    e2e: Sequence[float]
    normalised: Sequence[float]


def _samples(instance: Instance, run: Replay) -> _Samples:
    ttft: list[int] = []
    tbt: list[int] = []
    tpot: list[float] = []
    e2e: list[int] = []
    normalised: list[float] = []
    for request in instance.requests:
        times = run.token_times[request.id]
        if not times:
            continue
        tbt += gaps_us(request, times)
        e2e.append(times[-1] - request.arrival_us)
        normalised.append(e2e[-1] / request.output_tokens)
        if not request.starts_in_decode:
            ttft.append(times[0] - request.arrival_us)
            if len(times) > 1:
                tpot.append((times[-1] - times[0]) / (len(times) - 1))
    return _Samples(ttft, tbt, tpot, e2e, normalised)


def _statistics(name: str, values: Sequence[float]) -> dict[str, Value]:
    """Return mean, max and percentiles (linear interpolation) in ms; all None without values."""
    if not values:
        return {f"{statistic}_{name}": None for statistic in STATISTICS}
    p50, p90, p99 = (float(p) / 1000 for p in np.percentile(np.asarray(values, dtype=float), (50, 90, 99)))
    mean, top = sum(values) / len(values) / 1000, max(values) / 1000
    return dict(zip((f"{s}_{name}" for s in STATISTICS), (mean, top, p50, p90, p99), strict=True))


def all_metrics(instance: Instance, schedule: Schedule) -> dict[str, Value]:
    """Return every metric by name (no unit in the key), in the unit of `UNITS`; None where it is undefined.

    The schedule should be valid; of one that is not, requests without tokens are left out.
    """
    run = replay(instance, schedule)
    samples = _samples(instance, run)
    done = {name: times for name, times in run.token_times.items() if times}
    makespan = max((times[-1] for times in done.values()), default=instance.origin_us) - instance.origin_us
    seconds = makespan / US_PER_SECOND
    values: dict[str, Value] = {"makespan": ms_from_us(makespan)}
    outputs = sum(len(times) for times in done.values())
    prompts = sum(r.prompt_tokens for r in instance.requests)
    met = sum(meets_slos(r, run.token_times[r.id]) for r in instance.requests)
    for name, total in (
        ("throughput", outputs_counted(instance)),
        ("total_throughput", outputs_counted(instance) + prompts),
        ("request_throughput", len(instance.requests)),
        ("goodput", met),
    ):
        values[name] = total / seconds if seconds else None
    for name in ("ttft", "tbt", "tpot", "e2e"):
        values |= _statistics(name, getattr(samples, name))
    weights = sum(r.weight for r in instance.requests)
    total = sum(r.weight * (done[r.id][-1] - r.arrival_us) for r in instance.requests if r.id in done)
    values["weighted_e2e"] = total / weights / 1000
    values["mean_normalised_latency"] = (
        sum(samples.normalised) / len(samples.normalised) / 1000 if samples.normalised else None
    )
    values["slo_attainment"] = met / len(instance.requests)
    values["fairness"] = _jain(samples.normalised)
    values["output_tokens"] = outputs
    return {name: (values | _usage(instance, run, makespan))[name] for name in UNITS}


def _jain(values: Sequence[float]) -> Value:
    """Return Jain's index (Σx)²/(n Σx²): 1 when all are equal."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def _usage(instance: Instance, run: Replay, makespan: int) -> dict[str, Value]:
    """Return how well budget, seats and time were used, and what preemption cost."""
    count = len(run.steps)
    tokens = sum(step.iteration.tokens for step in run.steps)
    active = sum(len(step.chunks) + len(step.contexts) for step in run.steps)
    seats = instance.engine.max_num_seqs
    swap = instance.engine.preemption == "swap"
    moved = sum(sum(step.moved_out.values()) for step in run.steps)
    needed = sum(r.prefill_left for r in instance.requests)
    prefilled = sum(after - before for step in run.steps for before, after in step.chunks.values())
    return {
        "budget_utilisation": tokens / (instance.engine.max_num_batched_tokens * count) if count else None,
        "slot_utilisation": active / (seats * count) if seats and count else None,
        "busy_share": sum(s.iteration.duration_us for s in run.steps) / makespan if makespan else None,
        "iterations": count,
        "preemptions": sum(len(step.moved_out) for step in run.steps),
        "recomputed_tokens": max(0, prefilled - needed),
        "swapped_tokens": moved if swap else 0,
        "peak_kv_blocks": max((step.blocks for step in run.steps), default=0),
    }


def metric(instance: Instance, schedule: Schedule, name: str) -> Value:
    """Return one metric by name; KeyError for an unknown one."""
    return all_metrics(instance, schedule)[name]


def report(instance: Instance, schedule: Schedule) -> dict[str, Value]:
    """Return every metric with its unit in the key (`makespan_ms`), as JSON shows them."""
    return {json_key(name): value for name, value in all_metrics(instance, schedule).items()}


def amounts(instance: Instance, schedule: Schedule) -> dict[str, int]:
    """Return the exact integer amount of every objective (`instances.objectives`) of a valid schedule."""
    times = replay(instance, schedule).token_times
    return {name: objective.amount(instance, times) for name, objective in OBJECTIVES.items()}


def per_request(instance: Instance, schedule: Schedule) -> list[dict[str, Any]]:
    """Return one row per request: id, class, TTFT, largest gap, TPOT, E2E in ms and whether it met its SLOs."""
    run = replay(instance, schedule)
    rows = []
    for request in instance.requests:
        times = run.token_times[request.id]
        gaps = gaps_us(request, times)
        first = None if request.starts_in_decode or not times else ms_from_us(times[0] - request.arrival_us)
        tpot = None
        if first is not None and len(times) > 1:
            tpot = (times[-1] - times[0]) / (len(times) - 1) / 1000
        rows.append({
            "id": request.id,
            "class": request.group,
            "ttft_ms": first,
            "max_tbt_ms": ms_from_us(max(gaps)) if gaps else None,
            "tpot_ms": tpot,
            "e2e_ms": ms_from_us(times[-1] - request.arrival_us) if times else None,
            "slo_met": meets_slos(request, times),
        })  # fmt: skip
    return rows


def per_iteration(instance: Instance, schedule: Schedule) -> list[dict[str, Any]]:
    """Return one row per iteration: times, tokens by phase, KV in use, and arithmetic intensity on a roofline."""
    intensity = _intensity(instance)
    return [
        {
            "start_ms": ms_from_us(step.iteration.start_us),
            "duration_ms": ms_from_us(step.iteration.duration_us),
            "prefill_tokens": sum(step.iteration.prefill.values()),
            "decode_tokens": len(step.iteration.decode),
            "kv_blocks": step.blocks,
            "residents": step.residents,
            "flops_per_byte": intensity(step),
        }
        for step in replay(instance, schedule).steps
    ]


def _intensity(instance: Instance) -> Callable[[Step], Value]:
    """Return the FLOPs per byte of an iteration, where the cost model is a roofline preset; else None."""
    if instance.cost.roofline is None:
        return lambda step: None
    model, _ = figures(instance.cost.roofline)

    def of(step: Step) -> float:
        contexts = list(step.contexts.values())
        tokens = sum(after - before for before, after in step.chunks.values())
        pairs = sum(a * (a + 1) // 2 - b * (b + 1) // 2 for b, a in step.chunks.values()) + sum(contexts)
        flops = model.flops_per_token * (tokens + len(contexts)) + model.flops_per_context * pairs
        moved = model.weight_bytes + model.kv_bytes_per_token * (tokens + len(contexts) + sum(contexts))
        return flops / moved

    return of
