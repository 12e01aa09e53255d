"""Placing a sequence of batches on the clock, exactly.

The problem. A sequence of batches k = 1..K is fixed, with durations d_k, releases r_k (the latest arrival of the
requests it works on) and emissions. Free are the integer ends e_k. All that model.md asks of them is

    e_k >= e_{k-1} + d_k,    e_k >= r_k + d_k                                            (order, arrivals)

and a bound G_i on every gap between consecutive tokens of request i, or a deadline on a token, is

    e_a >= e_b - G_i     for consecutive tokens of i emitted by batches a < b            (gap)
    0   >= e_b - D       where D is a deadline of a token emitted by b                   (deadline)

(a token emitted before time 0, at t <= 0, turns its first gap into the deadline D = t + G_i). With a node S fixed at 0
all of these are difference constraints x >= y + w.

Theorem 1 (Bellman). The system has a solution iff its graph has no cycle of positive weight; then there is a least
solution: every e_k equals the longest path from S to it, and every solution is >= it in every component. The weights
are integers, so it is integer.

Hence for fixed bounds G_i every objective that does not fall when an e_k grows - makespan, mean and max TTFT, mean, max
and weighted E2E - is at its best in the least solution, all of them at once; max TBT and SLOs are bounds G_i and D. So
nothing needs to be enumerated but the batches and the bounds, and delays such as that of model.md §8.1 come out by
themselves: they are the constraints (gap).

Labels. A search over states keeps for a prefix of batches only what the rest can feel. The rest adds nodes e' with arcs
E -> e' (E the end of the last batch) and S -> e', and arcs e' -> tau_i, e' -> S, where tau_i is the latest token of an
unfinished request with a finite G_i. So it is enough to know the longest path weights D[x][y] from y in {S, tau_i} to
x in {S, E, tau_i} and to the tokens that the objectives look at. A new node is a "sequence of arcs through one node":
every simple path uses e' at most once, so

    D[e'][y] = max(D[E][y] + d, D[S][y] + r + d)
    positive cycle iff D[e'][t] + w > 0 for some new arc e' -> t of weight w
    D'[x][y] = max(D[x][y], max_t(D[x][t] + w_t) + D[e'][y])

Theorem 2 (dominance). If two prefixes lead to the same logical state and D1 <= D2 in every entry, then every
continuation that is feasible after the second is feasible after the first, with no larger value of any monotone
objective. Proof: the three formulas are monotone in D, and so is the objective in the rows of the tokens.

Theorem 3 (no more waiting). Let every request that has not started yet have arrived by E0 = D[E][S], and let every
tau_i be tight, D[E][tau_i] + D[tau_i][S] = E0. Then the rest of the schedule has no idle time in the least solution,
and no earlier node is ever raised above its present least value. Proof: releases are <= E0, so later ends are E0 +
(sum of durations) if nothing is raised. A gap arc raises tau_i only if e_b - G_i > D[tau_i][S] = E0 - D[E][tau_i],
i.e. if D[E][tau_i] + (e_b - E0) - G_i > 0, which is a positive cycle. So the prefix is described by the numbers (E0,
lag_i = D[E][tau_i] for each i, value of each objective so far): a `Tight` label, in which a gap bound is a mere
check, and smaller is better in each entry. If no G_i is finite, nothing is ever raised, and labels are tight from the
start (arrivals then count through start = max(E0, r)).

Corollary. If all arrivals are equal, labels are tight from the start with E0 = that arrival, and the largest gap is one
more objective that only grows along the prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from instances.instance import Instance
from tests.judges.batches import Batch

NEVER = float("-inf")
"""No path: no constraint."""
Row = tuple[float, ...]

FIRST_TOKEN = {"mean_ttft", "max_ttft"}
LAST_TOKEN = {"mean_e2e", "max_e2e", "weighted_e2e"}
SUMS = ("mean_ttft", "mean_e2e", "weighted_e2e")
MONOTONE = ("makespan", *sorted(FIRST_TOKEN | LAST_TOKEN))


@dataclass(frozen=True)
class Bounds:
    """What a timing must obey, per request; None for no bound.

    Parameters
    ----------
    gap
        On every gap between two tokens, in µs.
    first_by, last_by
        Absolute deadlines of the first and the last token, in µs.
    caps
        On exact amounts of the objectives of `SUMS`.
    """

    gap: tuple[int | None, ...]
    first_by: tuple[int | None, ...]
    last_by: tuple[int | None, ...]
    caps: tuple[tuple[str, int], ...] = ()

    @classmethod
    def free(cls, requests: int) -> Bounds:
        """Return no bounds at all."""
        return cls((None,) * requests, (None,) * requests, (None,) * requests)

    def with_gap(self, gap: int | None) -> Bounds:
        """Return these bounds with every gap at most `gap`, too."""
        return replace(self, gap=tuple(tightest(g, gap) for g in self.gap))


def tightest(*bounds: int | None) -> int | None:
    """Return the smallest of the bounds that are not None, or None."""
    return min((b for b in bounds if b is not None), default=None)


class Tight(NamedTuple):
    """A prefix in which nothing earlier can still be raised (Theorem 3)."""

    end: int
    lags: tuple[int, ...]
    amounts: tuple[int, ...]


class Loose(NamedTuple):
    """A prefix whose idle time later batches may still use: rows of longest paths from S and from each tau_i."""

    origin: Row
    end: Row
    latest: tuple[Row, ...]  # per request the row of tau_i, all NEVER where there is none
    firsts: tuple[Row, ...]  # per request the row of its first token, where an objective asks for it
    lasts: tuple[Row, ...]


class Clock:
    """Extends labels by batches.

    Parameters
    ----------
    instance
        The instance.
    bounds
        What a timing must obey.
    track
        Objectives whose amounts labels carry. `max_tbt` only where all arrivals are equal.
    """

    def __init__(self, instance: Instance, bounds: Bounds, track: Sequence[str]) -> None:
        self.requests = instance.requests
        self.n = len(self.requests)
        self.bounds = bounds
        self.track = tuple(track)
        self.caps = [dict(bounds.caps).get(name) for name in self.track]
        self.first_arrival = min(r.arrival_us for r in self.requests)
        equal_arrivals = all(r.arrival_us == self.first_arrival for r in self.requests)
        if "max_tbt" in self.track and not equal_arrivals:
            raise ValueError("max_tbt is an objective of labels only where all arrivals are equal")
        self.always_tight = equal_arrivals or all(g is None for g in bounds.gap)
        self.last_before = [None if r.progress is None or not r.progress.emitted else r.progress.last_token_us
                            for r in self.requests]
        self.needs_lag = ["max_tbt" in self.track or g is not None for g in bounds.gap]
        self.needs_first = bool(FIRST_TOKEN & set(self.track))
        self.needs_last = bool(LAST_TOKEN & set(self.track))
        self.nowhere = (NEVER,) * (self.n + 1)

    def initial(self) -> Tight | Loose:
        """Return the label of no batches."""
        if self.always_tight:
            lags = tuple(
                self.first_arrival - t if t is not None and needed else 0
                for t, needed in zip(self.last_before, self.needs_lag, strict=True)
            )
            return Tight(self.first_arrival, lags, (0,) * len(self.track))
        nothing = (self.nowhere,) * self.n
        at_zero = (0, *self.nowhere[1:])
        return Loose(at_zero, (self.first_arrival, *self.nowhere[1:]), nothing, nothing, nothing)

    def extend(self, label: Tight | Loose, batch: Batch, waiting: Sequence[int]) -> Tight | Loose | None:
        """Return the label after `batch`, None where a bound is broken.

        Parameters
        ----------
        label
            The label before it.
        batch
            The next batch.
        waiting
            Arrivals of the requests that have not started after it.
        """
        if isinstance(label, Tight):
            return self._extend_tight(label, batch)
        longer = self._extend_loose(label, batch)
        return None if longer is None else self._tightened(longer, batch, waiting)

    def _extend_tight(self, label: Tight, batch: Batch) -> Tight | None:
        end = max(label.end, batch.release) + batch.duration
        lags = [lag + end - label.end for lag in label.lags]
        amounts = list(label.amounts)
        for i, number, last in batch.emissions:
            request, bounds = self.requests[i], self.bounds
            gap = lags[i] if number > 1 else None
            lags[i] = 0
            if gap is not None and bounds.gap[i] is not None and gap > bounds.gap[i]:
                return None
            if number == 1 and bounds.first_by[i] is not None and end > bounds.first_by[i]:
                return None
            if last and bounds.last_by[i] is not None and end > bounds.last_by[i]:
                return None
            for j, name in enumerate(self.track):
                if name in FIRST_TOKEN and number == 1:
                    amounts[j] = grown(name, amounts[j], end - request.arrival_us, 1)
                elif name in LAST_TOKEN and last:
                    amounts[j] = grown(name, amounts[j], end - request.arrival_us, request.weight)
                elif name == "max_tbt" and gap is not None:
                    amounts[j] = max(amounts[j], gap)
                elif name == "makespan":
                    amounts[j] = end - self.first_arrival
        if any(cap is not None and a > cap for a, cap in zip(amounts, self.caps, strict=True)):
            return None
        for i, (_, _, g, _) in enumerate(batch.after):
            if g == 0 or not self.needs_lag[i]:  # nothing emitted, or finished: no gap runs
                lags[i] = 0
        return Tight(end, tuple(lags), tuple(amounts))

    def _extend_loose(self, label: Loose, batch: Batch) -> Loose | None:
        d = batch.duration
        new = tuple(max(e + d, s + batch.release + d) for e, s in zip(label.end, label.origin, strict=True))
        arcs = self._back_arcs(label, batch)
        if any(new[column] + weight > 0 for column, weight in arcs):
            return None  # a positive cycle

        def closed(row: Row) -> tuple[Row, float]:
            through = max((row[column] + weight for column, weight in arcs), default=NEVER)
            return tuple(max(x, through + y) for x, y in zip(row, new, strict=True)), through

        emitting = {e.request for e in batch.emissions}
        gone = {e.request for e in batch.emissions if e.last}
        follows = [i for i in emitting - gone if self.bounds.gap[i] is not None]

        def moved(row: Row, is_new: bool = False) -> Row:
            """Close the row and replace the columns of the emitting requests by the new node's."""
            values, through = closed(row)
            result = list(values)
            for i in emitting:
                result[i + 1] = NEVER
            for i in follows:
                result[i + 1] = 0 if is_new else through
            return tuple(result)

        end = moved(new, is_new=True)
        latest = tuple(
            (end if i in follows else self.nowhere) if i in emitting else moved(label.latest[i]) for i in range(self.n)
        )
        firsts = [moved(row) for row in label.firsts]
        lasts = [moved(row) for row in label.lasts]
        for i, number, last in batch.emissions:
            if number == 1 and self.needs_first:
                firsts[i] = end
            if last and self.needs_last:
                lasts[i] = end
        return Loose(moved(label.origin), end, latest, tuple(firsts), tuple(lasts))

    def _back_arcs(self, label: Loose, batch: Batch) -> list[tuple[int, int]]:
        """Return the arcs (target column, weight) from the new node: gaps and deadlines."""
        arcs = []
        for i, number, last in batch.emissions:
            gap = self.bounds.gap[i]
            if number > 1 and gap is not None:
                if self.last_before[i] is not None and label.latest[i][0] == NEVER:
                    arcs.append((0, -(self.last_before[i] + gap)))
                else:
                    arcs.append((i + 1, -gap))
            if number == 1 and self.bounds.first_by[i] is not None:
                arcs.append((0, -self.bounds.first_by[i]))
            if last and self.bounds.last_by[i] is not None:
                arcs.append((0, -self.bounds.last_by[i]))
        return arcs

    def _tightened(self, label: Loose, batch: Batch, waiting: Sequence[int]) -> Tight | Loose | None:
        """Return the label, as a tight one where Theorem 3 applies; None where a cap is broken."""
        amounts = self.amounts(label)
        if any(cap is not None and a > cap for a, cap in zip(amounts, self.caps, strict=True)):
            return None
        end = label.end[0]
        if any(arrival > end for arrival in waiting):
            return label
        lags = [0] * self.n
        for i, (_, _, g, _) in enumerate(batch.after):
            row = label.latest[i]
            if g == 0 or not self.needs_lag[i]:
                continue
            if row[0] != NEVER:
                lags[i] = int(label.end[i + 1])
                if lags[i] + row[0] != end:
                    return label
            elif self.last_before[i] is not None:
                lags[i] = int(end) - self.last_before[i]
        return Tight(int(end), tuple(lags), amounts)

    def amounts(self, label: Tight | Loose) -> tuple[int, ...]:
        """Return the amounts of the tracked objectives so far, in the least solution."""
        if isinstance(label, Tight):
            return label.amounts
        amounts = []
        for name in self.track:
            amount = int(label.end[0]) - self.first_arrival if name == "makespan" else 0
            for request, first, last in zip(self.requests, label.firsts, label.lasts, strict=True):
                row = first if name in FIRST_TOKEN else last
                if name != "makespan" and row[0] != NEVER:
                    amount = grown(name, amount, int(row[0]) - request.arrival_us, request.weight)
            amounts.append(amount)
        return tuple(amounts)


def grown(name: str, amount: int, value: int, weight: int) -> int:
    """Return the amount of a TTFT or E2E objective with one more request's value."""
    if name.startswith("max"):
        return max(amount, value)
    return amount + value * (weight if name == "weighted_e2e" else 1)


def dominates(a: Tight | Loose, b: Tight | Loose) -> bool:
    """Return whether every entry of `a` is at most that of `b` (Theorems 2 and 3); labels of one kind only."""
    if isinstance(a, Tight):
        return (
            a.end <= b.end
            and all(x <= y for x, y in zip(a.amounts, b.amounts, strict=True))
            and all(x <= y for x, y in zip(a.lags, b.lags, strict=True))
        )
    for x, y in zip(a[:2], b[:2], strict=True):
        if any(u > v for u, v in zip(x, y, strict=True)):
            return False
    for rows, others in zip(a[2:], b[2:], strict=True):
        for x, y in zip(rows, others, strict=True):
            if any(u > v for u, v in zip(x, y, strict=True)):
                return False
    return True
