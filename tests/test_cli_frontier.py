"""``chunkfront frontier``: the document key by key, files, exit codes, being cut short."""

from __future__ import annotations

import csv
import json
import signal
import time
from pathlib import Path

import pytest

from heuristics.registry import policy_names
from instances.bundled import load_bundled
from instances.check import violations
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.metrics import report
from instances.request import Request
from instances.schedule import Schedule
from instances.units import PS_PER_MS
from tests.judges.command import Outcome, chunkfront, start

DOCUMENTED = {"axes", "complete", "units", "points", "open_intervals", "policies", "wall_s"}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """model.md §8, example 1: the frontier (makespan, max TBT) is {(17, 7), (18, 6)} ms."""
    requests = (Request("A", 1, 2), Request("B", 1, 1, arrival_us=10_000))
    cost = CostModel.linear(5 * PS_PER_MS, PS_PER_MS, PS_PER_MS)
    path = tmp_path / "waiting.json"
    path.write_text(Instance("waiting", requests, EngineLimits(8), cost).to_json())
    return path


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """Two prompts of 4 tokens, a budget of 4: one first token at 1 ms, the other at 2 ms."""
    path = tmp_path / "tight.json"
    requests = (Request("a", 4, 1), Request("b", 4, 1))
    path.write_text(Instance("tight", requests, EngineLimits(4), CostModel.unit()).to_json())
    return path


def test_the_document_has_every_documented_key_and_each_schedule_shows_its_point(waiting: Path) -> None:
    outcome = chunkfront("frontier", waiting, "--json")
    assert outcome.code == 0
    document = outcome.document
    assert set(document) >= DOCUMENTED
    assert (document["axes"], document["units"]) == (["makespan", "max_tbt"], ["ms", "ms"])
    assert (document["complete"], document["open_intervals"]) == (True, [])
    assert [point["values"] for point in document["points"]] == [[17.0, 7.0], [18.0, 6.0]]
    instance = Instance.read(waiting)
    for point in document["points"]:
        assert set(point) == {"values", "status", "bounds", "metrics", "schedule"}
        assert (point["status"], point["bounds"]) == ("OPTIMAL", point["values"])
        schedule = Schedule.from_dict(point["schedule"])
        assert violations(instance, schedule) == []
        assert report(instance, schedule) == point["metrics"]
        assert [point["metrics"]["makespan_ms"], point["metrics"]["max_tbt_ms"]] == point["values"]


def test_every_heuristic_stands_in_the_same_plane(waiting: Path) -> None:
    policies = chunkfront("frontier", waiting, "--json").document["policies"]
    names = list(policy_names())
    assert [policy["name"] for policy in policies] == names
    for policy in policies:
        assert {"name", "values", "comparable", "dominated_by", "excess"} <= set(policy)
        assert set(policy["excess"]) == {"makespan", "max_tbt"}
        # No policy can beat the frontier: 17 ms is the least makespan.
        assert policy["values"][0] >= 17
        assert policy["comparable"]
        assert all(ratio >= 0 for ratio in policy["excess"].values())


def test_axes_come_from_the_option_the_instance_or_the_default(waiting: Path) -> None:
    assert chunkfront("frontier", waiting, "--axes", "max_tbt,makespan", "--json").document["axes"] == [
        "max_tbt",
        "makespan",
    ]
    assert chunkfront("frontier", "utilisation", "--json").document["axes"] == list(
        load_bundled("utilisation").axes or ()
    )
    assert chunkfront("frontier", waiting, "--json").document["axes"] == ["makespan", "max_tbt"]


def test_points_are_in_order_of_the_first_axis_also_when_it_is_maximised(waiting: Path) -> None:
    # Three tokens in 18 and in 17 ms.
    document = chunkfront("frontier", waiting, "--axes", "throughput,max_tbt", "--json").document
    assert document["units"] == ["tokens/s", "ms"]
    assert [point["values"] for point in document["points"]] == [
        [pytest.approx(3000 / 18), 6.0], [pytest.approx(3000 / 17), 7.0]
    ]  # fmt: skip
    assert all(ratio >= 0 for policy in document["policies"] for ratio in policy["excess"].values())


def test_a_limit_cuts_the_frontier_and_makes_policies_incomparable(waiting: Path) -> None:
    document = chunkfront("frontier", waiting, "--limit", "max_ttft=9", "--json").document
    # The point (17, 7) has A's first token at 10; with 9 it starts at 3 at the latest, ends at 9: the gap is 8.
    assert [point["values"] for point in document["points"]] == [[17.0, 8.0], [18.0, 6.0]]
    limited = chunkfront("frontier", waiting, "--limit", "max_tbt=5.9", "--json")
    assert limited.code == 1
    assert limited.document["points"] == []
    assert limited.document["status"] == "INFEASIBLE"
    assert {policy["comparable"] for policy in limited.document["policies"]} == {False}
    assert all("max_tbt" in policy["reason"] for policy in limited.document["policies"])


def test_infeasible_limits_are_told_in_words(tight: Path) -> None:
    outcome = chunkfront("frontier", tight, "--limit", "max_ttft=1")
    assert outcome.code == 1
    assert "no schedule obeys the limits (proved)" in outcome.out


def test_without_policies_the_frontier_stands_alone(waiting: Path) -> None:
    outcome = chunkfront("frontier", waiting, "--policies", "none", "--json")
    assert (outcome.document["policies"], len(outcome.document["points"])) == ([], 2)


def test_chosen_policies_with_knobs_are_compared(waiting: Path) -> None:
    document = chunkfront(
        "frontier", waiting, "--policies", "orca,greedy-chunked:order=srpt,chunk=4", "--json"
    ).document
    assert [policy["name"] for policy in document["policies"]] == ["orca", "greedy-chunked:order=srpt,chunk=4"]


