"""The command line as a whole: help, exit codes, bad input and usage."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from instances.bundled import bundled_names
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Request
from tests.judges.command import PROGRAM, ROOT, chunkfront, start

COMMANDS = (
    "frontier", "solve", "simulate", "check", "compare", "why", "attack", "trace", "instances", "policies",
)  # fmt: skip
UTILISATION = "utilisation"


@pytest.fixture
def instance_file(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    two = Instance("two", (Request("a", 4, 1), Request("b", 4, 1)), EngineLimits(4), CostModel.unit())
    path.write_text(two.to_json())
    return path


def test_help_lists_every_command_within_half_a_second() -> None:
    # The best of three, because other processes share the machine.
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        done = subprocess.run([*PROGRAM, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 0.5
    assert all(f"  {command} " in done.stdout for command in COMMANDS)


def test_the_command_line_imports_no_solver_and_no_plots_before_they_are_needed() -> None:
    code = (
        "import sys, chunkfront.cli; print([m for m in ('ortools', 'matplotlib', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(command: str) -> None:
    outcome = chunkfront(command, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out


def test_without_a_command_there_is_help_and_exit_code_2() -> None:
    outcome = chunkfront()
    assert outcome.code == 2
    assert "frontier" in outcome.out + outcome.err


def test_version_is_that_of_the_project() -> None:
    version = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version"))
    outcome = chunkfront("--version")
    if outcome.code == 2:
        assert "not installed" in outcome.err
    else:
        assert outcome.out.split() == ["chunkfront", version.split('"')[1]]


USAGE_ERRORS = [
    (["fronteir", UTILISATION], ["fronteir", "frontier"]),
    (["frontier"], ["INSTANCE"]),
    (["frontier", UTILISATION, "--colour"], ["--colour"]),
    (["frontier", UTILISATION, "--axes", "makespan"], ["--axes", "makespan"]),
    (["frontier", UTILISATION, "--axes", "makespan,max_tbt,mean_ttft,mean_e2e"], ["--axes", "two or three metrics"]),
    (["frontier", UTILISATION, "--axes", "makespan,makespan"], ["--axes", "different"]),
    (["frontier", UTILISATION, "--axes", "makespan,throughput"], ["--axes", "throughput"]),
    (["frontier", UTILISATION, "--axes", "makespan,max_tbd"], ["--axes", "max_tbd", "max_tbt"]),
    (["frontier", UTILISATION, "--axes", "makespan,p99_tbt"], ["--axes", "p99_tbt"]),
    (["frontier", UTILISATION, "--resolution", "0"], ["--resolution", "0"]),
    (["frontier", UTILISATION, "--resolution", "nan"], ["--resolution", "nan"]),
    (["frontier", UTILISATION, "--time-limit", "-1"], ["--time-limit", "-1"]),
    (["frontier", UTILISATION, "--time-limit", "inf"], ["--time-limit", "inf"]),
    (["frontier", UTILISATION, "--time-limit", "soon"], ["--time-limit", "soon"]),
    (["frontier", UTILISATION, "--workers", "0"], ["--workers", "0"]),
    (["frontier", UTILISATION, "--max-preemptions", "-1"], ["--max-preemptions", "-1"]),
    (["frontier", UTILISATION, "--seed", "-1"], ["--seed", "-1"]),
    (["frontier", UTILISATION, "--policies", "orca,orca"], ["--policies", "once"]),
    (["frontier", UTILISATION, "--policies", "orca,"], ["--policies", "'orca,'"]),
    (["frontier", UTILISATION, "--policies", "oracle"], ["--policies", "oracle", "static"]),
    (["frontier", UTILISATION, "--policies", "greedy-chunked:chonk=3"], ["--policies", "chonk", "chunk"]),
    (["frontier", UTILISATION, "--limit", "max_tbt"], ["--limit", "max_tbt", "METRIC=MS"]),
    (["solve", UTILISATION, "--limit", "max_tbt=nan"], ["--limit", "max_tbt=nan", "number of ms"]),
    (["solve", UTILISATION, "--limit", "max_tbt=inf"], ["--limit", "max_tbt=inf"]),
    (["solve", UTILISATION, "--limit", "max_tbt=-3"], ["--limit", "max_tbt=-3"]),
    (["solve", UTILISATION, "--limit", "max_tbt=1e300"], ["--limit", "max_tbt=1e300", "number of ms within 0.."]),
    (["solve", UTILISATION, "--limit", "max_tbt=x"], ["--limit", "max_tbt=x"]),
    (["solve", UTILISATION, "--limit", "max_tbt="], ["--limit", "max_tbt="]),
    (["solve", UTILISATION, "--limit", "max_tbd=3"], ["--limit", "max_tbd", "did you mean max_tbt"]),
    (["solve", UTILISATION, "--limit", "max_tbt=3", "--limit", "max_tbt=4"], ["--limit", "once", "max_tbt"]),
    (["solve", UTILISATION, "--limit", "slo_attainment=1.5"], ["--limit", "slo_attainment=1.5", "0..1"]),
    (["solve", UTILISATION, "--limit", "throughput=0"], ["--limit", "throughput=0"]),
    (["solve", UTILISATION, "--minimize", "latency"], ["--minimize", "latency", "makespan"]),
    (["compare", UTILISATION, "--metrics", "makespan,makespan"], ["--metrics", "once"]),
    (["compare", UTILISATION, "--metrics", "p99_tbt"], ["--metrics", "p99_tbt"]),
    (["compare", UTILISATION, "no-such"], ["INSTANCE", "no-such"]),
    (["simulate", UTILISATION], ["--policy"]),
    (["simulate", UTILISATION, "--policy", "oracle"], ["--policy", "oracle", "greedy-chunked"]),
    (["simulate", UTILISATION, "--policy", "greedy-chunked:chunk=many"], ["--policy", "chunk", "many"]),
    (["simulate", UTILISATION, "--policy", "greedy-chunked:chunk"], ["--policy", "key=value"]),
    (["policies", "orka"], ["orka", "orca"]),
]


@pytest.mark.parametrize(("args", "named"), USAGE_ERRORS, ids=[" ".join(args) for args, _ in USAGE_ERRORS])
def test_wrong_usage_is_exit_code_2_and_names_option_value_and_what_was_expected(
    args: list[str], named: list[str]
) -> None:
    outcome = chunkfront(*args)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert "Traceback" not in outcome.err
    assert [text for text in named if text not in outcome.err] == []
    assert outcome.out == ""


def test_with_json_an_error_is_one_document_too() -> None:
    outcome = chunkfront("solve", UTILISATION, "--minimize", "latency", "--json")
    assert outcome.code == 2
    assert list(outcome.document) == ["error"]
    assert outcome.document["error"] in outcome.err


def test_an_unknown_instance_lists_the_bundled_names_and_close_ones() -> None:
    outcome = chunkfront("solve", "interferance")
    assert outcome.code == 2
    assert [name for name in bundled_names() if name not in outcome.err] == []
    assert "did you mean interference" in outcome.err


def test_a_file_of_the_name_of_a_bundled_instance_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance_file: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    instance_file.rename(tmp_path / UTILISATION)
    assert chunkfront("solve", UTILISATION, "--json").document["schedule"]["instance"] == "two"


BAD_FILES = [
    ("not json", ["is not JSON"]),
    ("", ["two.json", "empty"]),
    ("[]", ["two.json"]),
    ('{"format": "chunkfront/instance@1"}', ["name"]),
    ({"requests": []}, ["requests"]),
    ({"extra": 1}, ["extra", "unknown"]),
    ({"requests": [{"id": "a", "prompt_tokens": 4.5, "output_tokens": 1}]}, ["requests[0].prompt_tokens", "4.5"]),
    ({"requests": [{"id": "a", "prompt_tokens": -4, "output_tokens": 1}]}, ["requests[0].prompt_tokens", "-4"]),
    ({"requests": [{"id": "a", "prompt_tokens": True, "output_tokens": 1}]}, ["requests[0].prompt_tokens", "true"]),
    ({"requests": [{"id": "a", "prompt_tokens": float("nan"), "output_tokens": 1}]}, ["requests[0].prompt_tokens"]),
    ({"requests": [{"id": "a", "prompt_tokens": 4, "output_tokens": 0}]}, ["requests[0].output_tokens", "0"]),
    ({"requests": [{"id": "a", "prompt_tokens": 1, "output_tokens": 1}] * 2}, ["requests[1].id", "unique"]),
    ({"engine": {"max_num_batched_tokens": 4, "max_num_seqs": 0}}, ["engine.max_num_seqs", "0"]),
    ({"engine": {"max_num_batched_tokens": 4, "preemption": "maybe"}}, ["engine.preemption", "maybe"]),
    ({"cost": {"kind": "linear", "iteration_ms": -1}}, ["cost.iteration_ms", "-1"]),
    ({"cost": {"kind": "magic"}}, ["cost", "magic"]),
    ({"axes": ["makespan", "speed"]}, ["axes", "speed"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "named"), BAD_FILES, ids=[str(change)[:60] for change, _ in BAD_FILES])
def test_a_bad_instance_file_is_exit_code_2_and_names_file_field_and_value(
    change: object, named: list[str], instance_file: Path
) -> None:
    if isinstance(change, dict):
        change = json.dumps(json.loads(instance_file.read_text()) | change)
    instance_file.write_text(str(change))
    outcome = chunkfront("frontier", instance_file)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert [text for text in named if text not in outcome.err] == []


@pytest.mark.parametrize("command", ["solve", "frontier", "compare", "simulate", "check"])
def test_every_command_that_reads_an_instance_refuses_a_bad_one(command: str, instance_file: Path) -> None:
    instance_file.write_text("{")
    more = {"simulate": ["--policy", "orca"], "check": [str(instance_file)]}.get(command, [])
    outcome = chunkfront(command, instance_file, *more)
    assert outcome.code == 2
    assert "two.json" in outcome.err


def test_a_request_that_never_fits_is_named_with_both_numbers(instance_file: Path) -> None:
    document = json.loads(instance_file.read_text())
    document["engine"] = {"max_num_batched_tokens": 4, "num_kv_blocks": 3}
    instance_file.write_text(json.dumps(document))
    outcome = chunkfront("solve", instance_file)
    assert outcome.code == 2
    assert [text for text in ("'a'", "4 KV tokens", "holds 3") if text not in outcome.err] == []


OUT_OPTIONS = {
    "frontier": ["frontier", UTILISATION],
    "solve": ["solve", UTILISATION],
    "simulate": ["simulate", UTILISATION, "--policy", "orca"],
    "compare": ["compare", UTILISATION],
    "trace": ["trace", "trace.csv", "--format", "csv"],
}


@pytest.mark.parametrize("command", OUT_OPTIONS)
def test_what_cannot_be_written_is_refused_before_any_work(command: str, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("here")
    outcome = chunkfront(*OUT_OPTIONS[command], "--out", blocker / "inside")
    assert outcome.code == 2
    assert "--out" in outcome.err
    assert str(blocker / "inside") in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("command", ["solve", "simulate", "compare"])
def test_a_directory_is_no_file_to_write(command: str, tmp_path: Path) -> None:
    outcome = chunkfront(*OUT_OPTIONS[command], "--out", tmp_path)
    assert outcome.code == 2
    assert "expected a file" in outcome.err


def test_instances_are_listed_with_one_line_each() -> None:
    document = chunkfront("instances", "--json").document
    assert [row["name"] for row in document["instances"]] == list(bundled_names())
    assert all(row["description"] and row["requests"] >= 1 for row in document["instances"])
    assert [name for name in bundled_names() if name not in chunkfront("instances").out] == []


def test_policies_are_listed_and_explained() -> None:
    document = chunkfront("policies", "--json").document
    names = [row["name"] for row in document["policies"]]
    assert {"static", "orca", "prefill-first", "greedy-chunked", "preemptive-srpt", "preemptive-mlfq"} <= set(names)
    shown = chunkfront("policies").out
    assert [name for name in names if name not in shown] == []
    assert "chunk=0" in chunkfront("policies", "greedy-chunked").out
    (one,) = chunkfront("policies", "greedy-chunked", "--json").document["policies"]
    assert {"name", "type", "default", "help", "minimum", "choices"} == set(one["options"][0])


def test_a_reader_that_goes_away_is_no_error() -> None:
    # The answer is longer than a pipe holds at once, so that the program meets the closed end.
    process = start("simulate", "interference", "--policy", "orca", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_nothing_goes_to_stderr_when_it_is_no_terminal() -> None:
    process = start("solve", UTILISATION, "--json")
    out, err = process.communicate()
    assert err == ""
    assert json.loads(out)["status"] == "OPTIMAL"


@pytest.mark.parametrize("columns", ["80", "140"])
@pytest.mark.parametrize("args", [["instances"], ["policies"], ["solve", "utilisation"]], ids=lambda args: args[0])
def test_tables_fit_the_width_of_the_terminal(args: list[str], columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    outcome = chunkfront(*args)
    assert outcome.code == 0
    assert max(len(line) for line in outcome.out.splitlines()) <= int(columns)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("given", [["instances"], ["--help"], ["solve", "chat", "--time-limit", "2", "--json"]])
def test_a_full_disk_is_no_answer(given: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, *given], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "Error: stdout: cannot be written: No space left on device\n"


def test_an_empty_name_is_no_directory() -> None:
    outcome = chunkfront("solve", "")
    assert outcome.code == 2
    assert "expected a file or a bundled instance" in outcome.err
    assert "got ''" in outcome.err
