"""``frontier`` with three axes, limits that conflict, and deterministic answers: what the commands print and write."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from chunkfront.sentences import conflict_sentences
from instances.check import violations
from instances.instance import Instance
from instances.schedule import Schedule
from solver.result import ConflictingLimit
from tests.judges.build import base_and_tokens, build
from tests.judges.command import chunkfront, start

AXES = "makespan,mean_ttft,max_tbt"


@pytest.fixture
def spike(tmp_path: Path) -> Path:
    """A stream of 4 tokens, and a prompt of 12 at 3 ms."""
    path = tmp_path / "spike.json"
    path.write_text(build([(0, 1, 4), (3, 12, 1)], 16, base_and_tokens(2)).to_json())
    return path


@pytest.fixture
def one_seat(tmp_path: Path) -> Path:
    """Three requests of one prompt token and two outputs, unit cost, one seat: 6 ms one after the other."""
    path = tmp_path / "one-seat.json"
    path.write_text(build([(0, 1, 2)] * 3, 8, max_num_seqs=1).to_json())
    return path


def test_three_axes_make_triples_bounds_and_excess_of_three(spike: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = chunkfront("frontier", spike, "--axes", AXES, "--resolution", 1, "--out", out, "--json")
    assert outcome.code == 0
    document = outcome.document
    assert (document["axes"], document["units"]) == (AXES.split(","), ["ms"] * 3)
    assert (document["complete"], document["open_intervals"], document["open_zones"]) == (True, [], [])
    instance = Instance.read(spike)
    for point in document["points"]:
        assert (len(point["values"]), point["bounds"], point["status"]) == (3, point["values"], "OPTIMAL")
        assert violations(instance, Schedule.from_dict(point["schedule"])) == []
        assert point["values"] == [point["metrics"][f"{axis}_ms"] for axis in document["axes"]]
    placed = [policy for policy in document["policies"] if policy["comparable"]]
    assert placed
    for policy in placed:
        assert set(policy["excess"]) == set(document["axes"])
        if policy["dominated_by"] is not None:
            point = document["points"][policy["dominated_by"]]["values"]
            assert all(p <= v for p, v in zip(point, policy["values"], strict=True))
            assert point != policy["values"]
    assert 0 < document["hypervolume"]["ratio"] <= 1
    assert len(document["hypervolume"]["reference"]) == 3
    assert json.loads((out / "frontier.json").read_text()) == document
    assert (out / "frontier.png").read_bytes().startswith(b"\x89PNG")
    with (out / "frontier.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "point"]
    assert [[float(row[f"{axis}_ms"]) for axis in document["axes"]] for row in rows] == [
        point["values"] for point in document["points"]
    ]


def test_three_axes_in_words(spike: Path) -> None:
    outcome = chunkfront("frontier", spike, "--axes", AXES, "--resolution", 4, "--policies", "orca")
    assert outcome.out.startswith("Frontier of built, makespan x mean_ttft x max_tbt: ")
    assert "all proved, none missing on a grid of 4 ms" in outcome.out
    assert "of the volume that the frontier covers" in outcome.out


def test_one_cut_short_names_its_open_zones(spike: Path) -> None:
    args = ("frontier", spike, "--axes", AXES, "--policies", "none", "--deterministic", "--time-limit", 0.001)
    document = chunkfront(*args, "--json").document
    assert not document["complete"]
    assert document["open_zones"]
    assert set(document["open_zones"][0]) == {"better_than", "bounds"}
    text = chunkfront(*args).out
    assert "Open: points may be missing" in text
    assert "cut short" in text


@pytest.mark.parametrize("axes", ["makespan", "makespan,max_tbt,mean_ttft,mean_e2e", "makespan,max_tbt,throughput"])
def test_one_four_or_equal_axes_are_refused(spike: Path, axes: str) -> None:
    outcome = chunkfront("frontier", spike, "--axes", axes)
    assert outcome.code == 2
    assert "--axes" in outcome.err


def test_an_infeasible_solve_names_the_limits_that_conflict(one_seat: Path) -> None:
    outcome = chunkfront("solve", one_seat, "--limit", "makespan=3", "--json")
    assert outcome.code == 1
    found = {member["limit"]: member for member in outcome.document["conflict"]}
    assert set(found) == {"max_num_seqs", "makespan"}
    assert found["makespan"] == {
        "limit": "makespan", "kind": "metric", "value": 3.0, "unit": "ms", "matters": True, "needed": 6.0, "bound": 6.0,
        "proved": True, "alone": True,
    }  # fmt: skip
    text = chunkfront("solve", one_seat, "--limit", "makespan=3").out
    assert "Why: max_num_seqs = 1 and makespan <= 3 ms conflict; no schedule keeps all of them." in text
    assert "- makespan: at least 6 ms is needed, and enough while all other limits stay (proved)." in text
    # What is said to be enough is enough, and not more than that.
    assert chunkfront("solve", one_seat, "--limit", "makespan=6").code == 0
    assert chunkfront("solve", one_seat, "--limit", "makespan=5.999").code == 1


def test_an_infeasible_frontier_and_a_comparison_say_it_too(one_seat: Path) -> None:
    outcome = chunkfront("frontier", one_seat, "--limit", "makespan=3", "--policies", "none", "--json")
    assert outcome.code == 1
    assert {member["limit"] for member in outcome.document["conflict"]} == {"max_num_seqs", "makespan"}
    text = chunkfront("compare", one_seat, "--limit", "makespan=3", "--policies", "orca").out
    assert "- max_num_seqs: at least 3 is needed" in text


def test_limits_are_worded_as_users_write_them() -> None:
    members = (
        ConflictingLimit("throughput", "metric", 900.0, "tokens/s", True, 850.0, 850.0, True),
        ConflictingLimit("mixed_batches", "engine", False, None, True, True, None, True),
        ConflictingLimit("chunk_sizes", "engine", (1, 2), None, True, None, None, True, False),
        ConflictingLimit("no_pause", "option", True, None, None),
        ConflictingLimit("max_tbt", "metric", 20.0, "ms", True, 25.0, 22.5),
    )
    assert conflict_sentences(members) == [
        "Why: throughput >= 900 tokens/s, mixed_batches = false, chunk_sizes = 1, 2, no_pause and max_tbt <= 20 ms "
        "conflict; no schedule keeps all of them. Whether no_pause can be left out was not decided within the time "
        "limit.",
        "- throughput: at most 850 tokens/s is needed, and enough while all other limits stay (proved).",
        "- mixed_batches: true is enough, nothing tighter is (proved), while all other limits stay.",
        "- chunk_sizes: it must go, beside the limits named here; alone it does not help, because others conflict "
        "too (proved).",
        "- no_pause: how far to loosen it was not decided within the time limit.",
        "- max_tbt: at least 22.5 ms is needed; 25 ms is enough while all other limits stay; not decided more closely "
        "within the time limit.",
    ]
    assert conflict_sentences(()) == []


@pytest.mark.parametrize(
    "args",
    [
        ("solve", "tight-slos", "--minimize", "mean_e2e", "--time-limit", "0.1"),
        ("solve", "SPIKE", "--limit", "max_tbt=9", "--limit", "mean_ttft=8.5"),
        ("frontier", "SPIKE", "--axes", "mean_ttft,max_tbt", "--policies", "orca,sarathi"),
        ("frontier", "SPIKE", "--axes", AXES, "--policies", "none", "--time-limit", "0.15"),
    ],
)
def test_deterministic_answers_are_the_same_bytes_twice(spike: Path, args: tuple[str, ...]) -> None:
    # Different hash seeds order sets of names differently; the second one runs while the first does.
    given = [spike if arg == "SPIKE" else arg for arg in args]
    both = [start(*given, "--deterministic", "--json", hash_seed=seed) for seed in ("1", "2")]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [err for _, err in outputs] == ["", ""]
    assert outputs[0][0] == outputs[1][0]
    document = json.loads(outputs[0][0])
    assert document["wall_s"] is None
    if "--time-limit" in args:  # cut short, with something found
        assert document["status"] == "FEASIBLE"
