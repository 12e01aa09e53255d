"""``chunkfront show``: where the instance comes from, kinds of output, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.command import ROOT, chunkfront
from tests.judges.scenes import broken, waiting


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The schedule and the instance of model.md §8, example 1."""
    instance, plan = waiting()
    (tmp_path / "instance.json").write_text(instance.to_json())
    (tmp_path / "plan.json").write_text(plan.to_json())
    return tmp_path / "plan.json", tmp_path / "instance.json"


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    path = tmp_path / "bundled.json"
    assert chunkfront("simulate", "utilisation", "--policy", "static", "--out", path).code == 0
    return path


def test_a_schedule_of_a_bundled_instance_needs_no_more_than_its_file(bundled: Path) -> None:
    outcome = chunkfront("show", bundled)
    assert outcome.code == 0
    assert outcome.out.startswith("utilisation (static): ")


def test_another_instance_is_named_by_an_option(files: tuple[Path, Path]) -> None:
    outcome = chunkfront("show", files[0], "--instance", files[1])
    assert outcome.code == 0
    assert "7 ms" in outcome.out


def test_without_its_instance_a_schedule_is_refused_with_what_to_do(files: tuple[Path, Path]) -> None:
    outcome = chunkfront("show", files[0])
    assert outcome.code == 2
    assert "the schedule is of 'built'" in outcome.err
    assert "--instance FILE" in outcome.err


def test_the_instance_of_another_schedule_is_refused(bundled: Path) -> None:
    outcome = chunkfront("show", bundled, "--instance", "chat")
    assert outcome.code == 2
    assert "'utilisation'" in outcome.err
    assert "'chat'" in outcome.err


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.html", b"<!doctype html>")]
)
def test_the_suffix_chooses_the_kind_of_picture(
    files: tuple[Path, Path], tmp_path: Path, name: str, start: bytes
) -> None:
    outcome = chunkfront("show", files[0], "--instance", files[1], "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--out", "a.gif"], "ends in .png, .svg, .html"),
        (["--out", "missing/a.png"], "--out"),
        (["--stall", "-1"], "--stall"),
        (["--instance", "nowhere"], "nowhere"),
    ],
)
def test_bad_usage_is_refused_before_any_work(bundled: Path, args: list[str], named: str) -> None:
    outcome = chunkfront("show", bundled, *args)
    assert outcome.code == 2
    assert named in outcome.err


def test_a_file_that_is_no_schedule_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    outcome = chunkfront("show", tmp_path / "x.json")
    assert outcome.code == 2
    assert "x.json" in outcome.err


def test_a_schedule_that_breaks_rules_is_shown_with_them_and_exits_1(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(broken()[1].to_json())
    args = ("show", tmp_path / "broken.json", "--instance", files[1])
    outcome = chunkfront(*args)
    assert outcome.code == 1
    assert "INVALID: 3 broken rules" in outcome.out
    drawn = chunkfront(*args, "--out", tmp_path / "broken.png")
    assert drawn.code == 1
    assert "time-order" in drawn.out
    assert (tmp_path / "broken.png").exists()


def test_json_holds_the_timeline(files: tuple[Path, Path]) -> None:
    document = chunkfront("show", files[0], "--instance", files[1], "--stall", 6.5, "--json").document
    assert document["valid"]
    assert [request["id"] for request in document["requests"]] == ["A", "B"]
    assert document["requests"][0]["spans"][0] == {
        "kind": "queued", "start_ms": 0.0, "end_ms": 4.0, "iteration": None, "tokens": 0, "kv_tokens": 0, "emitted": 0
    }  # fmt: skip
    assert document["stalls"] == [{"request": "A", "start_ms": 10.0, "end_ms": 17.0}]
    assert document["idle"] == [{"start_ms": 0.0, "end_ms": 4.0}]


@pytest.mark.parametrize("columns", ["60", "200"])
def test_the_width_of_the_terminal_is_used_and_kept(
    files: tuple[Path, Path], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = chunkfront("show", files[0], "--instance", files[1]).out.splitlines()
    assert int(columns) - 2 <= max(len(line) for line in lines) <= int(columns)


def test_the_readme_shows_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = readme.split("`chunkfront show plan.json`):\n\n")[1].split("\n\n")[0].splitlines()
    plan = tmp_path / "plan.json"
    chunkfront("simulate", "interference", "--policy", "greedy-chunked:chunk=500", "--out", plan)
    monkeypatch.setenv("COLUMNS", "76")
    printed = chunkfront("show", plan).out.splitlines()
    assert len(picture) == 11
    assert [line[4:] for line in picture] == printed[2:13]
