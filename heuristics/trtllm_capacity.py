"""TensorRT-LLM's capacity schedulers: which requests the KV pool can take, by the blocks that they will need.

A request in phase prefill holds the blocks of all its known tokens from its first chunk on: never less than what the
simulator counts. An evicted ("paused") request's known tokens include what it has emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.plan import Plan
from heuristics.state import UNLIMITED, RequestState
from instances.engine import EngineLimits


def held_blocks(limits: EngineLimits, request: RequestState) -> int:
    """Return the blocks that a request holds: none until it starts, those of the whole prompt from then on."""
    if not request.resident:
        return 0
    return limits.blocks(request.computed if request.decoding else request.known_tokens)


def blocks_to_completion(limits: EngineLimits, request: RequestState) -> int:
    """Return the blocks that a request lacks for its prompt and all declared outputs.

    One more token than it can ever hold, as in the original. A claim above the whole pool, which the original would
    never serve, counts as the pool.
    """
    total = limits.blocks(request.prompt_tokens + request.max_output_tokens)
    if limits.num_kv_blocks is not None:
        total = min(total, limits.num_kv_blocks)
    return total - held_blocks(limits, request)


def blocks_of_one_step(limits: EngineLimits, request: RequestState) -> int:
    """Return the blocks that a request lacks for one iteration: those of its whole prompt where it starts."""
    if request.decoding and request.resident:
        return limits.blocks(request.computed + 1) - limits.blocks(request.computed)
    return limits.blocks(request.known_tokens) - held_blocks(limits, request)


def unheld_blocks(plan: Plan) -> int:
    """Return the blocks of the pool that no resident holds; negative where those of time 0 hold too many."""
    limits = plan.limits
    if limits.num_kv_blocks is None:
        return UNLIMITED
    held = sum(held_blocks(limits, r) for r in plan.state.running if r not in plan.evicted)
    return limits.num_kv_blocks - plan.withheld - held


def guaranteed_no_evict(plan: Plan, active: Sequence[RequestState], *, static: bool = False) -> list[RequestState]:
    """Return the requests in decode, and those in prefill, in order, while all can be completed side by side.

    The first one that cannot stops the queue. With `static` none in prefill is taken beside those in decode: a batch
    runs to its end before the next one starts.
    """
    limits, available = plan.limits, unheld_blocks(plan)
    started = [r for r in active if r.resident]
    if sum(blocks_to_completion(limits, r) for r in started) > available:
        active = closest_to_completion(plan, started)
        available = UNLIMITED
    fitting = [r for r in active if r.decoding]
    if static and fitting:
        return fitting
    available -= sum(blocks_to_completion(limits, r) for r in fitting)
    for request in active:
        if request.decoding:
            continue
        need = blocks_to_completion(limits, request)
        if need > available:
            break
        available -= need
        fitting.append(request)
    return fitting


def closest_to_completion(plan: Plan, started: Sequence[RequestState]) -> list[RequestState]:
    """Return those that can be completed side by side, the ones that lack least; at least one.

    For residents of time 0 that claim more than the pool: the original never gets there.
    """
    limits, pool, free = plan.limits, plan.limits.num_kv_blocks, plan.blocks
    peaks = {r: limits.blocks(r.prompt_tokens + r.max_output_tokens - 1) for r in started}
    lacks = {r: min(peak, pool or peak) - limits.blocks(r.computed) for r, peak in peaks.items()}
    chosen: list[RequestState] = []
    for request in sorted(started, key=lambda r: (lacks[r], r.index)):
        if chosen and lacks[request] > free:
            break
        free -= lacks[request]
        chosen.append(request)
    return chosen


def max_utilization(plan: Plan, active: Sequence[RequestState]) -> list[RequestState]:
    """Return requests in order while the pool can give each its next step, after evictions from the end of the list.

    Where one lacks blocks the last started request at or behind it is evicted, and the pass ends before that one.
    """
    limits, free, end = plan.limits, unheld_blocks(plan), len(active)
    place = 0
    while place < end:
        need = blocks_of_one_step(limits, active[place])
        if need <= free:
            free -= need
            place += 1
            continue
        last = next((k for k in range(end - 1, place - 1, -1) if active[k].resident), None)
        if last is None:
            break
        plan.evict(active[last])
        free += held_blocks(limits, active[last])
        end = last
    return list(active[:place])
