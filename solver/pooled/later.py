"""Labels with the best bound there is, and how late requests are taken apart for it."""

from __future__ import annotations

from collections.abc import Sequence

from solver.pooled.remaining import Remaining
from solver.pooled.states import Label, States, unchanged


def refined(remaining: Remaining, labels: Sequence[Label]) -> list[Label]:
    """Return the labels with the best bound on every completion of theirs, and how they are taken apart for it."""
    found = [label._replace(split=0) for label in labels]
    for split, number in enumerate(remaining.splits.numbers.tolist()):
        some = [n for n, label in enumerate(labels) if label.arrived <= number]
        if not some or (not split and remaining.splits.numbers.size == 1):
            continue
        states = States.of([labels[n]._replace(split=split) for n in some], remaining.sets)
        bounds = states.paid + remaining.after(states, unchanged(states))
        for n, bound in zip(some, bounds.tolist(), strict=True):
            if bound > found[n].estimate:
                found[n] = labels[n]._replace(estimate=bound, split=split)
    return found
