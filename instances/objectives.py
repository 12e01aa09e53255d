"""The objectives of model.md §6 as exact integers.

Every objective has an integer **amount** that is minimised: µs, a sum of µs for means, the number of requests that
miss an SLO for `slo_attainment`. Solver, exhaustive search and comparison share these amounts; values in the
metric's unit are made from them only for people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request
from instances.units import MAX_TIME_US, US_PER_MS

TokenTimes = Mapping[str, Sequence[int]]
"""Per request id, the times in µs at which it emits tokens from time 0 on (`instances.replay.Replay`)."""
US_PER_SECOND = 1_000_000


@dataclass(frozen=True)
class Objective:
    """One objective.

    Parameters
    ----------
    name
        Metric name.
    unit
        Unit of its value.
    maximise
        Whether a larger value is better; the amount is minimised all the same.
    amount
        Function (instance, token times) -> exact integer, smaller is better.
    value_of
        Function (instance, amount) -> exact value in `unit`, None where it is undefined.
    amount_at
        Function (instance, value) -> the largest amount whose value is as good as `value`.
    """

    name: str
    unit: str
    maximise: bool
    amount: Callable[[Instance, TokenTimes], int]
    value_of: Callable[[Instance, int], Fraction]
    amount_at: Callable[[Instance, Fraction], int]

    def value(self, instance: Instance, amount: int) -> float:
        """Return `amount` in the metric's unit."""
        return float(self.value_of(instance, amount))

    def limit_amount(self, instance: Instance, value: float) -> int:
        """Return the largest amount that obeys the limit `value` (⌊n·limit⌋ for means).

        A value that we print is the double nearest to its amount, so it may lie just beyond it: 4/3 ms prints as
        1.3333333333333333. The amount that prints as `value` obeys it.
        """
        amount = self.amount_at(instance, Fraction(Decimal(repr(float(value)))))
        return amount + 1 if self.value(instance, amount + 1) == float(value) else amount


def first_tokens(instance: Instance) -> list[Request]:
    """Return the requests that have a TTFT: those that had emitted nothing before time 0."""
    return [r for r in instance.requests if not r.starts_in_decode]


def gaps_us(request: Request, times: Sequence[int]) -> list[int]:
    """Return the TBT gaps of a request in µs, the first from its last token before time 0 where there was one."""
    points = list(times)
    if request.starts_in_decode and request.progress is not None:
        points.insert(0, request.progress.last_token_us)
    return [after - before for before, after in pairwise(points)]


def meets_slos(request: Request, times: Sequence[int]) -> bool:
    """Return whether a request keeps all of its SLOs; one without any does."""
    if not times:
        return False
    ttft_slo = None if request.starts_in_decode else request.ttft_slo_us
    if ttft_slo is not None and times[0] - request.arrival_us > ttft_slo:
        return False
    if request.tbt_slo_us is not None and max(gaps_us(request, times), default=0) > request.tbt_slo_us:
        return False
    return request.e2e_slo_us is None or times[-1] - request.arrival_us <= request.e2e_slo_us


def _ttfts(instance: Instance, times: TokenTimes) -> list[int]:
    return [times[r.id][0] - r.arrival_us for r in first_tokens(instance)]


def _e2es(instance: Instance, times: TokenTimes) -> list[int]:
    return [times[r.id][-1] - r.arrival_us for r in instance.requests]


def _makespan(instance: Instance, times: TokenTimes) -> int:
    return max(times[r.id][-1] for r in instance.requests) - instance.origin_us


def _max_tbt(instance: Instance, times: TokenTimes) -> int:
    return max((gap for r in instance.requests for gap in gaps_us(r, times[r.id])), default=0)


def _weighted(instance: Instance, times: TokenTimes) -> int:
    return sum(r.weight * (times[r.id][-1] - r.arrival_us) for r in instance.requests)


def _missed(instance: Instance, times: TokenTimes) -> int:
    return sum(not meets_slos(r, times[r.id]) for r in instance.requests)


def outputs_counted(instance: Instance) -> int:
    """Return the output tokens that throughput counts: those emitted from time 0 on."""
    return sum(r.outputs_left for r in instance.requests)


def _in_ms(
    name: str,
    amount: Callable[[Instance, TokenTimes], int],
    count: Callable[[Instance], int] = lambda instance: 1,
) -> Objective:
    """Return an objective whose amount is `count` times its value in µs."""
    return Objective(
        name,
        "ms",
        False,
        amount,
        lambda instance, total: Fraction(total, US_PER_MS * max(1, count(instance))),
        lambda instance, value: math.floor(value * US_PER_MS * max(1, count(instance))),
    )


def _requests(instance: Instance) -> int:
    return len(instance.requests)


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        _in_ms("makespan", _makespan),
        _in_ms("max_tbt", _max_tbt),
        _in_ms("mean_ttft", lambda i, t: sum(_ttfts(i, t)), lambda i: len(first_tokens(i))),
        _in_ms("max_ttft", lambda i, t: max(_ttfts(i, t), default=0)),
        _in_ms("mean_e2e", lambda i, t: sum(_e2es(i, t)), _requests),
        _in_ms("max_e2e", lambda i, t: max(_e2es(i, t))),
        _in_ms("weighted_e2e", _weighted, lambda i: sum(r.weight for r in i.requests)),
        Objective(
            "slo_attainment",
            "share",
            True,
            _missed,
            lambda i, missed: Fraction(_requests(i) - missed, _requests(i)),
            lambda i, share: math.floor(_requests(i) * (1 - share)),
        ),
        Objective(
            "throughput",
            "tokens/s",
            True,
            _makespan,
            lambda i, total: Fraction(outputs_counted(i) * US_PER_SECOND, max(1, total)),
            lambda i, rate: math.floor(outputs_counted(i) * US_PER_SECOND / rate),
        ),
    )
}
"""By metric name. `throughput` is the makespan axis read the other way."""


def objective(name: str, field: str = "minimize") -> Objective:
    """Return the objective of that name.

    Raises
    ------
    InputError
        For an unknown name, listing the known ones.
    """
    if name not in OBJECTIVES:
        raise InputError.expected(f"one of {', '.join(OBJECTIVES)}", name, field)
    return OBJECTIVES[name]


def amount_key(name: str) -> str:
    """Return the name under which an objective's amount is held: `throughput` is the makespan read the other way."""
    return "makespan" if name == "throughput" else name


def limit_amounts(instance: Instance, limits: Mapping[str, float] | None) -> dict[str, int]:
    """Return limits in the metrics' units as largest allowed amounts; `throughput` becomes one on `makespan`.

    Raises
    ------
    InputError
        For an unknown metric, or a limit that is not a finite positive number (a share within 0..1 for
        `slo_attainment`).
    """
    amounts: dict[str, int] = {}
    for name, value in (limits or {}).items():
        known = objective(name, "limit")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError.expected("a finite number", value, f"limit {name}")
        if known.unit == "share" and not 0 <= value <= 1:
            raise InputError.expected("a share within 0..1", value, f"limit {name}")
        if value < 0 or (value == 0 and name == "throughput"):
            raise InputError.expected("a number > 0", value, f"limit {name}")
        if not known.maximise and value > MAX_TIME_US // US_PER_MS:
            raise InputError.expected(f"at most {MAX_TIME_US // US_PER_MS} ms", value, f"limit {name}")
        target = amount_key(name)
        amount = known.limit_amount(instance, value)
        amounts[target] = min(amount, amounts.get(target, amount))
    return amounts
