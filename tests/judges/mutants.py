"""Mutants of the greedy scheduler: each breaks one rule or has one bad habit, and nothing else is wrong with it."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from heuristics.greedy_chunked import GreedyChunked
from heuristics.policy import FOREVER, Batch, EngineState, RequestState
from heuristics.state import UNLIMITED


class Looser:
    """A state with some limits taken away, and everything else as it is."""

    def __init__(self, state: EngineState, limits: dict[str, Any], **views: Any) -> None:
        self._state = state
        self.limits = replace(state.limits, **limits)
        self.__dict__.update(views)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


class Blind(GreedyChunked):
    """Does not see some limits."""

    limits: ClassVar[dict[str, Any]] = {}
    views: ClassVar[dict[str, Any]] = {}

    def schedule(self, state: EngineState) -> Batch:
        return super().schedule(Looser(state, self.limits, **self.views))  # type: ignore[arg-type]


class IgnoresSeats(Blind):
    views: ClassVar[dict[str, Any]] = {"free_seats": UNLIMITED}


class IgnoresPool(Blind):
    limits: ClassVar[dict[str, Any]] = {"num_kv_blocks": None}
    views: ClassVar[dict[str, Any]] = {"free_blocks": UNLIMITED}


class ChunksAllTheSame(Blind):
    limits: ClassVar[dict[str, Any]] = {"enable_chunked_prefill": True}


class MixesAllTheSame(Blind):
    limits: ClassVar[dict[str, Any]] = {"mixed_batches": True}


class IgnoresQuantum(Blind):
    limits: ClassVar[dict[str, Any]] = {"chunk_quantum": 1}


class IgnoresSizes(Blind):
    limits: ClassVar[dict[str, Any]] = {"chunk_sizes": None}


class IgnoresCap(Blind):
    limits: ClassVar[dict[str, Any]] = {"max_chunk_tokens": None}


class IgnoresPartialPrefills(Blind):
    limits: ClassVar[dict[str, Any]] = {"max_partial_prefills": None}


class Changed(GreedyChunked):
    """Changes what greedy chunking decides."""

    def schedule(self, state: EngineState) -> Batch:
        return self.changed(super().schedule(state), state)

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        raise NotImplementedError

    @staticmethod
    def each(batch: Batch, tokens: Any) -> Batch:
        return replace(batch, tokens=[(r, tokens(r, n)) for r, n in batch.tokens])


class OverBudget(Changed):
    """Counts one token too few where the budget is full."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        budget = state.limits.max_num_batched_tokens
        for request, tokens in batch.tokens:
            larger = tokens + 1 <= min(budget, request.remaining) and not request.decoding
            full = sum(n for _, n in batch.tokens) == budget
            if full and larger and state.limits.chunk_allowed(tokens + 1, request.remaining):
                return replace(self.each(batch, lambda r, n, who=request: n + (r is who)), repeat=1)
        return batch


class OneTokenTooMany(Changed):
    """Prefills past the end of the prompt."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return self.each(batch, lambda r, n: n + (not r.decoding and n == r.remaining))


class DecodesTwo(Changed):
    """Decodes two tokens at once."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return self.each(batch, lambda r, n: 2 if r.decoding else n)


class ZeroChunk(Changed):
    """Admits somebody with no token at all."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        working = [r for r, _ in batch.tokens]
        others = [(r, 0) for r in state.waiting if r not in working]
        return replace(batch, tokens=[*batch.tokens, *others])


class FractionOfATokens(Changed):
    """Computes with floats."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return self.each(batch, lambda r, n: float(n))


class Twice(Changed):
    """Puts a request into a batch twice."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return replace(batch, tokens=[*batch.tokens, *batch.tokens[:1]])


class KeepsTheFinished(Changed):
    """Goes on with a request that has finished."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        gone = [(r, 1) for r in self.seen if r.finished]
        self.seen.update(dict.fromkeys(r for r, _ in batch.tokens))
        return replace(batch, tokens=[*batch.tokens, *gone])

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.seen: dict[RequestState, None] = {}


class EvictsWhereForbidden(Changed):
    """Preempts the last resident for whoever waits, allowed or not."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        kept = [(r, n) for r, n in batch.tokens if r is not state.running[-1]] if state.running else []
        if state.limits.preemption != "none" or not state.waiting or not kept:
            return batch
        return replace(batch, tokens=kept, evict=[state.running[-1]], repeat=1)


class EvictsAndWorks(Changed):
    """Preempts a resident and gives it tokens."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        working = [r for r, _ in batch.tokens if r.resident]
        return replace(batch, evict=working[:1], repeat=1) if state.limits.preemption != "none" else batch


class RestoresAnybody(Changed):
    """Brings back whom nobody has swapped out."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return replace(batch, restore=[r for r in state.waiting if not r.swapped][:1], repeat=1)


@dataclass
class ForgetsToRestore(Changed):
    """Works on swapped-out requests without bringing them back."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reserve_peak = False  # so that it runs out of blocks and swaps

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        return replace(batch, restore=())


class Thrashes(GreedyChunked):
    """Preempts everybody for the next one, again and again, before anything is done."""

    def schedule(self, state: EngineState) -> Batch:
        if state.limits.preemption != "recompute" or not state.waiting:
            return super().schedule(state)
        return Batch([(state.waiting[-1], 1)], evict=[r for r in state.running if r.remaining > 1])


class AsksAgainForever(GreedyChunked):
    """Decides nothing while two or more wait, and wants to be asked again at once."""

    def schedule(self, state: EngineState) -> Batch:
        return Batch([], until_us=state.now_us) if len(state.waiting) > 1 else super().schedule(state)


