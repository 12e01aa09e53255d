"""Preemptive multi-level feedback queue: short jobs first without knowing which ones are short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.policy import Batch, Setup
from heuristics.ranked import RankedPolicy
from heuristics.state import EngineState, RequestState
from instances.units import US_PER_MS


@dataclass(slots=True)
class _Place:
    """Where a request stands: its level, its turn there, the time it has had there, and when it last ran."""

    level: int
    turn: int
    attained_us: int
    last_ran_us: int


@dataclass
class PreemptiveMlfq(RankedPolicy):
    """Levels with growing quanta, served from the top; who uses up the quantum of a level goes one down.

    With skip-join a request starts on the first level whose quantum covers its prefill, so that it emits before it
    is demoted. A request that has not run for the starvation limit goes back to that level, if it is higher than
    its own. The lowest level has no quantum: it is first come, first served.
    """

    name: ClassVar[str] = "preemptive-mlfq"
    summary: ClassVar[str] = "skip-join multi-level feedback queue, evicting lower levels (FastServe, 2305.05920)"

    quantum_ms: float = knob(10.0, "time that the top level grants, in ms", minimum=0.001)
    factor: int = knob(2, "each level grants so many times the one above", minimum=1)
    levels: int = knob(10, "number of levels", minimum=1)
    skip_join: bool = knob(True, "start on the first level whose quantum covers the prefill; false: on the top level")
    starvation_ms: float = knob(3000.0, "promote who has not run for so long, in ms; 0: never", minimum=0.0)

    def start(self, setup: Setup) -> None:
        """Begin a run with empty levels."""
        super().start(setup)
        self._cost = setup.cost
        top = max(1, round(self.quantum_ms * US_PER_MS))
        self._quanta = [top * self.factor**level for level in range(self.levels)]
        self._starvation_us = round(self.starvation_ms * US_PER_MS)
        self._places: dict[RequestState, _Place] = {}
        self._turns = 0

    def arrived(self, request: RequestState) -> None:
        """Put a new request at the end of its level."""
        level = self._covering_level(request) if self.skip_join else 0
        self._places[request] = _Place(level, self._next_turn(), 0, request.arrival_us)

    def finished(self, request: RequestState) -> None:
        """Forget a request."""
        del self._places[request]

    def rank(self, request: RequestState) -> tuple[int, ...]:
        """Return level and turn."""
        place = self._places[request]
        return place.level, place.turn

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        self._promote(state.now_us)
        return self.plan(state).batch()

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Charge the time to everybody who ran, and demote who has used up the quantum.

        Nobody is demoted amid a prefill: with recompute it would be lost again and again.
        """
        for request, _ in batch.tokens:
            place = self._places[request]
            place.last_ran_us = end_us
            place.attained_us += end_us - start_us
            used_up = request.decoding and place.attained_us > self._quanta[place.level]
            if used_up and place.level + 1 < self.levels:
                self._move(place, place.level + 1)

    def _promote(self, now_us: int) -> None:
        if not self._starvation_us:
            return
        for request, place in self._places.items():
            if now_us - place.last_ran_us >= self._starvation_us:
                level = self._covering_level(request)
                if level < place.level:
                    self._move(place, level)

    def _covering_level(self, request: RequestState) -> int:
        """Return the first level whose quantum covers what `request` has to prefill, run alone and whole."""
        if request.decoding:
            return 0
        alone = self._cost.duration_us([(request.computed, request.known_tokens)], [])
        return next((k for k, quantum in enumerate(self._quanta) if quantum >= alone), self.levels - 1)

    def _move(self, place: _Place, level: int) -> None:
        place.level, place.turn, place.attained_us = level, self._next_turn(), 0

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns
