"""How the rest of a token budget is shared out to prefills: in order, or in equal steps; in whole units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heuristics.plan import Plan
from heuristics.state import RequestState
from heuristics.two_stage import take_in_order

ChunkSizes = Callable[[Sequence[int], int, int], list[int]]
"""Returns the tokens of each prefill, given the tokens that each lacks, the budget and the unit."""


def first_come_first_served(lengths: Sequence[int], budget: int, unit: int) -> list[int]:
    """Return as much as is left for each in order; one that is cut gets whole units, maybe none.

    Examples
    --------
    >>> first_come_first_served([2, 5, 3], 8, 4)   # 1 is left for the last one: no unit of 4
    [2, 5, 0]
    """
    sizes = []
    for length in lengths:
        size = length if length <= budget else budget - budget % unit
        sizes.append(size)
        budget -= size
    return sizes


def equal_progress(lengths: Sequence[int], budget: int, unit: int) -> list[int]:
    """Return sizes that grow round by round, by a unit or the rest; whose step does not fit sits out the round.

    Examples
    --------
    >>> equal_progress([6, 1, 3], 8, 4)   # 4 + 1 + 3 in the first round
    [4, 1, 3]
    """
    sizes = [0] * len(lengths)
    grows = True
    while grows and budget > 0:
        grows = False
        for place, length in enumerate(lengths):
            step = min(unit, length - sizes[place])
            if 0 < step <= budget:
                sizes[place] += step
                budget -= step
                grows = True
    return sizes


def chunked_contexts(plan: Plan, fitting: Sequence[RequestState], sizes_of: ChunkSizes, unit: int) -> None:
    """Let the requests in decode run, and share out what they leave of the budget to those in prefill.

    A decode above the budget ends the pass: prefills behind it get nothing. Where all prefills fit, all run whole.
    """
    contexts = []
    for request in fitting:
        if request.decoding and not plan.can_decode():
            break
        if not request.decoding and request not in plan.tokens:
            contexts.append(request)
        elif request not in plan.tokens and plan.fits(request, 1):
            plan.take(request, 1)
    lengths = [r.remaining for r in contexts]
    sizes = lengths if sum(lengths) <= plan.budget else sizes_of(lengths, plan.budget, unit)
    for request, size in zip(contexts, sizes, strict=True):
        tokens = plan.chunk(request, size) if size else 0
        if tokens and plan.fits(request, tokens):
            plan.take(request, tokens)
    if not plan.tokens:  # the engine has no chunk of that size
        take_in_order(plan, contexts, Plan.chunk)
