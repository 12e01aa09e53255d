"""Whose fault an exception is: the file and line of the user's code that raised it."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path


def described(problem: BaseException) -> str:
    """Return an exception of the user's code in words: type, message, file and line where it was raised."""
    words = f"{type(problem).__name__}: {problem}".rstrip(": ")
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"SyntaxError: {problem.msg} ({problem.filename}, line {problem.lineno})"
    place = place_of(problem)
    return f"{words} ({place})" if place else words


def place_of(problem: BaseException) -> str | None:
    """Return file and line of the user's code that raised, or that called into the libraries which raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [frame for frame in frames if not _is_ours(frame.filename)]
    if not theirs:
        return None
    return f"{theirs[-1].filename}, line {theirs[-1].lineno}, in {theirs[-1].name}"


def _is_ours(file: str) -> bool:
    """Whether a file belongs to this program, to Python or to an installed library."""
    root = Path(__file__).resolve().parents[2]
    path = Path(file)
    if file.startswith("<") or any(part in ("site-packages", "dist-packages") for part in path.parts):
        return True
    if Path(inspect.__file__).parent in path.parents:
        return True
    packages = ("instances", "heuristics", "solver", "chunkfront")
    return any(root / package in path.resolve().parents for package in packages)
