"""What one search has proved so far."""

from __future__ import annotations

from dataclasses import dataclass

from solver.incumbent import Candidate

CLOSE = 50
"""Where the bound is within one in so many of the best schedule known, no trials look for a better one."""


@dataclass
class Answer:
    """What one search proved, in exact amounts (µs, sums of µs, a count).

    Parameters
    ----------
    best
        The best schedule known, None without one.
    bound
        No schedule within the limits has a smaller amount; None where the limits are proved infeasible.
    proved
        Whether `best` is optimal, or that there is none.
    """

    best: Candidate | None
    bound: int | None
    proved: bool

    def improve(self, best: Candidate | None, bound: int, name: str) -> None:
        """Take a schedule that is at least as good, and a bound that may be better."""
        self.best, self.bound = best, max(self.bound or 0, bound)
        self.proved = best is not None and best.amounts[name] <= self.bound

    def is_close(self, name: str) -> bool:
        """Return whether the best schedule known is nearly as good as the bound."""
        if self.best is None or self.bound is None:
            return False
        amount = self.best.amounts[name]
        return (amount - self.bound) * CLOSE <= amount