def test_all_policies_can_be_followed_by_more(waiting: Path) -> None:
    document = chunkfront("frontier", waiting, "--policies", "all,greedy-chunked:chunk=4", "--json").document
    names = list(policy_names())
    assert [policy["name"] for policy in document["policies"]] == [*names, "greedy-chunked:chunk=4"]


def test_a_grid_bounds_the_number_of_points_and_what_is_missed(tmp_path: Path) -> None:
    # Steady arrivals starve a stream: four points (mean TTFT, max TBT), 1 ms apart on the second axis.
    requests = (Request("r0", 2, 4), *(Request(f"r{k}", 4, 1, arrival_us=1000 * k) for k in (1, 2, 3)))
    path = tmp_path / "starving.json"
    path.write_text(Instance("starving", requests, EngineLimits(4), CostModel.unit()).to_json())
    args = ("frontier", path, "--axes", "mean_ttft,max_tbt", "--policies", "none")
    whole = [point["values"] for point in chunkfront(*args, "--json").document["points"]]
    assert whole == [[1.0, 4.0], [1.25, 3.0], [1.5, 2.0], [1.75, 1.0]]
    document = chunkfront(*args, "--resolution", 2, "--json").document
    grid = [point["values"] for point in document["points"]]
    assert document["resolution"] == 2
    assert len(grid) < 4
    assert [(x, y) for x, y in whole if not any(gx <= x and gy - 2 <= y for gx, gy in grid)] == []
    assert "on a grid of 2 ms" in chunkfront(*args, "--resolution", 2).out


def test_the_files_hold_the_same_as_the_document(waiting: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    outcome = chunkfront("frontier", waiting, "--out", out, "--json")
    kinds = ("csv", "json", "png", "svg")
    assert sorted(path.name for path in out.iterdir()) == [*(f"frontier.{kind}" for kind in kinds), "instance.json"]
    assert Instance.read(out / "instance.json") == Instance.read(waiting)
    assert json.loads((out / "frontier.json").read_text()) == outcome.document
    assert (out / "frontier.png").read_bytes().startswith(PNG)
    assert "<svg" in (out / "frontier.svg").read_text()
    with (out / "frontier.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    points = [row for row in rows if row["kind"] == "point"]
    assert [(float(row["makespan_ms"]), float(row["max_tbt_ms"]), row["status"]) for row in points] == [
        (17, 7, "OPTIMAL"), (18, 6, "OPTIMAL")
    ]  # fmt: skip
    assert [row["name"] for row in rows if row["kind"] == "policy"] == [p["name"] for p in outcome.document["policies"]]


def test_the_tables_show_points_heuristics_and_the_clairvoyance(waiting: Path) -> None:
    outcome = chunkfront("frontier", waiting)
    assert outcome.code == 0
    assert outcome.out.startswith("Frontier of waiting, makespan x max_tbt: 2 points, all proved, none missing")
    assert "clairvoyant" in outcome.out
    assert "17.000" in outcome.out


@pytest.mark.parametrize("columns", ["80", "140"])
def test_the_tables_fit_the_width(columns: str, waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    outcome = chunkfront("frontier", waiting)
    assert max(len(line) for line in outcome.out.splitlines()) <= int(columns)


def best_of_policies(document: dict[str, object], at: int) -> float:
    policies = document["policies"]
    assert isinstance(policies, list)
    return min(policy["values"][at] for policy in policies if policy["comparable"])


def test_a_tiny_time_limit_gives_points_with_valid_bounds_and_exit_code_0() -> None:
    outcome = chunkfront("frontier", "interference", "--time-limit", 0.01, "--json")
    assert outcome.code == 0
    document = outcome.document
    assert not document["complete"]
    assert document["open_intervals"]
    assert document["points"]
    instance = load_bundled("interference")
    for point in document["points"]:
        assert violations(instance, Schedule.from_dict(point["schedule"])) == []
        assert all(bound <= value for bound, value in zip(point["bounds"], point["values"], strict=True))


def test_a_frontier_cut_short_is_never_worse_than_the_heuristics() -> None:
    document = chunkfront("frontier", "interference", "--time-limit", 0.01, "--json").document
    assert document["points"]
    for at in (0, 1):
        assert min(point["values"][at] for point in document["points"]) <= best_of_policies(document, at)


def test_the_time_limit_covers_the_whole_command() -> None:
    started = time.monotonic()
    outcome = chunkfront("frontier", "tight-slos", "--axes", "mean_ttft,mean_e2e", "--time-limit", 3, "--json")
    assert time.monotonic() - started < 3 + 8  # grace for building models and for stopping the search
    assert outcome.code == 0
    assert outcome.document["complete"] is (outcome.document["open_intervals"] == [])


def interrupted(after_s: float, *args: object) -> Outcome:
    process = start(*args)
    time.sleep(after_s)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=40)
    return Outcome(process.returncode, out, err)


def test_ctrl_c_writes_what_is_proved_and_exits_130(tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = interrupted(6, "frontier", "tight-slos", "--axes", "mean_ttft,mean_e2e", "--out", out, "--json")
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    document = outcome.document
    assert document["interrupted"]
    assert not document["complete"]
    assert json.loads((out / "frontier.json").read_text()) == document
    assert sorted(path.suffix for path in out.glob("frontier.*")) == [".csv", ".json", ".png", ".svg"]


def test_what_the_solver_refuses_is_exit_code_2_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from instances.errors import InputError

    def refuse(*_: object, **__: object) -> None:
        raise InputError("the model would be too large: 10 literals, at most 5", field="instance")

    monkeypatch.setattr("solver.frontier.frontier", refuse)
    outcome = chunkfront("frontier", "utilisation")
    assert outcome.code == 2
    assert "too large" in outcome.err
