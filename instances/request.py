"""A request: what arrives, what it needs, what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from instances.errors import InputError
from instances.units import MAX_TIME_US, as_int


class Phase(Enum):
    """What a request may do next: be prefilled, or decode."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Progress:
    """State at time 0 of a request that is already resident.

    Parameters
    ----------
    prefilled
        Prompt tokens whose KV is in the cache, prefix hits included.
    emitted
        Output tokens emitted before time 0.
    last_token_us
        Time of the last of them, in µs, <= 0; without meaning (0) where none was emitted.
    """

    prefilled: int
    emitted: int = 0
    last_token_us: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefilled", as_int(self.prefilled, "prefilled", minimum=0))
        object.__setattr__(self, "emitted", as_int(self.emitted, "emitted", minimum=0))
        last = as_int(self.last_token_us, "last_token_us", maximum=MAX_TIME_US)
        if last > 0:
            raise InputError.expected("a time <= 0", last, "last_token_us")
        object.__setattr__(self, "last_token_us", last)


@dataclass(frozen=True, slots=True)
class Request:
    """One request (model.md §1). Times are integers in µs.

    Parameters
    ----------
    id
        Unique, non-empty name.
    prompt_tokens
        Tokens to prefill, >= 1.
    output_tokens
        Tokens it really produces, the first one (made by the end of the prefill) included, >= 1.
    arrival_us
        Earliest start of any iteration that works on it, >= 0.
    max_output_tokens
        Declared cap, all that a non-clairvoyant policy may look at; >= output_tokens, default output_tokens.
    cached_tokens
        Prompt tokens whose KV is already there (prefix hit), 0..prompt_tokens-1.
    priority
        Smaller is more urgent.
    weight
        Weight in ``weighted_e2e``, >= 1.
    ttft_slo_us, tbt_slo_us, e2e_slo_us
        Limits for goodput on the first token, every gap and the last token; None for no limit.
    group
        Label for reports (``class`` in files).
    progress
        State at time 0 where it is already resident.

    Raises
    ------
    InputError
        (a ValueError) naming the field, the value and what was expected.
    """

    id: str
    prompt_tokens: int
    output_tokens: int
    arrival_us: int = 0
    max_output_tokens: int | None = None
    cached_tokens: int = 0
    priority: int = 0
    weight: int = 1
    ttft_slo_us: int | None = None
    tbt_slo_us: int | None = None
    e2e_slo_us: int | None = None
    group: str = "default"
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InputError.expected("a non-empty string", self.id, "id")
        for name, minimum in (("prompt_tokens", 1), ("output_tokens", 1), ("cached_tokens", 0), ("weight", 1)):
            object.__setattr__(self, name, as_int(getattr(self, name), name, minimum=minimum))
        object.__setattr__(self, "priority", as_int(self.priority, "priority"))
        arrival = as_int(self.arrival_us, "arrival_us", minimum=0, maximum=MAX_TIME_US)
        object.__setattr__(self, "arrival_us", arrival)
        for name in ("ttft_slo_us", "tbt_slo_us", "e2e_slo_us"):
            if getattr(self, name) is not None:
                limit = as_int(getattr(self, name), name, minimum=1, maximum=MAX_TIME_US)
                object.__setattr__(self, name, limit)
        if self.cached_tokens >= self.prompt_tokens:
            raise InputError.expected(f"at most prompt_tokens - 1 = {self.prompt_tokens - 1}", self.cached_tokens,
                                      "cached_tokens")
        if self.max_output_tokens is not None:
            cap = as_int(self.max_output_tokens, "max_output_tokens", minimum=1)
            if cap < self.output_tokens:
                raise InputError.expected(f"at least output_tokens = {self.output_tokens}", cap, "max_output_tokens")
            object.__setattr__(self, "max_output_tokens", cap)
        if self.progress is not None:
            self._check_progress(self.progress)

    def _check_progress(self, progress: Progress) -> None:
        if self.arrival_us != 0:
            raise InputError.expected("0 for a request with progress", self.arrival_us, "arrival_us")
        if progress.emitted == 0:
            if not self.cached_tokens <= progress.prefilled < self.prompt_tokens:
                what = f"cached_tokens..prompt_tokens-1 = {self.cached_tokens}..{self.prompt_tokens - 1} (emitted is 0)"
                raise InputError.expected(what, progress.prefilled, "progress.prefilled")
            return
        if progress.prefilled != self.prompt_tokens:
            what = f"prompt_tokens = {self.prompt_tokens} (tokens were emitted)"
            raise InputError.expected(what, progress.prefilled, "progress.prefilled")
        if progress.emitted >= self.output_tokens:
            what = f"fewer than output_tokens = {self.output_tokens}"
            raise InputError.expected(what, progress.emitted, "progress.emitted")

    @property
    def declared_output_tokens(self) -> int:
        """The cap that a policy may look at."""
        return self.output_tokens if self.max_output_tokens is None else self.max_output_tokens

    @property
    def emitted_before(self) -> int:
        """Output tokens emitted before time 0."""
        return 0 if self.progress is None else self.progress.emitted

    @property
    def computed_before(self) -> int:
        """Tokens with KV at time 0 if resident, else those that a prefix hit gives at its first chunk."""
        if self.progress is None:
            return self.cached_tokens
        if self.progress.emitted:
            return self.prompt_tokens + self.progress.emitted - 1
        return self.progress.prefilled

    @property
    def starts_in_decode(self) -> bool:
        """Whether it had emitted a token before time 0 (so it has no TTFT)."""
        return self.emitted_before > 0

    @property
    def prefill_left(self) -> int:
        """Prompt tokens still to prefill at time 0 (or at its arrival)."""
        return 0 if self.starts_in_decode else self.prompt_tokens - self.computed_before

    @property
    def decodes_left(self) -> int:
        """Decode steps it needs from time 0 on, without eviction."""
        return self.output_tokens - max(1, self.emitted_before)

    @property
    def outputs_left(self) -> int:
        """Tokens that it emits from time 0 on."""
        return self.output_tokens - self.emitted_before

    @property
    def peak_kv_tokens(self) -> int:
        """KV tokens at its end, prompt + output - 1: the last token is never fed back."""
        return self.prompt_tokens + self.output_tokens - 1
