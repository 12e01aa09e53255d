"""What one cell of a trace says: token counts and times, read as exact integers without floats.

Times are integers in nanoseconds (ns) until the very end, so that a window can be shifted and compressed first and
rounded to µs once.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from instances.errors import InputError
from instances.units import MAX_TIME_US, MAX_TOKENS

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
MAX_TIME_NS = MAX_TIME_US * NS_PER_US

_WHOLE = re.compile(r"(\d{1,18})(?:\.0*)?", re.ASCII)
_NUMBER = re.compile(r"\d*\.?\d*(?:[eE][+-]?\d{1,3})?", re.ASCII)
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)


def count(text: str) -> int:
    """Return a whole number >= 0; ``12.0`` is 12, while ``12.5``, ``-1``, ``NaN`` and an empty cell are errors.

    Raises
    ------
    InputError
        Without a place; the caller knows file, line and column.
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise InputError.expected("a whole number >= 0", text, "")
    number = int(found[1])
    if number > MAX_TOKENS:
        raise InputError.expected(f"a whole number, at most {MAX_TOKENS}", text, "")
    return number


def time_ns(text: str, unit_ns: int) -> int:
    """Return a time >= 0 in ns, from a decimal number of units of `unit_ns` (s or ms).

    What is finer than 1 ns is rounded half up (it is the noise of a float that was printed).
    """
    what = f"a time in {'s' if unit_ns == NS_PER_S else 'ms'} >= 0"
    if not _NUMBER.fullmatch(text):
        raise InputError.expected(what, text, "")
    try:
        number = Decimal(text)
    except InvalidOperation:  # nothing but a point or an exponent
        raise InputError.expected(what, text, "") from None
    if number > MAX_TIME_NS // unit_ns:
        raise InputError.expected(f"{what}, at most {MAX_TIME_NS // unit_ns}", text, "")
    numerator, denominator = number.as_integer_ratio()
    return (2 * numerator * unit_ns + denominator) // (2 * denominator)


def stamp_ns(text: str) -> int:
    """Return a date and time like ``2023-11-16 18:17:03.9799600`` as ns since the year 1.

    One to nine fractional digits, or none; an offset (``+00:00``, ``Z``) may follow, without one it is UTC.

    Examples
    --------
    >>> stamp_ns("2023-11-16 18:17:04.0319600") - stamp_ns("2023-11-16 18:17:03.9799600")
    52000000
    """
    found = _STAMP.fullmatch(text)
    if found is None:
        raise InputError.expected("a time like 2023-11-16 18:17:03.9799600 (1 to 9 decimals)", text, "")
    day, hours, minutes, seconds, fraction, sign, offset_hours, offset_minutes = found.groups()
    if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        raise InputError.expected("a time of day up to 23:59:59", text, "")
    total = _day_s(day) + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if sign:
        offset = int(offset_hours) * 3600 + int(offset_minutes) * 60
        total += -offset if sign == "+" else offset
    return total * NS_PER_S + (int(fraction.ljust(9, "0")) if fraction else 0)


@lru_cache(maxsize=4096)
def _day_s(day: str) -> int:
    """Return the seconds from the year 1 to the start of a day like ``2023-11-16``."""
    try:
        return date.fromisoformat(day).toordinal() * 86_400
    except ValueError:
        raise InputError.expected("a day of the calendar", day, "") from None
