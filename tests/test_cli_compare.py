"""``chunkfront compare``: policies x metrics, with gaps to what is proved."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Request
from tests.judges.command import chunkfront, start

POLICIES = "static,orca"


def test_values_and_gaps_of_the_lesson_on_utilisation() -> None:
    # Outputs 2, 1, 2 on two seats: static needs 4 ms, orca 3, which is optimal: static's gap is (4 - 3) / 4.
    outcome = chunkfront("compare", "utilisation", "--policies", POLICIES, "--metrics", "makespan", "--json")
    assert outcome.code == 0
    assert set(outcome.document) == {"instances", "interrupted", "wall_s"}
    (found,) = outcome.document["instances"]
    assert found["instance"] == "utilisation"
    assert {key: found["optima"]["makespan"][key] for key in ("status", "value", "bound", "gap")} == {
        "status": "OPTIMAL", "value": 3.0, "bound": 3.0, "gap": 0.0,
    }  # fmt: skip
    static, orca = found["policies"]
    assert (static["name"], static["values"], static["gaps"]) == ("static", {"makespan": 4.0}, {"makespan": 0.25})
    assert (orca["name"], orca["values"], orca["gaps"]) == ("orca", {"makespan": 3.0}, {"makespan": 0.0})
    assert static["comparable"]
    assert static["metrics"]["slot_utilisation"] == pytest.approx(5 / 8)


def test_one_table_per_instance_with_the_optimum_in_front() -> None:
    outcome = chunkfront("compare", "utilisation", "roofline-mix", "--policies", POLICIES, "--metrics", "makespan")
    assert outcome.code == 0
    assert [name for name in ("utilisation:", "roofline-mix:") if name not in outcome.out] == []
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["optimum", "3.000"] in rows
    assert ["static", "4.000", "(25.0%)"] in rows


def test_the_table_is_readable_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = chunkfront("compare", "utilisation")
    assert max(len(line) for line in outcome.out.splitlines()) <= 80


def test_a_policy_with_forbidden_moves_or_over_a_limit_is_a_row_with_the_reason(tmp_path: Path) -> None:
    # Two requests of 9 KV tokens at their ends, a pool of 10: vLLM evicts, others serve one after the other in 12 ms.
    requests = (Request("r0", 4, 6), Request("r1", 4, 6))
    path = tmp_path / "kv.json"
    path.write_text(Instance("kv", requests, EngineLimits(8, num_kv_blocks=10), CostModel.unit()).to_json())
    args = ("compare", path, "--policies", "vllm-v1,orca", "--metrics", "makespan")
    outcome = chunkfront(*args, "--json")
    vllm, orca = outcome.document["instances"][0]["policies"]
    assert (vllm["comparable"], vllm["gaps"]) == (False, {"makespan": None})
    assert vllm["values"]["makespan"] < 12
    assert "preemption is none" in vllm["reason"]
    assert (orca["comparable"], orca["gaps"]) == (True, {"makespan": 0.0})
    assert "Not comparable: vllm-v1: breaks eviction" in chunkfront(*args).out


def test_infeasible_limits_are_exit_code_1_and_no_policy_is_comparable() -> None:
    outcome = chunkfront("compare", "utilisation", "--policies", POLICIES, "--metrics", "makespan", "--limit",
                         "max_ttft=1", "--json")  # fmt: skip
    assert outcome.code == 1
    (found,) = outcome.document["instances"]
    assert found["optima"]["makespan"]["status"] == "INFEASIBLE"
    assert [policy["comparable"] for policy in found["policies"]] == [False, False]


def test_the_time_limit_covers_everything_and_leaves_valid_bounds() -> None:
    started = time.monotonic()
    outcome = chunkfront(
        "compare", "code", "tight-slos", "--metrics", "mean_ttft,mean_e2e", "--time-limit", 2, "--json"
    )
    assert time.monotonic() - started < 2 + 8  # grace for building models and for stopping the search
    assert outcome.code == 0
    for found in outcome.document["instances"]:
        for name, optimum in found["optima"].items():
            assert optimum["bound"] <= optimum["value"]
            reached = [policy["values"][name] for policy in found["policies"] if policy["comparable"]]
            assert optimum["value"] <= min(reached)


def test_the_document_is_written_too(tmp_path: Path) -> None:
    out = tmp_path / "comparison.json"
    outcome = chunkfront("compare", "utilisation", "--policies", POLICIES, "--out", out, "--json")
    assert json.loads(out.read_text()) == outcome.document


def hard_to_prove(directory: Path) -> Path:
    """Return the file of an instance whose mean E2E takes far longer than a test to prove: ten long prompts."""
    requests = tuple(Request(f"r{k}", 1500 + 211 * k, 12 + k, arrival_us=23_000 * k) for k in range(10))
    cost = CostModel.linear(14_467_000_000, 54_060_000, 38_000_000)
    path = directory / "hard.json"
    path.write_text(Instance("hard", requests, EngineLimits(512, chunk_quantum=64), cost).to_json())
    return path


def test_ctrl_c_shows_what_is_done_and_exits_130(tmp_path: Path) -> None:
    out = tmp_path / "comparison.json"
    process = start("compare", "utilisation", hard_to_prove(tmp_path), "--policies", POLICIES, "--metrics",
                    "makespan,mean_e2e", "--limit", "max_tbt=30", "--out", out, "--json")  # fmt: skip
    time.sleep(4)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    document = json.loads(text)
    assert document == json.loads(out.read_text())
    assert document["interrupted"]
    assert document["instances"][0]["optima"]["makespan"]["status"] == "OPTIMAL"
    assert [policy["name"] for policy in document["instances"][1]["policies"]] == ["static", "orca"]
