"""Labels with the best bound there is, and how late requests are taken apart for it."""

from __future__ import annotations

from collections.abc import Sequence

from solver.pooled.remaining import Remaining
from solver.pooled.states import Label, States, unchanged


def refined(remaining: Remaining, labels: Sequence[Label]) -> list[Label]:
    """Return the labels with the best bound on every completion of theirs, and how they are taken apart for it."""
    found = [label._replace(split=0) for label in labels]
    numbers = remaining.splits.numbers.tolist()
    if len(numbers) == 1 or not labels:  # where there is one way only, the estimates know it
        return found
    tried = [
        (n, split) for split, number in enumerate(numbers) for n, label in enumerate(labels) if label.arrived <= number
    ]
    states = States.of([labels[n]._replace(split=split) for n, split in tried], remaining.sets)
    bounds = states.paid + remaining.after(states, unchanged(states))
    for (n, split), bound in zip(tried, bounds.tolist(), strict=True):
        if bound > found[n].estimate:
            found[n] = labels[n]._replace(estimate=bound, split=split)
    return found
