"""A lower bound on what the rest of a label costs."""

from __future__ import annotations

import numpy as np

from solver.pooled.late import Splits
from solver.pooled.pool import Pool, Units
from solver.pooled.sets import Sets
from solver.pooled.srpt import Srpt
from solver.pooled.states import END, LAST, Choices, States

AT_ONCE = 8_192
"""Choices whose tables fit into the caches."""


class Remaining:
    """Lower bounds on what is still to come.

    Parameters
    ----------
    pool, sets, splits, aim
        Of a search.
    """

    def __init__(self, pool: Pool, sets: Sets, splits: Splits, aim: str) -> None:
        self.pool = pool
        self.sets = sets
        self.splits = splits
        self.aim = aim
        self.srpt = Srpt(pool, sets)

    def after(self, states: States, choices: Choices) -> Units:
        """Return per choice a lower bound on Σ weight x time of the tokens to come (first or last), or on the end."""
        if not choices.label.size:
            return choices.time
        parts = np.array_split(np.arange(choices.label.size), -(-choices.label.size // AT_ONCE))
        return np.concatenate([_Rest(self, states, choices.chosen(part)).bound(self.aim) for part in parts])


class _Rest:
    """What is left after some choices, those aside who are late where their label takes them apart."""

    def __init__(self, search: Remaining, states: States, choices: Choices) -> None:
        self.pool, self.sets, self.srpt, splits = search.pool, search.sets, search.srpt, search.splits
        pool, sets = self.pool, self.sets
        self.states = states
        self.choices = choices
        split = np.maximum(states.split, 0)[choices.label]
        split = np.where(choices.arrived <= splits.numbers[split], split, 0)
        self.row = splits.rows(choices.row, split)
        self.apart = splits.least[split]
        self.rest = int(sets.sizes[self.row].max(initial=0))
        enters = choices.event >= 0

        def with_entering(live: Units, members: Units) -> Units:
            return np.concatenate([live, np.where(enters, members[choices.place], 0)[:, None]], axis=1)

        left = np.maximum(states.left[choices.label] - choices.count[:, None], 0)
        self.left = with_entering(left, pool.decodes)
        self.weight = with_entering(states.weight[choices.label], pool.weights)
        self.token = with_entering(states.token[choices.label], pool.tokens)
        self.longest = self.left.max(axis=1)
        self.spare = choices.units - sets.units[choices.row]
        self.floor = states.floor[choices.label] + pool.base * (choices.count - choices.idle)
        self.works = sets.works[choices.row]

    def bound(self, aim: str) -> Units:
        """Return the bound for an aim."""
        if aim == END:
            return self._end()
        last = aim == LAST
        tokens = self._last_tokens() if last else np.zeros(self.row.size, dtype=np.int64)
        open_weights = self.sets.all_weights[self.row] + (self.weight * (self.left > 0)).sum(axis=1) * last
        rounding: Units = open_weights * self.pool.slack_ps - self.apart
        if not self.rest:
            tokens -= rounding
            return tokens
        pool, sets, row = self.pool, self.sets, self.row
        need = np.maximum(0, sets.needed[row, : self.rest] - self.spare[:, None])
        count = self._iterations(need)
        tails = pool.rate * sets.tails[row, : self.rest]
        times = self.choices.time[:, None] + pool.base * count + pool.work(need) + tails + self._decoded(count)
        works = self.works[:, None] + sets.rest_works[row, : self.rest]
        times = np.maximum(times, self.floor[:, None] + pool.base * count + works)
        alone, weights = self._alone(), sets.weights[row, : self.rest]
        if not last:
            first: Units = (np.maximum(times, alone) * weights).sum(axis=1) - rounding
            return first
        costs = times * weights + self._ridden(need, count, np.where(alone > times, self._within(alone), 0))
        total: Units = np.maximum(costs, alone * weights).sum(axis=1) + sets.decoding[row] + tokens - rounding
        return total

    def _alone(self) -> Units:
        """Return when so many first tokens of the rest are out at the earliest, for when they arrive."""
        alone: Units = self.sets.alone[self.row, : self.rest]
        arrived = self.choices.arrived
        some = np.nonzero(arrived < len(self.pool.arrivals))[0]
        if some.size:
            times = self.srpt.completions(
                self.row[some], self.spare[some], self.choices.time[some], arrived[some]
            )
            alone[some] = np.maximum(alone[some], times[:, : self.rest])
        return alone

    def _within(self, until: Units) -> Units:
        """Return the most units that are processed from the label's time until some times."""
        pool, room = self.pool, np.maximum(until - self.choices.time[:, None], 0)
        slow = pool.base + pool.live_units * pool.unit_ps
        full = pool.base + pool.full_units * pool.unit_ps
        live = np.minimum(room, self.longest[:, None] * slow)
        units: Units = -(-live * pool.live_units // slow) - (-(room - live) * pool.full_units // full)
        return units

    def _last_tokens(self) -> Units:
        """Return Σ weight x time of the last tokens of live requests if nothing is prefilled beside them."""
        ends = self.choices.time[:, None] + self.pool.base * self.left + self._decoded(self.left)
        total: Units = np.where(self.left > 0, self.weight * ends, 0).sum(axis=1)
        return total

    def _decoded(self, count: Units) -> Units:
        """Return what the decodes of live requests are charged within so many iterations."""
        total = np.zeros(count.shape, dtype=np.int64)
        for i in range(self.left.shape[1]):
            if self.token[:, i].any():
                total += self.token[:, i, None] * np.minimum(self.left[:, i, None], count)
        return total

    def _iterations(self, need: Units) -> Units:
        """Return the fewest iterations that hold `need` units, a request being live in the first ones."""
        slow, fast, longest = self.pool.live_units, self.pool.full_units, self.longest[:, None]
        late = longest + -(-(need - slow * longest) // fast)
        if not slow:
            return np.where(need == 0, 0, late)
        return np.where(need <= slow * longest, -(-need // slow), late)

    def _end(self) -> Units:
        """Return the time of the last token of all, at least.

        All units have to be processed, by requests of which the last one still decodes. A request i of the rest takes
        `until` iterations or more to its first token, then as many as it decodes, and in these the others process
        at most `live_units` each: if all units take c + decodes iterations, c full ones hold what these do not. Without
        idling the time is base x iterations + all work, decodes included.
        """
        pool, sets, row, choices = self.pool, self.sets, self.row, self.choices
        some = sets.sizes[row] > 0
        need = np.maximum(sets.needed[row, -1] - self.spare, 0) * some
        until = self._iterations(need[:, None])[:, 0]
        count = np.where(some, np.maximum(self.longest, until + sets.decodes[row, 0]), self.longest)
        for place, member in enumerate(pool.members):
            waits = (sets.masks[row] >> place & 1) == 0
            slow = need - pool.live_units * member.decodes
            own = np.maximum(member.units - self.spare, 0)
            until = -(-np.maximum(own, slow) // pool.full_units)
            count = np.where(waits, np.maximum(count, np.maximum(until, 0) + member.decodes), count)
        work = pool.work(need) + pool.rate * sets.tails[row, -1]
        time = np.maximum(sets.end[row], choices.time + pool.base * count + work)
        whole = sets.works[sets.row((1 << len(pool.members)) - 1)] + sum(member.decode_ps for member in pool.members)
        floor = self.floor + pool.base * count + whole
        total: Units = np.maximum(time, floor)
        return total

    def _ridden(self, need: Units, count: Units, before: Units) -> Units:
        """Return, per first token, what its prefill costs beside decodes, or what it costs to wait for their end.

        `before` are the units that may be processed before the first tokens that an arrival delays, 0 for others.

        Proof: let k_m be the iteration of the m-th first token of the rest, x(k) the units processed by iteration k, so
        x(k_m) >= need_m. A live request with r iterations left ends at base r + work(x(r)) or later. Between r and k_m
        an iteration holds at most `full_units`, so of share_m = need_m - need_{m-1}, the units between two levels of x,
        at least share_m - full_units max(0, k_m - r) are part of x(r). So m costs these for every live request, and
        base for the iterations by which k_m is later than its least value. As a function of a real k_m that sum is
        concave but where one of the terms becomes 0, so the best k_m is such a place or the least value. Whoever has
        one of the first tokens before it is live as well, until its end in `_own_ends`. A first token that an arrival
        delays may pay neither, so this is added to the time that units take, not to the time that arrivals ask for.

        Where an arrival makes the m-th first token wait until A, up to `before_m` units are processed by then, and what
        its last token pays counts from A on: only units beyond these ride on it. (If y > before_m are processed by the
        first token, it is later than A by the time that y - before_m take, and they do not ride.)
        """
        pool, sets, row = self.pool, self.sets, self.row
        unit, full = pool.unit_ps, pool.full_units
        total = np.zeros(need.shape, dtype=np.int64)
        shares = np.diff(need, axis=1, prepend=0)
        weights = sets.weights[row, : self.rest]
        known = [(self.left[:, i], self.weight[:, i]) for i in range(self.left.shape[1]) if self.weight[:, i].any()]
        own, least_weight = self._own_ends(count), sets.least_weight[row]
        passed = np.maximum.accumulate(np.maximum(before, need), axis=1)
        riding = np.minimum(shares, np.maximum(need - np.pad(passed, ((0, 0), (1, 0)))[:, :-1], 0))
        for m in range(need.shape[1]):
            least, wait = count[:, m], weights[:, m] * pool.base
            ends = [(left, shares[:, m], weight) for left, weight in known]
            ends += [(end, riding[:, m], least_weight) for end in own[:m]]
            # By how many units the first token may be late until nothing of its share rides on a live request.
            reach = [(share + full * (left - least), share, weight) for left, share, weight in ends]
            reach = [(np.maximum(at, 0), share, weight) for at, share, weight in reach if (at > 0).any()]
            best = np.zeros(least.size, dtype=np.int64)
            for at, share, weight in reach:
                best += weight * np.minimum(share, at)
            best *= unit
            for start, _, _ in reach:
                cost = wait * start // full
                for at, share, weight in reach:
                    cost = cost + weight * unit * np.clip(at - start, 0, share)
                best = np.minimum(best, cost)
            total[:, m] = best
        return total

    def _own_ends(self, count: Units) -> list[Units]:
        """Return when the last tokens of the rest come at the earliest, in iterations and in order.

        Proof: of the first m first tokens, the one with number a (from 0) comes after `count_a` iterations or more, and
        the decodes of these m requests are, in order, at least the fewest of the rest, whoever is which. m - a of them
        have number a or later, and all but b have at least the decodes with number b: so at least m - a - b ends are no
        earlier than count_a + decodes_b, and that with number a + b is.
        """
        decodes = self.sets.decodes[self.row, : self.rest]
        return [
            np.maximum.reduce([count[:, a] + decodes[:, number - a] for a in range(number + 1)])
            for number in range(self.rest)
        ]
