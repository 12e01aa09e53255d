"""Exports: trace events as Perfetto reads them, tables whose numbers are the metrics'."""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from chunkfront.export.perfetto import perfetto_trace
from chunkfront.export.tables import csv_bytes, parquet_bytes, schedule_tables
from chunkfront.timeline.build import build_timeline
from instances.errors import InputError
from instances.metrics import all_metrics, per_request
from instances.request import Progress, Request
from tests.judges.build import build, schedule
from tests.judges.command import chunkfront
from tests.judges.scenes import AWKWARD_NAMES, SCENES, Scene, crowd, evicted, waiting

EVERY_SCENE = pytest.mark.parametrize("scene", SCENES)
Event = dict[str, Any]


def trace(scene: Scene) -> list[Event]:
    document = perfetto_trace(build_timeline(*scene, most_rows=None))
    text = json.dumps(document, allow_nan=False)
    events: list[Event] = json.loads(text)["traceEvents"]
    return events


def tracks(events: list[Event], kind: str = "X") -> dict[str, list[Event]]:
    """Return the events of a kind by the name of their track."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == kind:
            found[names[event["pid"], event["tid"]]].append(event)
    return found


def counter(events: list[Event], name: str) -> list[tuple[int, dict[str, int]]]:
    return [(e["ts"], e["args"]) for e in events if e["ph"] == "C" and e["name"] == name]


def test_each_request_and_the_engine_have_a_track() -> None:
    found = tracks(trace(waiting()))
    assert [(e["name"], e["ts"], e["dur"]) for e in found["A"]] == [
        ("queued", 0, 4000), ("prefill 1", 4000, 6000), ("decode", 10_000, 7000)
    ]  # fmt: skip
    assert [(e["name"], e["ts"], e["dur"]) for e in found["B"]] == [("prefill 1", 10_000, 7000)]
    assert [(e["name"], e["ts"], e["dur"]) for e in found["iterations"]] == [
        ("1 + 0", 4000, 6000), ("1 + 1", 10_000, 7000)
    ]  # fmt: skip
    assert found["A"][2]["args"] == {"duration_ms": 7.0, "kv_tokens": 2, "emitted": 2, "iteration": 1, "tokens": 1}


def test_counters_are_tokens_kv_and_queue_over_time() -> None:
    events = trace(evicted("swap"))
    assert counter(events, "tokens") == [
        (0, {"prefill": 2, "decode": 0}), (1000, {"prefill": 0, "decode": 0}),
        (2000, {"prefill": 2, "decode": 0}), (3000, {"prefill": 0, "decode": 0}), (4000, {"prefill": 0, "decode": 1}),
        (5000, {"prefill": 0, "decode": 0}),
    ]  # fmt: skip
    assert [(ts, args["used"]) for ts, args in counter(events, "KV blocks")] == [
        (0, 2), (1000, 2), (2000, 2), (3000, 0), (4000, 3), (5000, 0)
    ]  # fmt: skip
    assert counter(events, "queue") == [(1000, {"waiting": 1}), (4000, {"waiting": 0})]
    assert [(e["name"], e["ts"]) for e in tracks(events, "i")["B"]] == [("evicted", 2000)]


@EVERY_SCENE
def test_events_have_all_that_the_format_demands(scene: str) -> None:
    for event in trace(SCENES[scene]()):
        assert event["ph"] in "XCiM"
        assert isinstance(event["name"], str)
        assert all(isinstance(event[key], int) and event[key] >= 0 for key in ("pid", "tid", "ts"))
        if event["ph"] == "X":
            assert isinstance(event["dur"], int)
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())


@EVERY_SCENE
def test_slices_of_one_track_never_overlap(scene: str) -> None:
    # Perfetto drops or bends slices that overlap in part; overlapping iterations of a broken schedule are cut.
    for slices in tracks(trace(SCENES[scene]())).values():
        end = 0
        for each in slices:
            assert each["ts"] >= end
            end = each["ts"] + each["dur"]


def test_a_crowd_has_all_of_its_tracks_in_order_of_arrival() -> None:
    events = trace(crowd())
    order = [e["tid"] for e in events if e["name"] == "thread_sort_index"]
    assert order == list(range(1, 61))
    assert len(tracks(events)) == 61


def test_broken_rules_stand_on_the_engine_track() -> None:
    found = tracks(trace(SCENES["broken"]()), "i")["iterations"]
    assert [(e["name"], e["ts"]) for e in found] == [
        ("broken: arrival", 8000), ("broken: time-order", 14_000), ("broken: phase", 14_000)
    ]  # fmt: skip


def test_names_of_tracks_are_the_ids() -> None:
    assert set(tracks(trace(SCENES["awkward"]()))) == {*AWKWARD_NAMES, "iterations"}


# --- tables ---------------------------------------------------------------------------------------------------------


def tables(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    found = schedule_tables(*scene, build_timeline(*scene, most_rows=None))
    return {name: table.rows for name, table in found.items()}


def test_the_tables_of_the_example_by_hand() -> None:
    found = tables(waiting())
    assert [(row["start_ms"], row["end_ms"], row["prefill_tokens"], row["decode_tokens"], row["kv_blocks"])
            for row in found["iterations"]] == [(4, 10, 1, 0, 1), (10, 17, 1, 1, 3)]  # fmt: skip
    first = found["requests"][0]
    assert [first[key] for key in ("id", "started_ms", "first_token_ms", "last_token_ms", "queued_ms", "chunks")] == [
        "A", 4.0, 10.0, 17.0, 4.0, 1
    ]  # fmt: skip
    assert [tuple(row.values()) for row in found["tokens"]] == [
        ("A", 1, 10.0, None, 0, "prefill"), ("A", 2, 17.0, 7.0, 1, "decode"), ("B", 1, 17.0, None, 1, "prefill")
    ]  # fmt: skip


@EVERY_SCENE
def test_the_tables_agree_with_the_metrics(scene: str) -> None:
    instance, plan = SCENES[scene]()
    found, metrics = tables((instance, plan)), all_metrics(instance, plan)
    assert len(found["iterations"]) == metrics["iterations"]
    assert len(found["tokens"]) == metrics["output_tokens"]
    gaps = [row["gap_ms"] for row in found["tokens"] if row["gap_ms"] is not None]
    assert (max(gaps) if gaps else None) == metrics["max_tbt"]
    assert sum(row["evictions"] for row in found["requests"]) == metrics["preemptions"]
    known = {entry["id"]: entry for entry in per_request(instance, plan)}
    for row in found["requests"]:
        assert {key: row[key] for key in known[row["id"]]} == known[row["id"]]


def test_tokens_of_a_request_in_progress_are_numbered_on_and_its_first_gap_began_before() -> None:
    instance = build([Request("r", 4, 4, progress=Progress(4, 2, last_token_us=-3000))], 1)
    found = tables((instance, schedule((0, 1, {}, ["r"]), (1, 1, {}, ["r"]))))
    assert [(row["token"], row["gap_ms"]) for row in found["tokens"]] == [(3, 4.0), (4, 1.0)]
    assert found["requests"][0]["first_token_ms"] is None


@pytest.mark.parametrize("scene", ["awkward", "empty", "recompute"])
def test_csv_and_parquet_hold_the_same_rows(scene: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    plan = SCENES[scene]()
    for name, table in schedule_tables(*plan, build_timeline(*plan, most_rows=None)).items():
        (tmp_path / name).write_bytes(parquet_bytes(table))
        back = parquet.read_table(tmp_path / name)
        assert back.to_pylist() == table.rows
        assert back.column_names == list(table.columns)
        text = csv_bytes(table).decode()
        read = list(csv.DictReader(text.splitlines(keepends=True)))
        assert [list(row.values()) for row in read] == [
            ["" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
             for value in row.values()] for row in table.rows
        ]  # fmt: skip


def test_without_pyarrow_parquet_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = schedule_tables(*waiting(), build_timeline(*waiting()))["tokens"]
    with pytest.raises(InputError, match="pip install pyarrow"):
        parquet_bytes(table)


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert chunkfront("simulate", "utilisation", "--policy", "static", "--out", path).code == 0
    return path


def test_the_command_writes_a_trace(plan: Path, tmp_path: Path) -> None:
    outcome = chunkfront("export", plan, "--to", "perfetto", "--out", tmp_path / "trace.json", "--json")
    assert outcome.code == 0
    assert outcome.document["files"] == [str(tmp_path / "trace.json")]
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["otherData"] == {"instance": "utilisation", "producer": "static", "valid": True}
    assert document["displayTimeUnit"] == "ms"


def test_the_command_writes_three_tables(plan: Path, tmp_path: Path) -> None:
    outcome = chunkfront("export", plan, "--to", "csv", "--out", tmp_path / "new" / "tables")
    assert outcome.code == 0
    written = sorted(path.name for path in (tmp_path / "new" / "tables").iterdir())
    assert written == ["iterations.csv", "requests.csv", "tokens.csv"]


def test_a_broken_schedule_is_exported_and_exits_1(tmp_path: Path) -> None:
    instance, broken = SCENES["broken"]()
    (tmp_path / "i.json").write_text(instance.to_json())
    (tmp_path / "s.json").write_text(broken.to_json())
    args = ("--instance", tmp_path / "i.json", "--out", tmp_path / "t.json", "--json")
    outcome = chunkfront("export", tmp_path / "s.json", "--to", "perfetto", *args)
    assert outcome.code == 1
    assert not outcome.document["valid"]
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["valid"] is False


@pytest.mark.parametrize(
    ("args", "named"),
    [(["--to", "xml", "--out", "x"], "--to: expected one of perfetto, csv, parquet, got 'xml'"),
     (["--to", "perfetto", "--out", "no/where/x.json"], "--out"), (["--to", "csv"], "--out")],
)  # fmt: skip
def test_bad_usage_is_refused(plan: Path, args: list[str], named: str) -> None:
    outcome = chunkfront("export", plan, *args)
    assert outcome.code == 2
    assert named in outcome.err
