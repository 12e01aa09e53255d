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

from dataclasses import dataclass, replace
from operator import le
from typing import NamedTuple

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


def grown(name: str, amount: int, value: int, weight: int) -> int:
    """Return the amount of a TTFT or E2E objective with one more request's value."""
    if name.startswith("max"):
        return max(amount, value)
    return amount + value * (weight if name == "weighted_e2e" else 1)


def dominates(a: Tight | Loose, b: Tight | Loose) -> bool:
    """Return whether every entry of `a` is at most that of `b` (Theorems 2 and 3); labels of one kind only."""
    if isinstance(a, Tight):
        return a.end <= b.end and all(map(le, a.amounts, b.amounts)) and all(map(le, a.lags, b.lags))
    rows, others = ((label.origin, label.end, *label.latest, *label.firsts, *label.lasts) for label in (a, b))
    return all(all(map(le, x, y)) for x, y in zip(rows, others, strict=True))
