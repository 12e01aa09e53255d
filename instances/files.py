"""The shapes of the two file formats (interfaces.md), read and checked by msgspec.

Types, missing and unknown fields are judged here, ranges by the domain classes; both speak with `InputError`. The
JSON Schemas in ``instances/schemas`` are these classes, written out (``tests/test_schemas.py`` compares).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from instances.errors import InputError, join_path

INSTANCE_FORMAT = "chunkfront/instance@1"
SCHEDULE_FORMAT = "chunkfront/schedule@1"

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Ms = Annotated[float, Meta(description="milliseconds, at most 3 decimals", ge=0)]
Coefficient = Annotated[float, Meta(description="milliseconds, held to 1e-9", ge=0)]
Name = Annotated[str, Meta(min_length=1)]


class ProgressFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """``progress`` of a request."""

    prefilled: Count
    emitted: Count = 0
    last_token_ms: Annotated[float, Meta(le=0)] = 0


class RequestFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of ``requests``."""

    id: Name
    prompt_tokens: Positive
    output_tokens: Positive
    arrival_ms: Ms = 0
    max_output_tokens: Positive | UnsetType = UNSET
    cached_tokens: Count = 0
    priority: int = 0
    weight: Positive = 1
    ttft_slo_ms: Ms | UnsetType = UNSET
    tbt_slo_ms: Ms | UnsetType = UNSET
    e2e_slo_ms: Ms | UnsetType = UNSET
    group: str = field(default="default", name="class")
    progress: ProgressFile | UnsetType = UNSET


class EngineFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """``engine``."""

    max_num_batched_tokens: Positive
    max_num_seqs: Positive | None = None
    num_kv_blocks: Positive | None = None
    block_size: Positive = 1
    enable_chunked_prefill: bool = True
    mixed_batches: bool = True
    chunk_quantum: Positive = 1
    chunk_sizes: list[Positive] | None = None
    max_chunk_tokens: Positive | None = None
    max_partial_prefills: Positive | None = None
    preemption: Literal["none", "recompute", "swap"] = "none"


class LinearCost(Struct, forbid_unknown_fields=True, tag_field="kind", tag="linear"):
    """``cost`` of kind linear."""

    iteration_ms: Coefficient = 0
    prefill_ms_per_token: Coefficient = 0
    decode_ms_per_seq: Coefficient = 0


class PieceFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One piece of a ``cost`` of kind pieces."""

    base_ms: Coefficient = 0
    prefill_ms_per_token: Coefficient = 0
    prefill_context_ms: Coefficient = 0
    decode_ms_per_seq: Coefficient = 0
    decode_context_ms: Coefficient = 0
    tile_tokens: Positive | None = None
    tile_ms: Coefficient = 0


class PiecesCost(Struct, forbid_unknown_fields=True, tag_field="kind", tag="pieces", omit_defaults=True):
    """``cost`` of kind pieces."""

    pieces: Annotated[list[PieceFile], Meta(min_length=1)]
    capture_sizes: list[Positive] | None = None
    eager_ms: Coefficient = 0
    swap_out_ms_per_token: Coefficient = 0
    swap_in_ms_per_token: Coefficient = 0


class RooflineCost(Struct, forbid_unknown_fields=True, tag_field="kind", tag="roofline", omit_defaults=True):
    """``cost`` of kind roofline."""

    model: str
    accelerator: str
    tensor_parallel: Positive = 1


class UnitCost(Struct, forbid_unknown_fields=True, tag_field="kind", tag="unit"):
    """``cost`` of kind unit."""


CostFile = LinearCost | PiecesCost | RooflineCost | UnitCost


class InstanceFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A whole instance file."""

    format: Literal["chunkfront/instance@1"]
    name: Name
    requests: Annotated[list[RequestFile], Meta(min_length=1)]
    engine: EngineFile
    cost: CostFile
    description: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    axes: tuple[str, str] | UnsetType = UNSET


class IterationFile(Struct, forbid_unknown_fields=True):
    """One entry of ``iterations``."""

    start_ms: Ms
    duration_ms: Ms
    prefill: dict[str, Positive] = {}
    decode: list[str] = []
    evict: list[str] = []
    restore: list[str] = []


class ScheduleFile(Struct, forbid_unknown_fields=True):
    """A whole schedule file."""

    format: Literal["chunkfront/schedule@1"]
    instance: str
    producer: str
    iterations: list[IterationFile]


FileType = TypeVar("FileType")


def read_text(path: Path | str) -> str:
    """Return the text of a file (UTF-8, a byte order mark is dropped).

    Raises
    ------
    InputError
        Where it cannot be read or is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start})", file=str(path)) from None


def parse_json(text: str) -> Any:
    """Return the JSON value of `text`; whole numbers written as floats (``4.0``) become integers.

    Raises
    ------
    InputError
        For malformed JSON (line and column) and for a key given twice.
    """
    try:
        return json.loads(text, parse_float=_number, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg} (line {error.lineno} column {error.colno})") from None
    except RecursionError:
        raise InputError("is not usable JSON: nested too deeply") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not usable JSON: {error}") from None


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if math.isfinite(number) and number.is_integer() and abs(number) < 2**53 else number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {key!r} is given twice in one object")
        found[key] = value
    return found


def convert(raw: Any, kind: Any) -> Any:
    """Return `raw` as `kind`; errors name the path in it, the value and what was expected."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        _explain(str(error), raw)


def _explain(text: str, raw: Any) -> NoReturn:
    message, _, path = text.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    message = message.replace("`", "")
    message = message[:1].lower() + message[1:]
    unknown = re.search(r"unknown field (\S+)", message)
    if unknown:
        raise InputError("unknown field", field=join_path(path, unknown[1]))
    missing = re.search(r"missing required field (\S+)", message)
    if missing:
        raise InputError("is missing", field=join_path(path, missing[1]))
    message = re.sub(r", got \w+$", "", message)
    raise InputError(f"{message}, got {_shown(_value_at(raw, path))}", field=path)


def _value_at(raw: Any, path: str) -> Any:
    """Return the value at a path like ``requests[3].prompt_tokens``; keys of free dicts show as ``[...]``."""
    for name, index in re.findall(r"([^.\[\]]+)(?![^\[]*\])|\[(\d+|\.\.\.)\]", path):
        try:
            raw = raw[int(index)] if index.isdigit() else raw[name] if name else raw
        except (KeyError, IndexError, TypeError):
            break
    return raw


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
