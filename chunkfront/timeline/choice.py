"""Which requests of a large schedule are worth a row of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from chunkfront.timeline.spans import Gap
from instances.check import Violation
from instances.instance import Instance
from instances.replay import Replay
from instances.request import Request

CHOSEN = 12
"""Rows of a large schedule."""
CHOSEN_WHY = "longest gaps, longest waits for a first token, most evictions, latest to finish"


def choose_rows(
    instance: Instance, run: Replay, gaps: Mapping[str, Sequence[Gap]], violations: Sequence[Violation]
) -> set[str]:
    """Return the ids of up to `CHOSEN` requests: those in violations first, then the worst by four measures in turn."""
    times = run.token_times
    evictions = Counter(name for step in run.steps for name in step.moved_out)

    def ttft(request: Request) -> int:
        emitted = times[request.id]
        return emitted[0] - request.arrival_us if emitted and not request.starts_in_decode else 0

    measures: tuple[Callable[[Request], int], ...] = (
        lambda r: max((gap.length_us for gap in gaps[r.id]), default=0),
        ttft,
        lambda r: evictions[r.id],
        lambda r: times[r.id][-1] if times[r.id] else 0,
    )
    known = {r.id for r in instance.requests}
    broken = [v.request for v in violations if v.request in known]
    rankings = [[r.id for r in sorted(instance.requests, key=m, reverse=True) if m(r)] for m in measures]
    in_turn = chain.from_iterable(zip(*(_padded(ranking, len(known)) for ranking in rankings), strict=True))
    everybody = chain(broken, in_turn, (r.id for r in instance.requests))
    chosen = dict.fromkeys(name for name in everybody if name is not None)
    return set(list(chosen)[:CHOSEN])


def _padded(ranking: list[str], length: int) -> list[str | None]:
    return [*ranking, *[None] * (length - len(ranking))]
