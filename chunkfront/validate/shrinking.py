"""Shrinking: from an instance on which something happens to a small one on which it still happens.

A greedy descent over simplifications, each of which makes one thing simpler and nothing more complicated, until none
of them keeps what happens. It starts from the very instance that was found, and one input gives one result; a search
by random generation (hypothesis) would have to find the fault again first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request

PLAIN_REQUEST: dict[str, Any] = {
    "progress": None, "cached_tokens": 0, "ttft_slo_us": None, "tbt_slo_us": None, "e2e_slo_us": None,
    "max_output_tokens": None, "priority": 0, "weight": 1, "group": "default",
}  # fmt: skip
PLAIN_ENGINE: dict[str, Any] = {
    "preemption": "none", "chunk_sizes": None, "max_partial_prefills": None, "max_chunk_tokens": None,
    "chunk_quantum": 1, "enable_chunked_prefill": True, "mixed_batches": True, "num_kv_blocks": None, "block_size": 1,
    "max_num_seqs": None,
}  # fmt: skip
"""Simplest value of every field that has one which is no number to be made smaller."""


def shrink(instance: Instance, happens: Callable[[Instance], bool], *, seconds: float = 20.0) -> Instance:
    """Return a small instance on which `happens` is true.

    Parameters
    ----------
    instance
        One on which it is.
    happens
        The judge; it is asked about valid instances only.
    seconds
        After so long the smallest one found until then is returned.

    Returns
    -------
    Instance
        One that no single simplification (`simpler`) makes smaller, unless the time was up.
    """
    deadline = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for candidate in simpler(instance):
            if time.monotonic() > deadline:
                return instance
            if happens(candidate):
                instance, found = candidate, True
                break
    return instance


def simpler(instance: Instance) -> Iterator[Instance]:
    """Yield valid instances that are simpler in one thing, the boldest first."""
    for change in _changes(instance):
        try:
            candidate = change()
        except InputError:  # not an instance, like a pool that is too small for a request
            continue
        if candidate != instance:
            yield candidate


def _changes(instance: Instance) -> Iterator[Callable[[], Instance]]:
    yield from _fewer_requests(instance)
    plain_cost = CostModel.unit()
    if instance.cost != plain_cost:
        yield lambda: replace(instance, cost=plain_cost)
    for name, plain in PLAIN_ENGINE.items():
        yield lambda name=name, plain=plain: _engine(instance, name, plain)  # type: ignore[misc]
    for name in ("max_num_batched_tokens", "num_kv_blocks", "max_num_seqs", "block_size", "max_chunk_tokens",
                 "max_partial_prefills", "chunk_quantum"):  # fmt: skip
        for smaller in _smaller(getattr(instance.engine, name), 1):
            yield lambda name=name, smaller=smaller: _engine(instance, name, smaller)  # type: ignore[misc]
    for index, request in enumerate(instance.requests):
        yield from _simpler_request(instance, index, request)


def _fewer_requests(instance: Instance) -> Iterator[Callable[[], Instance]]:
    """Yield cuts of half, a quarter, ... of the requests, down to one."""
    requests = instance.requests
    size = len(requests) // 2
    while size >= 1:
        for at in range(0, len(requests), size):
            left = requests[:at] + requests[at + size :]
            if left:
                yield lambda left=left: replace(instance, requests=left)  # type: ignore[misc]
        size //= 2


def _simpler_request(instance: Instance, index: int, request: Request) -> Iterator[Callable[[], Instance]]:
    for name, plain in PLAIN_REQUEST.items():
        yield lambda name=name, plain=plain: _request(instance, index, **{name: plain})  # type: ignore[misc]
    for name, least in (("arrival_us", 0), ("prompt_tokens", 1), ("output_tokens", 1), ("cached_tokens", 0)):
        for smaller in _smaller(getattr(request, name), least):
            yield lambda name=name, smaller=smaller: _request(instance, index, **{name: smaller})  # type: ignore[misc]
    if request.max_output_tokens is not None:
        for smaller in _smaller(request.max_output_tokens, request.output_tokens):
            yield lambda smaller=smaller: _request(instance, index, max_output_tokens=smaller)  # type: ignore[misc]
    if request.arrival_us % 1000:
        yield lambda: _request(instance, index, arrival_us=request.arrival_us // 1000 * 1000)


def _smaller(value: int | None, least: int) -> Iterator[int]:
    """Yield numbers from the least one up to just below `value`, ever closer to it."""
    if value is None or value <= least:
        return
    step = value - least
    while step >= 1:
        yield value - step
        step //= 2


def _engine(instance: Instance, name: str, value: Any) -> Instance:
    engine: EngineLimits = replace(instance.engine, **{name: value})
    return replace(instance, engine=engine)


def _request(instance: Instance, index: int, **changes: Any) -> Instance:
    requests = list(instance.requests)
    requests[index] = replace(requests[index], **changes)
    return replace(instance, requests=tuple(requests))
