"""Enforcement: a batch obeys every rule of model.md §2-3 before it runs, or its policy gets a `PolicyError`.

The rules have the names of `instances.check`, which judges finished schedules and knows nothing of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heuristics.engine import Engine, Work
from heuristics.policy import Batch, PolicyError
from heuristics.state import RequestState


def enforce(engine: Engine, batch: Batch, policy: str) -> Sequence[RequestState]:
    """Return those of a batch that decode; raise a `PolicyError` unless it may run on `engine` now."""
    decodes = _decodes_of_common(engine, batch)
    if decodes is None:
        _Judge(engine, batch, policy).judge()
        decodes = [request for request, _ in batch.tokens if request._decoding]
    return decodes


def _decodes_of_common(engine: Engine, batch: Batch) -> Sequence[RequestState] | None:
    """Return those that decode of a batch of the common kind that obeys every rule, None for any other batch.

    Common are known requests, each once, with whole numbers of tokens; no evictions and no restores. That is judged
    with hardly a loop of Python's own; what it doubts goes to the judge, whose word counts.
    """
    if batch.evict or batch.restore or batch.repeat < 1:
        return None
    workers, counts = zip(*batch.tokens, strict=True)
    try:
        different = set(workers)
    except TypeError:
        return None
    if set(map(type, counts)) != {int} or len(different) < len(workers) or not engine.knows_all(different):
        return None
    decodes = [request for request in workers if request._decoding]
    if len(decodes) == len(workers) == counts.count(1):
        fine = engine.holds_all(different) and _within_limits(engine, len(decodes), decodes, len(decodes))
    else:
        fine = min(counts) > 0 and engine.holds_all(set(decodes)) and _chunks_are_fine(engine, batch.tokens, decodes)
    return decodes if fine else None


def _chunks_are_fine(engine: Engine, work: Work, decodes: Sequence[RequestState]) -> bool:
    """Whether a batch with chunks obeys every rule; every request in it has a token at least."""
    limits, total, grown, seats, partial = engine.limits, len(decodes), len(decodes), 0, 0
    if decodes and not limits.mixed_batches:
        return False
    for request, count in [(request, count) for request, count in work if not request._decoding]:
        before, left = request._computed, request.remaining
        if request._swapped or not limits.chunk_allowed(count, left):
            return False
        total += count
        grown += limits.blocks(before + count) - (limits.blocks(before) if request._resident else 0)
        partial += (count < left) - request._resident
        seats += not request._resident
    if sum([count for _, count in work]) != total:  # some decode has more than one token
        return False
    return _within_limits(engine, total, decodes, grown, seats, partial)


def _within_limits(
    engine: Engine, total: int, decodes: Sequence[RequestState], grown: int, seats: int = 0, partial: int = 0
) -> bool:
    """Whether a batch fits that takes so many tokens, KV blocks (one per decode), seats and unfinished prefills."""
    limits, free = engine.limits, engine.free_blocks
    if grown > free:  # not every decode starts a block
        grown -= sum([request._computed % limits.block_size != 0 for request in decodes])
    most = limits.max_partial_prefills
    return (
        total <= limits.max_num_batched_tokens
        and grown <= free
        and seats <= engine.free_seats
        and (most is None or engine.partial_prefills + partial <= most)
    )


class _Judge:
    """One batch before its engine; every method is one rule or one group of rules about the same thing."""

    def __init__(self, engine: Engine, batch: Batch, policy: str) -> None:
        self.engine = engine
        self.limits = engine.limits
        self.batch = batch
        self.policy = policy

    def fail(
        self, rule: str, problem: str, request: RequestState | None = None, value: int | None = None,
        limit: int | None = None,
    ) -> PolicyError:  # fmt: skip
        name = None if request is None else request.id
        return PolicyError(self.policy, self.engine.iteration, rule, problem, name, value, limit)

    def judge(self) -> None:
        batch = self.batch
        workers = [request for request, _ in batch.tokens]
        for names, what in ((workers, "tokens"), (batch.evict, "evict"), (batch.restore, "restore")):
            self.known_and_once(names, what)
        if batch.repeat < 1:
            raise self.fail("non-empty", f"repeat is {batch.repeat}", value=batch.repeat, limit=1)
        if batch.restore:
            self.restores()
        if batch.evict:
            self.evictions(set(workers))
        self.work()
        self.pool_and_seats()

    def known_and_once(self, requests: Iterable[RequestState], what: str) -> None:
        seen = set()
        for request in requests:
            if not isinstance(request, RequestState):
                problem = f"{what} holds {request!r}; requests are given by the objects that the state shows"
                raise self.fail("known-request", problem)
            if not self.engine.knows(request):
                state = "has finished" if request.finished else "is not one of this run"
                raise self.fail("known-request", f"{what} holds {request.id!r}, which {state}", request)
            if request in seen:
                raise self.fail("once", f"{request.id!r} stands more than once in {what}", request, 2, 1)
            seen.add(request)

    def restores(self) -> None:
        for request in self.batch.restore:
            if not request.swapped:
                raise self.fail("restore", f"restores {request.id!r}, which is not swapped out", request)

    def evictions(self, workers: set[RequestState]) -> None:
        for request in self.batch.evict:
            if self.limits.preemption == "none":
                raise self.fail("eviction", f"evicts {request.id!r}, preemption is none", request)
            if not request.resident:
                raise self.fail("eviction", f"evicts {request.id!r}, which is not resident", request)
            if request in workers:
                raise self.fail("eviction", f"evicts {request.id!r} and works on it", request)

    def work(self) -> None:
        tokens = decodes = 0
        for request, count in self.batch.tokens:
            if isinstance(count, bool) or not isinstance(count, int):
                raise self.fail("chunk", f"{request.id!r} gets {count!r} tokens, an int is expected", request)
            if count < 1:
                problem = f"{request.id!r} gets {count} tokens, at least 1 is expected"
                raise self.fail("chunk", problem, request, count, 1)
            if request.swapped and request not in self.batch.restore:
                raise self.fail("phase", f"{request.id!r} is swapped out and not restored", request)
            if request.decoding:
                decodes += 1
                if count != 1:
                    problem = f"{count} tokens for {request.id!r}, which decodes one at a time"
                    raise self.fail("phase", problem, request, count, 1)
            else:
                self.chunk(request, count)
            tokens += count
        budget = self.limits.max_num_batched_tokens
        if tokens > budget:
            problem = f"{tokens} tokens, max_num_batched_tokens is {budget}"
            raise self.fail("token-budget", problem, None, tokens, budget)
        if decodes and decodes < len(self.batch.tokens) and not self.limits.mixed_batches:
            raise self.fail("mixed-batch", "mixes prefill and decode, mixed_batches is false")

    def chunk(self, request: RequestState, count: int) -> None:
        left = request.remaining
        if count > left:
            problem = f"a chunk of {count} for {request.id!r}, {left} tokens are left"
            raise self.fail("prefill-target", problem, request, count, left)
        if not self.limits.chunk_allowed(count, left):
            largest = self.limits.largest_allowed_chunk(left, count)
            problem = f"a chunk of {count} for {request.id!r} ({left} left) is not allowed, {largest} would be"
            raise self.fail("chunk", problem, request, count, largest)

    def pool_and_seats(self) -> None:
        """Judge what stands after the compute: seats, KV blocks and unfinished prefills."""
        blocks = self.limits.blocks
        seats, free, partial = self.engine.free_seats, self.engine.free_blocks, self.engine.partial_prefills
        for request in self.batch.evict:
            seats += 1
            free += blocks(request.computed)
            partial -= not request.decoding
        admitted = [r for r, _ in self.batch.tokens if not r.resident and not r.swapped]
        for request in (*self.batch.restore, *admitted):
            seats -= 1
            free -= blocks(request.computed)
            partial += not request.decoding
        for request, count in self.batch.tokens:
            free -= blocks(request.computed + count) - blocks(request.computed)
            partial -= not request.decoding and count == request.remaining
        self.counts(seats, free, partial)

    def counts(self, seats: int, free: int, partial: int) -> None:
        limits = self.limits
        if limits.max_num_seqs is not None and seats < 0:
            used = limits.max_num_seqs - seats
            problem = f"{used} requests would be resident, max_num_seqs is {limits.max_num_seqs}"
            raise self.fail("seats", problem, None, used, limits.max_num_seqs)
        if limits.num_kv_blocks is not None and free < 0:
            used = limits.num_kv_blocks - free
            problem = f"{used} KV blocks would be in use, num_kv_blocks is {limits.num_kv_blocks}"
            raise self.fail("kv-pool", problem, None, used, limits.num_kv_blocks)
        most = limits.max_partial_prefills
        if most is not None and partial > most:
            problem = f"{partial} prefills would be left unfinished, max_partial_prefills is {most}"
            raise self.fail("partial-prefills", problem, None, partial, most)
