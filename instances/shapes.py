"""The shapes of the two file formats (interfaces.md), as msgspec structs.

Names, types, defaults and simple ranges stand here and nowhere else: `instances.conform` judges a JSON document by
them, and the JSON Schemas in ``instances/schemas`` are these classes written out (`instances.json_schema`). What
needs two fields at once is judged by the domain classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

INSTANCE_FORMAT = "chunkfront/instance@1"
SCHEDULE_FORMAT = "chunkfront/schedule@1"

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(min_length=1)]
Ms = Annotated[float, Meta(description="milliseconds, at most 3 decimals", ge=0)]
PositiveMs = Annotated[float, Meta(description="milliseconds, at most 3 decimals", gt=0)]
Coefficient = Annotated[float, Meta(description="milliseconds, held to 1e-9", ge=0)]
Sizes = Annotated[list[Positive], Meta(min_length=1)]


class ProgressFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """``progress`` of a request: its state at time 0 where it is already resident."""

    prefilled: Count
    emitted: Count = 0
    last_token_ms: Annotated[float, Meta(description="milliseconds, at most 3 decimals", le=0)] = 0


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
    ttft_slo_ms: PositiveMs | UnsetType = UNSET
    tbt_slo_ms: PositiveMs | UnsetType = UNSET
    e2e_slo_ms: PositiveMs | UnsetType = UNSET
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
    chunk_sizes: Sizes | None = None
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
    capture_sizes: Sizes | None = None
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
