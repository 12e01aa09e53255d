"""A window of a trace: from when, how much of it, how much faster."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter

from instances.errors import InputError
from instances.traces.cells import MAX_TIME_NS, NS_PER_S
from instances.traces.trace import Trace, TraceRow
from instances.units import as_int

Number = int | float | Decimal
"""A float means the shortest decimal that reads back as it: 0.1 is one tenth."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of a trace, and by how much their gaps are divided.

    Parameters
    ----------
    trace
        Where they come from.
    rows
        The requests, at least one, in order of arrival.
    compress
        What the gaps are divided by: 3 means three times the load.
    """

    trace: Trace
    rows: tuple[TraceRow, ...]
    compress: Fraction = Fraction(1)


def window(
    trace: Trace,
    *,
    start_s: Number = 0,
    count: int | None = None,
    duration_s: Number | None = None,
    compress: Number = 1,
) -> Window:
    """Return a window of a trace.

    Parameters
    ----------
    trace
        The trace.
    start_s
        Seconds after the first request of the trace; the window starts with the first request at or after it.
    count
        How many requests (fewer where the trace ends), or
    duration_s
        how many seconds of the trace, the end left out. With neither: all to the end.
    compress
        Divide all gaps by this number, > 0.

    Raises
    ------
    InputError
        For a window without requests, both `count` and `duration_s`, and numbers out of range.
    """
    if count is not None and duration_s is not None:
        raise InputError("give a count (--count) or a duration (--duration), not both", field="window")
    start = trace.origin_ns + _ns(start_s, "start")
    first = bisect_left(trace.rows, start, key=attrgetter("arrival_ns"))
    end = len(trace.rows)
    if count is not None:
        end = min(end, first + as_int(count, "count", minimum=1))
    elif duration_s is not None:
        end = bisect_left(trace.rows, start + _ns(duration_s, "duration"), key=attrgetter("arrival_ns"))
    if first >= end:
        what = f"no requests in the window: the trace has {len(trace.rows)} in {trace.duration_s} s"
        raise InputError(what, field="window", file=trace.path)
    factor = _exact(compress, "compress")
    if factor <= 0:
        raise InputError.expected("a number > 0", compress, "compress")
    return Window(trace, trace.rows[first:end], factor)


def _exact(value: Number, field: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InputError.expected("a number", value, field)
    number = Decimal(str(value))
    if not number.is_finite() or abs(number.adjusted()) > 30:
        raise InputError.expected("a finite number of usual size", value, field)
    return Fraction(number)


def _ns(seconds: Number, field: str) -> int:
    exact = _exact(seconds, field) * NS_PER_S
    if not 0 <= exact <= MAX_TIME_NS:
        raise InputError.expected(f"a number of seconds from 0 to {MAX_TIME_NS // NS_PER_S}", seconds, field)
    return -(-exact.numerator // exact.denominator)  # nothing between two ns: the next one
