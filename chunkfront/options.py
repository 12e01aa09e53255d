"""Options that several commands share, and their strict reading.

Every fault is an `InputError` that names the option, the value and what was expected, raised before any long work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from instances.errors import InputError
from instances.instance import Instance
from instances.objectives import OBJECTIVES, amount_key
from instances.units import MAX_TIME_US, US_PER_MS

DEFAULT_AXES = ("makespan", "max_tbt")
LONGEST_MS = MAX_TIME_US // US_PER_MS
"""Longest time that the program holds."""

InstanceArgument = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="A file, or the name of a bundled instance.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="METRIC=MS",
        help="Bound another metric (ms; a share for slo_attainment, tokens/s for throughput, from below). "
        "May be repeated.",
        show_default=False,
    ),
]
NoPauseOption = Annotated[
    bool, typer.Option("--no-pause", help="Demand that every prefilled resident decodes in every iteration.")
]
PoliciesOption = Annotated[
    str, typer.Option("--policies", metavar="all|none|A,B:key=v,...", help="Heuristics to compare with.")
]


def whole(minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    """Return the reader of a whole number within ``minimum..maximum``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise typer.BadParameter(f"expected a whole number within {minimum}..{maximum}, got {text!r}")
        return value

    return read


def positive(text: str) -> float:
    """Read a finite number > 0."""
    value = _number(text)
    if not value > 0:
        raise typer.BadParameter(f"expected a number > 0, got {text!r}")
    return value


def not_negative(text: str) -> float:
    """Read a finite number >= 0."""
    value = _number(text)
    if not value >= 0:
        raise typer.BadParameter(f"expected a number >= 0, got {text!r}")
    return value


def _number(text: str) -> float:
    """Return a finite number, NaN for anything else."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


MaxPreemptionsOption = Annotated[
    int,
    typer.Option(
        "--max-preemptions",
        parser=whole(0),
        metavar="N",
        help="Most evictions per request, where the engine may evict.",
    ),
]
SweepOption = Annotated[
    str | None,
    typer.Option(
        "--sweep",
        metavar="[POLICY:]KEY=A,B,C",
        help="Run once per value of a knob of a policy or of an engine limit, like max_num_batched_tokens=128,256.",
        show_default=False,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        parser=whole(1, 1000),
        metavar="N",
        help="Threads of the solver.",
        show_default="8, or one per core where there are more",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", parser=whole(0, 2**31 - 1), metavar="N", help="Random seed of the solver.")
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="One worker, and a time limit in units of work (about seconds of it): the same bytes twice. No wall_s.",
    ),
]
TimeLimitOption = Annotated[
    float,
    typer.Option("--time-limit", parser=positive, metavar="S", help="Seconds for the whole command, all of its parts."),
]


def parse_metric(name: str, option: str) -> str:
    """Return the name of an objective; an unknown one is refused with close matches and the whole list."""
    name = name.strip()
    if name in OBJECTIVES:
        return name
    raise InputError(
        f"expected one of {', '.join(OBJECTIVES)}, got {name!r}{did_you_mean(name, OBJECTIVES)}", field=option
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a half sentence with the known names close to `name`, empty where there is none."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def parse_limits(texts: list[str] | None, option: str = "--limit") -> dict[str, float]:
    """Return limits like ``max_tbt=35`` by metric name, each in the unit of its metric.

    Raises
    ------
    InputError
        For a malformed limit, an unknown metric, a value out of range, or a metric given twice.
    """
    limits: dict[str, float] = {}
    for text in texts or []:
        name, equals, number = text.partition("=")
        if not equals:
            raise InputError.expected("METRIC=MS, like max_tbt=35", text, option)
        name = parse_metric(name, option)
        if name in limits:
            raise InputError(f"expected each metric once, got {name} again in {text!r}", field=option)
        limits[name] = _limit_value(name, number, text, option)
    return limits


def _limit_value(name: str, number: str, text: str, option: str) -> float:
    unit = OBJECTIVES[name].unit
    what = {"share": "a share within 0..1", "tokens/s": "a number of tokens/s > 0"}.get(
        unit, f"a number of ms within 0..{LONGEST_MS}"
    )
    value = _number(number)
    good = value >= 0
    if unit == "share":
        good = good and value <= 1
    if unit == "ms":
        good = good and value <= LONGEST_MS
    if unit == "tokens/s":
        good = good and value > 0
    if not good:
        raise InputError.expected(f"{what} behind {name}=", text, option)
    return value


def parse_axes(text: str | None, instance: Instance, option: str = "--axes") -> tuple[str, ...]:
    """Return the two or three axes: those of `text`, else the instance's, else makespan and max_tbt."""
    if text is None and instance.axes is None:
        return DEFAULT_AXES
    given = text.split(",") if text is not None else list(instance.axes or ())
    where = option if text is not None else f"axes of instance {instance.name!r}"
    if not 2 <= len(given) <= 3:
        raise InputError.expected("two or three metrics, like makespan,max_tbt", ",".join(given), where)
    axes = tuple(parse_metric(name, where) for name in given)
    if len({amount_key(axis) for axis in axes}) < len(axes):
        what = f"{'two' if len(axes) == 2 else 'three'} different metrics (throughput is makespan read the other way)"
        raise InputError.expected(what, ",".join(axes), where)
    return axes


def parse_metrics(text: str, option: str = "--metrics") -> tuple[str, ...]:
    """Return a comma list of objectives, each once."""
    names = tuple(parse_metric(name, option) for name in text.split(","))
    if len(set(names)) < len(names):
        raise InputError.expected("each metric once", text, option)
    return names


def split_policies(text: str, option: str = "--policies") -> list[str]:
    """Return the policies of a list like ``orca,greedy-chunked:chunk=64,order=sjf``.

    A comma also separates the options of one policy: a part with ``=`` and without ``:`` continues the one before.
    """
    specs: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            raise InputError.expected("policy names separated by commas", text, option)
        if "=" in part and ":" not in part.partition("=")[0] and specs:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    if len(set(specs)) < len(specs):
        raise InputError.expected("each policy once", text, option)
    return specs


def load_instance(text: str) -> Instance:
    """Return the instance at a path, or the bundled one of that name.

    Raises
    ------
    InputError
        Where there is neither: with the bundled names and those close to `text`.
    """
    from instances.bundled import bundled_names, load_bundled, worst_names

    names = bundled_names()
    path = Path(text)
    if text in (*names, *worst_names()) and not path.is_file():
        return load_bundled(text)
    if text and path.exists():
        return Instance.read(path)
    raise InputError(
        f"expected a file or a bundled instance ({', '.join(names)}), got {text!r}{did_you_mean(text, names)}",
        field="INSTANCE",
    )
