"""Cost tables in the model: linear where the table is, else encoded by order literals or looked up."""

from __future__ import annotations

from itertools import pairwise
from math import gcd

from ortools.sat.python import cp_model

from instances.units import PS_PER_US

Expression = cp_model.LinearExpr | int
LONGEST_ENCODING = 96
"""Longest cost table that is encoded by order literals (a tight relaxation); longer ones are looked up."""


def looked_up(
    model: cp_model.CpModel, values: list[int], arguments: list[cp_model.IntVar], name: str
) -> list[Expression]:
    """Return ``values[argument]`` for every argument.

    Parameters
    ----------
    model
        That the arguments belong to.
    values
        A nondecreasing table that starts with 0.
    arguments
        Variables within 0..len(values) - 1.
    name
        Of the new variables.
    """
    if is_linear(values):
        slope = values[1] - values[0] if len(values) > 1 else 0
        return [slope * argument for argument in arguments]
    if len(values) <= LONGEST_ENCODING:
        return [_encoded(model, values, argument, f"{name}_{k}") for k, argument in enumerate(arguments)]
    result: list[Expression] = []
    slope, spread = _chord(values)
    for k, argument in enumerate(arguments):
        value = model.new_int_var(0, values[-1], f"{name}_{k}")
        model.add_element(argument, values, value)
        # The line through the ends and how far the table strays from it: the relaxation of an element is weak.
        count = len(values) - 1
        model.add(count * value >= slope * argument + spread[0])
        model.add(count * value <= slope * argument + spread[1])
        result.append(value)
    return result


def rounded_rate(
    model: cp_model.CpModel, time: cp_model.IntVar, rate_ps: int, tokens: Expression, held: int, held_us: int
) -> None:
    """Add time = ⌊(rate·(held + tokens) + 500000) / 10⁶⌋ - held_us by its two inequalities."""
    scale = gcd(PS_PER_US, rate_ps)
    rate, us, half = rate_ps // scale, PS_PER_US // scale, PS_PER_US // 2
    # us·V <= rate·c + half/scale < us·V + us over integers, where V counts from c = 0 and time from c = held.
    offset = rate * held - us * held_us
    model.add(us * time <= rate * tokens + offset + half // scale)
    model.add(us * time >= rate * tokens + offset + -(-half // scale) - us + 1 - (half % scale > 0))


def is_linear(values: list[int]) -> bool:
    """Whether a table that starts with 0 is a multiple of its argument."""
    slope = values[1] - values[0] if len(values) > 1 else 0
    return all(value == slope * m for m, value in enumerate(values))


def _encoded(model: cp_model.CpModel, values: list[int], argument: cp_model.IntVar, name: str) -> Expression:
    """Return the table's value as a sum of its steps over literals "argument >= m"."""
    reached = [model.new_bool_var(f"{name}_{m}") for m in range(1, len(values))]
    model.add(sum(reached) == argument)
    for lower, higher in pairwise(reached):
        model.add_implication(higher, lower)
    return sum((values[m + 1] - values[m]) * literal for m, literal in enumerate(reached))


def _chord(values: list[int]) -> tuple[int, tuple[int, int]]:
    """Return rise of the table, and the least and most of (count x value - rise x argument)."""
    count, rise = len(values) - 1, values[-1] - values[0]
    offsets = [count * value - rise * m for m, value in enumerate(values)]
    return rise, (min(offsets), max(offsets))
