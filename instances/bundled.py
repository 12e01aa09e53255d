"""The bundled instances: small, made by us, loaded by name.

Example
-------
>>> from instances.bundled import load_bundled
>>> len(load_bundled("interference").requests)
5
"""

from __future__ import annotations

from importlib.resources import files

from instances.errors import InputError
from instances.instance import Instance

SUFFIX = ".json"


def bundled_names() -> tuple[str, ...]:
    """Return the names of the bundled instances, sorted."""
    folder = files("instances") / "data"
    found = (entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name != "best_known.json"))


def load_bundled(name: str) -> Instance:
    """Return the bundled instance of that name.

    Raises
    ------
    InputError
        For an unknown name, listing the known ones.
    """
    if name not in bundled_names():
        raise InputError.expected(f"one of {', '.join(bundled_names())}", name, "bundled instance")
    text = (files("instances") / "data" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    return Instance.from_json(text, file=f"{name}{SUFFIX}")
