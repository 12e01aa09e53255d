"""How many iterations suffice, so that an optimum within them is an optimum.

Complete models hold the whole schedule. Their number of iterations is bounded by counting (no schedule has more
iterations than chunks and decodes), and by time: a cap on the makespan, on E2E or on their sums says when the last
token must be out at the latest, and in that time only so many base costs fit beside the work.

Prefix models stop after the iteration of the last first token. For objectives and limits on TTFT and TBT alone they
are a relaxation: what comes later can only add gaps. Where the rest of the schedule can be appended without a gap
above the limit, the relaxation's optimum is the optimum; where not, a complete model decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instances.cost_model import Piece
from instances.errors import InputError
from instances.units import us_from_ps
from solver.bounds import Bounds
from solver.problem import Problem

LARGEST_SUM = 2**60
"""Largest sum of weighted ticks that is handed to CP-SAT (it refuses sums near 2**63)."""
PREFIX_METRICS = frozenset({"mean_ttft", "max_ttft", "max_tbt"})


@dataclass(frozen=True)
class Horizon:
    """Size of a model.

    Parameters
    ----------
    iterations
        That suffice.
    end_us
        Latest end that is needed, in µs from the earliest arrival.
    complete
        False for a prefix model.
    """

    iterations: int
    end_us: int
    complete: bool = True


def complete_horizon(problem: Problem, bounds: Bounds, caps: Mapping[str, int]) -> Horizon:
    """Return the size of a complete model in which every amount in `caps` (µs) is obeyed."""
    count, end = problem.count_bound, serial_end_us(problem, problem.count_bound)
    latest = latest_last_token_us(problem, bounds, caps)
    if latest is None:
        return Horizon(count, end)
    count = min(count, _iterations_within(problem, latest, decodes=True))
    if "mean_e2e" in caps:
        by_finishes = (_iterations_by_finishes(problem, bounds, p, caps["mean_e2e"]) for p in problem.cost.pieces)
        count = min(count, *by_finishes)
    return Horizon(max(count, 1), min(end, latest))


def _iterations_by_finishes(problem: Problem, bounds: Bounds, piece: Piece, cap: int) -> int:
    """Return how many iterations a schedule without evictions has at most if its Σ E2E is at most `cap` µs.

    Proof: let L_r be the r-th latest last token and N the number of iterations. After L_r only r - 1 requests work,
    in at most as many iterations as they have chunks and decodes, so L_r >= base N + all work - what the r - 1
    requests with the largest base x steps + work take. Add this up over the t latest, and the least E2Es alone for the
    others: the sum is at most the cap and the arrivals. Every t bounds N.
    """
    if not piece.base_us or problem.evictions:
        return problem.count_bound
    work = {j.index: problem.prefill_curve(piece, j)[-1] + problem.decode_curve(piece, j)[-1] for j in problem.jobs}
    steps = {j.index: problem.most_chunks(j) + j.decodes for j in problem.jobs}
    longest = sorted((piece.base_us * steps[i] + work[i] for i in steps), reverse=True)
    alone = sorted(j.arrival + bounds.last_us[j.index] for j in problem.jobs)
    cap += sum(j.arrival for j in problem.jobs)
    most, later = problem.count_bound, 0
    for t in range(1, len(longest) + 1):
        room = cap - sum(alone[: len(alone) - t]) - t * sum(work.values()) + later
        most = min(most, room // (t * piece.base_us))
        later += sum(longest[:t])
    return most


def iterations_by_time(problem: Problem, bounds: Bounds, caps: Mapping[str, int]) -> int | None:
    """Return how many iterations a schedule that obeys `caps` (µs) has at most, None where time does not say it."""
    latest = latest_last_token_us(problem, bounds, caps)
    if latest is None or not problem.shortest_us:
        return None
    return _iterations_within(problem, latest, decodes=True)


def prefix_horizon(problem: Problem, bounds: Bounds, caps: Mapping[str, int]) -> Horizon | None:
    """Return the size of a prefix model, None where no cap on TTFT bounds it."""
    latest = latest_first_token_us(problem, bounds, caps)
    if latest is None:
        return None
    count = min(problem.count_bound, _iterations_within(problem, latest, decodes=False))
    return Horizon(max(count, 1), min(latest, serial_end_us(problem, problem.count_bound)), complete=False)


def latest_last_token_us(problem: Problem, bounds: Bounds, caps: Mapping[str, int]) -> int | None:
    """Return when the last token is out at the latest, None where no cap says it."""
    found = [caps[name] for name in ("makespan", "throughput") if name in caps]
    last = bounds.last_us
    if "max_e2e" in caps:
        found.append(max(job.arrival + caps["max_e2e"] for job in problem.jobs))
    if "mean_e2e" in caps:
        spare = caps["mean_e2e"] - sum(last.values())
        found.append(max(job.arrival + last[job.index] + spare for job in problem.jobs))
    if "weighted_e2e" in caps:
        spare = caps["weighted_e2e"] - bounds.weighted_e2e
        found.append(max(job.arrival + last[job.index] + spare // job.request.weight for job in problem.jobs))
    return min(found, default=None)


def latest_first_token_us(problem: Problem, bounds: Bounds, caps: Mapping[str, int]) -> int | None:
    """Return when the last first token is out at the latest, None where no cap says it."""
    first, found = bounds.first_us, []
    jobs = [problem.jobs[i] for i in first]
    if not jobs:
        return None
    if "max_ttft" in caps:
        found.append(max(job.arrival + caps["max_ttft"] for job in jobs))
    if "mean_ttft" in caps:
        others = {j.index: max(sum(first.values()) - first[j.index], bounds.srpt_without(j)) for j in jobs}
        found.append(max(job.arrival + caps["mean_ttft"] - others[job.index] for job in jobs))
    return min(found, default=None)


def _iterations_within(problem: Problem, time_us: int, *, decodes: bool) -> int:
    """Return how many iterations fit into a time beside the work that must be done in it."""
    counts = [time_us // problem.shortest_us] if problem.shortest_us else [problem.count_bound]
    for piece in problem.cost.pieces:
        work = sum(problem.prefill_curve(piece, job)[-1] for job in problem.jobs)
        work += sum(problem.least_decode_curve(piece, job)[-1] for job in problem.jobs) if decodes else 0
        if piece.base_us:
            counts.append((time_us - work) // piece.base_us)
    return min(counts)


def serial_end_us(problem: Problem, iterations: int) -> int:
    """Return an end that no earliest-time schedule of at most `iterations` iterations exceeds.

    Proof: the earliest ends under arrivals and gap limits are longest paths of difference constraints; a path adds
    durations of distinct iterations to one release and subtracts gap limits, so it is at most the latest release plus
    all durations. These sum to at most the bases and all work of every piece, tiles and padding at their largest, and
    whatever evictions add.
    """
    total = max(job.release for job in problem.jobs) + iterations * us_from_ps(problem.cost.eager_ps)
    for piece in problem.cost.pieces:
        total += iterations * (piece.base_us + _largest_extra_us(problem, piece))
        total += sum(problem.prefill_curve(piece, job)[-1] for job in problem.jobs)
        total += sum(problem.decode_curve(piece, job)[-1] for job in problem.jobs)
        total += problem.most_eviction_us(piece)
    return total


def _largest_extra_us(problem: Problem, piece: Piece) -> int:
    """Return the most that tiles and padding add to one iteration."""
    most = min(problem.engine.max_num_batched_tokens, sum(problem.most_tokens(job) for job in problem.jobs))
    sizes = problem.cost.capture_sizes
    return piece.tile_us(most) + (sizes[-1] * us_from_ps(piece.decode_ps) if sizes else 0)


def require_small_weights(problem: Problem) -> None:
    """Raise InputError where Σ weight x latest end leaves the integers that CP-SAT can add up."""
    weights = sum(job.request.weight for job in problem.jobs)
    end = serial_end_us(problem, problem.count_bound) // problem.tick_us
    if weights * end > LARGEST_SUM:
        what = f"weights that sum to at most {LARGEST_SUM // end} (times go up to {end} x {problem.tick_us} µs)"
        raise InputError.expected(what, weights, "requests[].weight")
