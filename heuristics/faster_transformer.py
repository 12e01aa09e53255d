"""faster-transformer: Sarathi-Serve's request-level batching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.static import Static


@dataclass
class FasterTransformer(Static):
    """Static batching as Sarathi-Serve has it for comparison: ``static`` under its name, with its reservation.

    Set ``max_model_len`` to what the engine reserves for every request. Vidur, which frees the memory of a whole batch
    together, decides the same: nobody is admitted before all of a batch have finished.
    """

    name: ClassVar[str] = "faster-transformer"
    summary: ClassVar[str] = "a batch runs to its end before the next one (Sarathi-Serve's FasterTransformer, 2026-01)"
