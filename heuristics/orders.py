"""Orders of requests, and a queue that keeps one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from heuristics.policy import Batch
from heuristics.state import RequestState

Key = Callable[[RequestState], tuple[int, ...]]
"""Sorts requests, smallest first; must tell any two apart (by `index` at the end)."""
Outputs = Callable[[RequestState], int]
"""Output tokens to reckon with for a request: the declared cap, or the truth for a clairvoyant policy."""


def order_key(order: str, outputs: Outputs) -> Key:
    """Return the key of an order by name; ties go by arrival, then by place in the instance.

    Parameters
    ----------
    order
        ``fcfs``: by arrival. ``srpt``: fewest tokens left, prefill and outputs together. ``spf``: shortest prefill
        left. ``priority``: smallest priority value.
    outputs
        Output tokens to reckon with.
    """
    if order == "fcfs":
        return lambda r: (r.arrival_us, r.index)
    if order == "srpt":
        return lambda r: (r.remaining + outputs(r) - r.emitted, r.arrival_us, r.index)
    if order == "spf":
        return lambda r: (0 if r.decoding else r.remaining, r.arrival_us, r.index)
    if order == "priority":
        return lambda r: (r.priority, r.arrival_us, r.index)
    raise ValueError(f"no order {order!r}")


ORDERS = ("fcfs", "srpt", "spf", "priority")
STATIC_ORDERS = ("fcfs", "priority")
"""Those in which progress changes nobody's place."""


class Queue:
    """Waiting requests in the order of a key, as it was when they came."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._keys: dict[RequestState, tuple[int, ...]] = {}
        self._entries: list[tuple[tuple[int, ...], RequestState]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request: object) -> bool:
        return request in self._keys

    def __iter__(self) -> Iterator[RequestState]:
        return (request for _, request in self._entries)

    def push(self, request: RequestState) -> None:
        """Put a request in its place."""
        self._keys[request] = key = self._key(request)
        insort(self._entries, (key, request), key=_key_of)

    def remove(self, request: RequestState) -> None:
        """Take a request out."""
        place = bisect_left(self._entries, self._keys.pop(request), key=_key_of)
        del self._entries[place]

    def follow(self, batch: Batch) -> None:
        """Take out whom a batch admitted and take in whom it evicted, once it has run."""
        for request, _ in batch.tokens:
            if request in self._keys:
                self.remove(request)
        for request in batch.restore:
            if request in self._keys:
                self.remove(request)
        for request in batch.evict:
            self.push(request)


def _key_of(entry: tuple[tuple[int, ...], RequestState]) -> tuple[int, ...]:
    return entry[0]
