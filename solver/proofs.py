"""What solves have proved about least amounts under caps, to be used again under tighter caps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NEVER = 2**63
"""Least amount where no schedule obeys the caps."""


@dataclass
class Proofs:
    """Lower bounds on amounts under caps on others.

    Example
    -------
    >>> proofs = Proofs()
    >>> proofs.add("makespan", {"max_tbt": 7}, 17)
    >>> proofs.bound("makespan", {"max_tbt": 6, "mean_ttft": 9}), proofs.bound("makespan", {"max_tbt": 8})
    (17, 0)
    """

    _found: list[tuple[str, dict[str, int], int]] = field(default_factory=list)

    def add(self, name: str, caps: Mapping[str, int], bound: int | None) -> None:
        """Note that no schedule under `caps` has an amount below `bound` (None: that there is no schedule).

        A cap on `name` itself is read as it must be: where the caps allow nothing, the least amount without that cap
        is above it; and a bound above it says that too.
        """
        others = {other: cap for other, cap in caps.items() if other != name}
        own = caps.get(name)
        if bound is None:
            bound = NEVER if own is None else own + 1
        elif own is not None:
            bound = min(bound, own + 1)
        self._found.append((name, others, bound))

    def bound(self, name: str, caps: Mapping[str, int]) -> int:
        """Return the best bound noted for `caps` or looser ones, 0 without one."""
        return max(
            (
                bound
                for known, loose, bound in self._found
                if known == name and all(caps.get(other, NEVER) <= cap for other, cap in loose.items())
            ),
            default=0,
        )
