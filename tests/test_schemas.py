"""The JSON Schemas say what the reader says about each single field."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from instances import json_schema
from instances.bundled import bundled_names
from instances.conform import conform
from instances.errors import InputError
from tests.judges import strategies
from tests.judges.documents import INSTANCE, SCHEDULE, changed

SHARED = Path(__file__).parents[2] / "shared"
VALIDATORS = {name: Draft202012Validator(json_schema.schema(name)) for name in json_schema.KINDS}


@pytest.mark.parametrize("name", json_schema.KINDS)
def test_the_files_are_what_the_shapes_say(name: str) -> None:
    told = "run python -m instances.json_schema"
    assert json.loads(json_schema.path(name).read_text(encoding="utf-8")) == json_schema.schema(name), told


@pytest.mark.parametrize("name", json_schema.KINDS)
def test_the_schemas_are_valid_and_are_part_of_the_package(name: str) -> None:
    text = (files("instances") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))


def test_the_examples_have_the_shape() -> None:
    VALIDATORS["instance"].validate(INSTANCE)
    VALIDATORS["schedule"].validate(SCHEDULE)


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_instances_have_the_shape(name: str) -> None:
    text = (files("instances") / "data" / f"{name}.json").read_text(encoding="utf-8")
    VALIDATORS["instance"].validate(json.loads(text))


def test_all_shared_instances_have_the_shape() -> None:
    if not SHARED.exists():
        pytest.skip("../shared is not there")
    documents = [json.loads(path.read_text()) for path in sorted((SHARED / "bench/ladder").glob("*.json"))]
    documents += [case["instance"] for case in json.loads((SHARED / "cases/reference.json").read_text())]
    assert len(documents) > 80
    for document in documents:
        VALIDATORS["instance"].validate(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [("requests.0.prompt_tokens", 0), ("requests.0.prompt_tokens", 4.5), ("requests.0.prompt_tokens", True),
     ("requests.0.prompt_tokens", "8"), ("requests.0.arrival_ms", -1), ("requests.0.arrival_us", 5),
     ("requests.0.id", ""), ("requests", []), ("requests.0.ttft_slo_ms", 0), ("engine.preemption", "evict"),
     ("engine.max_num_seqs", 0), ("engine.chunk_sizes", []), ("engine.mixed_batches", 1), ("cost.kind", "cubic"),
     ("cost.pieces", []), ("cost.pieces.0.base_ms", -1), ("cost.pieces.0.colour", 1), ("axes", ["makespan"]),
     ("format", "chunkfront/instance@2"), ("requests.1.progress.last_token_ms", 1), ("engine", None)],
)  # fmt: skip
def test_a_broken_instance_does_not_have_the_shape(path: str, value: object) -> None:
    assert not VALIDATORS["instance"].is_valid(changed(INSTANCE, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [("iterations.0.start_ms", -1), ("iterations.0.prefill", {"a": 0}), ("iterations.0.decode", [1]),
     ("iterations.0.end_ms", 1), ("iterations", None), ("format", "chunkfront/instance@1"), ("producer", None)],
)  # fmt: skip
def test_a_broken_schedule_does_not_have_the_shape(path: str, value: object) -> None:
    assert not VALIDATORS["schedule"].is_valid(changed(SCHEDULE, path, value))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(strategies.mutations(INSTANCE, odd=False))
def test_schema_and_reader_agree_on_the_shape_of_any_instance(document: Any) -> None:
    assert VALIDATORS["instance"].is_valid(document) == conforms(document, "instance")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(strategies.mutations(SCHEDULE, odd=False))
def test_schema_and_reader_agree_on_the_shape_of_any_schedule(document: Any) -> None:
    assert VALIDATORS["schedule"].is_valid(document) == conforms(document, "schedule")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(strategies.instances())
def test_what_is_written_has_the_shape(instance: Any) -> None:
    VALIDATORS["instance"].validate(json.loads(instance.to_json()))


def conforms(document: Any, name: str) -> bool:
    try:
        conform(document, json_schema.KINDS[name])
    except InputError:
        return False
    return True
