"""Numbers per class of requests as one text: what the knobs of `wait` and `class-budget` are."""

from __future__ import annotations

from instances.errors import InputError


def class_counts(text: str, field: str) -> dict[str, int]:
    """Return the numbers of a text like ``chat:4/code:2``.

    Raises
    ------
    InputError
        Naming the knob, the part that is wrong and what was expected.

    Examples
    --------
    >>> class_counts("chat:4/code:2", "thresholds")
    {'chat': 4, 'code': 2}
    """
    counts: dict[str, int] = {}
    for part in filter(None, text.split("/")):
        name, _, number = part.rpartition(":")
        if not name or name in counts or not number.isdecimal() or not int(number):
            raise InputError.expected("CLASS:NUMBER/CLASS:NUMBER..., numbers >= 1, each class once", text, field)
        counts[name] = int(number)
    return counts
