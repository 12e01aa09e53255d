"""Orders in which requests are served."""

from __future__ import annotations

from collections.abc import Callable

from heuristics.state import RequestState

Key = Callable[[RequestState], tuple[int, ...]]
"""Sorts requests, smallest first; must tell any two apart (by `index` at the end)."""
Outputs = Callable[[RequestState], int]
"""Output tokens to reckon with for a request: the declared cap, or the truth for a clairvoyant policy."""


def order_key(order: str, outputs: Outputs) -> Key:
    """Return the key of an order by name; ties go by arrival, then by place in the instance.

    Parameters
    ----------
    order
        ``fcfs``: by arrival. ``srpt``: fewest tokens left, prefill and outputs together. ``spf``: shortest prefill
        left. ``priority``: smallest priority value.
    outputs
        Output tokens to reckon with.
    """
    if order == "fcfs":
        return lambda r: (r.arrival_us, r.index)
    if order == "srpt":
        return lambda r: (r.remaining + outputs(r) - r.emitted, r.arrival_us, r.index)
    if order == "spf":
        return lambda r: (0 if r.decoding else r.remaining, r.arrival_us, r.index)
    if order == "priority":
        return lambda r: (r.priority, r.arrival_us, r.index)
    raise ValueError(f"no order {order!r}")


ORDERS = ("fcfs", "srpt", "spf", "priority")
STATIC_ORDERS = ("fcfs", "priority")
"""Those in which progress changes nobody's place."""
