"""What a policy sees: the arrived requests and the engine, at one moment. Read-only.

Nothing here tells what an online scheduler could not know: how many tokens an unfinished request will really
produce, and what will arrive. `heuristics.engine` moves this state on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.request import Phase, Request

UNLIMITED = 2**62
"""Stands for a limit that the engine does not have."""


class RequestState:
    """One arrived request: what it declared, and how far it has come. Times in µs, the rest in tokens.

    Attributes
    ----------
    index, id
        Its place in the instance (ties are broken by it) and its name.
    arrival_us, prompt_tokens, max_output_tokens, cached_tokens, priority, weight, group
        As declared; `max_output_tokens` is the cap, not what it will really produce.
    ttft_slo_us, tbt_slo_us, e2e_slo_us
        Its service levels, None where it has none.
    """

    __slots__ = (
        "_computed", "_decoding", "_emitted", "_evictions", "_finished", "_last_token_us", "_resident", "_swapped",
        "arrival_us", "cached_tokens", "e2e_slo_us", "group", "id", "index", "max_output_tokens", "priority",
        "prompt_tokens", "tbt_slo_us", "ttft_slo_us", "weight",
    )  # fmt: skip

    def __init__(self, request: Request, index: int) -> None:
        self.index = index
        self.id = request.id
        self.arrival_us = request.arrival_us
        self.prompt_tokens = request.prompt_tokens
        self.max_output_tokens = request.declared_output_tokens
        self.cached_tokens = request.cached_tokens
        self.priority = request.priority
        self.weight = request.weight
        self.group = request.group
        self.ttft_slo_us = request.ttft_slo_us
        self.tbt_slo_us = request.tbt_slo_us
        self.e2e_slo_us = request.e2e_slo_us
        self._computed = request.computed_before
        self._emitted = request.emitted_before
        self._decoding = request.starts_in_decode
        self._last_token_us = request.progress.last_token_us if request.progress and self._emitted else None
        self._resident = request.progress is not None
        self._swapped = False
        self._finished = False
        self._evictions = 0

    def __repr__(self) -> str:
        where = "finished" if self._finished else "resident" if self._resident else "waiting"
        return f"<{self.id}: {where}, computed {self._computed}, emitted {self._emitted}>"

    @property
    def computed(self) -> int:
        """Tokens with KV; of a request that waits, those that a prefix hit (or swapped KV) will give it."""
        return self._computed

    @property
    def emitted(self) -> int:
        """Output tokens produced so far; an eviction loses none of them."""
        return self._emitted

    @property
    def known_tokens(self) -> int:
        """Prompt and emitted tokens: what a prefill from the start has to compute."""
        return self.prompt_tokens + self._emitted

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one is emitted: 1 in phase decode, the rest of the prefill before."""
        return self.prompt_tokens + self._emitted - self._computed

    @property
    def outputs_left(self) -> int:
        """Output tokens that it may still produce, by its declared cap."""
        return self.max_output_tokens - self._emitted

    @property
    def phase(self) -> Phase:
        """Whether it is to be prefilled (from its start, or again after an eviction) or decodes."""
        return Phase.DECODE if self._decoding else Phase.PREFILL

    @property
    def decoding(self) -> bool:
        """Whether its phase is decode."""
        return self._decoding

    @property
    def resident(self) -> bool:
        """Whether it has a seat and KV: started, not finished, not evicted."""
        return self._resident

    @property
    def swapped(self) -> bool:
        """Whether its KV lies outside the pool; it must be restored before it works again."""
        return self._swapped

    @property
    def finished(self) -> bool:
        """Whether it has emitted its last token."""
        return self._finished

    @property
    def evictions(self) -> int:
        """How often it has been evicted."""
        return self._evictions

    @property
    def last_token_us(self) -> int | None:
        """When it emitted its latest token, None before the first one."""
        return self._last_token_us


class EngineState:
    """The engine at the moment of a scheduling pass.

    Attributes
    ----------
    limits, cost
        The engine's limits, and what an iteration costs (an engine may profile itself).
    """

    def __init__(self, limits: EngineLimits, cost: CostModel) -> None:
        self.limits = limits
        self.cost = cost
        self._now_us = 0
        self._iteration = 0
        self._running: dict[RequestState, None] = {}
        self._waiting: OrderedDict[RequestState, None] = OrderedDict()
        self._running_view: tuple[RequestState, ...] | None = ()
        self._waiting_view: tuple[RequestState, ...] | None = ()
        self._decoding_view: tuple[RequestState, ...] | None = ()
        self._blocks = 0
        self._partial = 0

    @property
    def now_us(self) -> int:
        """The clock: what is decided now starts now."""
        return self._now_us

    @property
    def iteration(self) -> int:
        """Number of iterations run so far, the index of the next one."""
        return self._iteration

    @property
    def running(self) -> Sequence[RequestState]:
        """The residents, in the order of their admission (those resident at time 0 first)."""
        if self._running_view is None:
            self._running_view = tuple(self._running)
        return self._running_view

    @property
    def decoding(self) -> Sequence[RequestState]:
        """The residents in phase decode, in the order of their admission."""
        if self._decoding_view is None:
            self._decoding_view = tuple([request for request in self._running if request._decoding])
        return self._decoding_view

    @property
    def prefilling(self) -> Sequence[RequestState]:
        """The residents in phase prefill, in the order of their admission."""
        return [request for request in self._running if not request._decoding] if self._partial else ()

    @property
    def waiting(self) -> Sequence[RequestState]:
        """Arrived requests that are not resident: by arrival, evicted ones in front (the last one evicted first)."""
        if self._waiting_view is None:
            self._waiting_view = tuple(self._waiting)
        return self._waiting_view

    @property
    def free_blocks(self) -> int:
        """KV blocks that no resident holds, `UNLIMITED` without a pool."""
        pool = self.limits.num_kv_blocks
        return UNLIMITED if pool is None else pool - self._blocks

    @property
    def free_seats(self) -> int:
        """Requests that may still become resident, `UNLIMITED` without such a limit."""
        seats = self.limits.max_num_seqs
        return UNLIMITED if seats is None else seats - len(self._running)

    @property
    def partial_prefills(self) -> int:
        """Residents in phase prefill."""
        return self._partial
