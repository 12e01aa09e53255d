"""``chunkfront solve``, ``simulate`` and ``check``: documents key by key, exit codes, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chunkfront.running import exit_code
from heuristics.policy import PolicyError
from instances.bundled import load_bundled
from instances.check import violations
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.metrics import report
from instances.request import Request
from instances.schedule import Schedule
from tests.judges.command import chunkfront

UTILISATION = load_bundled("utilisation")


def write(tmp_path: Path, instance: Instance) -> Path:
    path = tmp_path / f"{instance.name}.json"
    path.write_text(instance.to_json())
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two prompts of 4 tokens, a budget of 4: one ends at 1 ms, the other at 2 ms."""
    requests = (Request("a", 4, 1), Request("b", 4, 1))
    return write(tmp_path, Instance("two", requests, EngineLimits(4), CostModel.unit()))


def test_solve_answers_with_the_documented_keys_and_a_schedule_that_shows_the_value() -> None:
    # Outputs 2, 1, 2 on two seats, one per iteration: 5 tokens on 2 seats need 3 iterations of 1 ms.
    document = chunkfront("solve", "utilisation", "--minimize", "makespan", "--json").document
    assert {"status", "minimize", "value", "bound", "gap", "wall_s", "metrics", "schedule"} <= set(document)
    assert [document[key] for key in ("status", "minimize", "value", "bound", "gap")] == [
        "OPTIMAL",
        "makespan",
        3,
        3,
        0,
    ]
    schedule = Schedule.from_dict(document["schedule"])
    assert violations(UTILISATION, schedule) == []
    assert document["metrics"] == report(UTILISATION, schedule)
    assert document["wall_s"] > 0


def test_solve_says_in_words_that_the_value_is_proved() -> None:
    outcome = chunkfront("solve", "utilisation")
    assert outcome.code == 0
    assert outcome.out.startswith("OPTIMAL: makespan = 3.000 ms, proved")


def test_infeasible_limits_are_the_answer_no_with_exit_code_1(two: Path) -> None:
    outcome = chunkfront("solve", two, "--limit", "max_ttft=1", "--json")
    assert outcome.code == 1
    assert outcome.document["status"] == "INFEASIBLE"
    assert [outcome.document[key] for key in ("value", "schedule", "gap")] == [None, None, None]
    assert chunkfront("solve", two, "--limit", "max_ttft=1").out.startswith("INFEASIBLE")


def test_a_limit_that_is_met_exactly_is_feasible(two: Path) -> None:
    outcome = chunkfront("solve", two, "--limit", "max_ttft=2", "--limit", "mean_ttft=1.5", "--json")
    assert (outcome.code, outcome.document["status"]) == (0, "OPTIMAL")


def test_throughput_is_limited_from_below_and_maximised(two: Path) -> None:
    # Two tokens in 2 ms are 1000 tokens/s, and no more.
    document = chunkfront("solve", two, "--minimize", "throughput", "--json").document
    assert (document["value"], document["bound"], document["status"]) == (1000.0, 1000.0, "OPTIMAL")
    assert chunkfront("solve", two, "--limit", "throughput=1000", "--json").code == 0
    assert chunkfront("solve", two, "--limit", "throughput=1000.1", "--json").code == 1


def test_solve_writes_a_schedule_that_check_accepts(tmp_path: Path) -> None:
    out = tmp_path / "schedule.json"
    assert chunkfront("solve", "utilisation", "--out", out).code == 0
    outcome = chunkfront("check", "utilisation", out, "--json")
    assert outcome.code == 0
    assert outcome.document == {
        "valid": True, "violations": [], "metrics": report(UTILISATION, Schedule.read(out)),
    }  # fmt: skip
    assert chunkfront("check", "utilisation", out).out.startswith("Valid")


def test_a_time_limit_too_short_to_search_gives_the_best_heuristic_with_a_valid_bound() -> None:
    # 2.4 s are needed for the proof (measured); the limit counts from the start of the command.
    outcome = chunkfront("solve", "tight-slos", "--minimize", "mean_ttft", "--time-limit", "0.01", "--json")
    assert outcome.code == 0
    document = outcome.document
    assert document["status"] == "FEASIBLE"
    assert 0 < document["bound"] < document["value"]
    assert document["gap"] == pytest.approx((document["value"] - document["bound"]) / document["value"])
    instance = load_bundled("tight-slos")
    schedule = Schedule.from_dict(document["schedule"])
    assert violations(instance, schedule) == []
    assert document["value"] == report(instance, schedule)["mean_ttft_ms"]


def test_nothing_known_within_the_limits_is_exit_code_3_and_not_infeasible() -> None:
    # Makespan 271.816 ms with gaps of at most 14.543 ms is a point of the frontier: the limits leave nothing but it.
    args = ("solve", "code", "--limit", "max_tbt=14.55", "--limit", "makespan=272", "--time-limit", "0.01")
    outcome = chunkfront(*args, "--json")
    assert outcome.code == 3
    assert (outcome.document["status"], outcome.document["value"]) == ("UNKNOWN", None)
    shown = chunkfront(*args).out
    assert shown.startswith("UNKNOWN")
    assert "INFEASIBLE" not in shown


def test_the_worst_status_decides_the_exit_code() -> None:
    assert [exit_code(), exit_code("OPTIMAL", "FEASIBLE"), exit_code("OPTIMAL", "UNKNOWN")] == [0, 0, 3]
    assert exit_code("UNKNOWN", "INFEASIBLE") == 1
    assert exit_code("INFEASIBLE", interrupted=True) == 130


