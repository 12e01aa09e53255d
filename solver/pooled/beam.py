"""Beam search over the pooled relaxation: good paths soon, without a proof."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from heapq import merge

import numpy as np

from solver.pooled.labels import Relaxation
from solver.pooled.pool import Units
from solver.pooled.queue import Pending
from solver.pooled.states import LAST, Flags, Label, States

MOST_AT_ONCE = 128
"""Labels that are expanded at once."""
PER_SET = 20
"""Of a width only one in so many may have the same first tokens out: what comes next is bounded too weakly to tell good
sets of them from bad ones early on."""
TRIED = 20
"""Choices that are looked at per label, times the width: some are dominated, some have been seen too often."""
MOST_PATHS = 20
"""Paths that are returned: the best of the relaxation is not always the best to follow."""


class Beam:
    """A search that keeps the best labels of each layer, those with as many events behind them, few of each set.

    Parameters
    ----------
    relaxation
        What is searched; it is used up.
    width
        Labels that are kept per layer.
    narrow
        Only so many of the requests that are here, those with the most decodes, may have the next first token; None
        for any.
    """

    def __init__(self, relaxation: Relaxation, width: int, narrow: int | None = None) -> None:
        self.relaxation = relaxation
        self.width = width
        self.narrow = narrow
        self.layers: defaultdict[int, list[Pending]] = defaultdict(list)
        self.complete: list[Label] = []

    def run(self, stop: Callable[[], bool]) -> list[list[Label]]:
        """Return the best paths found, each as its labels; none where there are none or `stop()` came first."""
        self._expand([self.relaxation.start()])
        while self.layers:
            layer = min(self.layers)
            labels = self._kept(self.layers.pop(layer))
            for n in range(0, len(labels), MOST_AT_ONCE):
                if stop():
                    return []
                self._expand(labels[n : n + MOST_AT_ONCE])
        best = sorted(self.complete, key=lambda label: label.estimate)[:MOST_PATHS]
        return [self.relaxation.path_to(label) for label in best]

    def _kept(self, pendings: list[Pending]) -> list[Label]:
        """Return the best labels of a layer; complete ones are set aside."""
        relaxation, labels, sets = self.relaxation, list[Label](), Counter[int]()
        most = self.width if self.narrow == 1 else max(2, self.width // PER_SET)  # one order has few sets
        ranked = merge(*(
            [(int(estimate), number, n) for n, estimate in enumerate(pending.choices.estimate[: TRIED * self.width])]
            for number, pending in enumerate(pendings)
        ))
        for _, number, n in ranked:
            row = int(pendings[number].choices.row[n])
            label = None if sets[row] >= most else relaxation.made(pendings[number], n)
            if label is None:
                continue
            if relaxation.is_complete(label):
                self.complete.append(label)
            else:
                labels.append(label)
                sets[row] += 1
            if len(labels) == self.width:
                break
        return labels

    def _expand(self, labels: list[Label]) -> None:
        pending = self.relaxation.settle(labels)
        if pending is None:
            return
        layers, likely = self._layers(pending), self._likely(pending)
        for layer in np.unique(layers[likely]):
            choices = pending.choices.chosen((layers == layer) & likely)
            self.layers[int(layer)].append(Pending(pending.labels, pending.numbers, choices))

    def _likely(self, pending: Pending) -> Flags:
        """Return whether each event is no first token, or one of a request that may be next."""
        choices, relaxation = pending.choices, self.relaxation
        if self.narrow is None:
            return np.ones(choices.label.size, dtype=bool)
        likely = np.zeros((len(pending.labels), len(relaxation.pool.members)), dtype=bool)
        for n, label in enumerate(pending.labels):
            here = [m for m in relaxation.sets.rest(label.done) if relaxation.transitions.here(m, label.arrived)]
            here.sort(key=lambda m: (-m.decodes, m.index))
            likely[n, [relaxation.transitions.place[m.index] for m in here[: self.narrow]]] = True
        found: Flags = (choices.event < 0) | likely[choices.label, np.maximum(choices.event, 0)]
        return found

    def _layers(self, pending: Pending) -> Units:
        """Return how many first tokens, last tokens and arrivals lie behind each choice."""
        relaxation, choices = self.relaxation, pending.choices
        done = np.array([int(mask).bit_count() for mask in relaxation.sets.masks])[choices.row]
        layers: Units = done + choices.arrived
        if relaxation.aim == LAST:
            first = np.where(choices.event >= 0, relaxation.pool.decodes[choices.place] > 0, 0)
            left = States.of(pending.labels, relaxation.sets).left[choices.label]
            layers = layers + done - first - (left > choices.count[:, None]).sum(axis=1)
        return layers
