"""Objectives of the plain model as exact amounts (model.md §5 and §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from tests.judges.plain_model import PlainModel


class PlainMetrics:
    """Amounts of the objectives, each made when it is first asked for.

    Parameters
    ----------
    plain
        The model they are added to.
    """

    def __init__(self, plain: PlainModel) -> None:
        self.plain = plain
        self.model = plain.model
        self.requests = plain.requests
        self.amounts: dict[str, cp_model.LinearExprT] = {}
        self.first: list[cp_model.IntVar] | None = None
        self.last: list[cp_model.IntVar] | None = None
        self.latest: list[list[cp_model.LinearExprT]] | None = None

    def amount(self, name: str) -> cp_model.LinearExprT:
        """Return the amount of an objective as an expression or variable to be minimised or limited."""
        if name not in self.amounts:
            self.amounts[name] = getattr(self, f"_{name}")()
        return self.amounts[name]

    def _time(self, name: str) -> cp_model.IntVar:
        return self.model.new_int_var(0, self.plain.horizon, name)

    def _tokens(self, which: str) -> list[cp_model.IntVar]:
        """Return the time of the first or the last token of every request: the end of the iteration that emits it."""
        times = []
        for i, r in enumerate(self.requests):
            time, number = self._time(f"{which}_{i}"), 1 if which == "first" else r.output_tokens
            emits_it = [self.plain.flag(f"{which}_{i}_{k}") for k in self.plain.steps]
            for k, here in enumerate(emits_it):
                self.model.add_implication(here, self.plain.emits[i][k])
                self.model.add(self.plain.emitted[i][k] == number).only_enforce_if(here)
                self.model.add(time == self.plain.end[k]).only_enforce_if(here)
            if which == "last" or not r.starts_in_decode:
                self.model.add_exactly_one(emits_it)
            times.append(time)
        return times

    def _first_tokens(self) -> list[tuple[int, cp_model.IntVar]]:
        """Return (arrival, time) of the first tokens that come after time 0."""
        if self.first is None:
            self.first = self._tokens("first")
        pairs = zip(self.requests, self.first, strict=True)
        return [(r.arrival_us - self.plain.origin, time) for r, time in pairs if not r.starts_in_decode]

    def _last_tokens(self) -> list[tuple[int, cp_model.IntVar]]:
        if self.last is None:
            self.last = self._tokens("last")
        pairs = zip(self.requests, self.last, strict=True)
        return [(r.arrival_us - self.plain.origin, time) for r, time in pairs]

    def _largest(self, name: str, values: list[cp_model.LinearExprT]) -> cp_model.LinearExprT:
        if not values:
            return 0
        largest = self._time(name)
        self.model.add_max_equality(largest, values)
        return largest

    def _makespan(self) -> cp_model.LinearExprT:
        return self._largest("makespan", [time for _, time in self._last_tokens()])

    def _mean_ttft(self) -> cp_model.LinearExprT:
        return sum(time - arrival for arrival, time in self._first_tokens())

    def _max_ttft(self) -> cp_model.LinearExprT:
        return self._largest("max_ttft", [time - arrival for arrival, time in self._first_tokens()])

    def _mean_e2e(self) -> cp_model.LinearExprT:
        return sum(time - arrival for arrival, time in self._last_tokens())

    def _max_e2e(self) -> cp_model.LinearExprT:
        return self._largest("max_e2e", [time - arrival for arrival, time in self._last_tokens()])

    def _weighted_e2e(self) -> cp_model.LinearExprT:
        pairs = zip(self.requests, self._last_tokens(), strict=True)
        return sum(r.weight * (time - arrival) for r, (arrival, time) in pairs)

    def _latest_tokens(self) -> list[list[cp_model.LinearExprT]]:
        """Return the time of the latest token of each request at the end of each iteration; its state at 0 is last."""
        if self.latest is None:
            self.latest = []
            for i, r in enumerate(self.requests):
                before = 0 if r.progress is None else r.progress.last_token_us
                row: list[cp_model.LinearExprT] = []
                for k in self.plain.steps:
                    latest = self.model.new_int_var(before, self.plain.horizon, f"latest_{i}_{k}")
                    emits = self.plain.emits[i][k]
                    self.model.add(latest == self.plain.end[k]).only_enforce_if(emits)
                    self.model.add(latest == (row[-1] if k else before)).only_enforce_if(emits.negated())
                    row.append(latest)
                self.latest.append([*row, before])
        return self.latest

    def _gaps(self, i: int) -> list[tuple[cp_model.LinearExprT, list[cp_model.IntVar]]]:
        """Return (length, literals under which it is a gap) for every iteration that may end one."""
        gaps = []
        latest = self._latest_tokens()[i]
        for k in self.plain.steps:
            emitted = self.plain.emitted[i][k - 1]
            literals = [self.plain.emits[i][k]]
            if isinstance(emitted, int):  # before the first iteration
                if not emitted:
                    continue
            else:
                further = self.plain.flag(f"further_{i}_{k}")
                self.model.add(emitted >= 1).only_enforce_if(further)
                self.model.add(emitted == 0).only_enforce_if(further.negated())
                literals.append(further)
            gaps.append((self.plain.end[k] - latest[k - 1], literals))
        return gaps

    def _max_tbt(self) -> cp_model.LinearExprT:
        past = max((-r.progress.last_token_us for r in self.requests if r.progress is not None), default=0)
        largest = self.model.new_int_var(0, self.plain.horizon + past, "max_tbt")
        for i in range(len(self.requests)):
            for gap, literals in self._gaps(i):
                self.model.add(gap <= largest).only_enforce_if(literals)
        return largest

    def _slo_attainment(self) -> cp_model.LinearExprT:
        """Return the number of requests that miss an SLO."""
        missed = []
        for i, r in enumerate(self.requests):
            miss = self.plain.flag(f"miss_{i}")
            arrival = r.arrival_us - self.plain.origin
            kept = miss.negated()
            if r.ttft_slo_us is not None and not r.starts_in_decode:
                self._first_tokens()
                self.model.add(self.first[i] <= arrival + r.ttft_slo_us).only_enforce_if(kept)
            if r.e2e_slo_us is not None:
                self._last_tokens()
                self.model.add(self.last[i] <= arrival + r.e2e_slo_us).only_enforce_if(kept)
            if r.tbt_slo_us is not None:
                for gap, literals in self._gaps(i):
                    self.model.add(gap <= r.tbt_slo_us).only_enforce_if([kept, *literals])
            missed.append(miss)
        return sum(missed)
