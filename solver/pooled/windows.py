"""When the first tokens of a better schedule come: each one's window, from relaxations that demand otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from instances.units import PS_PER_US
from solver.pooled.relax import Relaxer
from solver.pooled.states import Demand
from solver.run import Clock

STEPS = (1, 3, 9, 27, 81)
"""Widths that are tried, in multiples of the gap between the best schedule known and the bound."""

NARROWEST = 1_000
"""µs: the first width is no smaller. Less than a small part of an iteration narrows nothing down."""


WIDEST = 10**9
"""µs: no width is larger."""


@dataclass(frozen=True)
class Window:
    """Every schedule better than the best known has the first token of a job within it; µs from the origin."""

    earliest: int
    latest: int


def windows(relaxations: Relaxer, best: int, clock: Clock) -> dict[int, Window]:
    """Return the windows that are proved in time, per index of the job.

    Proof: the relaxation with the demand that the first token comes at `latest` or later is a relaxation of all
    schedules in which it does. Where it reaches the cutoff, none of them is better than the best known. The same
    for the demand that it comes at `earliest` or before, rounding and decodes that are put off allowed for.

    Parameters
    ----------
    relaxations
        Of the problem.
    best
        Amount of the best schedule known, in µs.
    clock
        When to stop.
    """
    path, bound = relaxations.path(best, clock)
    found: dict[int, Window] = {}
    slack = relaxations.pool.slack_ps + relaxations.pool.charged_ps
    # (With weights the gap may be longer than any time.)
    gap = min(max(best - bound, NARROWEST), WIDEST // STEPS[-1]) * PS_PER_US
    for label in path:
        if label.event < 0:
            continue
        place, time = label.event, label.time

        def impossible(demand: Demand) -> bool:
            return relaxations.is_impossible(best, demand, clock)

        late = _first(lambda d: impossible(Demand(place, earliest=time + d)), gap)  # noqa: B023
        soon = _first(lambda d: impossible(Demand(place, latest=time - d + slack)), gap)  # noqa: B023
        index = relaxations.pool.members[place].index
        found[index] = Window(
            earliest=0 if soon is None else max(0, (time - soon) // PS_PER_US),
            latest=LATEST if late is None else -(-(time + late) // PS_PER_US),
        )
    return found


def around(times: Mapping[int, int], width_us: int) -> dict[int, Window]:
    """Return windows around times in µs from the origin, per index of the job: a place to look, proved by nothing."""
    return {index: Window(max(0, time - width_us), time + width_us) for index, time in times.items()}


LATEST = 1 << 50
"""A window without an end."""


def _first(impossible: Callable[[int], bool], gap: int) -> int | None:
    """Return the first width that is proved impossible, None where none is."""
    return next((gap * step for step in STEPS if impossible(gap * step)), None)
