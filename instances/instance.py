"""Instance: requests, engine limits and cost model, validated once; JSON in and out.

Example
-------
>>> from instances.instance import Instance
>>> from instances.request import Request
>>> from instances.engine import EngineLimits
>>> from instances.cost_model import CostModel
>>> one = Instance("one", (Request("r0", prompt_tokens=4, output_tokens=2),), EngineLimits(8), CostModel.unit())
>>> Instance.from_json(one.to_json()) == one
True
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from instances import files
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.request import Progress, Request
from instances.roofline import roofline_cost
from instances.units import MAX_TIME_US, ms_from_ps, ms_from_us, ps_from_ms, us_from_ms

PIECE_FIELDS = {
    "base_ms": "base_ps",
    "prefill_ms_per_token": "prefill_ps",
    "prefill_context_ms": "prefill_context_ps",
    "decode_ms_per_seq": "decode_ps",
    "decode_context_ms": "decode_context_ps",
    "tile_ms": "tile_ps",
}
"""Names of a piece's coefficients in files (ms) and in `Piece` (ps)."""
SWAP_FIELDS = {"eager_ms": "eager_ps", "swap_out_ms_per_token": "swap_out_ps", "swap_in_ms_per_token": "swap_in_ps"}


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem to schedule (model.md).

    Parameters
    ----------
    name
        Non-empty.
    requests
        At least one, with unique ids.
    engine, cost
        Limits of the engine, and what an iteration costs.
    description, source
        Free text.
    axes
        The two metrics that `frontier` shows when it is not told.

    Raises
    ------
    InputError
        (a ValueError) for duplicate ids, residents that exceed the limits at time 0, and requests that can never be
        served, by name with the two numbers.
    """

    name: str
    requests: tuple[Request, ...]
    engine: EngineLimits
    cost: CostModel
    description: str | None = None
    source: str | None = None
    axes: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError.expected("a non-empty string", self.name, "name")
        object.__setattr__(self, "requests", tuple(self.requests))
        if not self.requests:
            raise InputError.expected("at least one request", [], "requests")
        self._check_ids()
        for index, request in enumerate(self.requests):
            reason = self.engine.never_fits(request)
            if reason:
                raise InputError(reason, field=f"requests[{index}]")
        self._check_residents()
        self._check_range()

    def _check_ids(self) -> None:
        seen: dict[str, int] = {}
        for index, request in enumerate(self.requests):
            if request.id in seen:
                what = f"a unique id (requests[{seen[request.id]}] has it too)"
                raise InputError.expected(what, request.id, f"requests[{index}].id")
            seen[request.id] = index

    def _check_residents(self) -> None:
        """Check that what is resident at time 0 obeys the limits."""
        residents = [r for r in self.requests if r.progress is not None]
        seats, pool = self.engine.max_num_seqs, self.engine.num_kv_blocks
        if seats is not None and len(residents) > seats:
            raise InputError(f"{len(residents)} requests have progress (resident at time 0), max_num_seqs is {seats}",
                             field="requests")
        held = sum(self.engine.blocks(r.computed_before) for r in residents)
        if pool is not None and held > pool:
            raise InputError(f"requests with progress hold {held} KV blocks at time 0, num_kv_blocks is {pool}",
                             field="requests")

    def _check_range(self) -> None:
        """Refuse instances whose times could leave the range of exact integers (2**53 µs)."""
        tokens = max(r.peak_kv_tokens for r in self.requests)
        steps = sum(r.prompt_tokens + r.output_tokens for r in self.requests)
        worst = max(r.arrival_us for r in self.requests) + steps * self.cost.duration_us(
            [(0, tokens)], [tokens] * min(len(self.requests), 1000)
        )
        if worst > 2**10 * MAX_TIME_US:
            raise InputError(f"the costs are too large: a schedule may last {worst} µs, at most {2**63} can be held",
                             field="cost")

    def request(self, request_id: str) -> Request:
        """Return the request of that id; KeyError where there is none."""
        for request in self.requests:
            if request.id == request_id:
                return request
        raise KeyError(request_id)

    @property
    def origin_us(self) -> int:
        """Earliest arrival, from which the makespan counts."""
        return min(r.arrival_us for r in self.requests)

    @classmethod
    def from_json(cls, text: str, *, file: str = "") -> Instance:
        """Return the instance that a JSON text describes; `file` is named in errors."""
        try:
            return cls.from_dict(files.parse_json(text))
        except InputError as error:
            raise error.in_file(file) from None

    @classmethod
    def read(cls, path: Path | str) -> Instance:
        """Return the instance in a file.

        Raises
        ------
        InputError
            Naming the file, the path in it, the value and what was expected.
        """
        return cls.from_json(files.read_text(path), file=str(path))

    @classmethod
    def from_dict(cls, raw: Any) -> Instance:
        """Return the instance that a parsed JSON document describes."""
        data: files.InstanceFile = files.convert(raw, files.InstanceFile)
        return cls(
            name=data.name,
            requests=tuple(_request(r, f"requests[{i}]") for i, r in enumerate(data.requests)),
            engine=engine_from_file(data.engine),
            cost=cost_from_file(data.cost),
            description=None if data.description is UNSET else data.description,
            source=None if data.source is UNSET else data.source,
            axes=None if data.axes is UNSET else data.axes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document; `from_dict` of it equals this instance."""
        document: dict[str, Any] = {"format": files.INSTANCE_FORMAT, "name": self.name}
        for name in ("description", "source"):
            if getattr(self, name) is not None:
                document[name] = getattr(self, name)
        if self.axes is not None:
            document["axes"] = list(self.axes)
        document["requests"] = [_request_dict(r) for r in self.requests]
        document["engine"] = _without_defaults(self.engine)
        document["cost"] = cost_dict(self.cost)
        return document

    def to_json(self) -> str:
        """Return the JSON text, indented."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"


class _Inside:
    """Context manager that adds a prefix to the field of an InputError."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, InputError):
            raise error.inside(self.prefix) from None


