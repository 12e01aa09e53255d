"""The benchmark of proofs: one small run through fresh processes, then its tables, and what may go wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.exact import main, numbers, parsed, tasks
from benchmarks.exact_tables import contradictions, geometric_mean, ratio_lines, ratio_to_ours
from benchmarks.run_one import Baseline
from benchmarks.runs import MIP, OURS, PLAIN, Run, Task, read_runs
from instances.errors import InputError
from instances.instance import Instance
from tests.judges.build import base_and_tokens, build

TASK = Task("w.json", "w", 3, "linear", "makespan", OURS, 60.0)
PROOF = Run(TASK, "OPTIMAL", 2.0, 10.0, 10.0, 0.0)


def by(method: str, **changes: object) -> Run:
    """Return a run of a baseline with a limit of 300 s on the same problem."""
    return replace(PROOF, task=replace(TASK, method=method, limit_s=300.0), **changes)


@pytest.fixture
def ladder(tmp_path: Path) -> Path:
    """Return a folder with worked example 1 of model.md as a window."""
    folder = tmp_path / "ladder"
    folder.mkdir()
    instance = replace(build([(0, 1, 2), (10, 1, 1)], 8, base_and_tokens(5)), name="tiny-a-linear")
    (folder / "tiny.json").write_text(instance.to_json())
    return folder


def test_a_small_run_is_measured_kept_continued_and_drawn(ladder: Path, tmp_path: Path, capsys) -> None:
    pytest.importorskip("highspy", reason="the MIP baseline needs highspy: pip install '.[benchmarks]'")
    out = tmp_path / "out"
    options = [str(ladder), "--problems", "makespan,makespan:max_tbt", "--plain", "--mip", "--out", str(out),
               "--time-limit", "60", "--resolution", "0.001", "--max-tbt", "6"]  # fmt: skip
    assert main(options) == 0
    shown = capsys.readouterr().out
    # under max TBT <= 6 ms the makespan is 18 ms, and the frontier is (17, 7), (18, 6)
    words = [" ".join(line.split()) for line in shown.splitlines()]
    assert sum("OPTIMAL 18.000 18.000 0.0" in line for line in words) == 3
    assert sum("OPTIMAL 2 points 2 proved" in line for line in words) == 3
    assert "plain CP-SAT, all: x" in shown
    assert "MIP, HiGHS, frontiers: x" in shown
    runs = read_runs(out / "results.jsonl")
    assert [(run.task.problem, run.task.method) for run in runs] == [
        (problem, method) for problem in ("makespan", "makespan:max_tbt") for method in (OURS, PLAIN, MIP)
    ]
    assert {run.ends for run in runs} == {None, (17.0, 7.0)}
    assert all(run.memory_mib > 20 for run in runs)
    for name in ("time.png", "time.svg", "gap.png", "gap.svg"):
        assert (out / name).stat().st_size > 5000

    lines = (out / "results.jsonl").read_text().splitlines()
    # cut off in the fifth line: that run and the sixth are done again, the others are kept
    (out / "results.jsonl").write_text("\n".join([*lines[:4], lines[4][:40]]))
    assert main([*options, "--resume"]) == 0
    again = (out / "results.jsonl").read_text().splitlines()
    assert again[:4] == lines[:4]
    assert [json.loads(line)["task"] for line in again] == [json.loads(line)["task"] for line in lines]
    assert main(options) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["--plot-only", "--out", str(out)]) == 0


def test_a_method_that_cannot_run_says_why_and_counts_nowhere(ladder: Path, tmp_path: Path, capsys) -> None:
    swapping = replace(build([(0, 1, 2)], 8, preemption="swap", max_num_seqs=1), name="swapping")
    (ladder / "tiny.json").write_text(swapping.to_json())
    assert main([str(ladder), "--problems", "makespan", "--mip"]) == 0
    shown = capsys.readouterr().out
    assert "REFUSED" in shown or "No module named 'highspy'" in shown
    assert "MIP, HiGHS, all" not in shown


def test_a_ladder_that_is_not_there_is_named(tmp_path: Path, capsys) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert f"{tmp_path / 'nowhere'}: not found" in capsys.readouterr().err
    assert main([str(tmp_path), "--sizes", "3"]) == 2
    assert "--sizes 3" in capsys.readouterr().err


def test_a_wrong_option_is_named(ladder: Path, capsys) -> None:
    assert main([str(ladder), "--problems", "speed"]) == 2
    assert "--problems" in capsys.readouterr().err
    with pytest.raises(InputError, match="--sizes"):
        numbers("3;4", "--sizes")


def test_baselines_run_on_the_sizes_asked_for_only(ladder: Path) -> None:
    options = [str(ladder), "--plain", "--mip", "--problems", "makespan"]
    assert [task.method for task in tasks(parsed(options))] == [OURS, PLAIN, MIP]
    assert [task.method for task in tasks(parsed([*options, "--baseline-sizes", "3"]))] == [OURS]


def test_a_baseline_that_ran_out_of_time_counts_with_its_limit() -> None:
    # 300 s / 2 s and 8 s / 2 s; their geometric mean is sqrt(150 * 4)
    stopped = by(PLAIN, status="FEASIBLE", seconds=301.5, bound=8.0, gap=0.2)
    assert ratio_to_ours(stopped, PROOF) == 150
    proved = by(MIP, seconds=8.0)
    assert ratio_to_ours(proved, PROOF) == 4
    assert geometric_mean([150, 4]) == pytest.approx(600**0.5)
    assert any("x 150.0 over 1 proved by us; 1 ran out" in line for line in ratio_lines([PROOF, stopped]))


def test_no_ratio_where_we_prove_nothing_or_the_baseline_did_not_run() -> None:
    unproved = replace(PROOF, status="FEASIBLE", bound=9.0, gap=0.1)
    assert ratio_to_ours(by(PLAIN), unproved) is None
    assert ratio_to_ours(by(MIP, status="REFUSED"), PROOF) is None
    assert ratio_to_ours(by(MIP, status="ERROR"), PROOF) is None


def test_methods_that_contradict_each_other_are_reported() -> None:
    assert list(contradictions([PROOF, by(PLAIN)])) == []
    assert len(list(contradictions([PROOF, by(PLAIN, value=9.0, bound=9.0)]))) == 1
    # a bound below our value contradicts nothing, one above it does
    assert list(contradictions([PROOF, by(PLAIN, status="UNKNOWN", value=None, bound=7.0)])) == []
    assert len(list(contradictions([PROOF, by(PLAIN, status="UNKNOWN", value=None, bound=11.0)]))) == 1
    # with fewer iterations a baseline's optimum may be worse, never better
    few = by(PLAIN, value=11.0, bound=11.0)
    few = replace(few, task=replace(few.task, extra_iterations=3))
    assert list(contradictions([PROOF, few])) == []
    assert len(list(contradictions([PROOF, replace(few, value=9.0)]))) == 1
    frontier = replace(PROOF, value=None, bound=None, gap=None, ends=(17.0, 7.0))
    assert len(list(contradictions([frontier, by(MIP, value=None, bound=None, ends=(17.0, 6.0))]))) == 1


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(f"{{}}\n{PROOF.to_line()}\n")
    with pytest.raises(InputError, match="line 1"):
        read_runs(file)
    file.write_text(PROOF.to_line())
    assert read_runs(file) == [PROOF]


@pytest.mark.parametrize("method", [PLAIN, MIP])
def test_fewer_iterations_are_a_smaller_problem_with_the_same_optimum_here(ladder: Path, method: str) -> None:
    # greedy chunking takes 3 iterations: A, A, then B; the optimum of 17 ms needs no more
    pytest.importorskip("highspy", reason="the MIP baseline needs highspy: pip install '.[benchmarks]'")
    task = replace(TASK, file=str(ladder / "tiny.json"), method=method, extra_iterations=0)
    few = Baseline(Instance.read(task.file), task)
    assert few.iterations == 3
    assert few.run().value == 17
