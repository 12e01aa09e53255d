"""The README keeps its promises: its commands are those that CI runs, its Python runs, its tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chunkfront.cli import app
from chunkfront.validate.suite import instance_of
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.bundled import load_bundled
from tests.judges.command import ROOT, chunkfront

README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = ROOT / ".ci" / "run"
COMMANDS = re.findall(r"^    (pip install .*)$", README, flags=re.MULTILINE)


def test_there_are_two_commands() -> None:
    assert COMMANDS == [
        "pip install . && chunkfront frontier interference",
        "pip install '.[test]' && python -m pytest",
    ]


def test_ci_runs_the_two_commands_as_they_stand() -> None:
    script = CI.read_text(encoding="utf-8")
    assert [command for command in COMMANDS if f'run "{command}"' not in script] == []
    assert [tool for tool in ("ruff check", "mypy --strict") if tool not in script] == []


def test_ci_is_an_executable_bash_script_that_stops_at_the_first_failure() -> None:
    assert os.access(CI, os.X_OK)
    assert CI.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash")
    assert "set -euo pipefail" in CI.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(CI)], check=True)


def test_the_first_command_proves_the_frontier_that_the_readme_draws() -> None:
    outcome = chunkfront("frontier", "interference", "--policies", "all", "--json")
    assert outcome.code == 0
    document = outcome.document
    assert document["complete"]
    picture = README.split("    max_tbt (ms)\n")[1].split("\n\n")[0]
    gaps = [int(gap) for gap in re.findall(r"^ +(\d+) +o---", picture, flags=re.MULTILINE)]
    means = [int(mean) for mean in re.findall(r"\d+", picture.splitlines()[-1].split("mean_ttft")[0])]
    assert [point["values"] for point in document["points"]] == [list(pair) for pair in zip(means, gaps, strict=True)]
    assert len(gaps) >= 5
    drawn = {name: (mean, gap) for mean, gap, line in zip(means, gaps, picture.splitlines(), strict=False)
             for name in policy_names() if re.search(rf"\b{name}[,:] ", line)}  # fmt: skip
    assert len(drawn) >= 4
    shown = {policy["name"]: tuple(policy["values"]) for policy in document["policies"]}
    assert {name: shown[name] for name in drawn} == drawn


@pytest.mark.parametrize("chunk", [1000, 500])
def test_the_chunk_sizes_that_the_readme_names_lie_on_the_points_it_names(chunk: int) -> None:
    (gap,) = re.findall(rf"^ +(\d+) .*greedy-chunked:chunk={chunk}$", README, flags=re.MULTILINE)
    outcome = chunkfront("simulate", "interference", "--policy", f"greedy-chunked:chunk={chunk}", "--json")
    assert outcome.document["metrics"]["max_tbt_ms"] == int(gap)


def python_block(mark: str, text: str = README) -> str:
    """Return the one Python example that holds some text."""
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if mark in block)
    return found


@pytest.mark.parametrize("mark", ["solve(instance", "class PromptsFirst"])
def test_the_python_examples_are_about_ten_lines(mark: str) -> None:
    assert len([line for line in python_block(mark).splitlines() if line]) <= 10


def test_the_python_example_runs_and_proves_its_optimum() -> None:
    block = python_block("solve(instance")
    done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("OPTIMAL ")
    assert second.startswith("greedy-chunked: ")


def test_the_scheduler_of_the_readme_gets_the_verdict_that_the_readme_tells(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(python_block("class PromptsFirst"), encoding="utf-8")
    outcome = chunkfront("validate", f"{file}:PromptsFirst", "--seeds", 20, "--policies", "none", "--json")
    assert outcome.code == 0
    (finding,) = outcome.document["conformance"]["findings"]
    assert (finding["rule"], finding["severity"]) == ("starvation", "warning")
    assert finding["seen_on"] == ["edge:stream-over-decodes"]


def test_the_tests_of_that_scheduler_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(python_block("class PromptsFirst"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    tests: dict[str, Any] = {}
    exec(python_block("def test_it_is_good"), tests)
    for key in ("edge:swap", "kv-pressure", "random:3"):
        tests["test_it_is_right"](instance_of(key))
    tests["test_it_is_good"]()


def test_the_snippet_for_vllm_writes_a_log_that_is_checked_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for vLLM's scheduler decides what our model of it decides, while the snippet listens."""
    instance = load_bundled("utilisation")  # all of it is there at time 0
    decisions = simulate(instance, "vllm-v1").decisions

    class Scheduler:
        def add_request(self, request: Any) -> None:
            self.left = list(decisions)

        def schedule(self) -> Any:
            ids = {f"r{index}": f"cmpl-{r.id}" for index, r in enumerate(instance.requests)}
            named = {r.id: ids[f"r{index}"] for index, r in enumerate(instance.requests)}
            tokens = {named[name]: n for name, n in self.left.pop(0)["scheduled"].items()}
            return SimpleNamespace(num_scheduled_tokens=tokens)

        def update_from_output(self, output: Any, result: Any) -> None:
            pass

    for name in ("vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched", "vllm.v1.core.sched.scheduler"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["vllm.v1.core.sched.scheduler"].Scheduler = Scheduler  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    snippet: dict[str, Any] = {}
    page = (ROOT / "docs" / "howto" / "validate.md").read_text(encoding="utf-8")
    exec(python_block("class LoggingScheduler", page), snippet)
    scheduler = snippet["LoggingScheduler"]()
    for request in instance.requests:
        scheduler.add_request(SimpleNamespace(request_id=f"cmpl-{request.id}"))
    for _ in decisions:
        scheduler.update_from_output(scheduler.schedule(), None)
    renamed = replace(instance, requests=tuple(replace(r, id=f"r{i}") for i, r in enumerate(instance.requests)))
    (tmp_path / "instance.json").write_text(renamed.to_json(), encoding="utf-8")
    outcome = chunkfront("check", "instance.json", "--log", "decisions.jsonl", "--measured", "--json")
    assert outcome.code == 0, outcome.out
    assert outcome.document["log"]["cost_model"]["iterations"] == len(decisions)
    assert outcome.document["log"]["ignored_keys"] == []


def test_the_table_of_commands_has_every_command() -> None:
    rows = re.findall(r"^\| (`.*?) \|", README, flags=re.MULTILINE)
    shown = {word for row in rows for word in re.findall(r"`([a-z]+)", row)}
    registered = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert registered <= shown


@pytest.mark.parametrize("folder", ["instances", "heuristics", "solver", "chunkfront", "tests"])
def test_the_table_of_folders_has_every_folder(folder: str) -> None:
    assert f"| `{folder}/` |" in README
    assert (ROOT / folder).is_dir()
