"""Running heuristics for a comparison, and what a command's exit code is."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout

from chunkfront import options, output
from chunkfront.compare import PolicyRun
from chunkfront.validate.blame import described
from chunkfront.validate.loading import PolicySource, load_policy, names_a_class
from heuristics.policy import Policy, PolicyError
from heuristics.registry import make_policy, policy_names
from instances.errors import InputError
from instances.instance import Instance
from instances.metrics import report
from solver.result import INFEASIBLE, UNKNOWN

GRACE_S = 5.0
"""No heuristic is started later than this after the time limit; a small instance takes milliseconds each."""


def parse_policies(text: str, option: str = "--policies") -> tuple[str, ...]:
    """Return the policies that a list names, ``all`` standing for every one without knobs; none for ``none``.

    A scheduler of the user's own is named as ``module:Class`` or ``path/to/file.py:Class``.

    Raises
    ------
    InputError
        For an unknown policy or knob, a bad value, or a policy given twice.
    """
    if text.strip() == "none":
        return ()
    specs: list[str] = []
    for part in options.split_policies(text, option):
        specs += policy_names() if part == "all" else [_source(part, option).text]
    if len(set(specs)) < len(specs):
        raise InputError.expected("each policy once", text, option)
    return tuple(specs)


def parse_policy(text: str, option: str = "--policy") -> Policy:
    """Return the policy of a text ``NAME[:key=value,...]``, or ``module:Class[:...]``; errors name the option."""
    return _source(text, option)()


def _source(text: str, option: str) -> PolicySource:
    try:
        return load_policy(text) if names_a_class(text) else PolicySource.of(make_policy(text))
    except InputError as problem:
        where = "" if problem.field == "policy" else f"{problem.field}: "
        raise InputError(where + problem.message, field=option) from None


def run_policies(instance: Instance, specs: Sequence[str], *, deadline: float) -> tuple[list[PolicyRun], bool]:
    """Run policies one after the other; one that fails becomes a row with the reason.

    Parameters
    ----------
    instance, specs
        What to run.
    deadline
        On the clock of `time.monotonic`; those not started `GRACE_S` after it become rows that say so.

    Returns
    -------
    tuple
        The runs, and whether the user stopped (then only those done until then).
    """
    runs: list[PolicyRun] = []
    try:
        with output.progress(f"heuristics on {instance.name}") as show:
            for spec in specs:
                show(spec)
                if time.monotonic() > deadline + GRACE_S:
                    runs.append(PolicyRun(spec, failure="not run within the time limit"))
                    continue
                runs.append(run_policy(instance, spec))
    except KeyboardInterrupt:
        return runs, True
    return runs, False


def run_policy(instance: Instance, policy: str | Policy) -> PolicyRun:
    """Run one policy; a failure of the policy is an answer, not an exception."""
    from heuristics.simulator import simulate

    name = policy if isinstance(policy, str) else policy.spec
    theirs = isinstance(policy, str) and names_a_class(policy)
    try:
        chosen = load_policy(policy)() if isinstance(policy, str) and theirs else policy
        with redirect_stdout(sys.stderr):  # what a scheduler prints is no answer of ours
            schedule = simulate(instance, chosen).schedule
    except (PolicyError, InputError) as problem:
        return PolicyRun(name, failure=str(problem))
    except Exception as problem:
        if not theirs:
            raise
        return PolicyRun(name, failure=described(problem))
    return PolicyRun(name, schedule, report(instance, schedule))


def exit_code(*statuses: str, interrupted: bool = False) -> int:
    """Return 130 if interrupted, 1 if an answer is no, 3 if one is unknown, else 0."""
    if interrupted:
        return 130
    if INFEASIBLE in statuses:
        return 1
    return 3 if UNKNOWN in statuses else 0
