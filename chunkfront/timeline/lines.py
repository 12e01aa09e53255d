"""Amounts over time as step lines: tokens of the iterations, KV in use, requests by state."""

from __future__ import annotations

from collections.abc import Callable

from chunkfront.timeline.spans import Beat, Timeline

MOST_STEPS = 2000
"""Steps of one line; of longer ones the largest value of each group of neighbours is kept."""

StepLine = tuple[list[int], list[int]]
"""Moments in µs, and the value from each of them on."""


def nothing(beat: Beat) -> int:
    """Return 0: what is processed while the engine idles."""
    return 0


def step_line(timeline: Timeline, value: Callable[[Beat], int], after: Callable[[Beat], int] = nothing) -> StepLine:
    """Return `exact_line` with at most `MOST_STEPS` steps, for drawing."""
    return _thinned(*exact_line(timeline, value, after))


def exact_line(timeline: Timeline, value: Callable[[Beat], int], after: Callable[[Beat], int] = nothing) -> StepLine:
    """Return an amount over time: `value` during an iteration, `after` while the engine idles behind it."""
    late = not timeline.beats or timeline.beats[0].start_us > timeline.start_us
    times, values = ([timeline.start_us], [0]) if late else ([], [])
    busy_again = {beat.start_us for beat in timeline.beats}
    for beat in timeline.beats:
        times.append(beat.start_us)
        values.append(value(beat))
        if beat.end_us not in busy_again:
            times.append(beat.end_us)
            values.append(after(beat))
    return times, values


def budget_lines(timeline: Timeline) -> dict[str, StepLine]:
    """Return the tokens of the iterations, decodes stacked on prefill: ``prefill`` and ``all`` tokens."""
    return {
        "prefill": step_line(timeline, lambda beat: beat.prefill_tokens),
        "all": step_line(timeline, lambda beat: beat.prefill_tokens + beat.decode_tokens),
    }


def kv_line(timeline: Timeline) -> StepLine:
    """Return the KV blocks in use; while the engine idles, those that residents keep."""
    return step_line(timeline, lambda beat: beat.kv_blocks, lambda beat: beat.kv_kept)


def queue_line(timeline: Timeline) -> StepLine:
    """Return how many requests wait, queued or evicted."""
    return [timeline.start_us, *(moment for moment, _ in timeline.queue)], [0, *(count for _, count in timeline.queue)]


def state_lines(timeline: Timeline) -> dict[str, StepLine]:
    """Return how many requests are in each state, stacked in this order, an iteration long each."""
    stack: tuple[tuple[str, Callable[[Beat], int]], ...] = (
        ("prefill chunk", lambda beat: beat.prefilling),
        ("decode", lambda beat: beat.decoding),
        ("paused", lambda beat: beat.paused),
        ("evicted", lambda beat: beat.evicted),
        ("queued", lambda beat: beat.queued),
    )

    def up_to(count: int) -> Callable[[Beat], int]:
        return lambda beat: sum(of(beat) for _, of in stack[:count])

    return {name: step_line(timeline, up_to(at + 1), up_to(at + 1)) for at, (name, _) in enumerate(stack)}


def _thinned(times: list[int], values: list[int]) -> StepLine:
    if len(times) <= MOST_STEPS:
        return times, values
    size = -(-len(times) // (MOST_STEPS - 1))
    groups = range(0, len(times), size)
    kept = [max(values[k : k + size]) for k in groups]
    return [*(times[k] for k in groups), times[-1]], [*kept, values[-1]]
