"""The orders of SGLang's waiting queue (its `schedule_policy`)."""

from __future__ import annotations

import random
from fractions import Fraction

from heuristics.queues import Fifo
from heuristics.state import RequestState

ORDERS = ("fcfs", "lof", "lpm", "hrrn", "random", "shortest-prefill-first")
LONGEST_QUEUE_TO_MATCH = 128
"""Requests beyond which ``lpm`` leaves the queue as it is."""


class SglangQueue(Fifo):
    """A queue that is put in order before every prefill attempt; retracted requests come in at the back.

    Every order is stable: whom it does not tell apart stay as they were. ``fcfs`` leaves the queue as it is. ``lof``:
    most declared outputs first. ``lpm``: longest prefix hit first. ``hrrn``: most prefill tokens processed since the
    arrival, per token that it has to prefill itself. ``random``: seeded. ``shortest-prefill-first``: fewest tokens
    to prefill.

    Parameters
    ----------
    order
        One of `ORDERS`.
    by_priority
        Smaller priority values first, whatever the order says otherwise.
    seed
        Of ``random``.
    """

    def __init__(self, order: str, *, by_priority: bool = False, seed: int = 0) -> None:
        super().__init__(requeue_front=False)
        self._order = order
        self._by_priority = by_priority
        self._random = random.Random(seed)
        self._prefilled = 0
        self._prefilled_before: dict[RequestState, int] = {}

    def push(self, request: RequestState) -> None:
        """Put a request at the back."""
        super().push(request)
        self._prefilled_before[request] = self._prefilled

    def requeue(self, request: RequestState) -> None:
        """Put a retracted request at the back; what counts is still its arrival (time 0, where it never queued)."""
        super().requeue(request)
        self._prefilled_before.setdefault(request, 0)

    def prefilled(self, tokens: int) -> None:
        """Take note of prefill tokens that the engine processed."""
        self._prefilled += tokens

    def arrange(self) -> None:
        """Put the requests in order."""
        if self._order == "lof":
            self.sort(lambda r: -r.max_output_tokens)
        elif self._order == "lpm" and len(self) <= LONGEST_QUEUE_TO_MATCH:
            self.sort(lambda r: -r.cached_tokens)
        elif self._order == "hrrn":
            self.sort(lambda r: -Fraction(self._prefilled - self._prefilled_before[r], r.remaining))
        elif self._order == "random":
            self.sort(lambda _: self._random.random())
        elif self._order == "shortest-prefill-first":
            self.sort(lambda r: r.remaining)
        if self._by_priority:
            self.sort(lambda r: r.priority)
