"""Words that all pictures share: names that fit, times in a readable unit, the headline, violations."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfront.timeline.choice import CHOSEN_WHY
from chunkfront.timeline.spans import Gap, Kind, Timeline
from instances.check import Violation

KIND_WORDS = {
    Kind.QUEUED: "queued",
    Kind.PREFILL: "prefill chunk",
    Kind.DECODE: "decode",
    Kind.PAUSED: "paused",
    Kind.EVICTED: "evicted",
}
SECONDS_FROM_US = 20_000_000
"""Schedules longer than this are shown in seconds."""
SHOWN_VIOLATIONS = 5


def visible(text: str) -> str:
    """Return a name with every character that is not printable replaced by ``·`` (line breaks, escapes, ...)."""
    return "".join(character if character.isprintable() else "·" for character in text)


def short(text: str, width: int) -> str:
    """Return a name in at most `width` characters: its beginning and its end, where names tend to differ."""
    text = visible(text)
    if len(text) <= width:
        return text
    head = (width - 1 + 1) // 2
    tail = width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def time_unit(timeline: Timeline) -> tuple[str, int]:
    """Return the unit of the time axis, and how many µs it has."""
    if timeline.end_us - timeline.start_us > SECONDS_FROM_US:
        return "s", 1_000_000
    return "ms", 1_000


def duration(us: int) -> str:
    """Return a duration in three digits or a few more: whole ms from 100 on, seconds from 10 s on."""
    if us >= 10_000_000:
        return f"{us / 1_000_000:.1f} s"
    if us >= 100_000:
        return f"{us / 1000:.0f} ms"
    text = f"{us / 1000:.{1 if us >= 10_000 else 2 if us >= 1000 else 3}f}"
    return f"{text.rstrip('0').rstrip('.')} ms"


def headline(timeline: Timeline) -> str:
    """Return what is shown, in one line."""
    name = f"{visible(timeline.instance.name)} ({visible(timeline.producer)})"
    count = len(timeline.beats)
    if not count:
        return f"{name}: no iterations"
    return f"{name}: {count} iteration{'s' * (count != 1)} in {duration(timeline.end_us - timeline.start_us)}"


def choice_sentence(timeline: Timeline) -> str | None:
    """Return which requests have a row, where not all of them have."""
    if not timeline.hidden:
        return None
    shown = len(timeline.rows)
    return f"{shown} of {shown + timeline.hidden} requests are shown: {CHOSEN_WHY}"


def stall_words(gap: Gap) -> str:
    """Return the label of a marked gap."""
    return duration(gap.length_us)


def stall_rule(timeline: Timeline) -> str:
    """Return which gaps are marked."""
    if timeline.stall_us is not None:
        return f"stall: gap between tokens above {duration(timeline.stall_us)}"
    if any(row.request.tbt_slo_us is not None for row in timeline.rows):
        return "stall: longest gap between tokens, or above its SLO"
    return "stall: longest gap between tokens"


def kv_unit(timeline: Timeline) -> str:
    """Return what KV is counted in."""
    size = timeline.instance.engine.block_size
    return "tokens" if size == 1 else f"blocks of {size}"


def violation_lines(violations: Sequence[Violation]) -> list[str]:
    """Return the heading and the first broken rules, a line each; nothing for a valid schedule."""
    if not violations:
        return []
    count = len(violations)
    lines = [f"INVALID: {count} broken rule{'s' * (count != 1)}"]
    lines += [f"{visible(v.rule)}: {visible(v.message)}" for v in violations[:SHOWN_VIOLATIONS]]
    if count > SHOWN_VIOLATIONS:
        lines.append(f"... and {count - SHOWN_VIOLATIONS} more (`chunkfront check` lists all)")
    return lines


def broken_moments(timeline: Timeline) -> list[int]:
    """Return where on the time axis rules are broken: starts of iterations, each once."""
    indices = {v.iteration for v in timeline.violations if v.iteration is not None}
    return [beat.start_us for beat in timeline.beats if beat.index in indices]
