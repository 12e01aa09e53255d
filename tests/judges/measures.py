"""What a policy reaches on an instance, with its schedule checked."""

from __future__ import annotations

from heuristics.simulator import simulate
from instances.check import require_valid
from instances.instance import Instance
from instances.metrics import per_request
from instances.schedule import Schedule


def checked(instance: Instance, policy: str) -> Schedule:
    """Return the schedule of a policy, checked for the engine that the policy runs on."""
    result = simulate(instance, policy)
    require_valid(result.instance, result.schedule)
    return result.schedule


def ttfts(instance: Instance, policy: str) -> list[float | None]:
    """Return the TTFT of every request in ms."""
    return [row["ttft_ms"] for row in per_request(instance, checked(instance, policy))]


def ends(instance: Instance, policy: str) -> list[float | None]:
    """Return the E2E of every request in ms."""
    return [row["e2e_ms"] for row in per_request(instance, checked(instance, policy))]
