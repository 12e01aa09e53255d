"""Example documents of both file formats, with most fields, for tests of reading and schemas."""

from __future__ import annotations

import copy
from typing import Any

INSTANCE: dict[str, Any] = {
    "format": "chunkfront/instance@1",
    "name": "example",
    "requests": [
        {"id": "a", "arrival_ms": 1.5, "prompt_tokens": 8, "output_tokens": 3, "ttft_slo_ms": 100, "class": "chat"},
        {
            "id": "b",
            "prompt_tokens": 4,
            "output_tokens": 9,
            "cached_tokens": 1,
            "progress": {"prefilled": 4, "emitted": 2, "last_token_ms": -0.25},
        },
    ],
    "engine": {"max_num_batched_tokens": 8, "num_kv_blocks": 40, "chunk_sizes": [2, 4], "preemption": "swap"},
    "cost": {
        "kind": "pieces",
        "pieces": [{"base_ms": 1, "prefill_ms_per_token": 0.1, "tile_tokens": 4, "tile_ms": 0.5}],
        "capture_sizes": [1, 2],
        "eager_ms": 0.25,
        "swap_out_ms_per_token": 0.01,
    },
    "axes": ["makespan", "max_tbt"],
}
SCHEDULE: dict[str, Any] = {
    "format": "chunkfront/schedule@1",
    "instance": "example",
    "producer": "by hand",
    "iterations": [
        {"start_ms": 0, "duration_ms": 1.25, "prefill": {"a": 4}, "decode": ["b"], "evict": [], "restore": []},
        {"start_ms": 1.25, "duration_ms": 1.5, "prefill": {"a": 4}},
    ],
}


def changed(document: Any, path: str, value: Any) -> Any:
    """Return a copy of the document with another value at a path like ``requests.0.id``."""
    result = copy.deepcopy(document)
    holder = result
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        holder = holder[step]
    holder[last] = value
    return result
