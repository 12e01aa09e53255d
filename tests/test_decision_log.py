"""Decision logs: what `simulate` decides reads back as the same schedule; every fault names its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heuristics.policy import PolicyError
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.check import violations
from instances.decision_log import read_decisions
from instances.errors import InputError
from instances.generate import random_instance
from instances.instance import Instance
from instances.log_check import check_log
from instances.request import Request
from tests.judges.build import build
from tests.judges.command import chunkfront

Lines = list[dict[str, Any]]
TWO = [(0, 3, 2), (1, 2, 1)]
GOOD: Lines = [{"scheduled": {"r0": 3}}, {"scheduled": {"r0": 1, "r1": 2}}]


@pytest.fixture
def log(tmp_path: Path):
    def write(lines: Lines | str) -> Path:
        path = tmp_path / "log.jsonl"
        text = lines if isinstance(lines, str) else "".join(json.dumps(line) + "\n" for line in lines)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def two(**limits: Any) -> Instance:
    """Two requests, 1 ms per iteration."""
    return build(TWO, 4, **limits)


def test_phases_and_times_follow_from_the_instance(log) -> None:
    found = check_log(two(), read_decisions(log(GOOD)))
    first, second = found.schedule.iterations
    assert (dict(first.prefill), first.decode, first.start_us, first.duration_us) == ({"r0": 3}, (), 0, 1000)
    assert (dict(second.prefill), second.decode, second.start_us) == ({"r1": 2}, ("r0",), 1000)
    assert (found.violations, found.computed_ends) == ((), 2)


def test_an_iteration_waits_for_the_arrival_of_all_that_it_works_on(log) -> None:
    late = build([(0, 3, 2), (7, 2, 1)], 4)
    assert [i.start_us for i in check_log(late, read_decisions(log(GOOD))).schedule.iterations] == [0, 7000]


@pytest.mark.parametrize("name", policy_names())
def test_the_decisions_of_every_policy_read_back_as_its_schedule(name: str, log) -> None:
    tried = 0
    for seed in range(12):
        instance = random_instance(seed, preemption=("none", "recompute", "swap"), cost_kinds=("linear", "pieces"))
        try:
            run = simulate(instance, name)
        except PolicyError:  # residents that block each other for ever
            continue
        found = check_log(run.instance, read_decisions(log(run.decisions)))
        assert found.violations == ()
        assert len(found.schedule.iterations) == len(run.schedule.iterations)
        for ours, theirs in zip(found.schedule.iterations, run.schedule.iterations, strict=True):
            assert (ours.start_us, ours.duration_us, dict(ours.prefill)) == (
                theirs.start_us, theirs.duration_us, dict(theirs.prefill))  # fmt: skip
            for part in ("decode", "evict", "restore"):
                assert set(getattr(ours, part)) == set(getattr(theirs, part))
        tried += 1
    assert tried > 6


def change(at: int, **values: Any) -> Lines:
    """The good log with other values on one line."""
    lines = json.loads(json.dumps(GOOD))
    lines[at].update(values)
    return lines


@pytest.mark.parametrize(("lines", "limits", "rule", "line", "request_id", "value", "limit"), [
    (change(0, scheduled={"r0": 5}), {}, "token-budget", 1, None, 5, 4),
    (change(0, scheduled={"r0": 4}), {}, "prefill-target", 1, "r0", 4, 3),
    (change(0, scheduled={"r0": 0}), {}, "chunk", 1, "r0", 0, 1),
    (change(0, scheduled={}), {}, "non-empty", 1, None, 0, 1),
    (change(0, scheduled={"r9": 1}), {}, "known-request", 1, "r9", None, None),
    (change(1, scheduled={"r0": 2, "r1": 2}), {}, "phase", 2, "r0", None, None),
    (change(1, scheduled={"r0": 1, "r1": 1}), {"chunk_quantum": 2}, "chunk", 2, "r1", 1, 0),
    (GOOD, {"mixed_batches": False}, "mixed-batch", 2, None, None, None),
    (GOOD, {"max_num_seqs": 1}, "seats", 2, None, 2, 1),
    (GOOD, {"num_kv_blocks": 5}, "kv-pool", 2, None, 6, 5),
    (GOOD, {"max_chunk_tokens": 1}, "chunk", 1, "r0", 3, 1),
    ([{"scheduled": {"r0": 2}}, {"scheduled": {"r1": 1}}], {"max_partial_prefills": 1}, "partial-prefills", 2, None,
     2, 1),
    (change(1, preempted=["r0"], scheduled={"r1": 2}), {}, "eviction", 2, "r0", None, None),
    (change(1, restored=["r1"]), {"preemption": "swap"}, "restore", 2, "r1", None, None),
    (change(1, start_ms=0.5), {}, "time-order", 2, None, 0.5, 1),
    (change(0, start_ms=0.0, end_ms=1.5), {}, "duration", 1, None, 1.5, 1),
    (change(0, scheduled={"r0": 3, "r1": 1}, start_ms=0), {}, "arrival", 1, "r1", 0, 1),
    (GOOD[:1], {}, "completion", None, "r0", 1, 2),
    (change(0, emitted=[]), {}, "log-emitted", 1, "r0", None, None),
    (change(1, finished=["r0"]), {}, "log-finished", 2, "r1", None, None),
    (change(0, running=["r0", "r1"]), {}, "log-running", 1, "r1", None, None),
    (change(0, free_blocks_after=8), {"num_kv_blocks": 10}, "log-free-blocks", 1, None, 8, 7),
])  # fmt: skip
def test_every_rule_is_reported_with_line_request_value_and_limit(
    lines: Lines, limits: dict[str, Any], rule: str, line: int | None, request_id: str | None, value: float | None,
    limit: float | None, log,
) -> None:  # fmt: skip
    found = check_log(two(**limits), read_decisions(log(lines)))
    fault = next(v for v in found.violations if v.rule == rule and v.request == request_id)
    assert (fault.value, fault.limit) == (value, limit)
    assert fault.iteration == (None if line is None else line - 1)
    assert fault.message.startswith("request" if line is None else f"line {line}: ")


def test_the_line_is_that_of_the_file_with_its_blank_lines(log) -> None:
    text = "\n" + json.dumps(GOOD[0]) + "\n\n\n" + json.dumps({"scheduled": {"r0": 1, "r1": 9}}) + "\n"
    found = check_log(two(), read_decisions(log(text)))
    assert {v.message.partition(":")[0] for v in found.violations if v.iteration == 1} == {"line 5"}


@pytest.mark.parametrize(("text", "words"), [
    ("", "is empty, expected one JSON object per line"),
    ("{}\n", "line 1.scheduled: is missing"),
    ('{"scheduled": {}}\n[3]\n', "line 2: expected an object, got a list"),
    ('{"scheduled": {"r0": 1.5}}', "line 1.scheduled['r0']: expected an integer, got 1.5"),
    ('{"scheduled": {"r0": 1}', "line 1: is not JSON"),
    ('{"scheduled": {"r0": 1, "r0": 2}}', "line 1: the key 'r0' is given twice"),
    ('{"scheduled": {}, "start_ms": -1}', "line 1.start_ms: expected a time in ms >= 0, got -1"),
    ('{"scheduled": {}, "end_ms": 3}', "line 1.end_ms: expected start_ms beside it, got 3"),
    ('{"scheduled": {}, "duration_ms": 3}', "line 1.duration_ms: expected start_ms beside it, got 3"),
    ('{"scheduled": {}, "start_ms": 4, "end_ms": 3}', "line 1.end_ms: expected a time that is not before start_ms"),
    ('{"scheduled": {}, "start_ms": 1, "duration_ms": 1, "end_ms": 3}', "expected start_ms + duration_ms, got 3"),
    ('{"scheduled": {}, "preempted": "r0"}', "line 1.preempted: expected a list, got 'r0'"),
])  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(text: str, words: str, log) -> None:
    path = log(text)
    with pytest.raises(InputError) as caught:
        read_decisions(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_other_keys_are_ignored_and_named(log) -> None:
    lines = [{**line, "num_waiting": 3, "preempt": []} for line in GOOD]
    assert read_decisions(log(lines)).ignored == ("num_waiting", "preempt")


def test_measured_times_are_kept_and_ends_are_cut_at_the_next_start(log) -> None:
    # Modelled 1 ms each. Measured: 0 .. 0.8 (cut at the next start), 0.8 .. 3.3.
    lines = [{**GOOD[0], "start_ms": 0}, {**GOOD[1], "start_ms": 0.8, "end_ms": 3.3}]
    instance = build([(0, 3, 2), (0, 2, 1)], 4)
    found = check_log(instance, read_decisions(log(lines)), measured=True)
    assert found.violations == ()
    assert [(i.start_us, i.duration_us) for i in found.schedule.iterations] == [(0, 800), (800, 2500)]
    assert (found.modelled_us, found.computed_ends) == ((1000, 1000), 1)
    assert [v.rule for v in check_log(instance, read_decisions(log(lines))).violations] == ["time-order", "duration"]


# The command.


def test_the_command_scores_a_good_log_against_what_is_proved(log, tmp_path: Path) -> None:
    simulated = chunkfront("simulate", "chat", "--policy", "greedy-chunked", "--json").document
    decisions = simulated["decisions"]
    out = tmp_path / "schedule.json"
    outcome = chunkfront("check", "chat", "--log", log(decisions), "--out", out, "--json")
    assert outcome.code == 0
    document = outcome.document
    assert document["valid"]
    assert document["metrics"] == simulated["metrics"]
    summary = document["log"]
    assert (summary["iterations"], summary["computed_ends"]) == (len(decisions), len(decisions))
    # mean_e2e of greedy chunking on chat is optimal (132.022 ms, proved), its worst gap is not.
    assert summary["gaps"]["mean_e2e"] == 0
    assert summary["gaps"]["max_tbt"] > 0.5
    assert chunkfront("check", "chat", out).code == 0
    assert "Gap to what is proved: makespan " in chunkfront("check", "chat", "--log", log(decisions)).out


def test_the_command_reports_a_bad_log_with_its_lines(log, tmp_path: Path) -> None:
    instance = tmp_path / "two.json"
    instance.write_text(two().to_json(), encoding="utf-8")
    outcome = chunkfront("check", instance, "--log", log(change(0, scheduled={"r0": 5})), "--json")
    assert outcome.code == 1
    assert not outcome.document["valid"]
    assert outcome.document["log"]["gaps"] is None
    first = outcome.document["violations"][0]
    assert (first["iteration"], first["value"], first["limit"]) == (0, 5, 4)
    assert first["message"].startswith("line 1: ")


def test_the_command_says_how_far_the_cost_model_is_off(log, tmp_path: Path) -> None:
    instance = tmp_path / "two.json"
    instance.write_text(build([(0, 3, 2), (0, 2, 1)], 4).to_json(), encoding="utf-8")
    lines = [{**GOOD[0], "start_ms": 0, "end_ms": 1.5}, {**GOOD[1], "start_ms": 2, "end_ms": 4.5}]
    outcome = chunkfront("check", instance, "--log", log(lines), "--measured", "--json")
    assert outcome.code == 0
    # Measured 1.5 and 2.5 against 1 and 1: off by 0.5 and 1.5.
    assert outcome.document["log"]["cost_model"] == {
        "iterations": 2, "measured_ms": 4, "modelled_ms": 2, "mean_error_ms": 1,
        "worst": {"line": 2, "measured_ms": 2.5, "modelled_ms": 1},
    }  # fmt: skip
    assert outcome.document["metrics"]["makespan_ms"] == 4.5
    assert "off by 1.000 ms per iteration, most on line 2" in chunkfront(
        "check", instance, "--log", log(lines), "--measured"
    ).out


@pytest.mark.parametrize(("args", "words"), [
    ((), "a schedule file or --log FILE"),
    (("some.json", "--log", "some.jsonl"), "a schedule file or --log FILE"),
    (("some.json", "--measured"), "--measured: expected --log FILE beside it"),
    (("some.json", "--out", "x.json"), "--out: expected --log FILE beside it"),
    (("--log", "nowhere.jsonl"), "nowhere.jsonl: cannot be read"),
])  # fmt: skip
def test_the_command_wants_a_schedule_or_a_log(args: tuple[str, ...], words: str) -> None:
    outcome = chunkfront("check", "chat", *args)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_log_of_swaps_needs_no_word_about_who_comes_back(log) -> None:
    # r0 (1 token, 3 outputs) is swapped out while r1 runs; its next token brings it back.
    instance = build([Request("r0", 1, 3), Request("r1", 1, 1)], 4, preemption="swap")
    lines: Lines = [{"scheduled": {"r0": 1}}, {"scheduled": {"r1": 1}, "preempted": ["r0"]},
                    {"scheduled": {"r0": 1}}, {"scheduled": {"r0": 1}}]  # fmt: skip
    found = check_log(instance, read_decisions(log(lines)))
    assert found.violations == ()
    assert [i.restore for i in found.schedule.iterations] == [(), (), ("r0",), ()]
    assert violations(instance, found.schedule) == []
