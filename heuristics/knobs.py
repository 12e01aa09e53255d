"""Knobs of policies: typed dataclass fields with a default, a meaning and a range, set from text or from Python."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instances.errors import InputError

_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob, as people read it.

    Parameters
    ----------
    name, kind
        Its name and its type: ``bool``, ``int``, ``float`` or ``str``.
    default
        Value where none is given.
    help
        What it does, in a few words, with the unit.
    minimum
        Smallest value of a number; None for any.
    choices
        Allowed values of a text; empty for any.
    """

    name: str
    kind: type
    default: Any
    help: str
    minimum: float | None = None
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = str(self.default).lower() if self.kind is bool else self.default
        values = "|".join(self.choices) if self.choices else self.kind.__name__
        return f"{self.name}={shown} ({values}): {self.help}"

    @property
    def expected(self) -> str:
        """What a value has to be."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        what = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}[self.kind]
        return what if self.minimum is None else f"{what} >= {self.minimum:g}"

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises
        ------
        InputError
            Naming the knob, the text and what was expected.
        """
        try:
            value = _WORDS[text.lower()] if self.kind is bool else self.kind(text)
        except (KeyError, ValueError):
            raise InputError.expected(self.expected, text, self.name) from None
        return self.checked(value)

    def checked(self, value: Any) -> Any:
        """Return `value` in the knob's own type; InputError where it is not one of its values."""
        if self.kind in (int, float) and not isinstance(value, bool):
            try:
                value = operator.index(value) if self.kind is int else float(value)
            except (TypeError, ValueError):
                raise InputError.expected(self.expected, value, self.name) from None
        in_range = not isinstance(value, float) or math.isfinite(value)
        if self.minimum is not None:
            in_range = in_range and isinstance(value, (int, float)) and value >= self.minimum
        if type(value) is not self.kind or not in_range or (self.choices and value not in self.choices):
            raise InputError.expected(self.expected, value, self.name)
        return value


def knob(default: Any, help: str, *, minimum: float | None = None, choices: Sequence[str] = ()) -> Any:
    """Return the dataclass field of a knob; its type is that of `default`.

    Parameters
    ----------
    default
        A bool, int, float or str.
    help
        What it does, in a few words, with the unit.
    minimum
        Smallest value, for numbers.
    choices
        Allowed values, for texts.
    """
    return dataclasses.field(default=default, metadata={"help": help, "minimum": minimum, "choices": tuple(choices)})


def knobs_of(policy: type) -> tuple[Knob, ...]:
    """Return the knobs of a policy class, in the order of their definition; none where it is no dataclass."""
    if not dataclasses.is_dataclass(policy):
        return ()
    return tuple(
        Knob(f.name, type(f.default), f.default, f.metadata["help"], f.metadata["minimum"], f.metadata["choices"])
        for f in dataclasses.fields(policy)
        if "help" in f.metadata
    )


def parse_knobs(policy: type, name: str, assignments: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `assignments` in the types of the policy's knobs.

    Raises
    ------
    InputError
        For an unknown knob (listing those that exist) or a value of the wrong type.
    """
    known = {k.name: k for k in knobs_of(policy)}
    values = {}
    for key, text in assignments.items():
        if key not in known:
            listing = "; ".join(str(k) for k in known.values()) or "none"
            raise InputError(f"policy {name} has no knob {key!r}; its knobs: {listing}", field=key)
        values[key] = known[key].parse(text)
    return values
