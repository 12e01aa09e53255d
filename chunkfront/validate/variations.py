"""Variations of an instance that an honest scheduler cannot tell from it, wholly or up to some moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chunkfront.validate.watching import Decision
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request

MOST_CUTS = 3
LATER_US = 100_000_000
MORE_OUTPUTS = 8


def renamed(instance: Instance) -> Instance:
    """Return the instance with a letter before every id, which keeps their order as texts and changes their hashes."""
    return replace(instance, requests=tuple(replace(r, id=f"x{r.id}") for r in instance.requests))


def without_letter(decision: Decision) -> Decision:
    """Return a decision without the letter that `renamed` puts before every id."""
    return replace(decision, tokens={name[1:]: n for name, n in decision.tokens.items()},
                   evict=frozenset(name[1:] for name in decision.evict),
                   restore=frozenset(name[1:] for name in decision.restore))  # fmt: skip


def cuts(instance: Instance) -> Sequence[int]:
    """Return some arrival times after the first: the earliest, the latest, one amid them."""
    times = sorted({r.arrival_us for r in instance.requests})[1:]
    return sorted({times[0], times[len(times) // 2], times[-1]})[:MOST_CUTS] if times else ()


def other_futures(instance: Instance, cut: int) -> Iterator[tuple[Instance, str]]:
    """Yield the instance with another future from `cut` on, and in words what is different."""
    later = [r.arrival_us >= cut for r in instance.requests]
    delayed = tuple(
        replace(r, arrival_us=r.arrival_us + LATER_US) if is_later else r
        for r, is_later in zip(instance.requests, later, strict=True)
    )
    yield replace(instance, requests=delayed), f"where these come {LATER_US // 1_000_000} s later"
    if later == sorted(later):
        yield replace(instance, requests=instance.requests[: later.index(True)]), "without them"


def longer(instance: Instance, index: int) -> tuple[Instance, Instance] | None:
    """Return the instance with a wider cap for one request, and with more outputs under the same cap."""
    request = instance.requests[index]
    capacity = instance.engine.kv_capacity_tokens
    room = MORE_OUTPUTS if capacity is None else min(MORE_OUTPUTS, capacity - request.peak_kv_tokens)
    if room < 1:
        return None
    outputs = request.output_tokens + room
    cap = max(outputs, request.declared_output_tokens)

    def made(output: int) -> Instance:
        changed: list[Request] = list(instance.requests)
        changed[index] = replace(request, output_tokens=output, max_output_tokens=cap)
        return replace(instance, requests=tuple(changed))

    try:
        return made(request.output_tokens), made(outputs)
    except InputError:
        return None
