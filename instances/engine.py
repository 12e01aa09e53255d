"""EngineLimits: what one iteration, the KV pool and the seats allow."""

from __future__ import annotations

from dataclasses import dataclass

from instances.errors import InputError
from instances.request import Request
from instances.units import as_int, as_optional_int

PREEMPTION_MODES = ("none", "recompute", "swap")


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Limits of the engine (model.md §2); None means no limit.

    Parameters
    ----------
    max_num_batched_tokens
        Token budget K of one iteration: prefill tokens + 1 per decode, >= 1.
    max_num_seqs
        Requests resident at once (started, not finished, not evicted), >= 1.
    num_kv_blocks, block_size
        KV pool in blocks, and tokens per block.
    enable_chunked_prefill
        False: a prefill runs whole in one iteration.
    mixed_batches
        False: an iteration holds prefills only or decodes only.
    chunk_quantum
        Every chunk is a multiple of it, or ends the prefill.
    chunk_sizes
        If given, every chunk has one of these sizes, or ends the prefill and is no larger than the largest.
    max_chunk_tokens
        Cap on one request's chunk in one iteration.
    max_partial_prefills
        Residents still in phase prefill after an iteration, >= 1.
    preemption
        ``none``, ``recompute`` or ``swap``.

    Raises
    ------
    InputError
        (a ValueError) naming the field, the value and what was expected.
    """

    max_num_batched_tokens: int
    max_num_seqs: int | None = None
    num_kv_blocks: int | None = None
    block_size: int = 1
    enable_chunked_prefill: bool = True
    mixed_batches: bool = True
    chunk_quantum: int = 1
    chunk_sizes: tuple[int, ...] | None = None
    max_chunk_tokens: int | None = None
    max_partial_prefills: int | None = None
    preemption: str = "none"

    def __post_init__(self) -> None:
        for name in ("max_num_batched_tokens", "block_size", "chunk_quantum"):
            object.__setattr__(self, name, as_int(getattr(self, name), name, minimum=1))
        for name in ("max_num_seqs", "num_kv_blocks", "max_chunk_tokens", "max_partial_prefills"):
            object.__setattr__(self, name, as_optional_int(getattr(self, name), name, minimum=1))
        for name in ("enable_chunked_prefill", "mixed_batches"):
            if not isinstance(getattr(self, name), bool):
                raise InputError.expected("true or false", getattr(self, name), name)
        if self.chunk_sizes is not None:
            sizes = [as_int(s, f"chunk_sizes[{i}]", minimum=1) for i, s in enumerate(self.chunk_sizes)]
            if not sizes:
                raise InputError.expected("at least one size", [], "chunk_sizes")
            object.__setattr__(self, "chunk_sizes", tuple(sorted(set(sizes))))
        if self.preemption not in PREEMPTION_MODES:
            raise InputError.expected("none, recompute or swap", self.preemption, "preemption")

    @property
    def kv_capacity_tokens(self) -> int | None:
        """Tokens that the pool holds, None without limit."""
        return None if self.num_kv_blocks is None else self.num_kv_blocks * self.block_size

    def blocks(self, tokens: int) -> int:
        """Return the blocks that hold `tokens` KV tokens of one request: ceil(tokens / block_size)."""
        return -(-tokens // self.block_size)

    @property
    def largest_chunk(self) -> int:
        """Most prefill tokens of one request in one iteration."""
        largest = self.max_num_batched_tokens
        if self.max_chunk_tokens is not None:
            largest = min(largest, self.max_chunk_tokens)
        if self.chunk_sizes is not None:
            largest = min(largest, self.chunk_sizes[-1])
        return largest

    def chunk_allowed(self, tokens: int, remaining: int) -> bool:
        """Return whether a chunk of `tokens` is allowed where `remaining` tokens are left to prefill.

        Looks at the shape of the chunk only (quantum, sizes, cap, chunking on or off), not at the budget that
        other requests use.
        """
        if not 1 <= tokens <= min(remaining, self.largest_chunk):
            return False
        if tokens == remaining:
            return True
        if not self.enable_chunked_prefill or tokens % self.chunk_quantum:
            return False
        return self.chunk_sizes is None or tokens in self.chunk_sizes

    def largest_allowed_chunk(self, remaining: int, room: int) -> int:
        """Return the largest allowed chunk of at most `room` tokens, 0 if there is none."""
        top = min(remaining, room, self.largest_chunk)
        if top == remaining:
            return top
        if not self.enable_chunked_prefill or top < 1:
            return 0
        if self.chunk_sizes is None:
            return top - top % self.chunk_quantum
        fitting = (s for s in self.chunk_sizes if s <= top and s % self.chunk_quantum == 0)
        return max(fitting, default=0)

    def never_fits(self, request: Request) -> str | None:
        """Return why `request` can never be served, with the two numbers, or None (model.md §3.9)."""
        capacity = self.kv_capacity_tokens
        if capacity is not None and request.peak_kv_tokens > capacity:
            return (
                f"request {request.id!r} can never fit: it needs {request.peak_kv_tokens} KV tokens (prompt_tokens "
                f"{request.prompt_tokens} + output_tokens {request.output_tokens} - 1), the pool holds {capacity} "
                f"(num_kv_blocks {self.num_kv_blocks} x block_size {self.block_size})"
            )
        left, largest = request.prefill_left, self.largest_chunk
        if left <= largest or self._has_inner_chunk():
            return None
        reason = "no allowed chunk leaves the rest small enough"
        if not self.enable_chunked_prefill:
            reason = "chunked prefill is off"
        return (
            f"request {request.id!r} can never be prefilled: {left} prompt tokens to prefill, at most {largest} in one "
            f"iteration (max_num_batched_tokens {self.max_num_batched_tokens}), and {reason}"
        )

    def most_chunks(self, tokens: int) -> int:
        """Return the largest number of chunks that a prefill of so many tokens can have."""
        if not tokens:
            return 0
        if not self.enable_chunked_prefill:
            return 1
        smallest = self.chunk_quantum
        if self.chunk_sizes is not None:
            smallest = min((s for s in self.chunk_sizes if s % smallest == 0), default=tokens)
        return -(-tokens // smallest)

    def _has_inner_chunk(self) -> bool:
        """Whether a chunk that does not end its prefill exists; then any prompt can be cut down to the end."""
        if not self.enable_chunked_prefill:
            return False
        if self.chunk_sizes is None:
            return self.chunk_quantum <= self.largest_chunk
        return any(s <= self.largest_chunk and s % self.chunk_quantum == 0 for s in self.chunk_sizes)
