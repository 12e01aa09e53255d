"""Conformance: every check on every instance of a suite, and per broken rule the smallest instance that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from chunkfront.validate.checks import CHECKS, Source
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
    """

    faults: tuple[Fault, ...]
    tried: int
    left: int

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
    seen: dict[tuple[str, str], list[tuple[Finding, Instance]]] = {}
    tried = 0
    for instance in instances:
        if deadline is not None and tried and time.monotonic() > deadline:
            break
        tell(instance.name)
        tried += 1
        for check, finding in findings(source, instance):
            seen.setdefault((check, finding.rule), []).append((finding, instance))
    faults: dict[str, Fault] = {}
    for (check, rule), found in seen.items():
        if rule not in faults:  # what one check shows too, another one need not shrink again
            faults[rule] = _fault(source, check, found, shrinking=shrinking)
    ordered = sorted(faults.values(), key=lambda fault: fault.finding.severity != ERROR)
    return Conformance(tuple(ordered), tried, len(instances) - tried)


def findings(source: Source, instance: Instance) -> Iterable[tuple[str, Finding]]:
    """Yield what every check finds on one instance, with the check's name; a scheduler that hangs is run once only."""
    for name, check in CHECKS.items():
        found = list(check(instance, source))
        yield from ((name, finding) for finding in found)
        if name == "rules" and any(finding.rule in SLOW_RULES for finding in found):
            return


def _fault(source: Source, check: str, found: Sequence[tuple[Finding, Instance]], *, shrinking: bool) -> Fault:
    """Return a fault on the smallest instance."""
    finding, instance = min(found, key=lambda pair: _size(pair[1]))
    seen_on = tuple(dict.fromkeys(each.name for _, each in found))
    if not shrinking or finding.rule in SLOW_RULES:
        return Fault(finding, check, instance, instance.name, seen_on)

    def first(candidate: Instance) -> Finding | None:
        return next((f for f in CHECKS[check](candidate, source) if f.rule == finding.rule), None)

    small = shrink(instance, lambda candidate: first(candidate) is not None, seconds=SHRINK_S)
    small = replace(small, name=f"shrunk-{finding.rule}", axes=None, source=None,
                    description=f"Shows {finding.rule}; shrunk from {instance.name}.")  # fmt: skip
    again = first(small)
    if again is None:  # it comes and goes
        return Fault(finding, check, instance, instance.name, seen_on)
    return Fault(again, check, small, instance.name, seen_on)


def _size(instance: Instance) -> tuple[int, int]:
    return len(instance.requests), sum(r.prompt_tokens + r.output_tokens for r in instance.requests)
