"""Running the command line in a test: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from chunkfront.cli import app

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "import sys; sys.argv[0] = 'chunkfront'; from chunkfront.cli import main; main()"]


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; NaN and infinity are refused."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def chunkfront(*args: object) -> Outcome:
    """Run a command in this process; an exception that leaves it is a failure of the test."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def start(*args: object, hash_seed: str = "random", **options: Any) -> subprocess.Popen[str]:
    """Start a command in a process of its own, with pipes."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen([*PROGRAM, *map(str, args)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)  # fmt: skip
