"""Decision logs: what a scheduler that lives elsewhere decided, one JSON object per line, as a schedule to check.

A line has the form of ``decisions`` of ``simulate --json``. Only ``scheduled`` must be there: tokens per request id in
one iteration. What is in phase prefill and what decodes follows from the instance. Beside it may stand ``preempted``
and ``restored`` (ids), ``start_ms``, ``end_ms`` or ``duration_ms``, and what the scheduler believes, which is checked:
``emitted``, ``finished``, ``running`` (ids), ``free_blocks_after``. Other keys are ignored and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from instances import files
from instances.conform import conform
from instances.errors import InputError, in_file, inside
from instances.units import as_int, us_from_ms


class DecisionLine(Struct):
    """One line of a log, as JSON says it."""

    scheduled: dict[str, int]
    preempted: list[str] = []
    restored: list[str] = []
    start_ms: float | None = None
    end_ms: float | None = None
    duration_ms: float | None = None
    emitted: list[str] | None = None
    finished: list[str] | None = None
    running: list[str] | None = None
    free_blocks_after: int | None = None


KEYS = tuple(DecisionLine.__struct_fields__)


@dataclass(frozen=True)
class Decision:
    """One iteration as a log tells it. Times in µs.

    Parameters
    ----------
    line
        Its line in the file, from 1.
    scheduled
        Tokens per request id, in the order of the log.
    preempted, restored
        Ids evicted and brought back at its start.
    start_us, end_us
        As far as the log says.
    emitted, finished, running, free_blocks_after
        What the scheduler believed; None where the log does not say.
    """

    line: int
    scheduled: Mapping[str, int]
    preempted: Sequence[str] = ()
    restored: Sequence[str] = ()
    start_us: int | None = None
    end_us: int | None = None
    emitted: Sequence[str] | None = None
    finished: Sequence[str] | None = None
    running: Sequence[str] | None = None
    free_blocks_after: int | None = None


@dataclass(frozen=True)
class DecisionLog:
    """A whole log.

    Parameters
    ----------
    file
        Where it stands.
    decisions
        One per line that is not blank.
    ignored
        Keys that mean nothing here, in the order of their first appearance.
    """

    file: str
    decisions: tuple[Decision, ...]
    ignored: tuple[str, ...] = field(default=())


def read_decisions(path: Path | str) -> DecisionLog:
    """Return the log in a file of JSON lines; blank lines are skipped.

    Raises
    ------
    InputError
        Naming file, line, key, value and what was expected; also for a file without a line.
    """
    decisions: list[Decision] = []
    ignored: dict[str, None] = {}
    with in_file(str(path)):
        for number, text in enumerate(files.read_text(path).splitlines(), start=1):
            if not text.strip():
                continue
            with inside(f"line {number}"):
                raw = files.parse_json(text)
                if isinstance(raw, dict):
                    ignored |= dict.fromkeys(key for key in raw if key not in KEYS)
                    raw = {key: value for key, value in raw.items() if key in KEYS}
                decisions.append(_decision(number, conform(raw, DecisionLine)))
        if not decisions:
            raise InputError("is empty, expected one JSON object per line")
    return DecisionLog(str(path), tuple(decisions), tuple(ignored))


def _decision(number: int, line: DecisionLine) -> Decision:
    start, end, duration = (
        None if (value := getattr(line, key)) is None else us_from_ms(value, key, rounding=True)
        for key in ("start_ms", "end_ms", "duration_ms")
    )
    if duration is not None:
        if start is None:
            raise InputError.expected("start_ms beside it", line.duration_ms, "duration_ms")
        if end is not None and end != start + duration:
            raise InputError.expected("start_ms + duration_ms", line.end_ms, "end_ms")
        end = start + duration
    if end is not None and start is None:
        raise InputError.expected("start_ms beside it", line.end_ms, "end_ms")
    if end is not None and start is not None and end < start:
        raise InputError.expected("a time that is not before start_ms", line.end_ms, "end_ms")
    for key, tokens in line.scheduled.items():
        as_int(tokens, f"scheduled[{key!r}]")
    return Decision(
        number, line.scheduled, line.preempted, line.restored, start, end, line.emitted, line.finished, line.running,
        line.free_blocks_after,
    )  # fmt: skip
