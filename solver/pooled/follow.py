"""The order in which the pooled relaxation is asked: paths of beams to follow, then the search for its optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instances.schedule import Schedule
from solver.incumbent import Candidate, Incumbents
from solver.pooled.relax import Relaxed, Relaxer
from solver.pooled.states import END
from solver.run import Clock

BEAMS: tuple[tuple[int, int | None], ...] = ((30, None), (100, None), (300, None), (1000, None))
"""Width and narrowness of the beams that come before the search for the optimum, while they are short."""
END_BEAMS = ((100, 1), (1000, 1), (100, 2), (1000, 2), (100, 3), *BEAMS)
"""The same for the end: whoever decodes longest comes first in most good schedules."""
SHARE, LARGE_SHARE, END_SHARE = 0.5, 0.85, 0.2
"""Shares of the time left for the relaxation, beams included: of means over few requests, over more, and of makespans,
where CP-SAT finds and proves more."""
SMALL = 6
"""Requests up to which means are proved, given time: to the µs by the relaxation, or by CP-SAT."""
BEAM_SHARE = 0.2
"""Share of that for one beam."""
DEARER, CONTEXTS = (1, 2), 100
"""Other rates at which paths are looked for, where contexts add more than one in so many to the least rate."""


def pooled(
    relaxations: Relaxer, incumbents: Incumbents, limits: Mapping[str, int], best: Candidate | None, clock: Clock
) -> tuple[Candidate | None, Relaxed]:
    """Return the best schedule known after following relaxed paths, and what the relaxation said.

    Parameters
    ----------
    relaxations, limits
        Of what; limits in µs.
    incumbents, best
        The schedules known, and the best of them; new ones are added.
    clock
        A share of it is used.
    """
    name = relaxations.name
    large = len(relaxations.pool.members) > SMALL
    share = END_SHARE if relaxations.aim == END else LARGE_SHARE if large else SHARE
    clock = clock.part(share * clock.left_s)
    for width, narrow in END_BEAMS if relaxations.aim == END else BEAMS:
        part = clock.part(BEAM_SHARE * clock.left_s)
        best = _better(incumbents, relaxations.beam(_amount(best, name), width, part, narrow), name, limits, best)
        if part.elapsed_s > BEAM_SHARE * part.limit_s:  # a wider one would take longer than it may
            break
    for dearer in DEARER if relaxations.context_ps * CONTEXTS > relaxations.pool.rate else ():
        rough = Relaxer(relaxations.problem, name, relaxations.gap_us, dearer=dearer)
        for width, narrow in END_BEAMS[:2] if relaxations.aim == END else BEAMS[1:3]:
            part = clock.part(BEAM_SHARE * clock.left_s)
            best = _better(incumbents, rough.beam(None, width, part, narrow), name, limits, best)
    relaxations.take_apart(clock)
    bound, decided, first = 0, False, dict[int, int]()
    for exact in (False, True):  # what is known after the fast search makes the exact one short
        relaxed = relaxations.solve(_amount(best, name), clock, exact=exact)
        best = _better(incumbents, relaxed.schedules, name, limits, best)
        bound, decided = max(bound, relaxed.bound), decided or relaxed.decided
        first.update(relaxed.first_tokens)
        if not relaxed.decided or relaxations.aim == END or (best is not None and best.amounts[name] <= bound):
            break
    return best, Relaxed(bound, (), decided, first)


def _better(
    incumbents: Incumbents, schedules: Sequence[Schedule], name: str, limits: Mapping[str, int], best: Candidate | None
) -> Candidate | None:
    """Return the best schedule known after adding some to those of which `best` was the best."""
    added = [incumbents.add(schedule) for schedule in schedules]
    return incumbents.best(name, limits) if any(added) else best


def _amount(known: Candidate | None, name: str) -> int | None:
    return None if known is None else known.amounts[name]
