"""The page of a frontier: its numbers are the document's, nothing is fetched, every kind of frontier has one."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from chunkfront.report.page import report_page
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.metrics import json_key
from instances.request import Request
from instances.units import PS_PER_MS
from tests.judges.command import chunkfront
from tests.judges.pages import Page

ODD = ("<b>A</b>", "日本$x$" + "y" * 200)
"""Names of the two requests of the odd instance."""
Document = dict[str, Any]


def two_requests(first: str, second: str, name: str) -> Instance:
    """model.md §8, example 1: the frontier (makespan, max TBT) is {(17, 7), (18, 6)} ms."""
    requests = (Request(first, 1, 2), Request(second, 1, 1, arrival_us=10_000))
    return Instance(name, requests, EngineLimits(8), CostModel.linear(5 * PS_PER_MS, PS_PER_MS, PS_PER_MS))


def run_frontier(instance: Instance, folder: Path, *args: str) -> Path:
    """Write what ``frontier --out`` does, but for the plots, which take their time."""
    (folder / "instance.json").write_text(instance.to_json())
    outcome = chunkfront("frontier", folder / "instance.json", *args, "--json")
    assert outcome.code == 0
    (folder / "frontier.json").write_text(outcome.out)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policies = "static,orca,vllm-v1,greedy-chunked:chunk=1,sglang"
    return run_frontier(two_requests("A", "B", "waiting"), tmp_path_factory.mktemp("r"), "--policies", policies)


@pytest.fixture
def document(results: Path) -> Document:
    found: Document = json.loads((results / "frontier.json").read_text())
    return found


@pytest.fixture(scope="module")
def instance(results: Path) -> Instance:
    return Instance.read(results / "instance.json")


def without_libraries(text: str) -> str:
    """Return a page without plotly, which is the first script."""
    start = text.index("<script>/**")
    return text[:start] + text[text.index("</script>", start) + len("</script>") :]


def page_of(document: Document, instance: Instance) -> Page:
    return Page(without_libraries(report_page(document, instance)))


def close(left: list[float], right: list[float | None]) -> bool:
    """Compare the numbers of a row with those of the document that are there."""
    return left == pytest.approx([value for value in right if value is not None], abs=1e-12, rel=1e-12)


def test_the_tables_hold_the_numbers_of_the_document(document: Document, instance: Instance) -> None:
    page = page_of(document, instance)
    more = [json_key(name) for name in ("mean_ttft", "mean_e2e", "throughput")]
    heads, *points = page.tables["points"]
    assert "makespan (ms)" in heads.cells
    assert len(points) == len(document["points"]) == 2
    for row, point in zip(points, document["points"], strict=True):
        assert close(row.values, [*point["values"], *point["bounds"], 0, 0, *(point["metrics"][key] for key in more)])
        assert point["status"].lower() in row.cells
    _, *policies = page.tables["policies"]
    for row, policy in zip(policies, document["policies"], strict=True):
        assert row.cells[0] == policy["name"]
        expected = [*policy["values"], *policy["excess"].values(), *(policy["metrics"][key] for key in more)]
        assert close(row.values, expected)
    assert page.data["document-json"] == document
    assert page.data["instance-json"] == instance.to_dict()


def test_the_page_says_what_was_asked_what_was_found_and_how_to_ask_again(
    document: Document, instance: Instance
) -> None:
    page = page_of(document, instance)
    assert "makespan (ms, smaller is better) and max_tbt (ms, smaller is better)" in page.texts["question"]
    assert "2 points, all proved, none missing" in page.texts["verdict"]
    assert "2 of 2 points proved" in page.texts["proofs"]
    assert [row.cells[:4] for row in page.tables["requests"][1:]] == [["A", "0.0", "1", "2"], ["B", "10.0", "1", "1"]]
    assert json.loads(page.texts["settings"]) == document["settings"]


def test_the_command_of_the_page_gives_the_same_points(
    document: Document, instance: Instance, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *args = shlex.split(page_of(document, instance).texts["command"])
    assert program == "chunkfront"
    monkeypatch.chdir(results)
    again = chunkfront(*args, "--json").document
    assert [point["values"] for point in again["points"]] == [point["values"] for point in document["points"]]
    assert again["settings"] == document["settings"]


def test_nothing_is_fetched_and_no_name_is_markup(tmp_path: Path) -> None:
    odd = two_requests(*ODD, "<script>alert(1)</script> & 日本")
    out = run_frontier(odd, tmp_path, "--policies", "orca")
    text = without_libraries(report_page(json.loads((out / "frontier.json").read_text()), odd))
    page = Page(text)
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert "http" not in text.replace(page.texts["settings"], "")
    assert "<script>alert" not in text
    assert "b" not in page.elements
    assert [row.cells[0] for row in page.tables["requests"][1:]] == list(ODD)
    assert page.data["document-json"]["instance"] == odd.name


def test_every_point_and_heuristic_has_its_schedule_and_equal_ones_share_a_picture(
    document: Document, instance: Instance
) -> None:
    page = page_of(document, instance)
    rows = page.tables["points"][1:] + page.tables["policies"][1:]
    pictures = [page.data[f"picture-{row.attributes['data-picture']}"] for row in rows]
    for picture, entry in zip(pictures, document["points"] + document["policies"], strict=True):
        bars = [trace for trace in picture["data"] if trace["type"] == "bar"]
        names = {trace["name"]: trace for trace in bars}
        work = sum(len(it["prefill"]) + len(it["decode"]) for it in entry["schedule"]["iterations"])
        assert len(names["prefill chunk"]["x"]) + len(names["decode"]["x"]) == work
    distinct = {json.dumps(entry["schedule"]["iterations"]) for entry in document["points"] + document["policies"]}
    assert len([name for name in page.data if name.startswith("picture-")]) == len(distinct) < len(rows)


def test_a_reader_without_javascript_has_a_picture_of_two_axes(document: Document, instance: Instance) -> None:
    assert any(link.startswith("data:image/svg+xml;base64,") for link in page_of(document, instance).links)


def cut_short(document: Document) -> Document:
    changed = copy.deepcopy(document)
    changed |= {"complete": False, "status": "FEASIBLE"}
    changed["points"][1] |= {"status": "FEASIBLE", "bounds": [16.0, 6.0]}
    changed["open_intervals"] = [{"axis": "max_tbt", "above": 6.0, "below": 7.0}]
    return changed


def test_a_frontier_cut_short_says_what_is_open_and_how_large_its_gaps_are(
    document: Document, instance: Instance
) -> None:
    page = page_of(cut_short(document), instance)
    assert "cut short: 2 points, 1 of them proved" in page.texts["verdict"]
    assert page.tables["points"][2].values[4:6] == [pytest.approx(2 / 18), 0.0]  # (18 - 16) / 18
    names = [trace["name"] for trace in page.data["figure"]["data"]]
    assert {"best found so far", "proved point", "point, not proved"} <= set(names)
    shades = [shape for shape in page.data["figure"]["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(shape["y0"], shape["y1"]) for shape in shades] == [(6.0, 7.0)]


def test_without_a_comparable_heuristic_the_reasons_stand_there(document: Document, instance: Instance) -> None:
    for policy in document["policies"]:
        policy |= {"comparable": False, "reason": "breaks <a> rule", "values": [None, None], "schedule": None,
                   "excess": {"makespan": None, "max_tbt": None}}  # fmt: skip
    page = page_of(document, instance)
    assert {row.cells[-1] for row in page.tables["policies"][1:]} == {"breaks <a> rule"}
    assert "0 of 5 heuristics are comparable" in page.texts["proofs"]


@pytest.mark.parametrize("status", ["UNKNOWN", "INFEASIBLE"])
def test_a_frontier_without_points_has_a_page(document: Document, instance: Instance, status: str) -> None:
    document |= {"points": [], "policies": [], "status": status, "hypervolume": None}
    document["complete"] = status == "INFEASIBLE"
    page = page_of(document, instance)
    assert "points" not in page.tables
    notes = [note["text"] for note in page.data["figure"]["layout"]["annotations"]]
    assert notes == [f"no point found: {status}"]


def test_limits_that_conflict_are_named(document: Document, instance: Instance) -> None:
    conflict = {"limit": "max_ttft", "kind": "metric", "value": 1.0, "unit": "ms", "matters": True, "needed": 6.0,
                "bound": 6.0, "proved": True, "alone": True}  # fmt: skip
    document |= {"points": [], "status": "INFEASIBLE", "complete": True, "conflict": [conflict], "wall_s": None}
    page = page_of(document, instance)
    assert "Why: no schedule keeps max_ttft <= 1 ms." in page.texts["conflict"]
    assert "deterministic" in page.texts["verdict"]


def test_three_axes_are_drawn_pair_by_pair(document: Document, instance: Instance) -> None:
    document["axes"].append("mean_ttft")
    document["units"].append("ms")
    for entry in document["points"] + document["policies"]:
        entry["values"].append(entry["metrics"]["mean_ttft_ms"])
        if "bounds" in entry:
            entry["bounds"].append(entry["metrics"]["mean_ttft_ms"])
    page = page_of(document, instance)
    layout = page.data["figure"]["layout"]
    assert [layout[axis]["title"]["text"] for axis in ("xaxis3", "yaxis3")] == ["max_tbt (ms)", "mean_ttft (ms)"]
    proved = [trace for trace in page.data["figure"]["data"] if trace["name"] == "proved point"]
    assert len(proved) == 3
    assert any(link.startswith("data:image/svg+xml") for link in page.links)
    assert "bound on mean_ttft" in page.tables["points"][0].cells


def test_a_maximised_axis_says_so_and_its_gap_is_relative_to_the_bound(document: Document, instance: Instance) -> None:
    document |= {"axes": ["throughput", "max_tbt"], "units": ["tokens/s", "ms"]}
    for point in document["points"]:
        point["values"][0] = 160.0
        point["bounds"][0] = 200.0
    page = page_of(document, instance)
    assert page.data["figure"]["layout"]["xaxis"]["title"]["text"] == "throughput (tokens/s, larger is better)"
    assert page.tables["points"][1].values[4] == pytest.approx(0.2)  # (200 - 160) / 200


def test_a_sweep_has_a_table_and_a_curve(tmp_path: Path) -> None:
    waiting = two_requests("A", "B", "waiting")
    args = ("--policies", "greedy-chunked", "--sweep", "max_num_batched_tokens=2,4")
    out = run_frontier(waiting, tmp_path, *args)
    found = json.loads((out / "frontier.json").read_text())
    page = page_of(found, waiting)
    assert [row.cells[1] for row in page.tables["sweep"][1:]] == ["2", "4"]
    assert "greedy-chunked, max_num_batched_tokens swept" in [trace["name"] for trace in page.data["figure"]["data"]]


# --- the commands ---------------------------------------------------------------------------------------------------


def test_the_report_lies_in_the_directory_or_where_it_is_asked_for(results: Path, tmp_path: Path) -> None:
    outcome = chunkfront("report", results)
    assert (outcome.code, outcome.out.strip()) == (0, str(results / "report.html"))
    own = tmp_path / "own.html"
    assert chunkfront("report", results, "--out", own, "--json").document["file"] == str(own)
    assert own.read_text() == (results / "report.html").read_text()


def test_frontier_writes_the_same_page_at_once(tmp_path: Path) -> None:
    args = ("--policies", "none", "--report", str(tmp_path / "a.html"))
    out = run_frontier(two_requests("A", "B", "waiting"), tmp_path, *args)
    chunkfront("report", out, "--out", tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()


def test_frontier_refuses_a_page_that_cannot_be_written_before_any_work() -> None:
    outcome = chunkfront("frontier", "utilisation", "--report", "no/where/page.html")
    assert outcome.code == 2
    assert "--report" in outcome.err


def test_results_without_their_instance_need_it_named(results: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "frontier.json").write_text((results / "frontier.json").read_text())
    refused = chunkfront("report", alone)
    assert refused.code == 2
    assert "--instance" in refused.err
    assert "'chat'" in chunkfront("report", alone, "--instance", "chat").err
    assert chunkfront("report", alone, "--instance", results / "instance.json").code == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "there is no"), ("{", "frontier.json"), ("{}", "instance"), ('{"instance": 3}', "instance"),
        ("[]", "object"),
    ],
)
def test_what_is_no_result_of_a_frontier_is_refused_by_name(tmp_path: Path, text: str | None, named: str) -> None:
    if text is not None:
        (tmp_path / "frontier.json").write_text(text)
    outcome = chunkfront("report", tmp_path)
    assert outcome.code == 2
    assert named in outcome.err
    assert "Traceback" not in outcome.err


def test_axes_and_values_that_do_not_fit_are_refused(results: Path, document: Document, tmp_path: Path) -> None:
    (tmp_path / "instance.json").write_text((results / "instance.json").read_text())
    three = {"axes": ["makespan", "max_tbt", "max_e2e"], "units": ["ms"] * 3}
    for change in ({"axes": ["makespan", "beauty"]}, {"axes": ["makespan"]}, three):
        (tmp_path / "frontier.json").write_text(json.dumps(document | change))
        assert chunkfront("report", tmp_path).code == 2
