"""The bundled instances: small, made by us, loaded by name. Those of ``worst/`` are worst cases of single policies.

Example
-------
>>> from instances.bundled import load_bundled
>>> len(load_bundled("interference").requests)
5
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from instances.errors import InputError
from instances.instance import Instance

SUFFIX = ".json"
PROOF = ".proof.json"
WORST = "worst/"
"""Prefix of the names of worst cases."""


def bundled_names() -> tuple[str, ...]:
    """Return the names of the bundled instances, sorted."""
    folder = files("instances") / "data"
    found = (entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name != "best_known.json"))


def worst_names() -> tuple[str, ...]:
    """Return the names of the bundled worst cases, sorted: ``worst/POLICY-METRIC``.

    Found, shrunk and proved by ``chunkfront attack``; the proof of each stands beside it (`worst_proof`).
    """
    folder = files("instances") / "data" / "worst"
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    found = (name.removesuffix(PROOF) for name in names if name.endswith(PROOF))
    return tuple(sorted(WORST + name for name in found))


def worst_proof(name: str) -> dict[str, Any]:
    """Return the proof document of a bundled worst case (``chunkfront attack --json``)."""
    if name not in worst_names():
        raise InputError.expected(f"one of {', '.join(worst_names())}", name, "worst case")
    text = (files("instances") / "data" / f"{name}{PROOF}").read_text(encoding="utf-8")
    proof: dict[str, Any] = json.loads(text)
    return proof


def load_bundled(name: str) -> Instance:
    """Return the bundled instance of that name.

    Raises
    ------
    InputError
        For an unknown name, listing the known ones.
    """
    if name not in bundled_names() and name not in worst_names():
        raise InputError.expected(f"one of {', '.join(bundled_names())}", name, "bundled instance")
    text = (files("instances") / "data" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    return Instance.from_json(text, file=f"{name}{SUFFIX}")
