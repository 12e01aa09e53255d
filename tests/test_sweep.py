"""Sweeps of a knob or an engine limit: what can be swept, what is comparable, tables, files and the plot's lines."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from chunkfront.curves import curves, reasons_of
from chunkfront.plots.curves import line_labels, lines_of
from chunkfront.plots.frontier import plot_frontier
from chunkfront.running import run_policy
from chunkfront.sweep import ENGINE_LIMIT, KNOB, looser, parse_sweep, variants
from heuristics.simulator import simulate
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from solver.result import OPTIMAL, Frontier, FrontierPoint
from tests.judges.build import build
from tests.judges.command import chunkfront

TWO = ("greedy-chunked", "vllm-v1")


@pytest.fixture
def prompt(tmp_path):
    """Return the path of an instance: a stream of four tokens, a prompt of 12; 1 ms per iteration, budget 8."""
    path = tmp_path / "prompt.json"
    path.write_text(build([(0, 1, 4), (1, 12, 1)], 8, max_num_seqs=2).to_json())
    return path


def test_a_knob_is_swept_for_the_policies_that_have_it():
    found = parse_sweep("chunk=4,8", ["static", "greedy-chunked", "preemptive-srpt"])
    assert (found.kind, found.values) == (KNOB, (4, 8))
    assert [policy.spec for policy in found.policies] == ["greedy-chunked", "preemptive-srpt"]


def test_an_engine_limit_is_swept_for_all_policies_and_none_means_no_limit():
    found = parse_sweep("max_num_seqs=1,none", TWO)
    assert (found.kind, found.values, len(found.policies)) == (ENGINE_LIMIT, (1, None), 2)


def test_a_sweep_may_name_its_policy_with_knobs_of_its_own():
    found = parse_sweep("greedy-chunked:order=spf:chunk=4,8", TWO)
    assert [policy.spec for policy in found.policies] == ["greedy-chunked:order=spf"]


@pytest.mark.parametrize(("text", "parts"), [
    ("chunks=4", ("greedy-chunked: order, oracle", "did you mean chunk", "max_num_batched_tokens")),
    ("chunk", ("KEY=A,B,C",)),
    ("chunk=", ("KEY=A,B,C",)),
    ("=4", ("KEY=A,B,C",)),
    (":chunk=4", ("KEY=A,B,C",)),
    ("chunk=4,four", ("chunk: expected an integer >= 0", "'four'")),
    ("chunk=4,4", ("each value once",)),
    ("max_num_seqs=0", ("max_num_seqs: expected", "got 0")),
    ("max_num_batched_tokens=none", ("max_num_batched_tokens: expected", "got None")),
    ("mixed_batches=2", ("mixed_batches: expected true or false",)),
    ("preemption=evict", ("none, recompute or swap",)),
    ("nobody:chunk=4", ("there is no policy 'nobody'",)),
    ("greedy-chunked:chunk=2:chunk=4", ("sets chunk already",)),
])  # fmt: skip
def test_what_cannot_be_swept_is_refused_with_what_can(text, parts):
    with pytest.raises(InputError) as refused:
        parse_sweep(text, TWO)
    assert refused.value.field == "--sweep"
    for part in parts:
        assert part in str(refused.value)


def test_a_key_that_is_a_knob_and_an_engine_limit_is_ambiguous(monkeypatch):
    monkeypatch.setattr("chunkfront.sweep.LIMITS", ("chunk",))
    with pytest.raises(InputError, match="chunk is ambiguous: an engine limit, and a knob of greedy-chunked"):
        parse_sweep("chunk=4", TWO)


@pytest.mark.parametrize(("key", "own", "values", "expected"), [
    ("max_num_batched_tokens", 8, "4,8,9", [False, False, True]),
    ("max_num_seqs", None, "4,none", [False, False]),
    ("max_num_seqs", 2, "1,none", [False, True]),
    ("mixed_batches", True, "true,false", [False, False]),
    ("mixed_batches", False, "true,false", [True, False]),
    ("chunk_quantum", 2, "1,2,3,4", [True, False, True, False]),
    ("preemption", "recompute", "none,recompute,swap", [False, False, True]),
    ("block_size", 2, "1,2,4", [False, False, True]),  # as many blocks of more tokens hold more
])  # fmt: skip
def test_a_limit_is_looser_where_it_allows_what_the_instance_forbids(key, own, values, expected):
    instance = build([(0, 4, 2)], 8)
    instance = replace(instance, engine=replace(instance.engine, **{key: own}))
    sweep = parse_sweep(f"{key}={values}", TWO)
    assert [looser(instance, sweep, value) is not None for value in sweep.values] == expected


def points(*values: tuple[float, float], instance: Instance) -> Frontier:
    schedule = simulate(instance, "static").schedule
    made = tuple(FrontierPoint(v, v, (round(v[0] * 1000), round(v[1] * 1000)), OPTIMAL, schedule, {}) for v in values)
    return Frontier(("makespan", "max_tbt"), ("ms", "ms"), made, complete=True, status=OPTIMAL)


def swept(text: str, policies=TWO):
    # A stream of four tokens and a prompt of 12 that comes at 1 ms. Budget 4: chunks of 3 beside the decodes (three of
    # them), then the last 3 alone: 5 iterations. Budget 8: 7 beside a decode, the last 5 beside the next: done at 4.
    instance = build([(0, 1, 4), (1, 12, 1)], 8)
    sweep = parse_sweep(text, policies)
    found = variants(instance, sweep)
    runs = [run_policy(v.instance, v.policy) for v in found if v.instance is not None]
    return instance, curves(instance, sweep, found, runs, points((4.0, 1.0), instance=instance))


def test_values_of_an_engine_limit_are_those_of_the_instance_with_that_limit():
    instance, (greedy, vllm) = swept("max_num_batched_tokens=4,8,16")
    for curve in (greedy, vllm):
        assert [place.values for place in curve.places] == [(5.0, 1.0), (4.0, 1.0), (4.0, 1.0)]
        assert [place.comparable for place in curve.places] == [True, True, False]
        assert curve.places[0].excess == {"makespan": 0.25, "max_tbt": 0.0}
        assert curve.places[2].excess == {"makespan": None, "max_tbt": None}
    assert reasons_of([greedy, vllm]) == {
        "max_num_batched_tokens=16": "max_num_batched_tokens=16 is looser than the instance's 8"
    }
    alone = replace(instance, engine=replace(instance.engine, max_num_batched_tokens=4))
    assert greedy.places[0].metrics == report(alone, simulate(alone, "greedy-chunked").schedule)


def test_a_limit_with_which_no_request_can_run_is_a_row_with_the_reason():
    instance = build([(0, 8, 1)], 8)
    sweep = parse_sweep("num_kv_blocks=4,8", ["vllm-v1"])
    impossible, possible = variants(instance, sweep)
    assert impossible.instance is None
    assert "num_kv_blocks" in impossible.problem
    assert possible.instance.engine.num_kv_blocks == 8


def test_policies_that_reach_the_same_share_a_line_and_equal_neighbours_a_spot():
    _, drawn = swept("max_num_batched_tokens=4,8,16")
    (line,) = lines_of(drawn)
    assert line.names == TWO
    # 8 and 16 reach the same values, but 16 is not comparable: two spots.
    assert [(spot.values, spot.comparable) for spot in line.spots] == [(("4",), True), (("8",), True), (("16",), False)]
    _, (cap,) = swept("greedy-chunked:chunk=2,8,12")
    assert [spot.values for spot in lines_of([cap])[0].spots] == [("2",), ("8", "12")]


def test_a_curve_is_one_line_through_all_values_each_labelled():
    instance, drawn = swept("max_num_batched_tokens=4,8,16")
    axes = plot_frontier(points((4.0, 1.0), instance=instance), (), curves=drawn)
    (line,) = [each for each in axes.lines if each.get_label() == "greedy-chunked, vllm-v1"]
    assert [tuple(pair) for pair in line.get_xydata()] == [(5.0, 1.0), (4.0, 1.0), (4.0, 1.0)]
    written = {each.get_text() for each in axes.texts}
    assert {"4", "8\n16"} <= written
    assert axes.get_legend().get_title().get_text() == "dashed lines: policies by max_num_batched_tokens"


def test_of_many_lines_markers_stand_for_values_and_unnamed_ones_get_their_policy():
    policies = ("greedy-chunked", "prefill-first", "simple-chunking", "static", "sarathi", "slai")
    instance, drawn = swept("max_num_batched_tokens=2,4,8", policies)
    lines = lines_of(drawn)
    assert len(lines) > 4
    labels = line_labels(lines, {})
    assert all(text.startswith("(") for _, _, text in labels)
    assert line_labels(lines, {(x, y): ", ".join(policies) for x, y, _ in labels}) == []
    axes = plot_frontier(points((4.0, 1.0), instance=instance), (), curves=drawn)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [text for text in legend if "=" in text] == [f"max_num_batched_tokens = {value}" for value in (2, 4, 8)]


def test_simulate_shows_one_row_per_value(prompt):
    found = chunkfront("simulate", prompt, "--policy", "greedy-chunked", "--sweep", "chunk=4,8")
    assert found.code == 0
    rows = [line.split() for line in found.out.splitlines() if line.strip()[:1] in ("4", "8")]
    assert [row[:2] for row in rows] == [["4", "4.000"], ["8", "4.000"]]


def test_simulate_as_json_holds_every_run_as_without_a_sweep(prompt):
    found = chunkfront("simulate", prompt, "--policy", "vllm-v1", "--sweep", "max_num_seqs=1,2,3", "--json").document
    assert found["sweep"] == {"key": "max_num_seqs", "kind": "engine limit", "values": [1, 2, 3]}
    assert [run["comparable"] for run in found["runs"]] == [True, True, False]
    assert found["runs"][2]["reason"] == "max_num_seqs=3 is looser than the instance's 2"
    alone = chunkfront("simulate", prompt, "--policy", "vllm-v1", "--json").document
    assert {key: found["runs"][1][key] for key in alone} == alone


def test_simulate_writes_a_sweep_as_json_or_as_a_table(prompt, tmp_path):
    args = ("simulate", prompt, "--policy", "greedy-chunked", "--sweep", "chunk=4,8", "--json", "--out")
    shown = chunkfront(*args, tmp_path / "sweep.json")
    assert (tmp_path / "sweep.json").read_text() == shown.out
    chunkfront(*args, tmp_path / "sweep.csv")
    rows = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert [row["chunk"] for row in rows] == ["4", "8"]
    expected = [run["metrics"]["makespan_ms"] for run in shown.document["runs"]]
    assert [float(row["makespan_ms"]) for row in rows] == expected


def test_a_summary_of_a_sweep_keeps_metrics_only(prompt):
    args = ("simulate", prompt, "--policy", "orca", "--sweep", "max_num_seqs=1,2", "--json")
    brief, whole = chunkfront(*args, "--summary").document, chunkfront(*args).document
    for short, long in zip(brief["runs"], whole["runs"], strict=True):
        assert short["metrics"] == pytest.approx(long["metrics"], rel=1e-12)
        assert "schedule" not in short


def test_a_sweep_of_which_nothing_can_run_is_bad_input(prompt):
    refused = chunkfront("simulate", prompt, "--policy", "vllm-v1", "--sweep", "num_kv_blocks=1,2")
    assert refused.code == 2
    assert "no value can be run" in refused.err


def test_simulate_sweeps_its_own_policy_only(prompt):
    refused = chunkfront("simulate", prompt, "--policy", "vllm-v1", "--sweep", "sarathi:chunk_size=4,8")
    assert refused.code == 2
    assert "expected a sweep of vllm-v1" in refused.err


def test_frontier_draws_the_sweep_and_writes_it_everywhere(prompt, tmp_path):
    out = tmp_path / "out"
    found = chunkfront("frontier", prompt, "--policies", "vllm-v1", "--sweep", "max_num_batched_tokens=4,8,16",
                       "--json", "--out", out)  # fmt: skip
    assert found.code == 0
    (curve,) = found.document["sweep"]["curves"]
    assert found.document["sweep"]["values"] == [4, 8, 16]
    assert [point["value"] for point in curve["points"]] == [4, 8, 16]
    assert [point["values"] for point in curve["points"]] == [[5.0, 1.0], [4.0, 1.0], [4.0, 1.0]]
    assert [point["comparable"] for point in curve["points"]] == [True, True, False]
    rows = [row for row in csv.DictReader((out / "frontier.csv").open()) if row["kind"] == "sweep"]
    assert [row["name"] for row in rows] == [f"vllm-v1 [max_num_batched_tokens={value}]" for value in (4, 8, 16)]
    drawing = (out / "frontier.svg").read_text()
    assert "dashed lines: policies by max_num_batched_tokens" in drawing
    table = chunkfront("frontier", prompt, "--policies", "none", "--sweep", "vllm-v1:max_num_batched_tokens=4,16").out
    assert "Sweep of max_num_batched_tokens" in table
    assert "max_num_batched_tokens=16 is looser than the instance's 8" in table


def test_frontier_without_a_sweep_says_none(prompt):
    assert chunkfront("frontier", prompt, "--policies", "none", "--json").document["sweep"] is None


def test_a_sweep_without_any_policy_asks_for_one(prompt):
    refused = chunkfront("frontier", prompt, "--policies", "none", "--sweep", "max_num_seqs=1")
    assert refused.code == 2
    assert "there is no policy to sweep" in refused.err


MINE = """
from dataclasses import dataclass
from heuristics.greedy_chunked import GreedyChunked
from heuristics.knobs import knob

@dataclass
class Mine(GreedyChunked):
    patience: int = knob(1, "how often it plays along", minimum=0)

    def schedule(self, state):
        print("asked")
        if state.iteration >= self.patience:
            raise KeyError("lost")
        return super().schedule(state)
"""


def test_a_scheduler_of_the_users_own_can_be_swept_and_its_faults_are_rows(prompt, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    found = chunkfront("simulate", prompt, "--policy", f"{path}:Mine", "--sweep", "patience=2,9", "--json").document
    lost, good = found["runs"]
    assert "KeyError: 'lost'" in lost["reason"]
    assert f"{path}, line 13" in lost["reason"]
    assert good["comparable"]
    sweep = f"{path}:Mine:patience=2,9"
    drawn = chunkfront("frontier", prompt, "--policies", "none", "--sweep", sweep, "--json").document
    lost, good = drawn["sweep"]["curves"][0]["points"]
    assert "KeyError: 'lost'" in lost["reason"]
    assert good["values"] == [4.0, 1.0]
