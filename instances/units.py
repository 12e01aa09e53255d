"""Numbers at the boundary: exact integers inside, milliseconds outside.

Times are integers in microseconds (µs), cost coefficients integers in picoseconds (ps). Nothing here rounds
silently: a time with more than three decimals is refused unless the caller says that it may be rounded.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

from instances.errors import InputError

US_PER_MS = 1_000
PS_PER_MS = 1_000_000_000
PS_PER_US = 1_000_000
MAX_TOKENS = 10**9
"""Largest token count accepted: far beyond any model, far below any overflow."""
MAX_TIME_US = 4 * 10**15
"""Largest time accepted (126 years): up to here milliseconds as doubles tell every µs apart."""
MAX_COST_PS = 4 * 10**15
"""Largest cost coefficient accepted (67 minutes): up to here milliseconds as doubles tell every ps apart."""


def whole_number(value: object) -> int | None:
    """Return `value` as an int where it is a whole number of any numeric type, None otherwise (bools too)."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    whole = math.floor(float(value)) if math.isfinite(value) else 0
    return whole if whole == value else None


def as_int(value: object, field: str, *, minimum: int | None = None, maximum: int = MAX_TOKENS) -> int:
    """Return `value` as an int; whole floats and NumPy numbers are taken, anything else refused.

    Raises
    ------
    InputError
        For a bool, a fraction, a non-number, or a value outside ``minimum..maximum``.
    """
    what = "an integer" if minimum is None else f"an integer >= {minimum}"
    number = whole_number(value)
    if number is None:
        raise InputError.expected(what, value, field)
    if minimum is not None and number < minimum:
        raise InputError.expected(what, value, field)
    if abs(number) > maximum:
        raise InputError.expected(f"{what}, at most {maximum}", value, field)
    return number


def as_optional_int(value: object, field: str, *, minimum: int) -> int | None:
    """Return `as_int(value)`, or None for None."""
    return None if value is None else as_int(value, field, minimum=minimum)


def _scaled(value: object, factor: int, maximum: int, what: str, field: str) -> Fraction:
    """Return ``value * factor`` exactly; a float means the shortest decimal that reads back as it."""
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        raise InputError.expected(what, value, field)
    if isinstance(value, (numbers.Integral, Decimal)):
        number = Decimal(int(value)) if isinstance(value, numbers.Integral) else value
    else:
        number = Decimal(repr(float(value)))
    if not number.is_finite():
        raise InputError.expected(what, value, field)
    if abs(number) > maximum // factor:  # before Fraction, which would write out 1e999999
        raise InputError.expected(f"{what}, at most {maximum // factor}", value, field)
    return Fraction(number) * factor


def _half_up(number: Fraction) -> int:
    return math.floor(number + Fraction(1, 2))


def us_from_ms(value: object, field: str, *, minimum: int | None = 0, rounding: bool = False) -> int:
    """Return a time in ms as integer µs.

    Parameters
    ----------
    value
        int, float, Decimal or NumPy number, in ms.
    field
        Name of the field, for errors.
    minimum
        Smallest value allowed, in µs; None for no limit.
    rounding
        Round half up to µs (trace readers); otherwise more than three decimals are an error.

    Raises
    ------
    InputError
        For NaN, infinity, a bool, a value below `minimum` or beyond `MAX_TIME_US`, or too many decimals.
    """
    what = "a time in ms" if rounding else "a time in ms with at most 3 decimals"
    number = _scaled(value, US_PER_MS, MAX_TIME_US, what, field)
    whole = _half_up(number)
    if whole != number and not rounding:
        raise InputError.expected(what, value, field)
    if minimum is not None and whole < minimum:
        raise InputError.expected(f"a time in ms >= {ms_from_us(minimum):g}", value, field)
    return whole


def ps_from_ms(value: object, field: str) -> int:
    """Return a cost coefficient in ms as integer ps, rounded half up to 1 ps (1e-9 ms).

    Raises
    ------
    InputError
        For a negative, non-finite or non-numeric value, or one above `MAX_COST_PS`.
    """
    number = _scaled(value, PS_PER_MS, MAX_COST_PS, "a number of ms >= 0", field)
    if number < 0:
        raise InputError.expected("a number of ms >= 0", value, field)
    return _half_up(number)


def ms_from_us(value: int) -> float:
    """Return µs as ms, the nearest double (`us_from_ms` gives the same µs back, up to `MAX_TIME_US`)."""
    return value / US_PER_MS


def ms_from_ps(value: int) -> float:
    """Return ps as ms, the nearest double (`ps_from_ms` gives the same ps back, up to `MAX_COST_PS`)."""
    return value / PS_PER_MS


def us_from_ps(value: int) -> int:
    """Return ps as µs, rounded half up on integers (model.md §4)."""
    return (value + PS_PER_US // 2) // PS_PER_US
