"""Mooncake traces (kvcache-ai/Mooncake, FAST '25): JSON lines with times in ms and the blocks of each prompt.

Keys ``timestamp`` (ms), ``input_length``, ``output_length`` and ``hash_ids``: one id per block of 512 prompt tokens,
equal where the prompt up to and with that block is equal.

The assumption behind ``cached_tokens``: an ideal prefix cache, shared by all and never full, that holds every block
of every request **earlier in the file** (in order of arrival), from the moment it arrived. So a window that starts
in the middle finds the cache warm, and of two requests that arrive together the second finds the blocks of the
first. The hit is the leading run of known blocks x 512, and at most ``input_length - 1``: one token is always left to
prefill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from instances.errors import InputError, shown_json
from instances.files import unique_keys
from instances.traces.cells import NS_PER_MS, count, time_ns
from instances.traces.table import place
from instances.traces.trace import TraceRow

COLUMNS = ("timestamp", "input_length", "output_length")
BLOCK_TOKENS = 512


def rows(text: str) -> Iterator[TraceRow]:
    """Yield the rows of a file, in its order."""
    number = 0
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        number += 1
        yield _row(content, line, number)


def with_prefix_hits(found: Sequence[TraceRow]) -> list[TraceRow]:
    """Return the rows, in order of arrival, with the ``cached_tokens`` of an ideal prefix cache.

    Examples
    --------
    >>> first = TraceRow(1, 0, 1500, 1, blocks=(7, 8, 9))
    >>> second = TraceRow(2, 0, 1030, 1, blocks=(7, 8, 4))
    >>> [row.fields for row in with_prefix_hits([first, second])]
    [{}, {'cached_tokens': 1024}]
    """
    seen: set[int] = set()
    result = []
    for row in found:
        known = next((i for i, block in enumerate(row.blocks) if block not in seen), len(row.blocks))
        cached = min(known * BLOCK_TOKENS, row.prompt_tokens - 1)
        seen.update(row.blocks)
        result.append(replace(row, fields={**row.fields, "cached_tokens": cached}) if cached else row)
    return result


def _row(content: str, line: int, number: int) -> TraceRow:
    try:
        raw = json.loads(content, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", field=f"line {line} column {error.colno}") from None
    except (RecursionError, ArithmeticError):
        raise InputError("is not usable JSON", field=f"line {line}") from None
    except InputError as error:
        raise InputError(error.message, field=f"line {line}") from None
    if not isinstance(raw, dict):
        raise InputError("expected a JSON object", field=f"line {line}")
    arrival, prompt, output = COLUMNS
    for column in COLUMNS:
        if column not in raw:
            found = ", ".join(f"'{name}'" for name in raw)
            raise InputError(f"is missing, found {found or 'nothing'}", field=place(line, number, column))
    try:
        at = arrival
        arrival_ns = time_ns(_number(raw[arrival]), NS_PER_MS)
        at = prompt
        prompt_tokens = count(_number(raw[prompt]))
        at = output
        output_tokens = count(_number(raw[output]))
        at = "hash_ids"
        blocks = _blocks(raw.get("hash_ids", []))
    except InputError as error:
        raise InputError(error.message, field=place(line, number, at)) from None
    return TraceRow(line, arrival_ns, prompt_tokens, output_tokens, blocks=blocks)


def _number(value: Any) -> str:
    """Return a JSON number as text; other values as JSON shows them, which no number parser takes."""
    if isinstance(value, Decimal):
        return format(value, "f") if abs(value.adjusted()) < 30 else str(value)
    return shown_json(value)


def _blocks(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise InputError(f"expected a list of whole numbers, got {_number(value)}")
    for block in value:
        if not isinstance(block, Decimal) or block.adjusted() > 30 or block != block.to_integral_value():
            raise InputError(f"expected whole numbers only, got {_number(block)}")
    return tuple(int(block) for block in value)
