"""Queues of waiting requests: in the order of a key, or first in, first out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from typing import Any

from heuristics.orders import Key
from heuristics.policy import Batch
from heuristics.state import RequestState

Entry = tuple[tuple[int, ...], RequestState]


class WaitingQueue(ABC):
    """Requests that have arrived and are not resident, in the order in which they are to be admitted."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[RequestState]: ...

    @property
    @abstractmethod
    def members(self) -> Set[RequestState]:
        """The requests, in no order."""

    def __contains__(self, request: object) -> bool:
        return request in self.members

    @abstractmethod
    def push(self, request: RequestState) -> None:
        """Take in a new request."""

    @abstractmethod
    def requeue(self, request: RequestState) -> None:
        """Take in an evicted request."""

    @abstractmethod
    def remove(self, request: RequestState) -> None:
        """Take out a request."""

    def follow(self, batch: Batch) -> None:
        """Take out whom a batch admitted, take in whom it evicted; to be called when it has run (`Policy.ran`)."""
        if members := self.members:
            gone = [request for request, _ in batch.tokens if request in members]
            gone += [request for request in batch.restore if request in members and request not in gone]
            for request in gone:
                self.remove(request)
        for request in batch.evict:
            self.requeue(request)


class OrderedQueue(WaitingQueue):
    """A queue in the order of a key, as the key was when a request came in."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._keys: dict[RequestState, tuple[int, ...]] = {}
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[RequestState]:
        return (request for _, request in self._entries)

    @property
    def members(self) -> Set[RequestState]:
        """The requests, in no order."""
        return self._keys.keys()

    def push(self, request: RequestState) -> None:
        """Put a request in its place."""
        self._keys[request] = key = self._key(request)
        insort(self._entries, (key, request), key=_key_of)

    def requeue(self, request: RequestState) -> None:
        """Put an evicted request in its place."""
        self.push(request)

    def remove(self, request: RequestState) -> None:
        """Take out a request."""
        del self._entries[bisect_left(self._entries, self._keys.pop(request), key=_key_of)]


class Fifo(WaitingQueue):
    """First in, first out; evicted requests come back to the front or to the back.

    Of several that one batch evicts, the first one evicted ends up last in front, and first at the back.
    """

    def __init__(self, *, requeue_front: bool = True) -> None:
        self._front = requeue_front
        self._requests: OrderedDict[RequestState, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RequestState]:
        return iter(self._requests)

    @property
    def members(self) -> Set[RequestState]:
        """The requests, in order."""
        return self._requests.keys()

    def push(self, request: RequestState) -> None:
        """Put a request at the back."""
        self._requests[request] = None

    def requeue(self, request: RequestState) -> None:
        """Put an evicted request at the front, or at the back."""
        self._requests[request] = None
        if self._front:
            self._requests.move_to_end(request, last=False)

    def remove(self, request: RequestState) -> None:
        """Take out a request."""
        del self._requests[request]

    def sort(self, key: Callable[[RequestState], Any]) -> None:
        """Put them in the order of a key, once; whom it does not tell apart stay in their order."""
        self._requests = OrderedDict.fromkeys(sorted(self._requests, key=key))


def _key_of(entry: Entry) -> tuple[int, ...]:
    return entry[0]
