"""Exhaustive search over tiny instances: the optimum and the frontier, from model.md alone.

Knows neither solver, checker nor policies. Amounts are exact integers: µs, sums of µs for means (`mean_ttft` over the
requests that have a TTFT), Σ weight·E2E for `weighted_e2e`, and for `slo_attainment` the number of requests that miss
an SLO; all are minimised.

How max TBT is swept. Let F(G) be the set of nondominated amounts of the other axes under "every gap <= G". For each
point p of F(G), its sequence of batches attains p down to some least bound g_p <= G, found on that sequence alone.
Let G' be the largest g_p. For bounds in [G', G] the set is F(G) itself: all its points are attained there, and a
tighter bound admits nothing new. So the sweep goes on at G' - 1, and every (p, g_p) met is attained. Nothing is
missing: let (p, g) be nondominated, and G the smallest bound of the sweep with G >= g. Were p not in F(G), each q in
F(G) that dominates p would need g_q > g, so G' > g and the sweep would go on at G' - 1 >= g, against the choice of G.
So p is in F(G), and g_p <= G' <= g (again by the choice of G), hence g_p = g.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from instances.instance import Instance
from instances.request import Request
from tests.judges.batches import Batch, Batches, batches_of
from tests.judges.labels import SUMS, Bounds, tightest
from tests.judges.naive import all_amounts
from tests.judges.search import nondominated
from tests.judges.witness import earliest_ends, smallest_gap

OBJECTIVES = (
    "makespan", "max_tbt", "mean_ttft", "max_ttft", "mean_e2e", "max_e2e", "weighted_e2e", "slo_attainment",
)
Limits = Mapping[str, int]
Point = tuple[int, ...]


def exact_frontier(
    instance: Instance,
    axes: Sequence[str],
    limits: Limits | None = None,
    max_preemptions: int | None = 1,
    no_pause: bool = False,
    naive: bool = False,
) -> list[Point]:
    """Return the complete sorted list of nondominated amounts.

    Parameters
    ----------
    instance
        A tiny instance.
    axes
        Any number of different objectives.
    limits
        Largest amounts allowed.
    max_preemptions
        Evictions allowed per request (None: no bound), where the engine allows preemption at all.
    no_pause
        Whether complete residents must decode in every iteration.
    naive
        Enumerate all sequences of batches and all starts in steps of 1 µs, with no memory, no dominance and no theory
        of timing: for instances of a few tokens and a few µs.
    """
    limits = dict(limits or {})
    points: set[Point] = set()
    if any(limit < 0 for limit in limits.values()):  # no amount is negative
        return []
    if naive:
        points = {
            tuple(amounts[axis] for axis in axes)
            for amounts in all_amounts(instance, max_preemptions, no_pause)
            if all(amounts[name] <= limit for name, limit in limits.items())
        }
    else:
        batches = batches_of(instance, max_preemptions, no_pause)
        minimised = tuple(axis for axis in axes if axis != "slo_attainment")
        for missed, bounds in _cases(instance, axes, limits):
            for point in _sweep(batches, bounds, minimised, limits.get("max_tbt")):
                values = dict(zip(minimised, point, strict=True), slo_attainment=missed)
                points.add(tuple(values[axis] for axis in axes))
    return sorted(p for p in points if not any(_better(q, p) for q in points))


def exact_optimum(
    instance: Instance,
    objective: str,
    limits: Limits | None = None,
    max_preemptions: int | None = 1,
    no_pause: bool = False,
    naive: bool = False,
) -> int | None:
    """Return the best amount of one objective, None where no schedule obeys the limits; arguments as above."""
    points = exact_frontier(instance, (objective,), limits, max_preemptions, no_pause, naive)
    return points[0][0] if points else None


def witnesses(
    instance: Instance,
    axes: Sequence[str],
    limits: Limits | None = None,
    max_preemptions: int | None = 1,
    no_pause: bool = False,
) -> list[tuple[Point, list[Batch], list[int]]]:
    """Return attained points, with the batches and their ends in µs.

    A superset of the frontier: every nondominated point is there, others may be.
    """
    limits = dict(limits or {})
    batches = batches_of(instance, max_preemptions, no_pause)
    found = []
    for _, bounds in _cases(instance, axes, limits):
        for point, (way, final) in _sweep(batches, bounds, tuple(axes), limits.get("max_tbt")).items():
            ends = earliest_ends(instance, way, final)
            assert ends is not None
            found.append((point, way, ends))
    return found


def _better(q: Point, p: Point) -> bool:
    return q != p and all(x <= y for x, y in zip(q, p, strict=True))


def _cases(instance: Instance, axes: Sequence[str], limits: Limits) -> Iterator[tuple[int, Bounds]]:
    """Yield bounds whose schedules together are all those that obey the limits, with how many requests may miss SLOs.

    "At most m requests miss theirs" is the union, over the sets of n - m requests, of "these meet theirs".
    """
    origin = min(r.arrival_us for r in instance.requests)

    def last_by(r: Request) -> int | None:
        end = origin + limits["makespan"] if "makespan" in limits else None
        return tightest(end, r.arrival_us + limits["max_e2e"] if "max_e2e" in limits else None)

    n = len(instance.requests)
    bounds = Bounds(
        (None,) * n,
        tuple(r.arrival_us + limits["max_ttft"] if "max_ttft" in limits else None for r in instance.requests),
        tuple(last_by(r) for r in instance.requests),
        tuple((name, limits[name]) for name in SUMS if name in limits),
    )
    if "slo_attainment" not in axes and "slo_attainment" not in limits:
        yield 0, bounds
        return
    for missed in range(min(n, limits.get("slo_attainment", n)) + 1):
        for chosen in combinations(range(n), n - missed):
            yield missed, _with_slos(instance, bounds, chosen)


def _with_slos(instance: Instance, bounds: Bounds, chosen: Sequence[int]) -> Bounds:
    gaps, firsts, lasts = list(bounds.gap), list(bounds.first_by), list(bounds.last_by)
    for i in chosen:
        r = instance.requests[i]
        gaps[i] = tightest(gaps[i], r.tbt_slo_us)
        firsts[i] = tightest(firsts[i], None if r.ttft_slo_us is None else r.arrival_us + r.ttft_slo_us)
        lasts[i] = tightest(lasts[i], None if r.e2e_slo_us is None else r.arrival_us + r.e2e_slo_us)
    return Bounds(tuple(gaps), tuple(firsts), tuple(lasts), bounds.caps)


def _sweep(
    batches: Batches, bounds: Bounds, axes: tuple[str, ...], gap: int | None
) -> dict[Point, tuple[list[Batch], Bounds]]:
    """Return attained points among which all nondominated ones are, each with its batches and bounds.

    `gap` is the limit on every gap, None for none.
    """
    instance = batches.instance
    equal_arrivals = len({r.arrival_us for r in instance.requests}) == 1
    if "max_tbt" not in axes or equal_arrivals:
        limited = bounds.with_gap(gap)
        return {point: (way, limited) for point, way in nondominated(batches, limited, axes).items()}
    place = axes.index("max_tbt")
    others = tuple(axis for axis in axes if axis != "max_tbt")
    found: dict[Point, tuple[list[Batch], Bounds]] = {}
    while True:
        front = nondominated(batches, bounds.with_gap(gap), others)
        largest = 0
        for point, way in front.items():
            least = smallest_gap(instance, way, bounds, gap, dict(zip(others, point, strict=True)))
            largest = max(largest, least)
            found[(*point[:place], least, *point[place:])] = (way, bounds.with_gap(least))
        if largest == 0:
            return found
        gap = largest - 1
