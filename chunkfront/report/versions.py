"""Which programs computed a result."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PROGRAMS = ("chunkfront", "ortools")


def versions() -> dict[str, str]:
    """Return the versions of Chunkfront, of the solver's engine and of Python; what is not installed is left out."""
    found = {}
    for name in PROGRAMS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # runs from its source
            continue
    return {**found, "python": platform.python_version()}
