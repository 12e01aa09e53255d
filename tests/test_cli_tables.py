"""What people read: sentences and tables of finished results."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from chunkfront import tables
from chunkfront.compare import ComparedPolicy
from instances.bundled import load_bundled
from instances.schedule import Iteration, Schedule
from solver.result import FEASIBLE, INFEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint, Result

INSTANCE = load_bundled("utilisation")
NO_SCHEDULE = Schedule("x", "x", ())
POINTS = tuple(
    FrontierPoint(v, v, (0, 0), status, NO_SCHEDULE, {"mean_ttft_ms": 7.25, "throughput_tokens_per_s": 90.0})
    for v, status in (((10.0, 5.0), OPTIMAL), ((12.0, 4.0), FEASIBLE))
)
COMPLETE = Frontier(("makespan", "max_tbt"), ("ms", "ms"), POINTS[:1], complete=True)
CUT = Frontier(
    ("makespan", "max_tbt"), ("ms", "ms"), POINTS, complete=False, status=FEASIBLE,
    open_intervals=(
        {"axis": "max_tbt", "above": 1.5, "below": 4.0},
        {"axis": "makespan", "above": None, "below": None},
    ),
)  # fmt: skip


def shown(table: Any, width: int = 80) -> list[str]:
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def test_a_complete_frontier_says_that_nothing_is_missing() -> None:
    text = tables.frontier_sentence(INSTANCE, COMPLETE, 1.25)
    assert text == "Frontier of utilisation, makespan x max_tbt: 1 point, all proved, none missing (1.2 s)."
    assert tables.open_interval_sentences(COMPLETE) == []


def test_a_frontier_cut_short_says_so_and_what_is_open() -> None:
    assert "cut short: 2 points, 1 of them proved; more may exist" in tables.frontier_sentence(INSTANCE, CUT, 1)
    first, second, advice = tables.open_interval_sentences(CUT)
    assert first == "Open: points may be missing where max_tbt is above 1.5 ms and below 4 ms."
    assert second == "Open: points may be missing where makespan is anything."
    assert "--resolution, in ms" in advice


def test_many_open_intervals_are_summed_up() -> None:
    many = replace(CUT, open_intervals=CUT.open_intervals[:1] * 50)
    *_, more, _ = sentences = tables.open_interval_sentences(many)
    assert more == "... and 45 more intervals like these."
    assert len(sentences) == 7


def test_an_interrupted_frontier_says_so() -> None:
    assert "interrupted" in tables.frontier_sentence(INSTANCE, replace(CUT, interrupted=True), 1)


@pytest.mark.parametrize(("status", "words"), [(INFEASIBLE, "no schedule obeys"), (UNKNOWN, "nothing proved")])
def test_unknown_is_never_told_as_infeasible(status: str, words: str) -> None:
    text = tables.frontier_sentence(INSTANCE, replace(CUT, points=(), status=status), 1)
    assert words in text
    assert ("no schedule obeys" in text) is (status == INFEASIBLE)


def test_the_answers_of_a_solve_in_words() -> None:
    optimal = Result(OPTIMAL, "makespan", value=3.0, bound=3.0, gap=0.0, wall_s=0.26)
    assert tables.result_sentence(optimal, "ms") == "OPTIMAL: makespan = 3.000 ms, proved (0.3 s)."
    feasible = Result(FEASIBLE, "makespan", value=4.0, bound=3.0, gap=0.25)
    assert "proved bound 3.000 ms, gap 25.0%" in tables.result_sentence(feasible, "ms")
    assert tables.result_sentence(Result(INFEASIBLE, "makespan"), "ms").startswith("INFEASIBLE")
    unknown = tables.result_sentence(Result(UNKNOWN, "makespan", bound=2.0), "ms")
    assert unknown.startswith("UNKNOWN: neither")
    assert "2.000 ms" in unknown


def test_points_are_shown_with_status_and_a_third_metric() -> None:
    rows = [line.split() for line in shown(tables.frontier_table(CUT))]
    assert ["0", "10.000", "5.000", "optimal", "7.250", "-", "90.000"] in rows
    assert ["1", "12.000", "4.000", "feasible", "7.250", "-", "90.000"] in rows


def test_policies_are_shown_with_excess_and_what_dominates_them() -> None:
    policies = [
        ComparedPolicy("static", (15.0, 5.0), True, None, 0, {"makespan": 0.5, "max_tbt": 0.0}),
        ComparedPolicy("preemptive-mlfq", (12.0, None), False, "why", None, {"makespan": None, "max_tbt": None}),
    ]
    rows = [line.split() for line in shown(tables.policies_table(CUT, policies))]
    assert ["static", "15.000", "5.000", "+50.0%", "0.0%", "#0"] in rows
    assert ["preemptive-mlfq", "12.000", "-", "-", "-", "see", "below"] in rows


def test_policies_with_the_same_reason_share_a_sentence() -> None:
    assert tables.reasons({"a": "why", "b": None, "c": "why", "d": "how"}) == [
        "Not comparable: a, c: why.", "Not comparable: d: how.",
    ]  # fmt: skip


def test_long_schedules_are_cut_in_the_table_and_say_so() -> None:
    long = Schedule("x", "p", tuple(Iteration(k * 1000, 1000, {}, ("a",)) for k in range(60)))
    lines = shown(tables.schedule_table(long))
    assert "60 iterations, the first 40" in lines[0]
    assert len([line for line in lines if line.split()[-1:] == ["a"]]) == 40


def test_evictions_are_shown_where_there_are_any() -> None:
    with_moves = Schedule("x", "p", (Iteration(0, 1000, {"a": 2}, (), ("b",), ("c",)),))
    text = "\n".join(shown(tables.schedule_table(with_moves)))
    assert "evict b, restore c" in text
    assert "moves" not in "\n".join(shown(tables.schedule_table(Schedule("x", "p", (Iteration(0, 1000, {"a": 2}),)))))