class EvictsAndNothingElse(GreedyChunked):
    """Preempts in a batch of its own, without a token."""

    def schedule(self, state: EngineState) -> Batch:
        may = state.limits.preemption != "none" and state.waiting and state.running
        return Batch([], evict=list(state.running[-1:])) if may else super().schedule(state)


class ForgetsTheLast(GreedyChunked):
    """Never hears of the third request."""

    def arrived(self, request: RequestState) -> None:
        if request.index != 2 or request.resident:
            super().arrived(request)


class EveryOtherPassEmpty(GreedyChunked):
    """Takes a rest of 1 µs after every batch."""

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.rest = False

    def schedule(self, state: EngineState) -> Batch:
        self.rest = not self.rest
        return replace(super().schedule(state), repeat=1) if self.rest else Batch([], until_us=state.now_us + 1)


class NewestFirst(GreedyChunked):
    """Last come, first served."""

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.queue._key = lambda r: (-r.arrival_us, r.index)


class FlipsCoins(GreedyChunked):
    """Shuffles the queue, without a seed."""

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.queue._key = lambda r: (random.random(),)  # type: ignore[return-value]


class RemembersTheRunBefore(GreedyChunked):
    """Turns its queue round in every second run of an object."""

    runs = 0

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.runs += 1
        if self.runs % 2 == 0:
            self.queue._key = lambda r: (-r.index,)


class PromisesForever(Changed):
    """Says that every batch repeats itself, and cuts every chunk to what is left of a third."""

    def changed(self, batch: Batch, state: EngineState) -> Batch:
        def third(request: RequestState, tokens: int) -> int:
            less = max(1, tokens // 3)
            may = not request.decoding and state.limits.chunk_allowed(less, request.remaining)
            return less if may and state.limits.max_partial_prefills is None else tokens

        return replace(self.each(batch, third), repeat=FOREVER)


class OrderOfHashes(GreedyChunked):
    """Walks its queue in the order of a set of ids."""

    def start(self, setup: Any) -> None:
        super().start(setup)
        self.queue._key = lambda r: (hash(r.id),)


def _simulation() -> Any:
    """Return the simulation that asks, found on the call stack: what an honest policy cannot reach."""
    frame: Any = sys._getframe(1)
    while not hasattr(frame.f_locals.get("self"), "outputs") or not hasattr(frame.f_locals["self"], "arrivals"):
        frame = frame.f_back
    return frame.f_locals["self"]


class ReadsOutputLengths(GreedyChunked):
    """Serves the request with the fewest outputs first, by true lengths."""

    def arrived(self, request: RequestState) -> None:
        outputs = _simulation().outputs
        self.queue._key = lambda r: (outputs[r.index], r.index)
        super().arrived(request)


class LooksAhead(GreedyChunked):
    """Decodes only, as long as somebody is still to come."""

    def schedule(self, state: EngineState) -> Batch:
        batch = super().schedule(state)
        if _simulation().arrivals and any(r.decoding for r, _ in batch.tokens):
            return replace(batch, tokens=[(r, n) for r, n in batch.tokens if r.decoding], repeat=1)
        return batch


class CrashesOnSingleOutputs(GreedyChunked):
    """Divides by the number of gaps."""

    def finished(self, request: RequestState) -> None:
        super().finished(request)
        _ = 1 / (request.emitted - 1)


class NeverReturns(GreedyChunked):
    """Looks for a free seat until there is one."""

    def schedule(self, state: EngineState) -> Batch:
        while state.free_seats < 1:
            pass
        return super().schedule(state)


class WritesIntoTheState(GreedyChunked):
    """Counts the emitted tokens itself."""

    def schedule(self, state: EngineState) -> Batch:
        batch = super().schedule(state)
        for request, _ in batch.tokens:
            request._evictions += 1
        return batch


class ReturnsAList(GreedyChunked):
    """Returns what belongs into a batch."""

    def schedule(self, state: EngineState) -> Batch:
        return list(super().schedule(state).tokens)  # type: ignore[return-value]


MUTANTS: dict[type[GreedyChunked], str] = {
    OverBudget: "token-budget", IgnoresSeats: "seats", IgnoresPool: "kv-pool", ChunksAllTheSame: "chunk",
    MixesAllTheSame: "mixed-batch", IgnoresQuantum: "chunk", IgnoresSizes: "chunk", IgnoresCap: "chunk",
    IgnoresPartialPrefills: "partial-prefills", OneTokenTooMany: "prefill-target", DecodesTwo: "phase",
    ZeroChunk: "chunk", FractionOfATokens: "chunk", Twice: "once", KeepsTheFinished: "known-request",
    EvictsWhereForbidden: "eviction", EvictsAndWorks: "eviction", RestoresAnybody: "restore",
    ForgetsToRestore: "phase", Thrashes: "livelock", AsksAgainForever: "livelock",
    EvictsAndNothingElse: "non-empty", ForgetsTheLast: "unserved", EveryOtherPassEmpty: "empty-batch",
    NewestFirst: "starvation", FlipsCoins: "non-deterministic", RemembersTheRunBefore: "state-leaks",
    PromisesForever: "repeat-promise", OrderOfHashes: "hash-order", ReadsOutputLengths: "knows-output-lengths",
    LooksAhead: "knows-future", CrashesOnSingleOutputs: "exception", NeverReturns: "hangs",
    WritesIntoTheState: "state-written", ReturnsAList: "non-empty",
}  # fmt: skip
"""Every mutant, and the rule by which it is found out."""
CONSEQUENCES: dict[type[GreedyChunked], set[str]] = {
    AsksAgainForever: {"empty-batch"},
    ForgetsTheLast: {"empty-batch"},  # that is how it ends: nothing is scheduled, though somebody waits
}
"""What else may follow from the fault of a mutant."""
