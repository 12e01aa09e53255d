"""The command ``chunkfront``: its commands, and one place that turns errors into exit codes.

Exit codes: 0 answered, 1 the answer is no, 2 bad input or usage, 3 unknown within the limits, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from chunkfront import output
from chunkfront.commands import (
    attack,
    check,
    compare,
    export,
    frontier,
    instances,
    policies,
    report,
    show,
    simulate,
    solve,
    trace,
    validate,
    why,
)
from instances.errors import InputError

BAD_INPUT = 2
INTERRUPTED = 130
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why stdout may not take what is written; the exit code must not say that the answer is no."""
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""The class of all errors in the use of options; typer brings its own copy of click or uses the installed one."""


class Chunkfront(TyperGroup):
    """The group of all commands; bad input and usage end with one line on stderr, never with a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code (return it where `standalone_mode` is false)."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(
                given, prog_name, complete_var, standalone_mode=False, windows_expand_args=windows_expand_args, **extra
            )
        except InputError as problem:
            code = _refuse(str(problem), given)
        except UsageError as problem:
            code = _refuse_usage(problem, given)
        except (KeyboardInterrupt, typer.Abort):
            output.error("interrupted")
            code = INTERRUPTED
        except OSError as problem:  # files are opened where their errors are known
            if problem.errno not in FULL:
                raise
            output.drop_stdout()
            output.error(f"stdout: cannot be written: {problem.strerror}")
            code = BAD_INPUT
        if standalone_mode:
            sys.exit(code)
        return code


def _refuse(text: str, args: Sequence[str]) -> int:
    output.error(text)
    if "--json" in args:
        output.emit_json({"error": text})
    return BAD_INPUT


def _refuse_usage(problem: Any, args: Sequence[str]) -> int:
    if type(problem).__name__ == "NoArgsIsHelpError":
        problem.show()
        return BAD_INPUT
    hint = f" (see `{problem.ctx.command_path} --help`)" if problem.ctx is not None else ""
    return _refuse(f"{problem.format_message()}{hint}", args)


app = typer.Typer(
    cls=Chunkfront,
    name="chunkfront",
    help="Exact schedules for LLM serving: the proved frontier of a small instance, and the heuristics against it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(frontier.frontier)
app.command()(solve.solve)
app.command()(simulate.simulate)
app.command()(check.check)
app.command()(compare.compare)
app.command()(why.why)
app.command()(show.show)
app.command()(export.export)
app.command()(report.report)
app.command()(validate.validate)
app.command()(attack.attack)
app.command()(trace.trace)
app.command()(instances.instances)
app.command()(policies.policies)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        output.emit(f"chunkfront {installed('chunkfront')}\n")
    except PackageNotFoundError:
        raise InputError("chunkfront runs from its source and is not installed", field="--version") from None
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?"
    code = app(standalone_mode=False)
    if code == INTERRUPTED:  # a search that has not stopped yet must not crash the end of the process
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
