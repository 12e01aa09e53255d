"""Label search over the states of an instance: the nondominated amounts under fixed bounds, with witnesses.

States are explored with labels (`tests.judges.labels`); a label is dropped only if another label of the same logical
state is at least as good in every entry (Theorems 2 and 3 there). Nothing is assumed about batches: no rule "larger
chunks first", no symmetry, no bound. With `max_preemptions=None` states can recur (evict and recompute); a label that
comes back to its state without a token emitted meanwhile has only grown, so it is dominated and the search ends.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tests.judges.batches import WAITING, Batch, Batches, State
from tests.judges.labels import Bounds, Loose, Tight, dominates
from tests.judges.timing import Clock


@dataclass(eq=False, slots=True)
class Node:
    """A label in its state, with the way back."""

    label: Tight | Loose
    parent: Node | None = None
    batch: Batch | None = None
    alive: bool = True

    def batches(self) -> list[Batch]:
        """Return the batches that lead here."""
        found, node = [], self
        while node.parent is not None:
            found.append(node.batch)
            node = node.parent
        return found[::-1]


class Fronts:
    """The nondominated labels of each state."""

    def __init__(self) -> None:
        self.nodes: dict[State, tuple[list[Node], list[Node]]] = {}

    def add(self, state: State, node: Node) -> bool:
        """Add a node unless it is dominated, and drop those that it dominates."""
        front = self.nodes.setdefault(state, ([], []))[isinstance(node.label, Tight)]
        if any(dominates(other.label, node.label) for other in front):
            return False
        kept = []
        for other in front:
            if dominates(node.label, other.label):
                other.alive = False
            else:
                kept.append(other)
        front[:] = [*kept, node]
        return True


def nondominated(batches: Batches, bounds: Bounds, track: tuple[str, ...]) -> dict[tuple[int, ...], list[Batch]]:
    """Return the nondominated amounts of `track` that obey `bounds`, each with a sequence of batches that has them.

    Parameters
    ----------
    batches
        The instance's states and batches.
    bounds
        On gaps, tokens and sums; sums that are capped are tracked, too.
    track
        Objectives; with none the answer is ``{(): batches}`` or, where no schedule obeys the bounds, empty.
    """
    capped = tuple(name for name, _ in bounds.caps if name not in track)
    clock = Clock(batches.instance, bounds, track + capped)
    start = batches.initial()
    fronts = Fronts()
    root = Node(clock.initial())
    fronts.add(start, root)
    pending: dict[State, list[Node]] = {start: [root]}
    queue = [(batches.rank(start), 0, start)]
    found: dict[tuple[int, ...], list[Batch]] = {}
    while queue:
        _, _, state = heapq.heappop(queue)
        nodes = [node for node in pending.pop(state, ()) if node.alive]
        if batches.is_goal(state):
            for node in nodes:
                keep_nondominated(found, clock.amounts(node.label)[: len(track)], node.batches())
            continue
        for batch in batches.batches(state) if nodes else ():
            waiting = [r.arrival_us for r, s in zip(batches.requests, batch.after, strict=True) if s[0] == WAITING]
            for node in nodes:
                label = clock.extend(node.label, batch, waiting)
                if label is None:
                    continue
                longer = Node(label, node, batch)
                if fronts.add(batch.after, longer):
                    if batch.after not in pending:
                        pending[batch.after] = []
                        heapq.heappush(queue, (batches.rank(batch.after), len(fronts.nodes), batch.after))
                    pending[batch.after].append(longer)
    return found


def keep_nondominated(found: dict[tuple[int, ...], list[Batch]], amounts: tuple[int, ...], way: list[Batch]) -> None:
    """Add a point to a set of nondominated points (all minimised)."""
    if any(all(x <= y for x, y in zip(other, amounts, strict=True)) for other in found):
        return
    for other in [o for o in found if all(x <= y for x, y in zip(amounts, o, strict=True))]:
        del found[other]
    found[amounts] = way
