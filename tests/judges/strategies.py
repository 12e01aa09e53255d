"""Hypothesis strategies: valid instances and schedules with every field, and broken JSON documents."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Progress, Request
from instances.roofline import ACCELERATORS, MODELS, roofline_cost
from instances.schedule import Iteration, Schedule

COEFFICIENT = st.integers(0, 10**10)
TIME_US = st.integers(0, 10**12)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SIZES = st.none() | st.lists(st.integers(1, 600), min_size=1, max_size=4).map(tuple)


@st.composite
def progress(draw: st.DrawFn, prompt: int, output: int, cached: int) -> Progress:
    if output > 1 and draw(st.booleans()):
        return Progress(prompt, draw(st.integers(1, output - 1)), -draw(TIME_US))
    return Progress(draw(st.integers(cached, prompt - 1)))


@st.composite
def requests(draw: st.DrawFn, name: str) -> Request:
    prompt, output = draw(st.integers(1, 5000)), draw(st.integers(1, 50))
    cached = draw(st.just(0) | st.integers(0, prompt - 1))
    resident = draw(st.booleans())
    slo = st.none() | st.integers(1, 10**9)
    return Request(
        id=name,
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_us=0 if resident else draw(TIME_US),
        max_output_tokens=draw(st.none() | st.integers(output, output + 9)),
        cached_tokens=cached,
        priority=draw(st.integers(-5, 5)),
        weight=draw(st.integers(1, 9)),
        ttft_slo_us=draw(slo),
        tbt_slo_us=draw(slo),
        e2e_slo_us=draw(slo),
        group=draw(TEXT),
        progress=draw(progress(prompt, output, cached)) if resident else None,
    )


@st.composite
def engines(draw: st.DrawFn) -> EngineLimits:
    """Limits of every kind, wide enough for the requests above."""
    return EngineLimits(
        max_num_batched_tokens=draw(st.integers(600, 10_000)),
        max_num_seqs=draw(st.none() | st.integers(4, 64)),
        num_kv_blocks=draw(st.none() | st.integers(30_000, 10**9)),
        block_size=draw(st.sampled_from([1, 16])),
        enable_chunked_prefill=True,
        mixed_batches=draw(st.booleans()),
        chunk_quantum=1 if (sizes := draw(SIZES)) else draw(st.sampled_from([1, 64])),
        chunk_sizes=sizes,
        max_chunk_tokens=draw(st.none() | st.integers(600, 700)),
        max_partial_prefills=draw(st.none() | st.integers(1, 5)),
        preemption=draw(st.sampled_from(["none", "recompute", "swap"])),
    )


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    tile = draw(st.none() | st.integers(1, 512))
    amounts = [draw(COEFFICIENT) for _ in range(5)]
    return Piece(*amounts, tile_tokens=tile, tile_ps=draw(COEFFICIENT) if tile else 0)


@st.composite
def costs(draw: st.DrawFn) -> CostModel:
    kind = draw(st.sampled_from(["unit", "linear", "pieces", "roofline"]))
    if kind == "unit":
        return CostModel.unit()
    if kind == "linear":
        return CostModel.linear(draw(COEFFICIENT), draw(COEFFICIENT), draw(COEFFICIENT))
    if kind == "roofline":
        names = (draw(st.sampled_from(sorted(MODELS))), draw(st.sampled_from(sorted(ACCELERATORS))))
        return roofline_cost(*names, tensor_parallel=draw(st.sampled_from([1, 2, 8])))
    sizes = draw(SIZES)
    return CostModel(
        tuple(draw(st.lists(pieces(), min_size=1, max_size=3))),
        capture_sizes=sizes,
        eager_ps=draw(COEFFICIENT) if sizes else 0,
        swap_out_ps=draw(COEFFICIENT),
        swap_in_ps=draw(COEFFICIENT),
    )


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    names = draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True))
    return Instance(
        name=draw(TEXT.filter(bool)),
        requests=tuple(draw(requests(name)) for name in names),
        engine=draw(engines()),
        cost=draw(costs()),
        description=draw(st.none() | TEXT),
        source=draw(st.none() | TEXT),
        axes=draw(st.none() | st.tuples(TEXT, TEXT)),
    )


@st.composite
def iterations(draw: st.DrawFn) -> Iteration:
    ids = st.lists(TEXT, max_size=3).map(tuple)
    chunks = draw(st.dictionaries(TEXT, st.integers(1, 10**9), max_size=3))
    return Iteration(draw(TIME_US), draw(TIME_US), chunks, draw(ids), draw(ids), draw(ids))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    return Schedule(draw(TEXT), draw(TEXT), tuple(draw(st.lists(iterations(), max_size=4))))


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(-3, 9) | st.text(max_size=3)
    | st.sampled_from(["linear", "pieces", "unit", "roofline", "none", "swap", "", "h100"])
)  # fmt: skip
ODD_NUMBERS = st.sampled_from([10**400, -(10**400), 1e308, 5e-324, -0.0, float("nan"), float("inf"), 2**63, 2**53])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a JSON document, its own () first."""
    found = [path]
    if isinstance(document, dict):
        for key, value in document.items():
            found += places(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            found += places(value, (*path, index))
    return found


@st.composite
def mutations(draw: st.DrawFn, document: Any, *, odd: bool = True) -> Any:
    """A copy of a document with one to three changes: a value replaced, removed, doubled or added."""
    root = [copy.deepcopy(document)]
    values = VALUES | ODD_NUMBERS if odd else VALUES
    for _ in range(draw(st.integers(1, 3))):
        path = (0, *draw(st.sampled_from(places(root[0]))))
        holder: Any = root
        for step in path[:-1]:
            holder = holder[step]
        change = draw(st.sampled_from(["replace", "replace", "remove", "double", "add"]))
        value = holder[path[-1]]
        if change == "remove" and len(path) > 1:
            del holder[path[-1]]
        elif change == "double" and isinstance(value, list):
            value.extend(copy.deepcopy(value[:1]))
        elif change == "add" and isinstance(value, dict):
            value[draw(st.text(max_size=5) | st.sampled_from(["progress", "chunk_sizes", "eager_ms"]))] = draw(values)
        else:
            holder[path[-1]] = draw(values)
    return root[0]
