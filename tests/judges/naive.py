"""All schedules of a tiny instance, one by one: no memory, no dominance, no theory of timing.

Starts go in steps of 1 µs from the earliest possible one to the last arrival or that, whichever is later: after the
last arrival a pause does nothing but make every later token later and some gap no smaller.
"""

from __future__ import annotations

from collections.abc import Iterator

from instances.instance import Instance
from tests.judges.batches import Batch, Batches, State
from tests.judges.witness import amounts_of


def all_amounts(instance: Instance, max_preemptions: int | None, no_pause: bool) -> Iterator[dict[str, int]]:
    """Yield the amounts of all objectives of every schedule that does not idle after the last arrival."""
    assert max_preemptions is not None or instance.engine.preemption == "none", "endless"
    batches = Batches(instance, max_preemptions, no_pause)
    last_arrival = max(r.arrival_us for r in instance.requests)

    def go(state: State, now: int, way: list[Batch], ends: list[int]) -> Iterator[dict[str, int]]:
        if batches.is_goal(state):
            yield amounts_of(instance, way, ends)
            return
        for batch in batches.batches(state):
            earliest = max(now, batch.release)
            for start in range(earliest, max(earliest, last_arrival) + 1):
                end = start + batch.duration
                yield from go(batch.after, end, [*way, batch], [*ends, end])

    yield from go(batches.initial(), 0, [], [])
