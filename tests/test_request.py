"""Request: what it accepts, and what it still needs at time 0."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from instances.errors import InputError
from instances.request import Progress, Request


def test_defaults_are_those_of_the_contract() -> None:
    request = Request("r", 10, 3)
    assert (request.arrival_us, request.cached_tokens, request.priority, request.weight) == (0, 0, 0, 1)
    assert request.declared_output_tokens == 3
    assert request.group == "default"
    assert (request.ttft_slo_us, request.tbt_slo_us, request.e2e_slo_us) == (None, None, None)


def test_the_peak_leaves_out_the_last_token_which_is_never_fed_back() -> None:
    assert Request("r", 10, 3).peak_kv_tokens == 12
    assert Request("r", 10, 1).peak_kv_tokens == 10


def test_what_is_left_follows_the_phase() -> None:
    fresh = Request("r", 10, 3)
    assert (fresh.prefill_left, fresh.decodes_left, fresh.outputs_left, fresh.computed_before) == (10, 2, 3, 0)
    hit = Request("r", 10, 3, cached_tokens=4)
    assert (hit.prefill_left, hit.decodes_left, hit.outputs_left, hit.computed_before) == (6, 2, 3, 4)
    begun = Request("r", 10, 3, progress=Progress(7))
    assert (begun.prefill_left, begun.decodes_left, begun.outputs_left, begun.computed_before) == (3, 2, 3, 7)
    # two of three emitted: c = 10 + 2 - 1, one decode to go
    decoding = Request("r", 10, 3, progress=Progress(10, 2, -5))
    assert (decoding.prefill_left, decoding.decodes_left, decoding.outputs_left) == (0, 1, 1)
    assert decoding.computed_before == 11
    assert decoding.starts_in_decode


def test_one_output_token_needs_no_decode() -> None:
    assert Request("r", 10, 1).decodes_left == 0


def test_an_arrival_of_epoch_size_is_exact() -> None:
    # known-trouble B1: epoch microseconds of the Azure trace
    assert Request("r", 1, 1, arrival_us=1_700_158_623_979_960).arrival_us == 1_700_158_623_979_960


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", ""), ("id", 3), ("prompt_tokens", 0), ("prompt_tokens", 4.5), ("prompt_tokens", True),
     ("output_tokens", 0), ("output_tokens", "4"), ("cached_tokens", -1), ("cached_tokens", 10), ("weight", 0),
     ("priority", 0.5), ("arrival_us", -1), ("arrival_us", 0.5), ("max_output_tokens", 2), ("ttft_slo_us", 0),
     ("tbt_slo_us", -1), ("e2e_slo_us", True), ("arrival_us", 2**53)],
)  # fmt: skip
def test_impossible_fields_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{field}: expected"):
        Request(**{"id": "r", "prompt_tokens": 10, "output_tokens": 3, field: value})  # type: ignore[arg-type]


def test_cached_tokens_leave_at_least_one_to_prefill() -> None:
    assert Request("r", 10, 3, cached_tokens=9).prefill_left == 1


@pytest.mark.parametrize(
    ("progress", "field"),
    [(Progress(10), "progress.prefilled"), (Progress(1), "progress.prefilled"),
     (Progress(9, 1), "progress.prefilled"), (Progress(10, 3), "progress.emitted")],
)  # fmt: skip
def test_progress_that_contradicts_the_request_is_refused(progress: Progress, field: str) -> None:
    with pytest.raises(InputError, match=f"^{field}: expected"):
        Request("r", 10, 3, cached_tokens=2, progress=progress)


def test_a_resident_cannot_arrive_later() -> None:
    with pytest.raises(InputError, match="arrival_us: expected 0"):
        Request("r", 10, 3, arrival_us=1, progress=Progress(3))


def test_the_last_token_before_time_0_is_not_after_it() -> None:
    assert Progress(10, 1, -2500).last_token_us == -2500
    with pytest.raises(InputError, match="last_token_us"):
        Progress(10, 1, 1)


def test_numpy_numbers_become_ints() -> None:
    request = Request("r", np.int64(10), 3.0, arrival_us=np.int64(5))  # type: ignore[arg-type]
    assert request == Request("r", 10, 3, arrival_us=5)
    assert all(type(n) is int for n in (request.prompt_tokens, request.output_tokens, request.arrival_us))


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Request("r", 10, 3).prompt_tokens = 4  # type: ignore[misc]