def test_simulate_answers_with_the_documented_keys() -> None:
    # a and b (outputs 2 and 1) take the two seats; b leaves after the first iteration, c takes its seat.
    document = chunkfront("simulate", "utilisation", "--policy", "orca", "--json").document
    assert set(document) == {"policy", "metrics", "schedule", "decisions", "violations"}
    assert document["violations"] == []
    assert document["policy"] == "orca"
    assert document["metrics"]["slot_utilisation"] == pytest.approx(5 / 6)
    assert violations(UTILISATION, Schedule.from_dict(document["schedule"])) == []
    first, second, _ = document["decisions"]
    assert first == {
        "start_ms": 0, "scheduled": {"a": 1, "b": 1}, "preempted": [], "emitted": ["a", "b"], "finished": ["b"],
        "running": ["a", "b"], "free_blocks_after": None,
    }  # fmt: skip
    assert second["running"] == ["a", "c"]


def test_static_batches_use_five_of_eight_seats() -> None:
    assert chunkfront("simulate", "utilisation", "--policy", "static", "--json").document["metrics"][
        "slot_utilisation"
    ] == pytest.approx(5 / 8)


def test_simulate_takes_knobs_and_writes_a_schedule(tmp_path: Path) -> None:
    # 4 decodes beside chunks of 252 under the lesson's budget of 256: 29.2 ms.
    out = tmp_path / "schedule.json"
    outcome = chunkfront(
        "simulate", "interference-toy", "--policy", "greedy-chunked:order=fcfs,chunk=252", "--out", out
    )
    assert outcome.code == 0
    schedule = Schedule.read(out)
    assert schedule.producer == "greedy-chunked:chunk=252"
    assert [it.duration_us for it in schedule.iterations[:8]] == [29_200] * 7 + [27_600]
    assert "greedy-chunked:chunk=252" in outcome.out


def test_a_policy_that_fails_is_exit_code_2_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PolicyError("orca", 3, "idle", "schedules nothing and nothing is awaited")

    monkeypatch.setattr("heuristics.simulator.simulate", fail)
    outcome = chunkfront("simulate", "utilisation", "--policy", "orca")
    assert outcome.code == 2
    assert [text for text in ("orca", "iteration 3", "idle") if text not in outcome.err] == []


def test_moves_that_the_instance_forbids_are_told(tmp_path: Path) -> None:
    # Two requests of 9 KV tokens at their ends, a pool of 10: vLLM evicts, which this engine does not allow.
    requests = (Request("r0", 4, 6), Request("r1", 4, 6))
    path = write(tmp_path, Instance("kv", requests, EngineLimits(8, num_kv_blocks=10), CostModel.unit()))
    document = chunkfront("simulate", path, "--policy", "vllm-v1", "--json").document
    assert {"eviction"} == {violation["rule"] for violation in document["violations"]}
    assert "not comparable" in chunkfront("simulate", path, "--policy", "vllm-v1").out


def broken(tmp_path: Path) -> Path:
    """Write utilisation's schedule with its second iteration 0.5 ms early and its third without c."""
    schedule = chunkfront("simulate", "utilisation", "--policy", "orca", "--json").document["schedule"]
    schedule["iterations"][1]["start_ms"] = 0.5
    schedule["iterations"][2]["decode"].remove("c")
    schedule["iterations"][2]["prefill"] = {"c": 1}
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(schedule))
    return path


def test_check_lists_every_broken_rule_with_iteration_request_value_and_limit(tmp_path: Path) -> None:
    outcome = chunkfront("check", "utilisation", broken(tmp_path), "--json")
    assert outcome.code == 1
    assert set(outcome.document) == {"valid", "violations", "metrics"}
    assert (outcome.document["valid"], outcome.document["metrics"]) == (False, None)
    found = outcome.document["violations"]
    assert all(set(each) == {"rule", "iteration", "request", "message", "value", "limit"} for each in found)
    assert {("time-order", 1, None), ("phase", 2, "c")} <= {(v["rule"], v["iteration"], v["request"]) for v in found}
    (early,) = [v for v in found if v["rule"] == "time-order"]
    assert early["value"] < early["limit"]


def test_check_shows_the_broken_rules_in_words(tmp_path: Path) -> None:
    outcome = chunkfront("check", "utilisation", broken(tmp_path))
    assert outcome.code == 1
    assert outcome.out.startswith("Invalid: ")
    assert "time-order" in outcome.out


def test_check_can_demand_that_no_one_pauses(two: Path, tmp_path: Path) -> None:
    # a (one more token to decode) waits while b is prefilled.
    paused = Instance("two", (Request("a", 1, 2), Request("b", 1, 1)), EngineLimits(1), CostModel.unit())
    instance = write(tmp_path, paused)
    schedule = tmp_path / "paused.json"
    schedule.write_text(json.dumps({
        "format": "chunkfront/schedule@1", "instance": "two", "producer": "by hand", "iterations": [
            {"start_ms": k, "duration_ms": 1, "prefill": prefill, "decode": decode, "evict": [], "restore": []}
            for k, (prefill, decode) in enumerate([({"a": 1}, []), ({"b": 1}, []), ({}, ["a"])])
        ]}))  # fmt: skip
    assert chunkfront("check", instance, schedule).code == 0
    outcome = chunkfront("check", instance, schedule, "--no-pause", "--json")
    assert outcome.code == 1
    assert [v["rule"] for v in outcome.document["violations"]] == ["no-pause"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "chunkfront/schedule@2"}'])
def test_a_bad_schedule_file_is_exit_code_2_and_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    outcome = chunkfront("check", "utilisation", path)
    assert outcome.code == 2
    assert "bad.json" in outcome.err


def test_a_schedule_that_is_not_there_is_exit_code_2(tmp_path: Path) -> None:
    outcome = chunkfront("check", "utilisation", tmp_path / "none.json")
    assert outcome.code == 2
    assert "none.json" in outcome.err
