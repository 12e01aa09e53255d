"""The lesson's numbers, derived by hand from 1 ms per decode and 0.1 ms per prompt token."""

from __future__ import annotations

import doctest
import inspect

import pytest

from instances import lessons
from instances.cost_model import CostModel


def test_four_decodes_take_four_ms() -> None:
    assert lessons.iteration_time(4, 0) == 4.0  # 4 x 1 ms


def test_a_whole_prompt_of_2000_makes_the_iteration_51_times_as_long() -> None:
    assert lessons.iteration_time(4, 2000) == 204.0  # 4 x 1 + 2000 x 0.1
    assert lessons.stall_factor(4, 2000) == 51.0  # 204 / 4
    assert lessons.added_delay(4, 2000) == 200.0  # 204 - 4


def test_other_costs_can_be_given() -> None:
    assert lessons.iteration_time(3, 10, decode_cost=2.0, prefill_cost=0.05) == 6.5  # 3 x 2 + 10 x 0.05
    assert lessons.iteration_time(3, 10, 2.0, 0.05) == 6.5


def test_a_stall_needs_somebody_who_waits() -> None:
    for decodes in (0, -1):
        with pytest.raises(ValueError, match="at least one running decode"):
            lessons.stall_factor(decodes, 2000)


def test_a_delay_is_added_even_where_nobody_decodes() -> None:
    assert lessons.added_delay(0, 10) == 1.0


def test_prompts_cost_the_same_however_they_are_cut() -> None:
    assert lessons.total_prompt_cost([2000]) == 200.0
    assert lessons.total_prompt_cost([252] * 7 + [236]) == 200.0
    assert lessons.total_prompt_cost([]) == 0.0
    assert lessons.total_prompt_cost([2000, 100]) == 210.0


def test_the_chunk_is_what_the_decodes_leave_of_the_budget() -> None:
    assert lessons.chunk_size(256, 4) == 252
    assert lessons.chunk_size(4, 4) == 0
    assert lessons.chunk_size(4, 5) == 0  # never negative


def test_a_prompt_of_2000_is_seven_chunks_of_252_and_one_of_236() -> None:
    chunks = lessons.plan_chunks(2000, 252)  # 7 x 252 = 1764, 2000 - 1764 = 236
    assert chunks == [252] * 7 + [236]
    assert lessons.tokens_processed(chunks) == 2000
    assert [lessons.chunked_iteration_time(4, chunk) for chunk in chunks] == [29.2] * 7 + [27.6]


def test_the_worst_stall_with_chunks_of_252_is_exactly_29_2() -> None:
    assert lessons.worst_stall(4, 252) == 29.2  # 4 + 25.2


def test_an_exact_multiple_leaves_no_rest() -> None:
    assert lessons.plan_chunks(6, 3) == [3, 3]
    assert lessons.plan_chunks(0, 3) == []


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_of_no_tokens_is_refused(chunk: int) -> None:
    with pytest.raises(ValueError, match="chunk"):
        lessons.plan_chunks(2000, chunk)


def test_static_batches_use_five_of_eight_slots_and_continuous_ones_five_of_six() -> None:
    # outputs 2, 1, 2 in two slots: five tokens; static needs 2 + 2 iterations, continuous 3
    assert lessons.utilization([["a", "b"], ["a", None], ["c", None], ["c", None]], 2) == 5 / 8
    assert lessons.utilization([["a", "b"], ["a", "c"], [None, "c"]], 2) == 5 / 6


def test_a_request_named_zero_fills_its_slot() -> None:
    assert lessons.utilization([[0, None]], 2) == 0.5


def test_missing_entries_of_a_row_are_empty_slots() -> None:
    assert lessons.utilization([["a"], ["a", "b"]], 2) == 0.75


@pytest.mark.parametrize(("rows", "slots"), [([], 2), ([["a"]], 0), ([["a", "b", "c"]], 2)])
def test_utilization_of_nothing_or_of_more_than_the_slots_is_refused(rows: list[list[str]], slots: int) -> None:
    with pytest.raises(ValueError, match=r"rows|slots"):
        lessons.utilization(rows, slots)


@pytest.mark.parametrize("count", [-1, 2.5, True, "4"])
def test_counts_that_are_no_counts_are_refused(count: object) -> None:
    with pytest.raises(ValueError, match="decodes"):
        lessons.iteration_time(count, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="prefill_tokens"):
        lessons.iteration_time(0, count)  # type: ignore[arg-type]


def test_the_lesson_asks_the_cost_model_of_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostModel, "duration_us", lambda *_: 7_000)
    assert lessons.iteration_time(4, 2000) == 7.0


def test_names_and_arguments_are_those_that_notebooks_use() -> None:
    expected = {
        "iteration_time": ["decodes", "prefill_tokens", "decode_cost", "prefill_cost"],
        "stall_factor": ["decodes", "prompt_tokens"],
        "added_delay": ["decodes", "prompt_tokens"],
        "total_prompt_cost": ["prompts"],
        "chunk_size": ["token_budget", "decodes"],
        "plan_chunks": ["prompt_tokens", "chunk"],
        "chunked_iteration_time": ["decodes", "chunk"],
        "worst_stall": ["decodes", "chunk"],
        "tokens_processed": ["chunks"],
        "utilization": ["rows", "slots"],
    }
    found = {name: list(inspect.signature(getattr(lessons, name)).parameters) for name in expected}
    assert found == expected


def test_the_examples_in_the_lesson_hold() -> None:
    result = doctest.testmod(lessons)
    assert result.attempted >= 15
    assert result.failed == 0
