"""Finding: one thing that is wrong with a scheduler, or that its author should know."""

from __future__ import annotations

from dataclasses import dataclass

from heuristics.policy import PolicyError
from instances.check import Violation

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    Parameters
    ----------
    rule
        Name of what is broken: a rule of `instances.check`, or a name of `chunkfront.validate.checks`.
    message
        One sentence, with the numbers.
    severity
        ``error`` (a rule is broken), or ``warning`` (allowed, and still seldom meant).
    instance
        Name of the instance.
    iteration, request, value, limit
        Where, what was found and what is allowed, where that can be said; times in ms.
    place
        File, line and function of the user's code, where it raised an exception.
    """

    rule: str
    message: str
    severity: str = ERROR
    instance: str = ""
    iteration: int | None = None
    request: str | None = None
    value: float | None = None
    limit: float | None = None
    place: str | None = None


def of_violation(violation: Violation, instance: str) -> Finding:
    """Return a broken rule of a schedule as a finding."""
    return Finding(
        violation.rule, violation.message, ERROR, instance, violation.iteration, violation.request, violation.value,
        violation.limit,
    )  # fmt: skip


def of_refusal(refusal: PolicyError, instance: str) -> Finding:
    """Return what the simulator refused as a finding."""
    return Finding(
        refusal.rule, f"iteration {refusal.iteration}: {refusal.problem}", ERROR, instance, refusal.iteration,
        refusal.request, refusal.value, refusal.limit,
    )  # fmt: skip
