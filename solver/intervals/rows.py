"""What holds in every round: limits of the engine, and what two or three large requests keep from each other.

A family of rows says: in every round t the sum over the requests of ``profile(t - start)`` is at most a capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.intervals.setting import Rounds, Span

Profile = npt.NDArray[np.int64]
THIRDS = (20, 17, 14, 12)
"""Sixtieths of the pool that rows of three requests are built on (a third is 20)."""


@dataclass(frozen=True)
class Family:
    """Rows ``sum_i profile_i[t - start_i - offset_i] <= capacity`` for all integers t (also negative ones).

    Parameters
    ----------
    capacity
        Right-hand side.
    offsets, profiles
        Per request, where its profile begins against its start, and what it adds from there on; it may be empty.
    needed
        Whether it is a limit of the engine; the others follow from those.
    """

    capacity: int
    offsets: tuple[int, ...]
    profiles: tuple[Profile, ...]
    needed: bool = False

    def layers(self, i: int) -> list[tuple[int, int, int]]:
        """Return the profile of a request as (offset from its start, length, height) of nested intervals."""
        found, open_, height = [], [], 0
        values = [*self.profiles[i].tolist(), 0]
        for at, value in enumerate(values):
            if value > height:
                open_.append((at, value - height))
            while value < height:
                begun, top = open_.pop()
                drop = min(top, height - value)
                found.append((self.offsets[i] + begun, at - begun, drop))
                if drop < top:
                    open_.append((begun, top - drop))
                height -= drop
            height = value
        return found


def families(rounds: Rounds) -> list[Family]:
    """Return the limits that can bind, then the rows that follow from the KV pool."""
    engine, spans = rounds.problem.engine, rounds.spans
    found = []
    if engine.num_kv_blocks is not None and sum(engine.blocks(s.peak) for s in spans) > engine.num_kv_blocks:
        found.append(_limit(spans, engine.num_kv_blocks, lambda s, j: engine.blocks(s.prompt + j)))
    if engine.max_num_seqs is not None and len(spans) > engine.max_num_seqs:
        found.append(_limit(spans, engine.max_num_seqs, lambda s, j: 1))
    budget = engine.max_num_batched_tokens
    if sum(s.request.prefill_left for s in spans) > budget:
        found.append(_limit(spans, budget, lambda s, j: 1 if j else s.request.prefill_left))
    tokens = engine.kv_capacity_tokens
    if tokens is not None:
        marks = [(2, -(-tokens // 2)), *((3, tokens * part // 60) for part in THIRDS)]
        kept = (separation(spans, tokens, group, mark) for group, mark in dict.fromkeys(marks))
        found += [family for family in kept if family is not None]
    return found


def _limit(spans: tuple[Span, ...], capacity: int, demand: Callable[[Span, int], int]) -> Family:
    profiles = tuple(np.array([demand(s, j) for j in range(s.rounds)], dtype=np.int64) for s in spans)
    return Family(capacity, (0,) * len(spans), profiles, needed=True)


def separation(spans: tuple[Span, ...], pool: int, group: int, mark: int) -> Family | None:
    """Return rows that keep the ends of large requests apart, None where they say nothing.

    A request with end e (the round after its last) covers a window of rounds around its end, ``e - l <= t < e + r``;
    no round is covered by `group` windows. For group = 2 and mark = half the pool this is a single machine on which
    a request with peak p takes 2p - pool rounds: the end of a large one keeps others small before and after it, which
    the limit on KV, looking at one round at a time, does not see.

    Proof. Let p be a request's peak, M the pool in tokens, q the number of requests in a group all of which work in
    the last round of F, the first of them to end. There B holds ``p_B - d_B``, with d_B >= 0 the rounds by which it
    ends later. So (1) the sum of the d_B is at least the sum of the q peaks minus M. With P the largest prompt, let

        l = p - mark,    r = min(floor((p - M - 1) / (group - 1)) + mark + 1, mark - P + 1).

    Were t covered by `group` windows: e_F >= t - r_F + 1 and e_B <= t + l_B, so d_B <= l_B + r_F - 1. By the second
    term of r_F that is at most p_B - P <= (rounds of B) - 1, so B works in the last round of F. By the first one the
    d_B sum to at most sum(p_B - mark) + (group - 1)(r_F - 1) <= (sum of all peaks) - M - 1, against (1). Signs of l
    and r play no part; empty windows cover nothing.

    For group = 3 a part of the window of A, ``e - l' <= t < e + r'``, counts twice, as nobody else's window may cover
    such a round: l' = min(l, min over others B of p_A + p_B - M - r_B), r' = min(r, p_A - M + mark). Take (1) with
    q = 2: if A ends first, d_B <= l_B + r' - 1 <= p_A + p_B - M - 1; if B does, d_A <= l' + r_B - 1 is at most the
    same. Both are against (1), and both work then as l' <= l and r' <= r.
    """
    largest = max(s.prompt for s in spans)
    left = {s.index: s.peak - mark for s in spans}
    right = {s.index: min((s.peak - pool - 1) // (group - 1) + mark + 1, mark - largest + 1) for s in spans}
    members = [s for s in spans if left[s.index] + right[s.index] > 0]
    if len(members) < group:
        return None
    offsets, profiles = [0] * len(spans), [np.zeros(0, dtype=np.int64)] * len(spans)
    for a in members:
        before, after = left[a.index], right[a.index]
        counts = np.ones(before + after, dtype=np.int64)
        if group == 3:
            inner = min([before, *(a.peak + b.peak - pool - right[b.index] for b in members if b is not a)])
            begin, end = before - inner, before + min(after, a.peak - pool + mark)
            counts[max(0, begin) : max(0, end)] = 2
        offsets[a.index], profiles[a.index] = a.rounds - before, counts
    return Family(group - 1, tuple(offsets), tuple(profiles))
