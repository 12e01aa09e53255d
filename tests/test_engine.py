"""EngineLimits: which chunks are allowed, and which requests can never be served."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from instances.engine import EngineLimits
from instances.errors import InputError
from instances.request import Progress, Request


def chunk_allowed_by_the_text(engine: EngineLimits, tokens: int, remaining: int) -> bool:
    """Model.md §2, row by row, written without looking at the code."""
    rules = [1 <= tokens <= remaining, tokens <= engine.max_num_batched_tokens]
    last = tokens == remaining
    if engine.max_chunk_tokens is not None:
        rules.append(tokens <= engine.max_chunk_tokens)
    if not engine.enable_chunked_prefill:
        rules.append(last)
    rules.append(last or tokens % engine.chunk_quantum == 0)
    if engine.chunk_sizes is not None:
        rules.append(tokens in engine.chunk_sizes or (last and tokens <= max(engine.chunk_sizes)))
    return all(rules)


def small_engines() -> list[EngineLimits]:
    return [
        EngineLimits(
            budget, chunk_quantum=quantum, chunk_sizes=sizes, max_chunk_tokens=cap, enable_chunked_prefill=chunked
        )
        for budget, quantum, sizes, cap, chunked in itertools.product(
            (1, 3, 4, 7), (1, 2, 4), (None, (2,), (3, 5), (4, 6)), (None, 2, 4), (True, False)
        )
    ]


def test_chunks_are_allowed_exactly_as_the_contract_says() -> None:
    for engine in small_engines():
        for remaining in range(1, 10):
            for tokens in range(-1, 12):
                expected = chunk_allowed_by_the_text(engine, tokens, remaining)
                assert engine.chunk_allowed(tokens, remaining) == expected, (engine, tokens, remaining)


def test_the_largest_allowed_chunk_is_the_largest_of_the_allowed() -> None:
    for engine in small_engines():
        for remaining in range(1, 10):
            for room in range(0, 9):
                allowed = [n for n in range(1, room + 1) if engine.chunk_allowed(n, remaining)]
                found = engine.largest_allowed_chunk(remaining, room)
                assert found == max(allowed, default=0), (engine, remaining, room)


def test_a_request_never_fits_exactly_when_no_sequence_of_chunks_ends_its_prefill() -> None:
    for engine in small_engines():

        @cache
        def can_end(remaining: int, engine: EngineLimits = engine) -> bool:
            if remaining == 0:
                return True
            allowed = (n for n in range(1, remaining + 1) if chunk_allowed_by_the_text(engine, n, remaining))
            return any(can_end(remaining - n) for n in allowed)

        for prompt in range(1, 14):
            served = engine.never_fits(Request("r", prompt, 1)) is None
            assert served == can_end(prompt), (engine, prompt)


@pytest.mark.parametrize(
    ("prompt", "output", "fits"), [(14, 3, True), (10, 7, True), (14, 4, False), (17, 1, False), (10, 8, False)]
)
def test_peak_kv_decides_whether_a_request_fits_the_pool(prompt: int, output: int, fits: bool) -> None:
    # known-trouble A5: 16 tokens of KV against prompt + output - 1
    engine = EngineLimits(32, num_kv_blocks=16)
    assert (engine.never_fits(Request("r0", prompt, output)) is None) == fits


def test_pages_are_rounded_up_and_an_exact_fit_is_a_fit() -> None:
    # known-trouble A6: 16 tokens in 4 blocks of 4
    engine = EngineLimits(32, num_kv_blocks=4, block_size=4)
    assert [engine.blocks(tokens) for tokens in (0, 1, 4, 5, 16)] == [0, 1, 1, 2, 4]
    assert engine.never_fits(Request("r", 13, 4)) is None
    assert engine.never_fits(Request("r", 13, 5)) is not None


def test_the_reason_names_request_and_both_numbers() -> None:
    # known-trouble A4: a prompt of 10 against a budget of 8, chunking off
    engine = EngineLimits(8, enable_chunked_prefill=False)
    reason = engine.never_fits(Request("r0", 10, 1))
    assert reason is not None
    assert "'r0'" in reason
    assert " 10 " in reason
    assert " 8 " in reason
    assert engine.never_fits(Request("r1", 8, 1)) is None  # prompt == budget
    pool = EngineLimits(32, num_kv_blocks=16).never_fits(Request("r0", 14, 4))
    assert pool is not None
    assert "'r0'" in pool
    assert " 17 " in pool
    assert " 16 " in pool


def test_only_what_is_left_to_prefill_must_fit_the_budget() -> None:
    engine = EngineLimits(8, enable_chunked_prefill=False)
    assert engine.never_fits(Request("hit", 10, 1, cached_tokens=2)) is None
    assert engine.never_fits(Request("begun", 10, 1, progress=Progress(prefilled=3))) is None
    assert engine.never_fits(Request("decoding", 10, 3, progress=Progress(prefilled=10, emitted=1))) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_num_batched_tokens", 0), ("max_num_batched_tokens", 4.5), ("max_num_batched_tokens", True),
     ("max_num_seqs", 0), ("num_kv_blocks", -4), ("block_size", 0), ("chunk_quantum", 0), ("max_chunk_tokens", 0),
     ("max_partial_prefills", 0), ("enable_chunked_prefill", 1), ("mixed_batches", None), ("chunk_sizes", ()),
     ("preemption", "evict"), ("preemption", None)],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{field}: expected"):
        EngineLimits(**{"max_num_batched_tokens": 8, field: value})  # type: ignore[arg-type]


def test_a_bad_size_is_refused_by_its_place() -> None:
    with pytest.raises(InputError, match=r"^chunk_sizes\[1\]: expected an integer >= 1, got 0"):
        EngineLimits(8, chunk_sizes=(4, 0))


def test_numpy_and_whole_floats_become_ints() -> None:
    engine = EngineLimits(np.int64(8), max_num_seqs=2.0, chunk_sizes=(np.int32(4), 2, 4))  # type: ignore[arg-type]
    assert engine == EngineLimits(8, max_num_seqs=2, chunk_sizes=(2, 4))
    assert type(engine.max_num_batched_tokens) is type(engine.max_num_seqs) is int
