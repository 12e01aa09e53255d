"""Whether more evictions per request than allowed could reach something better: said only where it is proved not to."""

from __future__ import annotations

from collections.abc import Mapping

from instances.objectives import amount_key
from solver.bounds import Bounds
from solver.evicting_search import EvictingSearch
from solver.evictions import EvictingProblem, evicting_problem
from solver.horizon import iterations_by_time
from solver.result import Frontier
from solver.scarcity import evictions_are_useless
from solver.search import Answer


def could_help(search: EvictingSearch, name: str, limits: Mapping[str, int], answer: Answer) -> bool | None:
    """Return False where it is proved that more evictions than allowed reach nothing better than `answer`.

    None where the engine does not evict at all.

    Notes
    -----
    Where evictions are useless, or as many are allowed as can be useful, there is nothing to add (`solver.scarcity`);
    how many can be depends on the iterations that a better schedule has time for. A value at a bound for any number of
    evictions is the optimum of all: `Bounds` counts only work that evictions cannot save, and the problem without
    scarcity is a relaxation.
    """
    if search.instance.engine.preemption == "none":
        return None
    possible = _with_more(search)
    if possible is None:
        return False
    if not answer.proved:
        return True
    key, bounds, caps = amount_key(name), Bounds(possible), dict(limits)
    amount = None if answer.best is None else answer.best.amounts[key]
    if any(bounds.amount(other) > limit for other, limit in limits.items()):
        return False
    if amount is not None:
        if amount <= bounds.amount(key):
            return False
        caps[key] = min(amount - 1, caps.get(key, amount))
    if not _has_room(possible, iterations_by_time(possible, bounds, caps)):
        return False
    try:
        eased = search.whatever_is_evicted(key, limits, search.clock)
    except KeyboardInterrupt:  # the answer stands, this question stays open
        search.interrupted, eased = True, None
    if eased is None:
        return True
    if amount is None:
        return eased.best is not None or not eased.proved
    return eased.bound is None or amount > eased.bound


def could_help_frontier(search: EvictingSearch, found: Frontier) -> bool | None:
    """Return False where it is proved that more evictions than allowed reach no further point; see `could_help`.

    A single point at the bounds of all axes dominates whatever any number of evictions reaches.
    """
    if search.instance.engine.preemption == "none":
        return None
    possible = _with_more(search)
    if possible is None:
        return False
    bounds = Bounds(possible)
    least = [bounds.amount(amount_key(axis)) for axis in found.axes]
    return not any(all(a <= b for a, b in zip(point.amounts, least, strict=True)) for point in found.points)


def _with_more(search: EvictingSearch) -> EvictingProblem | None:
    """Return the problem with one more eviction per request, None where more are sure to add nothing."""
    if evictions_are_useless(search.instance, no_pause=search.no_pause):
        return None
    problem = evicting_problem(search.instance, search.problem.allowed + 1)
    assert isinstance(problem, EvictingProblem)
    return problem if _has_room(problem, None) else None


def _has_room(problem: EvictingProblem, iterations: int | None) -> bool:
    """Return whether some request may use all evictions of `problem` within so many iterations."""
    rooms = [problem.most_useful(job, iterations) for job in problem.jobs]
    return any(room is None or room >= problem.evictions for room in rooms)


def eviction_notes(what: str, max_preemptions: int, could_help: bool | None) -> tuple[str, ...]:
    """Return what an answer on `what` says about evictions: the bound on them, and whether a larger one could help.

    Nothing where the engine does not evict (`could_help` is None).
    """
    if could_help is None:
        return ()
    often = {0: "evict nobody", 1: "evict no request more than once"}.get(
        max_preemptions, f"evict no request more than {max_preemptions} times"
    )
    more = "a larger number could help" if could_help else "no larger number helps (proved)"
    return (f"{what} is judged among schedules that {often} (--max-preemptions {max_preemptions}); {more}.",)
