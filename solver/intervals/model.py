"""The CP-SAT model: one start per request, rows as nested intervals, and as linear rows over start booleans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ortools.sat.python import cp_model

from instances.objectives import OBJECTIVES
from solver.build import ANY
from solver.intervals.rows import Family
from solver.intervals.setting import COUNTED, SUMS, Rounds, Span
from solver.run import Progress

LARGEST_NESTED = 30_000
"""Largest number of intervals."""
LARGEST_ROWS = 1_500_000
"""Largest number of entries of linear rows."""


class IntervalModel:
    """One objective under caps.

    Parameters
    ----------
    rounds, families
        The instance, and its rows.
    name
        Objective.
    caps
        Largest amounts allowed, in µs (a count for `slo_attainment`).
    allowed
        Per request, the starts that it may have.
    linear
        Whether the rows are stated over start booleans too: they carry the bound, and take their time.
    """

    def __init__(
        self,
        rounds: Rounds,
        families: Sequence[Family],
        name: str,
        caps: Mapping[str, int],
        allowed: Sequence[Sequence[int]],
        *,
        linear: bool,
    ) -> None:
        self.rounds = rounds
        self.name = name
        self.model = cp_model.CpModel()
        domains = [cp_model.Domain.from_values([int(s) for s in starts]) for starts in allowed]
        self.starts = [self.model.new_int_var_from_domain(d, f"start_{i}") for i, d in enumerate(domains)]
        self.at: list[dict[int, cp_model.IntVar]] = []
        for family in families:
            self._nested(family)
        if linear:
            self._booleans(allowed)
            for family in families:
                self._rows(family)
        self._alike()
        for other, cap in caps.items():
            self._cap(other, cap)
        self.amount = self._amount(name)
        self.model.minimize(self.amount)

    def _nested(self, family: Family) -> None:
        """In every round the intervals sum to at most the capacity; with capacity 1 no two of them overlap."""
        intervals, demands = [], []
        for i, start in enumerate(self.starts):
            for n, (offset, length, height) in enumerate(family.layers(i)):
                intervals.append(self.model.new_fixed_size_interval_var(start + offset, length, f"layer_{i}_{n}"))
                demands.append(height)
        if family.capacity == 1 and set(demands) == {1}:
            self.model.add_no_overlap(intervals)
        elif intervals:
            self.model.add_cumulative(intervals, demands, family.capacity)

    def _booleans(self, allowed: Sequence[Sequence[int]]) -> None:
        """One boolean per start: ``start = sum s·at[s]``."""
        for i, starts in enumerate(allowed):
            self.at.append({int(s): self.model.new_bool_var(f"at_{i}_{s}") for s in starts})
            self.model.add_exactly_one(self.at[i].values())
            self.model.add(self.starts[i] == sum(s * literal for s, literal in self.at[i].items()))

    def _rows(self, family: Family) -> None:
        """In every round: ``sum profile(t - s)·at[s] <= capacity``."""
        rows: dict[int, list[tuple[int, cp_model.IntVar]]] = {}
        for i, literals in enumerate(self.at):
            profile = family.profiles[i].tolist()
            for s, literal in literals.items():
                for j, demand in enumerate(profile, start=s + family.offsets[i]):
                    rows.setdefault(j, []).append((demand, literal))
        for _, row in sorted(rows.items()):
            if family.capacity == 1:
                self.model.add_at_most_one(literal for _, literal in row)
            else:
                self.model.add(sum(demand * literal for demand, literal in row) <= family.capacity)

    def _alike(self) -> None:
        """Requests that differ in their ids alone start in the order of the instance.

        Proof: exchanging the starts of two of them exchanges their roles in every row, objective and limit. Starts are
        only ever excluded because no better schedule has them, whichever of the two requests it is.
        """
        groups: dict[tuple[int | None, ...], list[Span]] = {}
        for span in self.rounds.spans:
            r = span.request
            slos = (r.ttft_slo_us, r.tbt_slo_us, r.e2e_slo_us)
            groups.setdefault((span.prompt, span.rounds, r.prefill_left, r.weight, *slos), []).append(span)
        for group in groups.values():
            for a, b in pairwise(group):
                self.model.add(self.starts[a.index] <= self.starts[b.index])

    def _amount(self, name: str) -> cp_model.LinearExprT:
        """Return an objective in rounds (a count for `slo_attainment`)."""
        if name in SUMS:
            terms = zip(self.starts, self.rounds.weights(name), strict=True)
            return sum(a * start + b for start, (a, b) in terms)
        if name == COUNTED:
            return sum(self._late(span) for span in self.rounds.spans)
        if name == "max_tbt":
            return int(any(span.rounds > 1 for span in self.rounds.spans))
        longest = self.model.new_int_var(0, self.rounds.horizon, name)
        for start, offset in zip(self.starts, self.rounds.offsets(name), strict=True):
            self.model.add(longest >= start + offset)
        return longest

    def _late(self, span: Span) -> cp_model.IntVar:
        late = self.model.new_bool_var(f"late_{span.index}")
        self.model.add(self.starts[span.index] <= self.rounds.on_time(span)).only_enforce_if(late.negated())
        return late

    def _cap(self, name: str, cap: int) -> None:
        amount = self._amount(name)
        most = cap if name == COUNTED else cap // self.rounds.unit_us
        if isinstance(amount, int):
            if amount > most:
                self.model.add_bool_or([])
        else:
            self.model.add(amount <= most)

    def bound_from_below(self, bound: int | None) -> None:
        """Add a bound that is proved already, in µs; for `ANY` drop the objective."""
        if bound == ANY:
            self.model.clear_objective()  # type: ignore[no-untyped-call]
        elif bound is not None and not isinstance(self.amount, int):
            self.model.add(self.amount >= -(-bound // self.rounds.amount_us(self.name, 1)))

    def hint(self, starts: Sequence[int]) -> None:
        """Give starts as a hint."""
        for variable, start in zip(self.starts, starts, strict=True):
            self.model.add_hint(variable, start)
        for literals, start in zip(self.at, starts, strict=False):
            for s, literal in literals.items():
                self.model.add_hint(literal, s == start)

    def teller(self, tell: Progress | None) -> Callable[[int, int], None] | None:
        """Return what tells value and bound of a search in the objective's unit."""
        if tell is None:
            return None
        known, instance = OBJECTIVES[self.name], self.rounds.problem.instance

        def told(value: int, bound: int) -> None:
            best, least = (known.value(instance, self.rounds.amount_us(self.name, x)) for x in (value, bound))
            tell(f"{self.name}: found {best:g} {known.unit}, bound {least:g} {known.unit}")

        return told


def entries(families: Sequence[Family], allowed: Sequence[Sequence[int]]) -> int:
    """Return the number of entries of the linear rows."""
    return sum(len(p) * len(s) for family in families for p, s in zip(family.profiles, allowed, strict=True))


def nested_size(families: Sequence[Family]) -> int:
    """Return about how many intervals a model has."""
    return sum(len(profile) if family.needed else 2 for family in families for profile in family.profiles)
