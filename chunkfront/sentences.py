"""Sentences that tables and pages share: time taken, limits that conflict, zones where points may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from instances.objectives import OBJECTIVES
from solver.result import ConflictingLimit, Frontier

SHOWN_ZONES = 5


def took(wall_s: float | None) -> str:
    """Return the seconds that something took; deterministic answers do not know them."""
    return "deterministic" if wall_s is None else f"{wall_s:.1f} s"


def hypervolume_sentence(share: str, axes: int, *, complete: bool) -> str:
    """Return how much of what a frontier dominates the heuristics dominate together."""
    whole = "the frontier covers" if complete else "the points found so far cover"
    what = "area" if axes == 2 else "volume"
    return f"Together the heuristics cover {share} of the {what} that {whole} (hypervolume)."


def limit_words(member: ConflictingLimit) -> str:
    """Return a limit as users write it, like ``max_tbt <= 20 ms``."""
    if member.kind != "metric":
        return member.limit if member.kind == "option" else f"{member.limit} = {_setting(member.value)}"
    sign = ">=" if OBJECTIVES[member.limit].maximise else "<="
    return f"{member.limit} {sign} {_amount(member.value, member)}"


def _amount(value: float, member: ConflictingLimit) -> str:
    return f"{value:.10g}" if member.unit in (None, "share") else f"{value:.10g} {member.unit}"


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def conflict_sentences(conflict: Sequence[ConflictingLimit]) -> list[str]:
    """Return why no schedule obeys the limits, and one sentence per limit on how far it must be loosened."""
    if not conflict:
        return []
    words = [limit_words(member) for member in conflict]
    if len(words) == 1:
        first = f"Why: no schedule keeps {words[0]}."
    else:
        first = f"Why: {', '.join(words[:-1])} and {words[-1]} conflict; no schedule keeps all of them."
        unsure = [member.limit for member in conflict if not member.matters]
        if not unsure:
            first += " Without any one of them there is one."
        else:
            first += f" Whether {' and '.join(unsure)} can be left out was not decided within the time limit."
    return [first, *(f"- {member.limit}: {_remedy(member)}." for member in conflict)]


def _remedy(member: ConflictingLimit) -> str:
    """Return how far a limit must be loosened."""
    rest = "while all other limits stay" if member.alone else (
        "beside the limits named here; alone it does not help, because others conflict too"
    )  # fmt: skip
    if member.kind == "metric" or (member.needed is not None and member.bound is not None):
        return _remedy_of_amount(member, rest)
    if not member.proved:
        return "how far to loosen it was not decided within the time limit"
    if member.kind == "option" or member.limit == "chunk_sizes":
        return f"it must go, {rest} (proved)"
    return f"{_setting(member.needed)} is enough, nothing tighter is (proved), {rest}"


def _remedy_of_amount(member: ConflictingLimit, rest: str) -> str:
    word = "at most" if member.kind == "metric" and OBJECTIVES[member.limit].maximise else "at least"
    if member.proved:
        return f"{word} {_amount(member.needed, member)} is needed, and enough {rest} (proved)"
    known = []
    if member.bound is not None:
        known.append(f"{word} {_amount(member.bound, member)} is needed")
    if member.needed is not None:
        known.append(f"{_amount(member.needed, member)} is enough {rest}")
    return "; ".join(known) + "; not decided more closely within the time limit" if known else (
        "how far to loosen it was not decided within the time limit"
    )  # fmt: skip


def open_zone_sentences(frontier: Frontier) -> list[str]:
    """Return one sentence per zone where points of three axes may be missing."""
    units = dict(zip(frontier.axes, frontier.units, strict=True))
    sentences = [f"Open: points may be missing {_zone(zone, units)}." for zone in frontier.open_zones]
    if len(sentences) > SHOWN_ZONES:
        sentences[SHOWN_ZONES:] = [f"... and {len(sentences) - SHOWN_ZONES} more zones like these."]
    if sentences and frontier.resolution is None and not frontier.interrupted:
        sentences.append("More time helps, or a grid on all axes but the first (--resolution, in ms).")
    return sentences


def _zone(zone: Mapping[str, Any], units: Mapping[str, str]) -> str:
    edges = []
    for axis, edge in zone["better_than"].items():
        if edge is not None:
            edges.append(f"{axis} is {'above' if OBJECTIVES[axis].maximise else 'below'} {edge:g} {units[axis]}")
    return f"where {' and '.join(edges)}" if edges else "anywhere"
