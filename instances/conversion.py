"""Between the shapes of a file (ms, JSON types) and the domain (µs and ps, immutable objects), without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from instances import files, shapes
from instances.conform import conform
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError, in_file, inside
from instances.request import Progress, Request
from instances.roofline import roofline_cost
from instances.units import ms_from_ps, ms_from_us, ps_from_ms, us_from_ms

PIECE_FIELDS = {
    "base_ms": "base_ps",
    "prefill_ms_per_token": "prefill_ps",
    "prefill_context_ms": "prefill_context_ps",
    "decode_ms_per_seq": "decode_ps",
    "decode_context_ms": "decode_context_ps",
    "tile_ms": "tile_ps",
}
"""Names of a piece's coefficients in files (ms) and in `Piece` (ps)."""
EXTRA_FIELDS = {"eager_ms": "eager_ps", "swap_out_ms_per_token": "swap_out_ps", "swap_in_ms_per_token": "swap_in_ps"}
"""Names of the coefficients outside the pieces, in files and in `CostModel`."""
LINEAR_FIELDS = {"iteration_ms": "base_ps", "prefill_ms_per_token": "prefill_ps", "decode_ms_per_seq": "decode_ps"}
"""Names of the coefficients of kind linear, in files and in its one `Piece`."""
SLOS = ("ttft_slo", "tbt_slo", "e2e_slo")


def request_from_file(data: shapes.RequestFile) -> Request:
    """Return the request that an entry of ``requests`` describes."""
    progress = None
    if isinstance(data.progress, shapes.ProgressFile):
        if data.arrival_ms != 0:  # the domain says the same, in µs
            raise InputError.expected("0 for a request with progress", data.arrival_ms, "arrival_ms")
        with inside("progress"):
            last = us_from_ms(data.progress.last_token_ms, "last_token_ms", minimum=None)
            progress = Progress(data.progress.prefilled, data.progress.emitted, last)
    slos = {
        f"{name}_us": us_from_ms(value, f"{name}_ms", minimum=1)
        for name in SLOS
        if (value := getattr(data, f"{name}_ms")) is not UNSET
    }
    return Request(
        id=data.id,
        prompt_tokens=data.prompt_tokens,
        output_tokens=data.output_tokens,
        arrival_us=us_from_ms(data.arrival_ms, "arrival_ms"),
        max_output_tokens=None if data.max_output_tokens is UNSET else data.max_output_tokens,
        cached_tokens=data.cached_tokens,
        priority=data.priority,
        weight=data.weight,
        group=data.group,
        progress=progress,
        **slos,
    )


def request_dict(request: Request) -> dict[str, Any]:
    """Return the entry of ``requests`` for a request, without what is default."""
    document: dict[str, Any] = {
        "id": request.id,
        "arrival_ms": ms_from_us(request.arrival_us),
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
    }
    if request.max_output_tokens is not None:
        document["max_output_tokens"] = request.max_output_tokens
    for name, default in (("cached_tokens", 0), ("priority", 0), ("weight", 1)):
        if getattr(request, name) != default:
            document[name] = getattr(request, name)
    for name in SLOS:
        if getattr(request, f"{name}_us") is not None:
            document[f"{name}_ms"] = ms_from_us(getattr(request, f"{name}_us"))
    if request.group != "default":
        document["class"] = request.group
    if request.progress is not None:
        document["progress"] = {
            "prefilled": request.progress.prefilled,
            "emitted": request.progress.emitted,
            "last_token_ms": ms_from_us(request.progress.last_token_us),
        }
    return document


def engine_from_file(data: shapes.EngineFile) -> EngineLimits:
    """Return the limits that an ``engine`` object describes."""
    values = {name: getattr(data, name) for name in data.__struct_fields__}
    if data.chunk_sizes is not None:
        values["chunk_sizes"] = tuple(data.chunk_sizes)
    return EngineLimits(**values)


def engine_dict(engine: EngineLimits) -> dict[str, Any]:
    """Return the ``engine`` object of some limits, without what is default."""
    sizes = None if engine.chunk_sizes is None else list(engine.chunk_sizes)
    values = {name: getattr(engine, name) for name in shapes.EngineFile.__struct_fields__}
    document: dict[str, Any] = msgspec.to_builtins(shapes.EngineFile(**{**values, "chunk_sizes": sizes}))
    return document


def cost_from_file(data: shapes.CostFile) -> CostModel:
    """Return the cost model that a ``cost`` object describes."""
    if isinstance(data, shapes.UnitCost):
        return CostModel.unit()
    if isinstance(data, shapes.RooflineCost):
        return roofline_cost(data.model, data.accelerator, data.tensor_parallel)
    if isinstance(data, shapes.LinearCost):
        return CostModel.linear(*(ps_from_ms(getattr(data, name), name) for name in LINEAR_FIELDS))
    pieces = []
    for index, piece in enumerate(data.pieces):
        with inside(f"pieces[{index}]"):
            amounts = {ours: ps_from_ms(getattr(piece, theirs), theirs) for theirs, ours in PIECE_FIELDS.items()}
            pieces.append(Piece(tile_tokens=piece.tile_tokens, **amounts))
    extra: dict[str, Any] = {
        ours: ps_from_ms(getattr(data, theirs), theirs) for theirs, ours in EXTRA_FIELDS.items()
    }
    sizes = None if data.capture_sizes is None else tuple(data.capture_sizes)
    return CostModel(tuple(pieces), capture_sizes=sizes, **extra)


def cost_dict(cost: CostModel) -> dict[str, Any]:
    """Return the ``cost`` object of a cost model, in the kind that it was given in."""
    if cost.kind == "unit":
        return {"kind": "unit"}
    preset = cost.roofline
    if preset is not None and cost == roofline_cost(preset.model, preset.accelerator, preset.tensor_parallel):
        document = {"kind": "roofline", "model": preset.model, "accelerator": preset.accelerator}
        return document | ({"tensor_parallel": preset.tensor_parallel} if preset.tensor_parallel != 1 else {})
    if cost.kind == "linear":
        only = cost.pieces[0]
        return {"kind": "linear"} | {theirs: ms_from_ps(getattr(only, ours)) for theirs, ours in LINEAR_FIELDS.items()}
    result: dict[str, Any] = {"kind": "pieces", "pieces": [_piece_dict(piece) for piece in cost.pieces]}
    if cost.capture_sizes is not None:
        result["capture_sizes"] = list(cost.capture_sizes)
    return result | _amounts(cost, EXTRA_FIELDS)


def _piece_dict(piece: Piece) -> dict[str, Any]:
    tiles = {} if piece.tile_tokens is None else {"tile_tokens": piece.tile_tokens}
    return _amounts(piece, PIECE_FIELDS) | tiles


def _amounts(holder: CostModel | Piece, names: dict[str, str]) -> dict[str, Any]:
    return {theirs: ms_from_ps(getattr(holder, ours)) for theirs, ours in names.items() if getattr(holder, ours)}


def read_engine(path: Path | str) -> EngineLimits:
    """Return the limits in a file that holds an ``engine`` object alone.

    Raises
    ------
    InputError
        Naming the file, the path in it, the value and what was expected.
    """
    with in_file(str(path)):
        return engine_from_file(conform(files.parse_json(files.read_text(path)), shapes.EngineFile))


def read_cost(path: Path | str) -> CostModel:
    """Return the cost model in a file that holds a ``cost`` object alone.

    Raises
    ------
    InputError
        Naming the file, the path in it, the value and what was expected.
    """
    with in_file(str(path)):
        return cost_from_file(conform(files.parse_json(files.read_text(path)), shapes.CostFile))
