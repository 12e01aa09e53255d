"""How large a model would be, before it is built; what is too large is refused with its size and advice.

Measured on the ladder (code-12 and code-24, context costs, two workers, after 60 to 90 s): building and solving take
about 1.5 KB per unit of `model_units`, so `LARGEST_MODEL` stays well below 2 GiB.
"""

from __future__ import annotations

from instances.errors import InputError
from instances.instance import Instance
from solver.lookup import LONGEST_ENCODING, is_linear
from solver.problem import Problem

LARGEST_MODEL = 800_000
"""Largest number of units of a model; a larger one is not built."""
LARGEST_WORK = 100_000
"""Most iterations that requests one after the other may need: above, bounds and heuristics take minutes themselves."""
LOOKED_UP = 10
"""Entries of a table that is looked up that take as much memory as one unit."""
GROWING = 30
"""Iterations before one that take as much memory as one unit per request, in the rows that grow with them."""
BUILDING_S = 2e-5
"""Seconds that building one unit takes, at least."""
ADVICE = (
    "A shorter window, fewer output tokens, a larger chunk_quantum, or a limit that ends schedules sooner (on makespan "
    "or E2E) makes it smaller."
)


def estimated_size(problem: Problem, iterations: int) -> int:
    """Return about how many literals a model over so many iterations has."""
    tables = sum(problem.table_entries(job) for job in problem.jobs)
    return iterations * tables * len(problem.cost.pieces)


def model_units(problem: Problem, iterations: int) -> int:
    """Return about how much memory a model over so many iterations takes, in literals with all that belongs to them.

    Beside `estimated_size`: long tables that are looked up, and rows that name all iterations before their own.
    """
    looked_up = 0
    for piece in problem.cost.pieces:
        for job in problem.jobs:
            curves = [problem.decode_curve(piece, job)] if job.decodes > LONGEST_ENCODING else []
            if job.units > LONGEST_ENCODING and not piece.prefill_is_proportional:
                curves.append(problem.prefill_curve(piece, job)[:-1])
            looked_up += sum(len(curve) for curve in curves if not is_linear(curve))
    growing = iterations**2 * len(problem.jobs) // GROWING
    return estimated_size(problem, iterations) + iterations * looked_up // LOOKED_UP + growing


class SizeGuard:
    """Refuses models that are too large, and remembers the last one that it refused.

    Parameters
    ----------
    instance
        Of all the models.

    Raises
    ------
    InputError
        Where the instance itself is too large, see `require_searchable`.
    """

    def __init__(self, instance: Instance) -> None:
        require_searchable(instance)
        self._refused: str | None = None

    def refuses(self, problem: Problem, iterations: int, left_s: float) -> bool:
        """Return whether a model over so many iterations is too large, or cannot be built in the time left."""
        units = model_units(problem, iterations)
        if units <= LARGEST_MODEL:
            return units * BUILDING_S > left_s
        self._refused = (
            f"No exact model was built that could decide it: {len(problem.jobs)} requests over {iterations:,} "
            f"iterations make about {units:,} literals, at most {LARGEST_MODEL:,} fit into 2 GiB of memory. Value and "
            f"bound come from heuristics, smaller models and counting. {ADVICE}"
        )
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused, in a sentence for the user; empty where nothing was."""
        return () if self._refused is None else (self._refused,)


def require_searchable(instance: Instance) -> None:
    """Refuse an instance whose schedules are too long to look at, before any work on it.

    Raises
    ------
    InputError
        With its size and advice.
    """
    chunk = instance.engine.largest_chunk
    work = sum(-(-r.prefill_left // chunk) + r.decodes_left for r in instance.requests)
    if work > LARGEST_WORK:
        raise InputError(
            f"too large for the exact solver: {len(instance.requests):,} requests with {work:,} chunks and decodes, at "
            f"most {LARGEST_WORK:,}. Take a shorter window (trace --count) or fewer output tokens; simulate --summary "
            "runs policies on instances of any size",
            field="requests",
        )
