"""How much work a command may do, and with which settings of the solver."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

SHORTEST_S = 0.01
"""Least time that a solve is given: a command that is late still answers with what it has."""


@dataclass(frozen=True)
class Effort:
    """Limit and settings of one command.

    Parameters
    ----------
    time_limit
        Seconds for the whole command; in deterministic mode units of work for each of its solves together.
    workers, seed
        Of CP-SAT.
    deterministic
        Count work instead of time: the same answer twice, and no times in it.
    """

    time_limit: float
    workers: int | None = None
    seed: int = 0
    deterministic: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float:
        """When time is up, on the clock of `time.monotonic`; never in deterministic mode."""
        return math.inf if self.deterministic else self.started + self.time_limit

    @property
    def wall_s(self) -> float | None:
        """Seconds since the start; None in deterministic mode."""
        return None if self.deterministic else time.monotonic() - self.started

    def share(self, solves_left: int = 1, solves: int = 1) -> float:
        """Return the limit of the next solve, where `solves_left` of the command's `solves` are to be done."""
        if self.deterministic:
            return self.time_limit / solves
        return max(SHORTEST_S, (self.deadline - time.monotonic()) / solves_left)

    @property
    def settings(self) -> dict[str, Any]:
        """What `solver.model.solve` and `solver.frontier.frontier` are told beside the limit."""
        return {"workers": self.workers, "seed": self.seed, "deterministic": self.deterministic}
