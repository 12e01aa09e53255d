"""Preemptive SRPT: fewest tokens left first, at the cost of those with more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.ranked import RankedPolicy
from heuristics.state import RequestState


@dataclass
class PreemptiveSrpt(RankedPolicy):
    """Shortest remaining processing time first, preemptive.

    Remaining work is counted in tokens: what is left of the prefill (all of it again after an eviction with
    recompute) and the outputs to come, by the declared cap unless ``oracle`` is set.
    """

    name: ClassVar[str] = "preemptive-srpt"
    summary: ClassVar[str] = "fewest tokens left first, evicting those with more (SRPT)"

    def rank(self, request: RequestState) -> tuple[int, ...]:
        """Return the tokens left, then arrival."""
        return request.remaining + self.outputs(request) - request.emitted, request.arrival_us, request.index
