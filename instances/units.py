"""Numbers at the boundary: exact integers inside, milliseconds outside.

Times are integers in microseconds (µs), cost coefficients integers in picoseconds (ps). Nothing here rounds
silently: a time with more than three decimals is refused unless the caller says that it may be rounded.
"""

from __future__ import annotations

import math
import operator
from decimal import ROUND_HALF_UP, Decimal, localcontext

from instances.errors import InputError

US_PER_MS = 1_000
PS_PER_MS = 1_000_000_000
PS_PER_US = 1_000_000
MAX_TOKENS = 10**9
"""Largest token count accepted: far beyond any model, far below any overflow."""
MAX_TIME_US = 2**53
"""Largest time accepted (285 years): up to here milliseconds as doubles are exact to 1 µs."""
MAX_COST_PS = 10**18
"""Largest cost coefficient accepted (1e9 ms)."""


def as_int(value: object, field: str, *, minimum: int | None = None, maximum: int = MAX_TOKENS) -> int:
    """Return `value` as an int; integral floats and NumPy integers are taken, anything else refused.

    Raises
    ------
    InputError
        For a bool, a fraction, a non-number, or a value outside ``minimum..maximum``.
    """
    what = "an integer" if minimum is None else f"an integer >= {minimum}"
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise InputError.expected(what, value, field)
    try:
        number = int(value) if isinstance(value, float) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError.expected(what, value, field) from None
    if minimum is not None and number < minimum:
        raise InputError.expected(what, value, field)
    if abs(number) > maximum:
        raise InputError.expected(f"{what}, at most {maximum}", value, field)
    return number


def as_optional_int(value: object, field: str, *, minimum: int) -> int | None:
    """Return `as_int(value)`, or None for None."""
    return None if value is None else as_int(value, field, minimum=minimum)


def _decimal(value: object, field: str, what: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InputError.expected(what, value, field)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError.expected(f"{what} (finite)", value, field)
    number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise InputError.expected(f"{what} (finite)", value, field)
    return number


def us_from_ms(value: object, field: str, *, minimum: int | None = 0, rounding: bool = False) -> int:
    """Return a time in ms as integer µs.

    Parameters
    ----------
    value
        int, float or Decimal, in ms.
    field
        Name of the field, for errors.
    minimum
        Smallest value allowed, in µs; None for no limit.
    rounding
        Round half up to µs (trace readers); otherwise more than three decimals are an error.

    Raises
    ------
    InputError
        For NaN, infinity, a bool, a value below `minimum` or above 2**53 µs, or too many decimals.
    """
    what = "a time in ms with at most 3 decimals"
    number = _decimal(value, field, what) * US_PER_MS
    whole = number.to_integral_value(ROUND_HALF_UP)
    if whole != number and not rounding:
        raise InputError.expected(what, value, field)
    if minimum is not None and whole < minimum:
        raise InputError.expected(f"a time in ms >= {ms_from_us(minimum)}", value, field)
    if abs(whole) > MAX_TIME_US:
        raise InputError.expected(f"a time below {MAX_TIME_US // US_PER_MS} ms", value, field)
    return int(whole)


def ps_from_ms(value: object, field: str) -> int:
    """Return a cost coefficient in ms as integer ps, rounded half up to 1 ps (1e-9 ms).

    Raises
    ------
    InputError
        For a negative, non-finite or non-numeric value, or one above 1e9 ms.
    """
    number = _decimal(value, field, "a number of ms >= 0")
    if number < 0:
        raise InputError.expected("a number of ms >= 0", value, field)
    if number * PS_PER_MS > MAX_COST_PS:
        raise InputError.expected(f"a number of ms <= {MAX_COST_PS // PS_PER_MS}", value, field)
    with localcontext() as context:
        context.prec = 60
        return int((number * PS_PER_MS).to_integral_value(ROUND_HALF_UP))


def ms_from_us(value: int) -> float:
    """Return µs as ms, the nearest double (exact back and forth up to 2**53 µs)."""
    return value / US_PER_MS


def ms_from_ps(value: int) -> float:
    """Return ps as ms, the nearest double."""
    return value / PS_PER_MS


def us_from_ps(value: int) -> int:
    """Return ps as µs, rounded half up on integers (model.md §4)."""
    return (value + PS_PER_US // 2) // PS_PER_US
