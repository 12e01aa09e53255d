"""Instance and schedule files: read and written without loss; what is wrong is named, whatever it is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.conversion import read_cost, read_engine
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from instances.roofline import roofline_cost
from instances.schedule import Iteration, Schedule
from tests.judges import strategies
from tests.judges.documents import INSTANCE, SCHEDULE, changed

SHARED = Path(__file__).parents[2] / "shared"


def message(document: Any, kind: type[Instance] | type[Schedule] = Instance) -> str:
    with pytest.raises(InputError) as error:
        kind.from_json(json.dumps(document), file="x.json")
    return str(error.value)


# --- round trips -----------------------------------------------------------------------------------------------


def test_the_examples_are_read() -> None:
    instance = Instance.from_dict(INSTANCE)
    assert instance.requests[0] == Request("a", 8, 3, arrival_us=1500, ttft_slo_us=100_000, group="chat")
    assert instance.requests[1].progress == Progress(4, 2, -250)
    assert instance.engine == EngineLimits(8, num_kv_blocks=40, chunk_sizes=(2, 4), preemption="swap")
    assert instance.cost.swap_out_ps == 10_000_000  # 0.01 ms
    assert instance.axes == ("makespan", "max_tbt")
    schedule = Schedule.from_dict(SCHEDULE)
    assert schedule.iterations[0] == Iteration(0, 1250, {"a": 4}, ("b",))
    assert schedule.iterations[1].end_us == 2750


@settings(max_examples=150, deadline=None, derandomize=True)
@given(strategies.instances())
def test_an_instance_survives_the_way_to_a_file_and_back(instance: Instance) -> None:
    text = instance.to_json()
    assert Instance.from_json(text) == instance
    assert Instance.from_json(text).to_json() == text


@settings(max_examples=80, deadline=None, derandomize=True)
@given(strategies.schedules())
def test_a_schedule_survives_the_way_to_a_file_and_back(schedule: Schedule) -> None:
    again = Schedule.from_json(schedule.to_json())
    assert again == schedule
    for one, other in zip(again.iterations, schedule.iterations, strict=True):
        assert list(one.prefill.items()) == list(other.prefill.items())  # decision order too


@pytest.mark.parametrize(
    "cost",
    [{"kind": "unit"}, {"kind": "linear"}, {"kind": "linear", "prefill_ms_per_token": 0.1, "decode_ms_per_seq": 1},
     {"kind": "roofline", "model": "Llama-3.1-8B", "accelerator": "H100", "tensor_parallel": 2},
     {"kind": "pieces", "pieces": [{}]}],
)  # fmt: skip
def test_every_kind_of_cost_is_written_as_it_was_given(cost: dict[str, Any]) -> None:
    written = Instance.from_dict(changed(INSTANCE, "cost", cost)).to_dict()["cost"]
    assert written["kind"] == cost["kind"]
    assert cost.items() <= written.items()


def test_a_preset_that_was_changed_is_written_out_in_full() -> None:
    preset = roofline_cost("Llama-3.1-8B", "H100")
    cost = CostModel(preset.pieces[:1], kind="roofline", roofline=preset.roofline)
    instance = Instance("x", (Request("r", 1, 1),), EngineLimits(8), cost)
    again = Instance.from_json(instance.to_json())
    assert again.cost.pieces == cost.pieces
    assert again.cost.kind == "pieces"


def test_all_shared_instances_are_read_and_survive_a_round_trip() -> None:
    if not SHARED.exists():
        pytest.skip("../shared is not there")
    documents = [json.loads(path.read_text()) for path in sorted((SHARED / "bench/ladder").glob("*.json"))]
    cases = json.loads((SHARED / "cases/reference.json").read_text())
    documents += [case["instance"] for case in cases if not str(case.get("error", "")) and "frontiers" in case]
    assert len(documents) > 50
    for document in documents:
        instance = Instance.from_dict(document)
        assert Instance.from_json(instance.to_json()) == instance


def test_an_equal_iteration_has_an_equal_hash_and_can_be_pickled() -> None:
    one = Iteration(0, 5, {"a": 1, "b": 2})
    other = Iteration(0, 5, {"b": 2, "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


# --- what numbers may look like --------------------------------------------------------------------------------


def test_whole_numbers_may_be_written_as_floats_and_come_from_numpy() -> None:
    instance = Instance.from_dict(INSTANCE)
    for eight in (8.0, np.int64(8), np.float32(8)):
        assert Instance.from_dict(changed(INSTANCE, "requests.0.prompt_tokens", eight)) == instance
    assert Instance.from_dict(changed(INSTANCE, "requests.0.arrival_ms", np.float64(1.5))) == instance


def test_arrivals_of_epoch_size_are_exact() -> None:
    instance = Instance.from_json(json.dumps(changed(INSTANCE, "requests.0.arrival_ms", 1700158623979.961)))
    assert instance.requests[0].arrival_us == 1_700_158_623_979_961
    assert Instance.from_json(instance.to_json()) == instance


# --- errors: file, path, value, expected -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("requests.0.prompt_tokens", 4.5, "requests[0].prompt_tokens: expected an integer >= 1, got 4.5"),
        ("requests.0.prompt_tokens", True, "requests[0].prompt_tokens: expected an integer >= 1, got true"),
        ("requests.0.prompt_tokens", -1, "requests[0].prompt_tokens: expected an integer >= 1, got -1"),
        ("requests.0.prompt_tokens", "8", "requests[0].prompt_tokens: expected an integer >= 1, got '8'"),
        ("requests.0.prompt_tokens", None, "requests[0].prompt_tokens: expected an integer >= 1, got null"),
        ("requests.0.output_tokens", 0, "requests[0].output_tokens: expected an integer >= 1, got 0"),
        ("requests.0.arrival_ms", float("nan"), "requests[0].arrival_ms: expected a number >= 0, got NaN"),
        ("requests.0.arrival_ms", float("inf"), "requests[0].arrival_ms: expected a number >= 0, got Infinity"),
        ("requests.0.arrival_ms", "0", "requests[0].arrival_ms: expected a number >= 0, got '0'"),
        ("requests.0.arrival_ms", 0.0005, "requests[0].arrival_ms: expected a time in ms with at most 3 decimals"),
        ("requests.0.arrival_ms", 1e308, "requests[0].arrival_ms: expected a time in ms"),
        ("requests.0.id", "", "requests[0].id: expected a non-empty string, got ''"),
        ("requests.0.id", "b", "requests[1].id: expected a unique id (requests[0] has it too), got 'b'"),
        ("requests.0.max_output_tokens", 2, "requests[0].max_output_tokens: expected at least output_tokens = 3, got"),
        ("requests.0.cached_tokens", 8, "requests[0].cached_tokens: expected at most prompt_tokens - 1 = 7, got 8"),
        ("requests.0.ttft_slo_ms", 0, "requests[0].ttft_slo_ms: expected a number > 0, got 0"),
        ("requests.1.arrival_ms", 2.5, "requests[1].arrival_ms: expected 0 for a request with progress, got 2.5"),
        ("requests.1.progress.last_token_ms", 1, "requests[1].progress.last_token_ms: expected a number <= 0, got 1"),
        ("requests.1.progress.prefilled", 3, "requests[1].progress.prefilled: expected prompt_tokens = 4"),
        ("requests.1.progress", [], "requests[1].progress: expected an object, got a list"),
        ("requests", {}, "requests: expected a list, got an object"),
        ("requests", [], "requests: expected a list that is not empty, got []"),
        ("requests.0", 3, "requests[0]: expected an object, got 3"),
        ("engine.max_num_seqs", 0, "engine.max_num_seqs: expected an integer >= 1, got 0"),
        ("engine.max_num_seqs", 1.5, "engine.max_num_seqs: expected an integer >= 1, got 1.5"),
        ("engine.preemption", "evict", "engine.preemption: expected one of 'none', 'recompute', 'swap', got 'evict'"),
        ("engine.mixed_batches", "no", "engine.mixed_batches: expected true or false, got 'no'"),
        ("engine.chunk_sizes", [2, 0], "engine.chunk_sizes[1]: expected an integer >= 1, got 0"),
        ("engine.max_num_batched_tokens", 10**400, "engine.max_num_batched_tokens: expected an integer >= 1, at most"),
        ("cost.kind", "quadratic", "cost.kind: expected one of 'linear', 'pieces', 'roofline', 'unit', got"),
        ("cost.pieces.0.base_ms", -1, "cost.pieces[0].base_ms: expected a number >= 0, got -1"),
        ("cost.pieces.0.base_ms", 1e9, "cost.pieces[0].base_ms: expected a number of ms >= 0, at most 4000000"),
        ("cost.pieces.0.tile_tokens", None, "cost.pieces[0].tile_tokens: expected tile_tokens beside tile_ms"),
        ("cost.capture_sizes", None, "cost.capture_sizes: expected capture_sizes beside eager_ms"),
        ("cost.pieces.0.base_ms", "1", "cost.pieces[0].base_ms: expected a number >= 0, got '1'"),
        ("axes", ["makespan"], "axes: expected a list of 2, got a list of 1"),
        ("format", "chunkfront/instance@2", "format: expected 'chunkfront/instance@1', got 'chunkfront/instance@2'"),
        ("name", "\ud800", "name: expected a non-empty string of whole characters"),
    ],
)
def test_an_impossible_value_is_named_with_its_path_and_what_was_expected(
    path: str, value: object, expected: str
) -> None:
    assert message(changed(INSTANCE, path, value)).startswith(f"x.json: {expected}")


def test_an_unknown_roofline_preset_lists_the_known_ones() -> None:
    cost = {"kind": "roofline", "model": "gpt-2", "accelerator": "h100"}
    assert message(changed(INSTANCE, "cost", cost)).startswith("x.json: cost.model: expected one of llama-3.1-8b, ")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("colour", "colour: unknown field, expected one of 'format', 'name'"),
     ("requests.0.arrival_us", "requests[0].arrival_us: unknown field, expected one of 'id',"),
     ("requests.0.group", "requests[0].group: unknown field"),
     ("engine.max_batched_tokens", "engine.max_batched_tokens: unknown field"),
     ("cost.pieces.0.decode_ms", "cost.pieces[0].decode_ms: unknown field")],
)  # fmt: skip
def test_an_unknown_field_is_an_error_that_lists_the_known_ones(path: str, expected: str) -> None:
    assert message(changed(INSTANCE, path, 1)).startswith(f"x.json: {expected}")


@pytest.mark.parametrize(("path", "field"), [("requests.0.id", "requests[0].id"), ("cost.kind", "cost.kind"),
                                             ("engine.max_num_batched_tokens", "engine.max_num_batched_tokens"),
                                             ("format", "format")])  # fmt: skip
def test_a_missing_field_is_named(path: str, field: str) -> None:
    document = changed(INSTANCE, path, None)
    holder = document
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        holder = holder[step]
    del holder[last]
    assert message(document).startswith(f"x.json: {field}: is missing")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [("iterations.0.start_ms", None, "iterations[0].start_ms: expected a number >= 0, got null"),
     ("iterations.0.start_ms", 0.0001, "iterations[0].start_ms: expected a time in ms with at most 3 decimals"),
     ("iterations.0.prefill", {"a": 0}, "iterations[0].prefill['a']: expected an integer >= 1, got 0"),
     ("iterations.0.prefill", ["a"], "iterations[0].prefill: expected an object, got a list"),
     ("iterations.0.decode", "b", "iterations[0].decode: expected a list, got 'b'"),
     ("iterations.0.decode", [1], "iterations[0].decode[0]: expected a string, got 1"),
     ("iterations.1.end_ms", 2, "iterations[1].end_ms: unknown field"),
     ("format", "chunkfront/instance@1", "format: expected 'chunkfront/schedule@1'")],
)  # fmt: skip
def test_a_schedule_names_its_faults_alike(path: str, value: object, expected: str) -> None:
    assert message(changed(SCHEDULE, path, value), Schedule).startswith(f"x.json: {expected}")


def test_requests_that_never_fit_are_named_with_both_numbers() -> None:
    text = message(changed(INSTANCE, "engine.num_kv_blocks", 11))
    assert text.startswith("x.json: requests[1]: request 'b' can never fit: it needs 12 KV tokens")
    assert "11" in text


def test_residents_beyond_the_limits_are_refused() -> None:
    assert "2 requests have progress" in message(
        changed(changed(INSTANCE, "requests.0", {**INSTANCE["requests"][1], "id": "c"}), "engine.max_num_seqs", 1)
    )
    # a resident of 13 KV tokens (4 + 10 - 1) and another of 5 (4 + 2 - 1) against a pool of 17
    long = {"id": "c", "prompt_tokens": 4, "output_tokens": 11, "progress": {"prefilled": 4, "emitted": 10}}
    document = changed(INSTANCE, "requests.0", long)
    assert "hold 18 KV blocks at time 0" in message(changed(document, "engine.num_kv_blocks", 17))
    Instance.from_dict(changed(document, "engine.num_kv_blocks", 18))


def test_costs_that_leave_the_range_of_times_are_refused() -> None:
    document = changed(changed(INSTANCE, "cost.pieces.0.base_ms", 4e6), "requests.0.output_tokens", 10**6)
    document = changed(changed(document, "engine.num_kv_blocks", 10**9), "requests.0.arrival_ms", 0)
    assert message(document).startswith("x.json: cost: expected costs with which a schedule ends by")


# --- files that are no documents -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Instance, Schedule])
@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe\x00\x80", "is not UTF-8 text (byte 0)"),
     (b"\x00\x01\x02", "is not JSON"), (b'{"name": ', "is not JSON: "), (b"[" * 100_000, "nested too deeply"),
     (b"[" * 500 + b"]" * 500, "expected an object, got a list"), (b"3", "expected an object, got 3"),
     (b"null", "expected an object, got null"), (b'{"name": "a", "name": "b"}', "the key 'name' is given twice"),
     (b"1" * 5000, "is not usable JSON"), (b"{}{}", "is not JSON: Extra data (line 1 column 3)")],
)  # fmt: skip
def test_a_file_that_is_no_document_is_refused_by_name(
    kind: type[Instance] | type[Schedule], content: bytes, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        kind.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert expected in str(error.value)


@pytest.mark.parametrize("kind", [Instance, Schedule])
def test_a_file_that_cannot_be_read_is_refused_by_name(
    kind: type[Instance] | type[Schedule], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"missing\.json: cannot be read: No such file"):
        kind.read(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot be read"):
        kind.read(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        kind.read(f"{tmp_path}/zero\0byte")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(INSTANCE).encode())
    assert Instance.read(path) == Instance.from_dict(INSTANCE)


def test_engine_and_cost_have_files_of_their_own(tmp_path: Path) -> None:
    engine, cost = tmp_path / "engine.json", tmp_path / "cost.json"
    engine.write_text(json.dumps(INSTANCE["engine"]))
    cost.write_text(json.dumps(INSTANCE["cost"]))
    assert read_engine(engine) == Instance.from_dict(INSTANCE).engine
    assert read_cost(cost) == Instance.from_dict(INSTANCE).cost
    cost.write_text('{"kind": "linear", "base_ms": 1}')
    with pytest.raises(InputError, match=r"cost\.json: base_ms: unknown field"):
        read_cost(cost)
    engine.write_text('{"max_num_batched_tokens": 0}')
    with pytest.raises(InputError, match=r"engine\.json: max_num_batched_tokens: expected an integer >= 1, got 0"):
        read_engine(engine)


# --- no document, however broken, does more than raise InputError ------------------------------------------------


@settings(max_examples=400, deadline=None, derandomize=True)
@given(strategies.mutations(INSTANCE))
def test_a_mutated_instance_is_read_or_refused(document: Any) -> None:
    read_or_refuse(document, Instance)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(strategies.mutations(SCHEDULE))
def test_a_mutated_schedule_is_read_or_refused(document: Any) -> None:
    read_or_refuse(document, Schedule)


def read_or_refuse(document: Any, kind: type[Instance] | type[Schedule]) -> None:
    found = answer(json.dumps(document), kind)
    if isinstance(found, InputError):
        assert str(found).startswith("x.json: ")
        assert len(str(found)) < 1000
    else:
        assert kind.from_json(found.to_json()) == found


def answer(text: str, kind: type[Instance] | type[Schedule]) -> Instance | Schedule | InputError:
    """Return what a text describes, or the error that it is refused with."""
    try:
        return kind.from_json(text, file="x.json")
    except InputError as error:
        return error


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_a_file_with_damaged_bytes_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(json.dumps(INSTANCE).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    text = bytes(content).decode("utf-8", errors="replace")
    found = answer(text, Instance)
    assert isinstance(found, Instance) or str(found).startswith("x.json: ")
