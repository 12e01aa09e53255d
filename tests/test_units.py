"""Numbers at the boundary: exact, or refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.errors import InputError
from instances.units import (
    MAX_COST_PS,
    MAX_TIME_US,
    MAX_TOKENS,
    as_int,
    as_optional_int,
    ms_from_ps,
    ms_from_us,
    ps_from_ms,
    us_from_ms,
    us_from_ps,
    whole_number,
)


@pytest.mark.parametrize(
    "value", [4, 4.0, np.int64(4), np.uint8(4), np.float64(4.0), np.float32(4.0), Fraction(8, 2)]
)
def test_every_whole_four_is_the_int_4(value: object) -> None:
    number = as_int(value, "tokens")
    assert number == 4
    assert type(number) is int


@pytest.mark.parametrize(
    "value", [4.5, np.float64(4.5), True, False, np.True_, "4", None, float("nan"), float("inf"), [4], 4 + 0j]
)
def test_what_is_no_whole_number_is_refused_by_name(value: object) -> None:
    assert whole_number(value) is None
    with pytest.raises(InputError, match=r"^tokens: expected an integer"):
        as_int(value, "tokens")


def test_a_number_out_of_range_is_refused_with_its_limit() -> None:
    with pytest.raises(InputError, match=r"tokens: expected an integer >= 1, got 0"):
        as_int(0, "tokens", minimum=1)
    with pytest.raises(InputError, match=r"at most 1000000000, got 1000000001"):
        as_int(MAX_TOKENS + 1, "tokens")
    with pytest.raises(InputError, match="at most"):
        as_int(-MAX_TOKENS - 1, "priority")


def test_a_number_of_thousands_of_digits_is_refused_without_writing_it_out() -> None:
    with pytest.raises(InputError, match="thousands of digits"):
        as_int(10**5000, "tokens")


def test_none_is_an_answer_only_where_a_limit_is_optional() -> None:
    assert as_optional_int(None, "max_num_seqs", minimum=1) is None
    assert as_optional_int(2, "max_num_seqs", minimum=1) == 2
    with pytest.raises(InputError, match="max_num_seqs"):
        as_optional_int(0, "max_num_seqs", minimum=1)


@pytest.mark.parametrize(
    ("ms", "us"),
    [(0, 0), (1, 1000), (0.001, 1), (29.2, 29200), (98.189, 98189), (Decimal("0.5"), 500), (np.float64(2.5), 2500),
     (np.int32(3), 3000), (1700158623979.96, 1_700_158_623_979_960)],
)  # fmt: skip
def test_milliseconds_are_exact_microseconds(ms: object, us: int) -> None:
    assert us_from_ms(ms, "arrival_ms") == us


@pytest.mark.parametrize("value", [0.0001, 1.0005, Decimal("0.00099999999999999999999999999999999999")])
def test_a_fourth_decimal_is_refused_and_not_rounded_away(value: object) -> None:
    with pytest.raises(InputError, match=r"arrival_ms: expected a time in ms with at most 3 decimals"):
        us_from_ms(value, "arrival_ms")


def test_rounding_where_allowed_is_half_up() -> None:
    assert us_from_ms(1.0005, "t", rounding=True) == 1001
    assert us_from_ms(1.00049, "t", rounding=True) == 1000


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), Decimal("NaN"), [1]])
def test_what_is_no_finite_number_is_no_time_and_no_cost(value: object) -> None:
    for convert in (us_from_ms, ps_from_ms):
        with pytest.raises(InputError, match="field: expected"):
            convert(value, "field")  # type: ignore[operator]


@pytest.mark.parametrize("value", [1e308, 10**400, Decimal("1e999999"), -1, -0.001])
def test_times_and_costs_out_of_range_are_refused(value: object) -> None:
    for convert in (us_from_ms, ps_from_ms):
        with pytest.raises(InputError, match="field: expected"):
            convert(value, "field")  # type: ignore[operator]


def test_a_time_before_zero_is_allowed_where_asked_for() -> None:
    assert us_from_ms(-2.5, "last_token_ms", minimum=None) == -2500


def test_costs_are_rounded_half_up_to_a_picosecond() -> None:
    assert ps_from_ms(0.05406, "c") == 54_060_000
    assert ps_from_ms(2.127e-06, "c") == 2127
    assert ps_from_ms(Decimal("0.0000000005"), "c") == 1  # half a ps
    assert ps_from_ms(Decimal("0.00000000049"), "c") == 0


@pytest.mark.parametrize(
    ("ps", "us"), [(0, 0), (499_999, 0), (500_000, 1), (1_499_999, 1), (1_500_000, 2), (10**18 + 500_000, 10**12 + 1)]
)
def test_picoseconds_become_microseconds_half_up_on_integers(ps: int, us: int) -> None:
    assert us_from_ps(ps) == us


@given(st.integers(0, MAX_TIME_US))
def test_every_time_survives_the_way_to_ms_and_back(us: int) -> None:
    assert us_from_ms(ms_from_us(us), "t") == us


@given(st.integers(0, MAX_COST_PS))
def test_every_cost_survives_the_way_to_ms_and_back(ps: int) -> None:
    assert ps_from_ms(ms_from_ps(ps), "c") == ps


def test_the_largest_times_are_told_apart() -> None:
    for us in range(MAX_TIME_US - 1000, MAX_TIME_US + 1):
        assert us_from_ms(ms_from_us(us), "t") == us
    with pytest.raises(InputError, match="at most"):
        us_from_ms(2 * MAX_TIME_US / 1000, "t")
