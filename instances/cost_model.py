"""CostModel: the composition of an iteration -> its duration in integer µs (model.md §4).

The only place where durations are computed: solver, simulator and checker all call it. Coefficients are integers
in ps, and every amount is rounded half up to µs as the contract says, so no float decides anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from instances.errors import InputError
from instances.units import MAX_COST_PS, PS_PER_MS, PS_PER_US, as_int, us_from_ps

Chunk = tuple[int, int]
"""A prefill chunk as (computed tokens before, computed tokens after)."""


SAFE_PS = 2**62
"""Amounts below it fit in numpy's integers."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the cost; the iteration lasts as long as the longest piece. All coefficients in ps.

    Parameters
    ----------
    base_ps
        Charged once per iteration.
    prefill_ps
        Per prefill token.
    prefill_context_ps
        Per prefill token and token of context (attention): the token that makes c computed tokens costs it c times.
    decode_ps
        Per decode.
    decode_context_ps
        Per decode and token that the request then holds.
    tile_tokens, tile_ps
        `tile_ps` per started tile of `tile_tokens` tokens of the whole iteration; no tiles where None.
    """

    base_ps: int = 0
    prefill_ps: int = 0
    prefill_context_ps: int = 0
    decode_ps: int = 0
    decode_context_ps: int = 0
    tile_tokens: int | None = None
    tile_ps: int = 0

    def __post_init__(self) -> None:
        for name in ("base_ps", "prefill_ps", "prefill_context_ps", "decode_ps", "decode_context_ps", "tile_ps"):
            object.__setattr__(self, name, as_int(getattr(self, name), name, minimum=0, maximum=MAX_COST_PS))
        if self.tile_tokens is not None:
            object.__setattr__(self, "tile_tokens", as_int(self.tile_tokens, "tile_tokens", minimum=1))
        elif self.tile_ps:
            raise InputError.expected("tile_tokens beside tile_ms", None, "tile_tokens")

    @property
    def base_us(self) -> int:
        """The base in µs."""
        return us_from_ps(self.base_ps)

    @property
    def prefill_is_proportional(self) -> bool:
        """Whether a prefill costs a fixed rate per token, whatever its context."""
        return not self.prefill_context_ps

    def prefill_us(self, computed: int) -> int:
        """Return F(c): µs to prefill the first `computed` tokens, whatever the split (it telescopes)."""
        return us_from_ps(self.prefill_ps * computed + self.prefill_context_ps * (computed * (computed + 1) // 2))

    def decode_us(self, context: int) -> int:
        """Return the µs of one decode of a request that then holds `context` tokens."""
        return us_from_ps(self.decode_ps + self.decode_context_ps * context)

    def decodes_us(self, contexts: Sequence[int], first: int, count: int) -> list[int]:
        """Return the µs of all decodes together in `count` iterations that each make every context longer by one.

        The first of them has every one of `contexts` longer by `first`. Each equals the sum of `decode_us`.
        """
        if not self.decode_context_ps or not contexts:
            return [len(contexts) * self.decode_us(0)] * count
        if self.decode_ps + self.decode_context_ps * (max(contexts) + first + count) > SAFE_PS:
            return [sum(self.decode_us(c + k) for c in contexts) for k in range(first, first + count)]
        import numpy as np  # here, because the command line shows its help without it

        held = np.asarray(contexts, dtype=np.int64)[:, None] + np.arange(first, first + count)
        ps = self.decode_ps + self.decode_context_ps * held
        times = (ps + PS_PER_US // 2) // PS_PER_US  # as us_from_ps, on all at once
        return [int(time) for time in times.sum(axis=0)]

    def tile_us(self, tokens: int) -> int:
        """Return the µs of the tiles that `tokens` tokens start."""
        if self.tile_tokens is None:
            return 0
        return us_from_ps(self.tile_ps * -(-tokens // self.tile_tokens))


KINDS = ("linear", "pieces", "unit", "roofline")
"""How files say a cost."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where a cost model with pieces from public figures came from (see `instances.roofline`)."""

    model: str
    accelerator: str
    tensor_parallel: int = 1


