"""The one error for input that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

SHOWN_LENGTH = 80


class InputError(ValueError):
    """Input that cannot be used; the text names file, field, value and what was expected.

    Parameters
    ----------
    message
        What is wrong, with the value found and what was expected.
    field
        Path of the field inside the file or object, like ``requests[3].prompt_tokens``.
    file
        The file, where the input came from one.
    """

    def __init__(self, message: str, *, field: str = "", file: str = "") -> None:
        self.message = message
        self.field = field
        self.file = file
        super().__init__(": ".join(part for part in (file, field, message) if part))

    @classmethod
    def expected(cls, what: str, value: object, field: str) -> InputError:
        """Return the error "expected `what`, got `value`" at `field`."""
        return cls(f"expected {what}, got {shown(value)}", field=field)

    def inside(self, prefix: str) -> InputError:
        """Return the same error seen from the object that holds this one under `prefix`."""
        return InputError(self.message, field=join_path(prefix, self.field), file=self.file)

    def in_file(self, file: str) -> InputError:
        """Return the same error with the file's name."""
        return InputError(self.message, field=self.field, file=file)


def join_path(prefix: str, field: str) -> str:
    """Return ``prefix.field`` (or whichever of the two is not empty)."""
    return ".".join(part for part in (prefix, field) if part)


@contextmanager
def inside(prefix: str) -> Iterator[None]:
    """Prefix the field of an `InputError` that the block raises."""
    try:
        yield
    except InputError as error:
        raise error.inside(prefix) from None


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Name the file in an `InputError` that the block raises."""
    try:
        yield
    except InputError as error:
        raise error.in_file(file) from None


def shown(value: object) -> str:
    """Return `value` for a message, cut to a readable length."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out an int of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 3] + "..."


def shown_json(value: object) -> str:
    """Return `value` as a JSON file shows it; what holds other values is only named (it may be deep)."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, (bool, float)):
        return json.dumps(value)
    return shown(value)
