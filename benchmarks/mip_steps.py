"""The steps that a request passes through in the MIP baseline, and what that program does not hold."""

from __future__ import annotations

from itertools import accumulate, pairwise

from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request


class Steps:
    """The steps of one request, numbered from 1 as in `s[j,k]`.

    Attributes
    ----------
    tokens
        Per step.
    costs
        Per piece of the cost model, µs per step.
    prefill, total
        Number of the step that ends the prefill (0 where it is done at time 0), and of the last step.
    held
        KV tokens before the first step, prefix hits included.
    resident
        Whether it holds them from time 0 on.
    """

    def __init__(self, instance: Instance, request: Request) -> None:
        self.request = request
        self.held, left, decodes = request.computed_before, request.prefill_left, request.decodes_left
        self.resident = request.progress is not None
        unit = instance.engine.chunk_quantum if instance.engine.enable_chunked_prefill else max(left, 1)
        chunks = [unit] * (left // unit) + ([left % unit] if left % unit else [])
        self.prefill, self.total = len(chunks), len(chunks) + decodes
        self.tokens = [*chunks, *[1] * decodes]
        marks = list(accumulate(self.tokens, initial=self.held))
        self.costs = []
        for piece in instance.cost.pieces:
            curve = [piece.prefill_us(mark) for mark in marks[: self.prefill + 1]]
            rises = [after - before for before, after in pairwise(curve)]
            self.costs.append([*rises, *(piece.decode_us(mark) for mark in marks[self.prefill + 1 :])])


def require_supported(instance: Instance) -> None:
    """Raise InputError for what the program does not hold."""
    e, cost = instance.engine, instance.cost
    unsupported = {
        "engine.preemption": e.preemption != "none",
        "engine.chunk_sizes": e.chunk_sizes is not None,
        "cost.capture_sizes": cost.capture_sizes is not None,
        "cost.pieces[].tile_ms": any(piece.tile_ps for piece in cost.pieces),
    }
    for name, is_there in unsupported.items():
        if is_there:
            raise InputError("the MIP baseline does not hold it", field=name)