def _request(data: files.RequestFile, path: str) -> Request:
    with _Inside(path):
        progress = None
        if isinstance(data.progress, files.ProgressFile):
            with _Inside("progress"):
                last = us_from_ms(data.progress.last_token_ms, "last_token_ms", minimum=None)
                progress = Progress(data.progress.prefilled, data.progress.emitted, last)
        slos = {
            f"{name}_us": us_from_ms(value, f"{name}_ms", minimum=1)
            for name in ("ttft_slo", "tbt_slo", "e2e_slo")
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


def _request_dict(request: Request) -> dict[str, Any]:
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
    for name in ("ttft_slo", "tbt_slo", "e2e_slo"):
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


def engine_from_file(data: files.EngineFile) -> EngineLimits:
    """Return the limits that an ``engine`` object describes."""
    with _Inside("engine"):
        values = {name: getattr(data, name) for name in data.__struct_fields__}
        if data.chunk_sizes is not None:
            values["chunk_sizes"] = tuple(data.chunk_sizes)
        return EngineLimits(**values)


def _without_defaults(engine: EngineLimits) -> dict[str, Any]:
    sizes = None if engine.chunk_sizes is None else list(engine.chunk_sizes)
    values = {name: getattr(engine, name) for name in files.EngineFile.__struct_fields__}
    builtins: dict[str, Any] = msgspec.to_builtins(files.EngineFile(**{**values, "chunk_sizes": sizes}))
    return builtins


def cost_from_file(data: files.CostFile) -> CostModel:
    """Return the cost model that a ``cost`` object describes."""
    with _Inside("cost"):
        if isinstance(data, files.UnitCost):
            return CostModel.unit()
        if isinstance(data, files.RooflineCost):
            return roofline_cost(data.model, data.accelerator, data.tensor_parallel)
        if isinstance(data, files.LinearCost):
            names = ("iteration_ms", "prefill_ms_per_token", "decode_ms_per_seq")
            return CostModel.linear(*(ps_from_ms(getattr(data, name), name) for name in names))
        pieces = tuple(_piece(piece, f"pieces[{i}]") for i, piece in enumerate(data.pieces))
        extra = {ours: ps_from_ms(getattr(data, theirs), theirs) for theirs, ours in SWAP_FIELDS.items()}
        sizes = None if data.capture_sizes is None else tuple(data.capture_sizes)
        return CostModel(pieces, capture_sizes=sizes, **extra)


def _piece(data: files.PieceFile, path: str) -> Piece:
    with _Inside(path):
        amounts = {ours: ps_from_ms(getattr(data, theirs), theirs) for theirs, ours in PIECE_FIELDS.items()}
        return Piece(tile_tokens=data.tile_tokens, **amounts)


def cost_dict(cost: CostModel) -> dict[str, Any]:
    """Return the ``cost`` object of a cost model, in the kind that it was given in."""
    if cost.kind == "unit" and cost == CostModel.unit():
        return {"kind": "unit"}
    if cost.kind == "roofline" and cost.roofline is not None:
        preset = cost.roofline
        document = {"kind": "roofline", "model": preset.model, "accelerator": preset.accelerator}
        return document | ({"tensor_parallel": preset.tensor_parallel} if preset.tensor_parallel != 1 else {})
    first = cost.pieces[0]
    if cost.kind == "linear":
        return {
            "kind": "linear",
            "iteration_ms": ms_from_ps(first.base_ps),
            "prefill_ms_per_token": ms_from_ps(first.prefill_ps),
            "decode_ms_per_seq": ms_from_ps(first.decode_ps),
        }
    pieces = []
    for piece in cost.pieces:
        entry: dict[str, Any] = {
            theirs: ms_from_ps(getattr(piece, ours)) for theirs, ours in PIECE_FIELDS.items() if getattr(piece, ours)
        }
        if piece.tile_tokens is not None:
            entry["tile_tokens"] = piece.tile_tokens
        pieces.append(entry)
    result: dict[str, Any] = {"kind": "pieces", "pieces": pieces}
    if cost.capture_sizes is not None:
        result["capture_sizes"] = list(cost.capture_sizes)
    for theirs, ours in SWAP_FIELDS.items():
        if getattr(cost, ours):
            result[theirs] = ms_from_ps(getattr(cost, ours))
    return result
