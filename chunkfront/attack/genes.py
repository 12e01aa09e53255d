"""The instances that an attack looks at: a few whole numbers each, within stated ranges, and steps between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from instances.cost_model import CostModel
from instances.engine import PREEMPTION_MODES, EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request
from instances.units import PS_PER_MS, US_PER_MS

ENGINE = ("budget", "seats", "base", "prefill", "decode", "kv")
REQUEST = ("arrival", "prompt", "output")


@dataclass(frozen=True)
class Ranges:
    """Largest values of what an attack varies; the least are 1 request, token and ms per prefill token, else 0.

    Parameters
    ----------
    requests
        Number of requests.
    arrival, prompt, output
        Of a request: ms, tokens, tokens.
    budget
        max_num_batched_tokens.
    base, prefill, decode
        Cost per iteration, prefill token and decode, in ms.
    kv
        KV pool in tokens, never less than the largest request needs; 0: no limit.
    preemption
        Of the engine, the same for all instances: ``none``, ``recompute`` or ``swap`` (which then costs nothing).
    """

    requests: int = 4
    arrival: int = 20
    prompt: int = 24
    output: int = 8
    budget: int = 32
    base: int = 4
    prefill: int = 3
    decode: int = 2
    kv: int = 0
    preemption: str = "none"

    def __post_init__(self) -> None:
        for name in (*REQUEST, "requests", "budget", "base", "prefill", "decode", "kv"):
            least = int(name not in ("arrival", "base", "decode", "kv"))
            if getattr(self, name) < least:
                raise InputError.expected(f"at least {least}", getattr(self, name), name)
        if self.preemption not in PREEMPTION_MODES:
            raise InputError.expected(f"one of {', '.join(PREEMPTION_MODES)}", self.preemption, "preemption")

    @property
    def engine(self) -> tuple[str, ...]:
        """The numbers of the engine and its cost that vary."""
        return ENGINE if self.kv else ENGINE[:-1]


@dataclass(frozen=True)
class Genes:
    """One instance as whole numbers: tokens, ms; `seats` is max_num_seqs, 0 for no limit, as for `kv`.

    Parameters
    ----------
    requests
        Triples (arrival, prompt, output).
    budget, seats, base, prefill, decode, kv, preemption
        Of the engine and its cost, see `Ranges`.
    """

    requests: tuple[tuple[int, int, int], ...]
    budget: int
    seats: int
    base: int
    prefill: int
    decode: int
    kv: int = 0
    preemption: str = "none"

    def instance(self, name: str, description: str | None = None) -> Instance:
        """Return the instance that the numbers say."""
        requests = tuple(
            Request(f"r{i}", prompt, output, arrival * US_PER_MS)
            for i, (arrival, prompt, output) in enumerate(self.requests)
        )
        cost = CostModel.linear(self.base * PS_PER_MS, self.prefill * PS_PER_MS, self.decode * PS_PER_MS)
        pool = max(self.kv, *(r.peak_kv_tokens for r in requests)) if self.kv else None
        engine = EngineLimits(self.budget, self.seats or None, pool, preemption=self.preemption)
        return Instance(name, requests, engine, cost, description=description)


def drawn(rng: random.Random, ranges: Ranges) -> Genes:
    """Return random genes."""
    count = rng.randint(min(2, ranges.requests), ranges.requests)
    return Genes(
        tuple(sorted(_request(rng, ranges) for _ in range(count))),
        **{name: _number(rng, ranges, name) for name in ranges.engine},
        preemption=ranges.preemption,
    )


def _request(rng: random.Random, ranges: Ranges) -> tuple[int, int, int]:
    return _number(rng, ranges, "arrival"), _number(rng, ranges, "prompt"), _number(rng, ranges, "output")


def _limits(ranges: Ranges, name: str) -> tuple[int, int]:
    if name == "seats":
        return 0, ranges.requests
    return int(name in (*REQUEST[1:], "budget", "prefill")), getattr(ranges, name)


def _number(rng: random.Random, ranges: Ranges, name: str) -> int:
    low, high = _limits(ranges, name)
    if name == "seats":
        return rng.choice((0, 0, rng.randint(low, high)))
    return rng.randint(low, high)


def changed(genes: Genes, rng: random.Random, ranges: Ranges) -> Genes:
    """Return genes with one to three random changes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        genes = _one_change(genes, rng, ranges)
    return genes


def _one_change(genes: Genes, rng: random.Random, ranges: Ranges) -> Genes:
    rows = list(genes.requests)
    kind = rng.random()
    if kind < 0.1 and len(rows) < ranges.requests:
        rows.append(rng.choice((_request(rng, ranges), rng.choice(rows))))
    elif kind < 0.2 and len(rows) > 1:
        rows.pop(rng.randrange(len(rows)))
    elif kind < 0.7:
        place, column = rng.randrange(len(rows)), rng.randrange(3)
        row = list(rows[place])
        row[column] = _stepped(row[column], rng, ranges, REQUEST[column])
        rows[place] = (row[0], row[1], row[2])
    else:
        name = rng.choice(ranges.engine)
        return _with(genes, name, _stepped(getattr(genes, name), rng, ranges, name))
    return replace(genes, requests=tuple(sorted(rows)))


def _stepped(value: int, rng: random.Random, ranges: Ranges, name: str) -> int:
    """Return a number near `value`, or any one in its range."""
    low, high = _limits(ranges, name)
    other = rng.choice((value - 1, value + 1, value // 2, 2 * value, _number(rng, ranges, name)))
    return min(high, max(low, other))


def smaller(genes: Genes) -> Iterator[Genes]:
    """Yield simpler genes: the first arrival at 0, a request less, a number less (the boldest step first)."""
    rows = genes.requests
    if first := min(arrival for arrival, _, _ in rows):
        yield replace(genes, requests=tuple((arrival - first, prompt, output) for arrival, prompt, output in rows))
    if len(rows) > 1:
        for place in range(len(rows)):
            yield replace(genes, requests=rows[:place] + rows[place + 1 :])
    for place, row in enumerate(rows):
        for column, name in enumerate(REQUEST):
            for value in _less(row[column], int(name != "arrival")):
                row_now = [*row[:column], value, *row[column + 1 :]]
                changed_row = (row_now[0], row_now[1], row_now[2])
                yield replace(genes, requests=tuple(sorted((*rows[:place], changed_row, *rows[place + 1 :]))))
    for name in ENGINE:
        for value in _less(getattr(genes, name), int(name in ("budget", "prefill"))):
            yield _with(genes, name, value)


def _with(genes: Genes, name: str, value: int) -> Genes:
    change: dict[str, Any] = {name: value}
    return replace(genes, **change)


def _less(value: int, least: int) -> list[int]:
    """Return numbers from `least` up to below `value`: the least, half, one less."""
    return sorted({v for v in (least, value // 2, value - 1) if least <= v < value})
