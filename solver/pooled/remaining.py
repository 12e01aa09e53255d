"""A lower bound on what the rest of a label costs."""

from __future__ import annotations

import numpy as np

from solver.pooled.events import END, LAST, Choices, Label
from solver.pooled.pool import Pool, Units
from solver.pooled.sets import Facts, Sets


def remaining(pool: Pool, sets: Sets, aim: str, label: Label, choices: Choices) -> Units:
    """Return per choice a lower bound on Σ weight x time of the tokens to come (first or last ones)."""
    facts = sets[choices.done]
    live = [(np.maximum(left - choices.count, 0), weight) for left, weight in label.live]
    if choices.event >= 0:
        member = pool.members[choices.event]
        live.append((np.full(choices.units.size, member.decodes), member.weight))
    longest = np.max([left for left, _ in live], axis=0) if live else np.zeros(choices.units.size, dtype=np.int64)
    if aim == END:
        return _end(pool, sets, label, choices, longest)
    if not facts.rest:
        return _last_tokens(pool, choices, live) if aim == LAST else np.zeros(choices.units.size, np.int64)
    need = np.maximum(0, facts.needed[None, :] - (choices.units - facts.units)[:, None])
    count = _iterations(pool, need, longest)
    times = choices.time[:, None] + pool.base * count + pool.work(need) + pool.rate * facts.tails[None, :]
    passed = label.needed + choices.count - choices.idle
    worked = pool.base * (passed[:, None] + count) + facts.work + facts.works[None, :]
    times = np.maximum(times, worked)
    if aim != LAST:
        first: Units = np.maximum(times, facts.alone[None, :]) @ facts.weights
        return first
    costs = times * facts.weights[None, :] + _ridden(pool, facts, need, count, live)
    last: Units = np.maximum(costs, (facts.alone * facts.weights)[None, :]).sum(axis=1)
    last += sum(m.weight * (m.decodes * pool.base + m.decode_ps) for m in facts.rest)
    return last + _last_tokens(pool, choices, live)


def _end(pool: Pool, sets: Sets, label: Label, choices: Choices, longest: Units) -> Units:
    """Return the time of the last token of all, at least.

    All units have to be processed, by requests of which the last one still decodes. A request i of the rest takes
    `until` iterations or more to its first token, then as many as it decodes, and in these the others process
    at most `live_units` each: if all units take c + decodes iterations, c full ones hold what these do not. Without
    idling the time is base x iterations + all work, decodes included.
    """
    facts = sets[choices.done]
    count, work, time = longest, np.zeros(choices.units.size, np.int64), np.zeros(choices.units.size, np.int64)
    if facts.rest:
        spare = choices.units - facts.units
        need = np.maximum(int(facts.needed[-1]) - spare, 0)
        until = _iterations(pool, need[:, None], longest)[:, 0]
        count = np.maximum(count, until + facts.decodes)
        for member in facts.rest:
            slow = need - pool.live_units * member.decodes
            until = np.maximum(-(-np.maximum(member.units - spare, 0) // pool.full_units), -(-slow // pool.full_units))
            count = np.maximum(count, np.maximum(until, 0) + member.decodes)
        work = pool.work(need) + pool.rate * int(facts.tails[-1])
        time += facts.end
    time = np.maximum(time, choices.time + pool.base * count + work)
    whole = sets[(1 << len(pool.members)) - 1].work + sum(member.decode_ps for member in pool.members)
    floor = pool.base * (label.needed + choices.count - choices.idle + count) + whole
    total: Units = np.maximum(time, floor)
    return total


def _last_tokens(pool: Pool, choices: Choices, live: list[tuple[Units, int]]) -> Units:
    """Return Σ weight x time of the last tokens of live requests if nothing is prefilled beside them."""
    total = np.zeros(choices.units.size, dtype=np.int64)
    for left, weight in live:
        total += np.where(left > 0, weight * (choices.time + pool.base * left), 0)
    return total


def _iterations(pool: Pool, need: Units, longest: Units) -> Units:
    """Return the fewest iterations that hold `need` units, a request being live in the first `longest` of them."""
    slow, fast = pool.live_units, pool.full_units
    within = slow * longest[:, None]
    late = longest[:, None] + -(-(need - within) // fast)
    if not slow:
        return np.where(need == 0, 0, late)
    early = -(-need // slow)
    return np.where(need <= within, early, late)


def _ridden(pool: Pool, facts: Facts, need: Units, count: Units, live: list[tuple[Units, int]]) -> Units:
    """Return, per first token, what its prefill costs beside decodes, or what it costs to wait for their end.

    Proof: let k_m be the iteration of the m-th first token of the rest, x(k) the units processed by iteration k, so
    x(k_m) >= need_m. A live request with r iterations left ends at base r + work(x(r)), and x(r) >= Σ share_m over
    the m with k_m <= r, share_m = need_m - need_{m-1}. So m costs either its share for every live request that
    outlasts k_m, or base for the iterations by which k_m is later than its least value; the best k_m is one after an
    end, or the least. A first token m' < m is followed by at least `decodes` iterations, so its last one counts as
    live with `least k_m' + decodes` iterations left. A first token that an arrival delays may pay neither, so this is
    added to the time that units take, not to the time that arrivals ask for.
    """
    total = np.zeros(need.shape, dtype=np.int64)
    weight_of_rest = int(facts.weights.min())
    shares = np.diff(need, axis=1, prepend=0)
    ends = [(left, weight) for left, weight in live if weight]
    for m in range(need.shape[1]):
        share, least = pool.work(shares[:, m]), count[:, m]
        costs = []
        for start in [least, *(np.maximum(left + 1, least) for left, _ in ends)]:
            cost = facts.weights[m] * pool.base * (start - least)
            for left, weight in ends:
                cost = cost + np.where(left >= start, weight * share, 0)
            costs.append(cost)
        total[:, m] = np.min(costs, axis=0)
        ends.append((least + facts.decodes, weight_of_rest))
    return total
