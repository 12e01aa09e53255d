"""Where two runs that should be alike differ, as a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from chunkfront.validate.attempt import Attempt
from chunkfront.validate.finding import ERROR, Finding
from chunkfront.validate.watching import Decision
from instances.instance import Instance


def difference(
    rule: str, instance: Instance, first: Attempt, second: Attempt, when: str, otherwise: str, *,
    alike: bool = True, request: str | None = None,
) -> Iterator[Finding]:  # fmt: skip
    """Yield the first decision in which two attempts differ.

    `alike`: the instances are alike, so that a failure of one of them alone is a difference too. Otherwise the
    failure is told where that instance is tried, and what came before it is compared.
    """
    for one, other in zip_longest(first.decisions, second.decisions):
        if one == other:
            continue
        known = one or other
        assert known is not None
        missing = first if one is None else second if other is None else None
        if missing is not None and _failure(missing) and not alike:
            return
        message = f"iteration {known.iteration}: {when} {one or _failure(first) or 'nothing'}"
        message += f", {otherwise} {other or _failure(second) or 'nothing'}"
        yield Finding(rule, message, ERROR, instance.name, known.iteration, request or _whom(one, other))
        return
    faults = _failure(first), _failure(second)
    if alike and (faults[0] is None) != (faults[1] is None):
        message = f"{when} {faults[0] or 'no fault'}, {otherwise} {faults[1] or 'no fault'}"
        yield Finding(rule, message, ERROR, instance.name)


def _failure(found: Attempt) -> str | None:
    """Return why an attempt has no run, None where it has one."""
    return None if found.run is not None or not found.findings else f"[{found.findings[-1].message}]"


def _whom(one: Decision | None, other: Decision | None) -> str | None:
    """Return the first request that two decisions treat differently."""
    tokens = [{} if d is None else d.tokens for d in (one, other)]
    names: Sequence[str] = [*tokens[0], *tokens[1]]
    return next((name for name in names if tokens[0].get(name) != tokens[1].get(name)), None)
