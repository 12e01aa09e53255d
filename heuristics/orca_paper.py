"""orca-paper: iteration-level scheduling as the Orca paper states it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.orca import Orca
from heuristics.state import UNLIMITED, EngineState, RequestState


@dataclass
class OrcaPaper(Orca):
    """Orca's Algorithm 1 with one batch in flight: at most a batch of requests, each with its slots reserved.

    Slots are counted in tokens of declared output. The prompts' KV, which the paper does not count apart, is held
    within the instance's pool as in ``orca``. A pipeline of several workers, which keeps several batches in flight, is
    beyond a schedule of one iteration after the other.
    """

    name: ClassVar[str] = "orca-paper"
    summary: ClassVar[str] = "whole prefills beside decodes, output slots reserved (Orca, OSDI'22, Algorithm 1)"

    max_batch_size: int = knob(0, "most requests in a batch (max_bs); 0: as many as the limits allow", minimum=0)
    slots: int = knob(0, "output tokens that all requests together may reserve; 0: no limit", minimum=0)

    def candidates(self, state: EngineState) -> Iterator[RequestState]:
        """Yield who may be admitted now, in order; who is yielded is taken to be admitted."""
        seats = (self.max_batch_size or UNLIMITED) - len(state.running)
        slots = (self.slots or UNLIMITED) - sum(map(self.outputs, state.running))
        alone = not state.running
        for request in self.queue:
            seats -= 1
            slots -= self.outputs(request)
            if seats < 0 or (slots < 0 and not alone):
                return
            alone = False
            yield request
