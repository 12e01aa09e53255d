"""Conformance: every check on every instance of a suite, and per broken rule the smallest instance that shows it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from chunkfront.validate.checks import CHECKS, Source, Trial
from chunkfront.validate.finding import ERROR, Finding
from chunkfront.validate.shrinking import shrink
from instances.instance import Instance

SHRINK_S = 10.0
"""Most seconds that shrinking one fault may take."""
SLOW_RULES = ("hangs",)
"""What takes so long to show that it is not shrunk."""


@dataclass(frozen=True)
class Fault:
    """One rule that a scheduler breaks, or one habit that it has.

    Parameters
    ----------
    finding
        On the smallest instance found.
    check
        Name of the check that shows it.
    instance
        That instance.
    shrunk_from
        Name of the instance of the suite that it was shrunk from.
    seen_on
        Names of all instances on which it was seen, in order.
    """

    finding: Finding
    check: str
    instance: Instance
    shrunk_from: str
    seen_on: tuple[str, ...]


@dataclass(frozen=True)
class Conformance:
    """What the suite says.

    Parameters
    ----------
    faults
        Errors first, each rule once.
    tried, left
        Instances that were tried, and that were not for lack of time.
    interrupted
        Whether the user stopped it.
    """

    faults: tuple[Fault, ...]
    tried: int
    left: int
    interrupted: bool = False

    @property
    def conforms(self) -> bool:
        """Whether no error was found."""
        return all(fault.finding.severity != ERROR for fault in self.faults)


def examine(
    source: Source, instances: Sequence[Instance], *, deadline: float | None = None, shrinking: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> Conformance:  # fmt: skip
    """Return what every check finds on every instance.

    Parameters
    ----------
    source
        Makes a new policy per run.
    instances
        What to try it on.
    deadline
        On the clock of `time.monotonic`: no further instance is begun after it.
    shrinking
        Whether faults are shrunk.
    tell
        Called with the name of every instance.
    """
    seen: dict[str, list[_Sighting]] = {}
    tried, interrupted = 0, False
    try:
        for instance in instances:
            if deadline is not None and tried and time.monotonic() > deadline:
                break
            tell(instance.name)
            for check, finding in findings(source, instance):
                seen.setdefault(finding.rule, []).append(_Sighting(check, finding, instance))
            tried += 1
    except KeyboardInterrupt:
        interrupted = True
    if "non-deterministic" in seen:  # then runs differ anyway, and comparing them says nothing
        seen = {rule: sightings for rule, sightings in seen.items() if sightings[0].check in ("rules", "determinism")}
    faults = []
    if len(seen.get("refuses-instance", ())) == tried > 0:
        seen["refuses-instance"] = [replace(s, finding=replace(s.finding, severity=ERROR))
                                    for s in seen["refuses-instance"]]  # fmt: skip
    for sightings in seen.values():
        left = math.inf if deadline is None else deadline - time.monotonic()
        faults.append(_fault(source, sightings, 0.0 if interrupted or not shrinking else min(left, SHRINK_S)))
    faults.sort(key=lambda fault: fault.finding.severity != ERROR)
    return Conformance(tuple(faults), tried, len(instances) - tried, interrupted)


@dataclass(frozen=True)
class _Sighting:
    """One finding, the check that made it, and where."""

    check: str
    finding: Finding
    instance: Instance


def findings(source: Source, instance: Instance) -> Iterable[tuple[str, Finding]]:
    """Yield what every check finds on one instance, with the check's name; a scheduler that hangs is run once only."""
    trial = Trial(instance, source)
    for name, check in CHECKS.items():
        found = list(check(trial))
        yield from ((name, finding) for finding in found)
        if name == "rules" and any(finding.rule in SLOW_RULES for finding in found):
            return


def _fault(source: Source, sightings: Sequence[_Sighting], seconds: float) -> Fault:
    """Return a fault on the smallest instance, shrunk for so long."""
    best = min(sightings, key=lambda sighting: _size(sighting.instance))
    rule, check = best.finding.rule, CHECKS[best.check]
    seen_on = tuple(dict.fromkeys(sighting.instance.name for sighting in sightings))
    as_found = Fault(best.finding, best.check, best.instance, best.instance.name, seen_on)
    if seconds <= 0 or rule in SLOW_RULES:
        return as_found

    def first(candidate: Instance) -> Finding | None:
        return next((f for f in check(Trial(candidate, source)) if f.rule == rule), None)

    try:
        small = shrink(best.instance, lambda candidate: first(candidate) is not None, seconds=seconds)
        small = replace(small, name=f"shrunk-{rule}", axes=None, source=None,
                        description=f"Shows {rule}; shrunk from {best.instance.name}.")  # fmt: skip
        again = first(small)
    except KeyboardInterrupt:
        return as_found
    if again is None:  # it comes and goes
        return as_found
    again = replace(again, severity=best.finding.severity)
    return Fault(again, best.check, small, best.instance.name, seen_on)


def _size(instance: Instance) -> tuple[int, int]:
    return len(instance.requests), sum(r.prompt_tokens + r.output_tokens for r in instance.requests)
