"""Where pausing never pays, so that all who wait may be charged the decodes beside them."""

from __future__ import annotations

from itertools import pairwise


def steps(curve: list[int]) -> list[int]:
    """Return what each decode of a request adds to its least work in all."""
    return [after - before for before, after in pairwise(curve)]


def pays_for_pauses(base_us: int, curves: dict[int, list[int]], weights: dict[int, int]) -> bool:
    """Return whether whoever pauses loses more than all together can gain: weight x base >= dearest decode x Σ weights.

    Then the relaxation may charge every iteration the decodes of all live requests, in Σ weight x last token. Proof:
    take a schedule in which i pauses p_i times before its last token. In the relaxation it ends p_i iterations
    sooner, which are base p_i or longer. What the relaxation has charged by any moment, waits for arrivals included,
    are the decodes of the schedule by then and others that i put off, at most p_i of them. So the sum in the relaxation
    exceeds that of the schedule by at most Σ_i p_i (dearest decode of i x Σ weights - weight_i base) <= 0. The same
    exchange shows that an iteration may still be moved behind the next first token.
    """
    total = sum(weights.get(index, 0) for index in curves)
    return all(
        weights.get(index, 0) * base_us >= max(steps(curve), default=0) * total for index, curve in curves.items()
    )