@dataclass(frozen=True, slots=True)
class CostModel:
    """Duration of an iteration from its composition.

    Parameters
    ----------
    pieces
        At least one; the duration is the maximum over them.
    capture_sizes
        Decode batch sizes with a captured graph; a pure decode batch is padded up to the next one.
    eager_ps
        Added after the maximum when the iteration is not a captured decode batch; needs `capture_sizes`.
    swap_out_ps, swap_in_ps
        Per KV token evicted or restored with swap, added after the maximum.
    kind
        How files say it: ``linear``, ``pieces``, ``unit`` or ``roofline``.
    roofline
        The preset of kind ``roofline``.
    """

    pieces: tuple[Piece, ...]
    capture_sizes: tuple[int, ...] | None = None
    eager_ps: int = 0
    swap_out_ps: int = 0
    swap_in_ps: int = 0
    kind: str = "pieces"
    roofline: Roofline | None = None

    def __post_init__(self) -> None:
        if not self.pieces:
            raise InputError.expected("at least one piece", [], "pieces")
        object.__setattr__(self, "pieces", tuple(self.pieces))
        for name in ("eager_ps", "swap_out_ps", "swap_in_ps"):
            object.__setattr__(self, name, as_int(getattr(self, name), name, minimum=0, maximum=MAX_COST_PS))
        if self.capture_sizes is not None:
            sizes = [as_int(s, f"capture_sizes[{i}]", minimum=1) for i, s in enumerate(self.capture_sizes)]
            if not sizes:
                raise InputError.expected("at least one size", [], "capture_sizes")
            object.__setattr__(self, "capture_sizes", tuple(sorted(set(sizes))))
        elif self.eager_ps:
            raise InputError.expected("capture_sizes beside eager_ms", None, "capture_sizes")
        self._check_kind()

    def _check_kind(self) -> None:
        """Refuse a kind that a file could not say without loss."""
        if self.kind not in KINDS:
            raise InputError.expected(f"one of {', '.join(KINDS)}", self.kind, "kind")
        if (self.kind == "roofline") != (self.roofline is not None):
            raise InputError.expected("a preset exactly for kind roofline", self.roofline, "roofline")
        plain = self.is_linear and not (self.swap_out_ps or self.swap_in_ps)
        plain = plain and self.pieces[0].tile_tokens is None
        if self.kind == "linear" and not plain:
            raise InputError.expected("kind pieces for more than base, prefill and decode", self.kind, "kind")
        if self.kind == "unit" and not (plain and self.pieces == (Piece(base_ps=PS_PER_MS),)):
            raise InputError.expected("kind unit for 1 ms per iteration only", self.kind, "kind")

    @classmethod
    def linear(cls, iteration_ps: int = 0, prefill_ps: int = 0, decode_ps: int = 0) -> CostModel:
        """Return the one-piece model of base, prefill token and decode, all in ps."""
        return cls((Piece(base_ps=iteration_ps, prefill_ps=prefill_ps, decode_ps=decode_ps),), kind="linear")

    @classmethod
    def unit(cls) -> CostModel:
        """Return the model in which every iteration lasts 1 ms."""
        return cls((Piece(base_ps=PS_PER_MS),), kind="unit")

    @property
    def is_linear(self) -> bool:
        """Whether the duration is base + a per-token + b per-decode: one piece, no context, tile or padding."""
        only = self.pieces[0]
        return (
            len(self.pieces) == 1
            and self.capture_sizes is None
            and not (only.prefill_context_ps or only.decode_context_ps or only.tile_ps)
        )

    @property
    def is_constant(self) -> bool:
        """Whether every iteration without swaps lasts the same, whatever is in it: base costs alone."""
        return not self.eager_ps and all(piece == Piece(base_ps=piece.base_ps) for piece in self.pieces)

    @property
    def decodes_are_flat(self) -> bool:
        """Whether a decode costs the same whatever its context."""
        return not any(piece.decode_context_ps for piece in self.pieces)

    def padded_decodes(self, decodes: int) -> int:
        """Return the size that a pure decode batch runs at: the next captured size, or itself above the largest."""
        if self.capture_sizes is None or not decodes or decodes > self.capture_sizes[-1]:
            return decodes
        return self.capture_sizes[bisect_left(self.capture_sizes, decodes)]

    def is_eager(self, decodes: int, *, has_prefill: bool) -> bool:
        """Return whether the batch runs without a captured graph (only where capture sizes are given)."""
        if self.capture_sizes is None:
            return False
        return has_prefill or decodes > self.capture_sizes[-1]

    def duration_us(
        self,
        chunks: Sequence[Chunk],
        decode_contexts: Sequence[int],
        swapped_out: Sequence[int] = (),
        swapped_in: Sequence[int] = (),
    ) -> int:
        """Return the duration of one iteration in µs.

        Parameters
        ----------
        chunks
            Per prefilling request, its computed tokens before and after.
        decode_contexts
            Per decoding request, the tokens that it holds after the step (computed before + 1).
        swapped_out, swapped_in
            Per eviction or restore in mode ``swap``, the KV tokens moved; empty in mode ``recompute``.
        """
        padding = 0 if chunks else self.padded_decodes(len(decode_contexts)) - len(decode_contexts)
        tokens = len(decode_contexts) + sum(after - before for before, after in chunks)
        longest = 0
        for piece in self.pieces:
            time = piece.base_us + piece.tile_us(tokens) + padding * us_from_ps(piece.decode_ps)
            for before, after in chunks:
                time += piece.prefill_us(after) - piece.prefill_us(before)
            if piece.decode_context_ps:
                time += sum([piece.decode_us(context) for context in decode_contexts])
            else:
                time += len(decode_contexts) * piece.decode_us(0)
            longest = max(longest, time)
        if self.is_eager(len(decode_contexts), has_prefill=bool(chunks)):
            longest += us_from_ps(self.eager_ps)
        longest += sum(us_from_ps(self.swap_out_ps * tokens) for tokens in swapped_out)
        return longest + sum(us_from_ps(self.swap_in_ps * tokens) for tokens in swapped_in)
