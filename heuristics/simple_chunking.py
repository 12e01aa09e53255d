"""simple-chunking: Sarathi-Serve's baseline that takes turns between prefills and decodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.booked import BookedPlan
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.sarathi import ChunkedPolicy


@dataclass
class SimpleChunking(ChunkedPolicy):
    """Chunks of prefills and batches of decodes take turns; they never share an iteration.

    A turn of prefills goes on with unfinished ones; only where there are none, it admits. A turn that has nothing to
    do passes to the other side and costs nothing.
    """

    name: ClassVar[str] = "simple-chunking"
    summary: ClassVar[str] = "chunks of prefills and decodes take turns (Sarathi-Serve's baseline, 2026-01)"

    def start(self, setup: Setup) -> None:
        """Begin a run with a turn of prefills."""
        super().start(setup)
        self._prefill_turn = True
        self._next_turn = True

    def decide(self, plan: BookedPlan) -> None:
        """Make the decisions of one pass."""
        residents = self.by_arrival(plan.state)
        if not self._prefill_turn:
            self.decode(plan, residents)
        self._next_turn = not self._prefill_turn and bool(plan.tokens)
        if not plan.tokens:
            self.prefill(plan, residents, self.chunk)
            if not plan.tokens:
                self.admit(plan, self.waiting, self.chunk)
        if not plan.tokens:
            self.decode(plan, residents)
            self._next_turn = True

    def repeats(self, plan: Plan) -> int:
        """Return how often a batch would be the same: in a turn of prefills that finds nothing to prefill."""
        return super().repeats(plan) if self._prefill_turn else 1

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring queue and turn up to date."""
        super().ran(batch, iterations, start_us, end_us)
        self._prefill_turn = self._next_turn
