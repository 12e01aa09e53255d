"""Text files and JSON: read completely, or refused with a clear `InputError`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from instances.errors import InputError, shown


def read_text(path: Path | str) -> str:
    """Return the text of a file (UTF-8, a byte order mark is dropped).

    Raises
    ------
    InputError
        Where it cannot be read or is not UTF-8.
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start})", file=str(path)) from None
    except ValueError as error:  # a zero byte in the path
        raise InputError(f"cannot be read: {error}", file=shown(str(path))) from None


def parse_json(text: str) -> Any:
    """Return the JSON value of `text`.

    Raises
    ------
    InputError
        For malformed JSON (line and column) and for a key given twice.
    """
    if not text.strip():
        raise InputError("is empty, expected a JSON object")
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg} (line {error.lineno} column {error.colno})") from None
    except RecursionError:
        raise InputError("is not usable JSON: nested too deeply") from None
    except InputError:
        raise
    except ValueError as error:  # an integer of more than 4300 digits
        raise InputError(f"is not usable JSON: {error}") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values; InputError for a key given twice (a hook of `json.loads`)."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {shown(key)} is given twice in one object")
        found[key] = value
    return found
