"""What the solver answers: a value, a bound, their proof status, and the schedule that shows the value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from instances.schedule import Schedule

OPTIMAL = "OPTIMAL"
FEASIBLE = "FEASIBLE"
INFEASIBLE = "INFEASIBLE"
UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class ConflictingLimit:
    """One of a small set of limits that no schedule obeys together.

    Parameters
    ----------
    limit
        Metric, engine limit, or `no_pause`.
    kind
        ``metric``, ``engine`` or ``option``.
    value, unit
        What it was set to; the unit of a metric.
    matters
        True where a schedule exists that obeys all other members; None where that was not decided in time.
    needed
        The tightest value known to suffice while all other limits stay as they are; None for one without a value
        (`chunk_sizes` must go), and where none is known.
    bound
        A value of a metric or a count that is proved: nothing tighter suffices. None where nothing is known.
    proved
        Whether `needed` is the tightest that suffices.
    alone
        Whether `needed` suffices while all limits outside the set stay too; False where these conflict among
        themselves, and only the other members of the set were kept.
    """

    limit: str
    kind: str
    value: Any
    unit: str | None = None
    matters: bool | None = None
    needed: Any = None
    bound: Any = None
    proved: bool = False
    alone: bool = True


@dataclass(frozen=True)
class Result:
    """The answer of one solve.

    Parameters
    ----------
    status
        ``OPTIMAL`` (proved), ``FEASIBLE`` (a checked schedule and a proved bound), ``INFEASIBLE`` (proved) or
        ``UNKNOWN`` (neither; never shown as infeasible).
    minimize
        The objective's metric name; `slo_attainment` is maximised.
    value, bound
        Of the schedule, and proved, in the unit of the metric (ms; a share for `slo_attainment`); None where there
        is none.
    amount, bound_amount
        The same as exact integers (µs, sums of µs for means, a count of requests for `slo_attainment`).
    gap
        (value - bound) / value, for a maximised objective (bound - value) / bound; None without value.
    wall_s
        Seconds that it took; None in deterministic mode.
    schedule
        Accepted by the checker, its recomputed metrics equal the claimed ones; None without value.
    metrics
        All metrics of the schedule, keys with units, as `instances.metrics.report` gives them.
    interrupted
        Whether the user stopped it.
    notes
        Sentences for the user: what the answer holds for, what was left out.
    conflict
        Of an infeasible problem: limits that conflict, an irreducible set as far as each `matters`.
    more_preemptions_could_help
        Whether more evictions per request than allowed could reach something better: False where it is proved that
        they do not, None where the engine does not evict.
    """

    status: str
    minimize: str
    value: float | None = None
    bound: float | None = None
    gap: float | None = None
    wall_s: float | None = 0.0
    schedule: Schedule | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    amount: int | None = None
    bound_amount: int | None = None
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    conflict: tuple[ConflictingLimit, ...] = ()
    more_preemptions_could_help: bool | None = None


@dataclass(frozen=True)
class FrontierPoint:
    """One point of a frontier.

    Parameters
    ----------
    values, bounds
        In the axes' units; `bounds` is what is proved: no schedule that reaches ``values[1]`` on the second axis is
        better than ``bounds[0]`` on the first, and none that reaches ``values[0]`` on the first is better than
        ``bounds[1]`` on the second.
    amounts
        `values` as exact integers.
    status
        ``OPTIMAL`` when proved nondominated, else ``FEASIBLE``.
    schedule, metrics
        One schedule with these values, and all of its metrics.
    """

    values: tuple[float, ...]
    bounds: tuple[float, ...]
    amounts: tuple[int, ...]
    status: str
    schedule: Schedule
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Frontier:
    """The nondominated values of an instance on two or three axes.

    Parameters
    ----------
    axes, units
        Metric names, and the units of their values.
    points
        In order of the first axis (of the next ones among equals).
    complete
        Whether every point is proved and nothing is missing between them (up to `resolution`).
    open_intervals
        Where points may be missing: one dict per interval, ``{"axis", "above", "below"}`` in the unit of the axis,
        None for an open end.
    open_zones
        The same for three axes: one dict per zone, ``{"better_than": {axis: value or None}, "bounds": {axis:
        value}}``: points may be missing that are better than this on every axis (None: whatever it is there), but
        not beyond the bounds.
    status
        ``OPTIMAL`` when complete, ``FEASIBLE``, ``INFEASIBLE`` (no schedule obeys the limits) or ``UNKNOWN``.
    resolution
        Grid on every axis but the first, None for the complete set.
    interrupted
        Whether the user stopped it.
    notes, conflict, more_preemptions_could_help
        As for `Result`.
    """

    axes: tuple[str, ...]
    units: tuple[str, ...]
    points: tuple[FrontierPoint, ...]
    complete: bool
    open_intervals: tuple[dict[str, Any], ...] = ()
    status: str = OPTIMAL
    resolution: float | None = None
    wall_s: float | None = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    open_zones: tuple[dict[str, Any], ...] = ()
    conflict: tuple[ConflictingLimit, ...] = ()
    more_preemptions_could_help: bool | None = None
