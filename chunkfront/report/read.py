"""Reading what ``frontier --out DIR`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from chunkfront.compare import ComparedPolicy
from instances import files
from instances.errors import InputError, in_file
from instances.instance import Instance
from instances.objectives import OBJECTIVES
from instances.schedule import Schedule
from solver.result import ConflictingLimit, Frontier, FrontierPoint


class PointFile(msgspec.Struct):
    """One entry of ``points``."""

    values: list[float]
    status: str
    bounds: list[float | None]
    metrics: dict[str, Any]
    schedule: dict[str, Any]


class PolicyFile(msgspec.Struct):
    """One entry of ``policies``, or of a sweep's ``points``."""

    name: str
    values: list[float | None]
    comparable: bool
    excess: dict[str, float | None]
    dominated_by: int | None = None
    metrics: dict[str, Any] = {}
    reason: str | None = None
    schedule: dict[str, Any] | None = None
    value: Any = None


class CurveFile(msgspec.Struct):
    """One policy of a sweep."""

    policy: str
    points: list[PolicyFile]


class SweepFile(msgspec.Struct):
    """``sweep``."""

    key: str
    curves: list[CurveFile]


class ConflictFile(msgspec.Struct):
    """One entry of ``conflict``."""

    limit: str
    kind: str
    value: Any
    unit: str | None = None
    matters: bool | None = None
    needed: Any = None
    bound: Any = None
    proved: bool = False
    alone: bool = True


class FrontierFile(msgspec.Struct):
    """The document of ``frontier --json``; fields that a page does not show are left out."""

    instance: str
    axes: list[str]
    units: list[str]
    complete: bool
    points: list[PointFile]
    open_intervals: list[dict[str, Any]]
    policies: list[PolicyFile]
    wall_s: float | None
    status: str = "FEASIBLE"
    resolution: float | None = None
    sweep: SweepFile | None = None
    hypervolume: dict[str, Any] | None = None
    interrupted: bool = False
    notes: list[str] = []
    open_zones: list[dict[str, Any]] = []
    conflict: list[ConflictFile] = []
    settings: dict[str, Any] = {}


def read_results(directory: Path, instance: Instance | None = None) -> tuple[dict[str, Any], Instance]:
    """Return the document and the instance in a directory that ``frontier --out`` wrote.

    Parameters
    ----------
    directory
        With ``frontier.json`` and ``instance.json``.
    instance
        What the frontier is of, where ``instance.json`` is missing.

    Raises
    ------
    InputError
        Where one of them is missing, is no such file, or they do not belong together.
    """
    path = directory / "frontier.json"
    if not path.is_file():
        raise InputError(f"expected a directory that `frontier --out` wrote: there is no {path}", field="DIR")
    with in_file(str(path)):
        raw = files.parse_json(files.read_text(path))
    found = parse_document(raw, file=str(path))
    if instance is None:
        beside = directory / "instance.json"
        if not beside.is_file():
            raise InputError(f"there is no {beside}: say where the instance is with --instance", field="DIR")
        instance = Instance.read(beside)
    if instance.name != found.instance:
        raise InputError(f"it is of {found.instance!r}, the instance is {instance.name!r}", file=str(path))
    return raw, instance


def parse_document(raw: Any, *, file: str = "") -> FrontierFile:
    """Return the document of ``frontier --json`` in its shape; `file` is named in errors.

    Raises
    ------
    InputError
        Where it has another shape, or axes that are no objectives.
    """
    try:
        found = msgspec.convert(raw, FrontierFile)
    except msgspec.ValidationError as problem:
        raise InputError(f"no document of `frontier`: {problem}", file=file) from None
    if len(found.axes) < 2 or len(found.units) != len(found.axes) or not set(found.axes) <= set(OBJECTIVES):
        raise InputError.expected("two or more objectives with units", found.axes, "axes").in_file(file)
    for index, point in enumerate(found.points):
        if not len(point.values) == len(point.bounds) == len(found.axes):
            raise InputError.expected(f"{len(found.axes)} values and bounds", point.values, f"points[{index}]")
    return found


def policies_of(found: FrontierFile) -> list[ComparedPolicy]:
    """Return the heuristics of a document."""
    return [
        ComparedPolicy(p.name, tuple(p.values), p.comparable, p.reason, p.dominated_by, p.excess, p.metrics)
        for p in found.policies
    ]


def frontier_of(found: FrontierFile) -> Frontier:
    """Return the frontier of a document (without exact amounts)."""
    points = tuple(
        FrontierPoint(tuple(p.values), tuple(p.bounds), (), p.status, Schedule.from_dict(p.schedule), p.metrics)  # type: ignore[arg-type]
        for p in found.points
    )
    return Frontier(
        tuple(found.axes), tuple(found.units), points, found.complete, tuple(found.open_intervals), found.status,
        found.resolution, found.wall_s, found.interrupted, tuple(found.notes), open_zones=tuple(found.open_zones),
        conflict=tuple(ConflictingLimit(**msgspec.to_builtins(member)) for member in found.conflict),
    )  # fmt: skip
