"""From a window of a trace to an instance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError, in_file
from instances.instance import Instance
from instances.request import Request
from instances.traces.trace import TraceRow
from instances.traces.window import Window
from instances.units import ps_from_ms

DEFAULT_ENGINE = EngineLimits(max_num_batched_tokens=512, max_num_seqs=64, chunk_quantum=64)
"""The engine where none is given."""
DEFAULT_COST = CostModel.linear(
    ps_from_ms(14.467, "iteration_ms"),
    ps_from_ms(0.05406, "prefill_ms_per_token"),
    ps_from_ms(0.038, "decode_ms_per_seq"),
)
"""The cost where none is given: fitted to measured Llama-3.1-70B on 4 x H100 under vLLM, context left out."""


@dataclass(frozen=True, slots=True)
class Import:
    """An instance made from a trace, and what was done on the way.

    Parameters
    ----------
    instance
        The instance.
    never_fit
        Requests left out because the engine can never serve them; with those of the instance they are the window's.
    notices
        What the user should know, those of the trace first, one sentence each.
    """

    instance: Instance
    never_fit: int
    notices: tuple[str, ...]


def to_instance(
    window: Window,
    engine: EngineLimits = DEFAULT_ENGINE,
    cost: CostModel = DEFAULT_COST,
    *,
    name: str | None = None,
) -> Import:
    """Return a window as an instance: arrivals from 0, gaps divided by ``window.compress``, in whole µs.

    Parameters
    ----------
    window
        The requests.
    engine, cost
        What they run on.
    name
        Name of the instance; default: file, first line and number of requests.

    Raises
    ------
    InputError
        Where no request is left, or ids are not unique.
    """
    path, notices = window.trace.path, list(window.trace.notices)
    with in_file(path):
        fitting, reasons = _fitting(window, engine)
        requests, inexact = _requests(fitting, window)
        instance = Instance(
            name=name or f"{Path(path).stem}-line{fitting[0].line}-{len(fitting)}",
            requests=requests,
            engine=engine,
            cost=cost,
            source=_source(window),
        )
    if reasons:
        notices.append(
            f"{len(reasons)} of {len(window.rows)} requests can never be served and were dropped, {len(fitting)} kept "
            f"(first, {reasons[0]})"
        )
    if inexact:
        notices.append(f"{inexact} of {len(fitting)} arrivals rounded half up to whole µs")
    if never_batches(instance):
        notices.append(
            "the load is so low that each request is done before the next arrives: batches never exceed one "
            "request and every policy ties; raise compress (--compress) or choose a busier window"
        )
    return Import(instance, len(reasons), tuple(notices))


def _fitting(window: Window, engine: EngineLimits) -> tuple[list[TraceRow], list[str]]:
    """Return the rows that the engine can serve, and why not the others."""
    fitting = []
    reasons = []
    for index, row in enumerate(window.rows):
        reason = engine.never_fits(_request(row, f"r{index}", 0))
        if reason:
            reasons.append(f"line {row.line}: {reason}")
        else:
            fitting.append(row)
    if not fitting:
        raise InputError(f"no requests left, all {len(reasons)} can never be served (first, {reasons[0]})")
    return fitting, reasons


def never_batches(instance: Instance) -> bool:
    """Return whether each request, served alone on arrival, is done before the next one arrives."""
    requests = sorted(instance.requests, key=lambda request: request.arrival_us)
    for request, following in pairwise(requests):
        if request.arrival_us + _alone_us(instance, request) > following.arrival_us:
            return False
    return True


def _alone_us(instance: Instance, request: Request) -> int:
    """Return the time that a request takes alone, prefilled in chunks as large as allowed."""
    computed, time = request.computed_before, 0
    while computed < request.prompt_tokens:
        left = request.prompt_tokens - computed
        chunk = instance.engine.largest_allowed_chunk(left, left)
        time += instance.cost.duration_us([(computed, computed + chunk)], [])
        computed += chunk
    return time + sum(instance.cost.duration_us([], [computed + k]) for k in range(1, request.output_tokens))


def _requests(rows: list[TraceRow], window: Window) -> tuple[tuple[Request, ...], int]:
    """Return the requests, and how many arrivals were not whole µs."""
    requests = []
    inexact = 0
    unit = 1000 * window.compress.numerator  # ns of the trace per µs of the instance, over compress's denominator
    for index, row in enumerate(rows):
        shifted = (row.arrival_ns - rows[0].arrival_ns) * window.compress.denominator
        inexact += shifted % unit != 0
        requests.append(_request(row, f"r{index}", (2 * shifted + unit) // (2 * unit)))
    return tuple(requests), inexact


def _request(row: TraceRow, default_id: str, arrival_us: int) -> Request:
    return Request(
        **{"id": default_id, **row.fields},
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        arrival_us=arrival_us,
    )


def _source(window: Window) -> str:
    lines = f"lines {window.rows[0].line} to {window.rows[-1].line}"
    compressed = "" if window.compress == 1 else f"; gaps divided by {float(window.compress):g}"
    return f"{window.trace.format} trace {Path(window.trace.path).name}, {lines}{compressed}"
