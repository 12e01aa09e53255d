"""What goes to stdout (the answer), to stderr (messages, errors, progress) and to files."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_WIDTH = 120
"""Width of tables where stdout is no terminal and COLUMNS does not say otherwise."""


def emit(text: str) -> None:
    """Write `text` to stdout; a reader that has gone away (``| head``) is no error, the rest is dropped."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()


def drop_stdout() -> None:
    """Drop whatever is written to stdout from now on."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the process ends


def emit_json(document: Any) -> None:
    """Write one JSON document to stdout; NaN and infinity are refused, as JSON has none."""
    emit(json_text(document))


def json_text(document: Any) -> str:
    """Return a JSON document as indented ASCII text."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def emit_rich(*parts: RenderableType) -> None:
    """Write tables and lines to stdout, in colour on a terminal only."""
    console = _console()
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = captured.get().split("\n")
    emit("\n".join(line.rstrip(" ") for line in lines))


def width() -> int:
    """Return how many columns stdout has."""
    return _console().width


def _console() -> Console:
    from rich.console import Console

    columns = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=sys.stdout, width=columns, highlight=False, markup=False, emoji=False)


def message(text: str) -> None:
    """Write a message to stderr, only when that is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def error(text: str) -> None:
    """Write an error to stderr, always."""
    try:
        print(f"Error: {text}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the process ends


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on stderr while work goes on; nothing when stderr is no terminal.

    Yields
    ------
    Callable
        Takes the text to show behind `what`.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(what)) as status:
        yield lambda text: status.update(escape(f"{what}: {text}"))


def check_writable_file(path: Path | None, option: str) -> None:
    """Refuse a file that could not be written, before long work starts.

    Raises
    ------
    InputError
        Naming the option, the path and what was expected.
    """
    if path is None:
        return
    if path.is_dir():
        raise InputError.expected("a file", str(path), option)
    if path.exists():
        if not os.access(path, os.W_OK):
            raise InputError.expected("a file that may be written", str(path), option)
        return
    _probe(path.parent, f"a file in a directory that exists and may be written, got {str(path)!r}", option)


def make_directory(path: Path | None, option: str) -> None:
    """Make the directory `path` and see that files can be written there, before long work starts.

    Raises
    ------
    InputError
        Naming the option, the path and what was expected.
    """
    if path is None:
        return
    what = f"a directory that may be written, got {str(path)!r}"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"expected {what}: {problem.strerror}", field=option) from None
    _probe(path, what, option)


def _probe(directory: Path, what: str, option: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise InputError(f"expected {what}: {problem.strerror}", field=option) from None


def write_file(path: Path, content: str | bytes, option: str = "--out") -> None:
    """Write a whole file: into a new one that then takes its place, so that no half-written file is left.

    Raises
    ------
    InputError
        Where it cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
            path.write_bytes(data)
            return
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_bytes(data)
        part.replace(path)
    except OSError as problem:
        raise InputError(f"cannot be written: {problem.strerror}", file=str(path), field=option) from None
