"""Objectives of the MIP baseline as exact amounts (model.md §5 and §6): token times by big-M rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.highs import ONE, Terms, combined
from instances.errors import InputError

if TYPE_CHECKING:
    from benchmarks.mip import Mip

Times = list[tuple[int, int]]
"""(request, column of a token's time) per request."""


class MipAmounts:
    """Amounts of the objectives, each made when it is first asked for.

    Parameters
    ----------
    mip
        The program they are added to.
    gap_limit
        Limit on every gap in µs, which makes the rows about gaps tighter; None without one.
    """

    def __init__(self, mip: Mip, gap_limit: int | None) -> None:
        self.mip, self.rows, self.steps = mip, mip.rows, range(mip.count)
        past = [r.progress.last_token_us for r in mip.instance.requests if r.progress is not None]
        longest = mip.horizon - min(past, default=0)
        self.longest_gap = longest if gap_limit is None else min(gap_limit, longest)
        self.amounts: dict[str, Terms] = {}
        self.tokens: dict[str, Times] = {}
        self.gap: int | None = None

    def amount(self, name: str) -> Terms:
        """Return the amount of an objective as an expression to be minimised or limited."""
        makers = {
            "makespan": self._makespan, "max_tbt": self._max_tbt,
            "mean_ttft": lambda: self._sum("first"), "max_ttft": lambda: self._largest("first"),
            "mean_e2e": lambda: self._sum("last"), "max_e2e": lambda: self._largest("last"),
            "weighted_e2e": lambda: self._sum("last", [job.request.weight for job in self.mip.jobs]),
        }  # fmt: skip
        if name not in makers:
            raise InputError.expected(f"one of {', '.join(makers)} (the MIP baseline)", name, "objective")
        if name not in self.amounts:
            self.amounts[name] = makers[name]()
        return self.amounts[name]

    def gap_limit(self, values: np.ndarray) -> int | None:
        """Return the largest gap in µs that a solution promises, None where gaps are free."""
        return None if self.gap is None else round(values[self.gap])

    def _makespan(self) -> Terms:
        """The end of the last iteration: unused ones last 0."""
        return {self.mip.end[-1]: 1}

    def _times(self, which: str) -> Times:
        """Return columns that are no earlier than the first or last token: as long as it is not out, it comes later.

        ``t >= end[k] - M s[j,k-1]`` for all k, where step j emits it and M is the longest that end[k] - t can be.
        """
        if which not in self.tokens:
            found = []
            for i, job in enumerate(self.mip.jobs):
                step = job.prefill if which == "first" else job.total
                if step == 0:
                    continue  # its first token came before time 0
                arrival, horizon = self.mip.arrivals[i], self.mip.horizon
                time = self.rows.column(arrival, horizon)
                for k in self.steps:
                    late = (horizon - arrival, self.mip.step(i, step, k - 1))
                    self.rows.at_most({self.mip.end[k]: 1}, (1, {time: 1}), late)
                found.append((i, time))
            self.tokens[which] = found
        return self.tokens[which]

    def _sum(self, which: str, weights: list[int] | None = None) -> Terms:
        parts = []
        for i, time in self._times(which):
            weight = weights[i] if weights else 1
            parts.append((weight, {time: 1, ONE: -self.mip.arrivals[i]}))
        return combined(*parts)

    def _largest(self, which: str) -> Terms:
        largest = self.rows.column(0, self.mip.horizon)
        for i, time in self._times(which):
            self.rows.at_most({time: 1, ONE: -self.mip.arrivals[i]}, (1, {largest: 1}))
        return {largest: 1}

    def _max_tbt(self) -> Terms:
        """An integer column that no gap exceeds.

        Per request and iteration a column `latest`, no later than its latest token: at most the end, and it grows in
        iterations that emit one only, by at most a gap (or anything at the first token). While the first token is out
        and the last one is not, ``end[k] - latest[k-1] <= gap``: the next token comes at the end of k or later.
        """
        mip = self.mip
        self.gap = self.rows.column(0, self.longest_gap, integer=True)
        for i, job in enumerate(mip.jobs):
            if job.total == job.prefill:
                continue
            before: Terms = {ONE: job.request.progress.last_token_us if job.request.starts_in_decode else 0}
            for k in self.steps:
                done, over = mip.step(i, job.prefill, k - 1), mip.step(i, job.total, k - 1)
                slack = mip.horizon + max(0, -before.get(ONE, 0))
                relaxed = ((slack, {ONE: 1}), (-slack, done), (slack, over))
                self.rows.at_most({mip.end[k]: 1}, (1, before), (1, {self.gap: 1}), *relaxed)
                latest: Terms = {self.rows.column(min(0, before.get(ONE, 0)), mip.horizon): 1}
                self.rows.at_most(latest, (1, {mip.end[k]: 1}))
                first = combined((1, mip.step(i, job.prefill, k)), (-1, done)) if job.prefill else {}
                grown = ((mip.horizon, first), (self.longest_gap, mip.decode(i, k)))
                self.rows.at_most(latest, (1, before), *grown)
                before = latest
        return {self.gap: 1}
