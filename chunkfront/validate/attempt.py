"""One run of somebody's scheduler on one instance: what it did, or what went wrong and where."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace

from chunkfront.validate.blame import described, place_of
from chunkfront.validate.finding import ERROR, WARNING, Finding, of_refusal, of_violation
from chunkfront.validate.watchdog import DoesNotReturn
from chunkfront.validate.watching import Decision, Watched
from heuristics.policy import Policy, PolicyError
from heuristics.recorder import Run
from heuristics.simulator import simulate
from instances.check import violations
from instances.errors import InputError
from instances.instance import Instance


@dataclass(frozen=True)
class Attempt:
    """A run that was watched.

    Parameters
    ----------
    run
        What it left behind; None where it did not come to its end.
    findings
        Errors and warnings; empty for a run without fault.
    decisions
        All batches that were not empty, up to the fault.
    ends
        Per request that has ended, after how many of the decisions.
    """

    run: Run | None
    findings: tuple[Finding, ...] = ()
    decisions: tuple[Decision, ...] = field(default=(), repr=False)
    ends: Mapping[str, int] = field(default_factory=dict, repr=False)


def attempt(instance: Instance, policy: Policy, *, step_by_step: bool = False) -> Attempt:
    """Run a policy on an instance; whatever goes wrong is a finding, not an exception.

    What the policy prints goes to stderr: stdout is for the answer.

    Parameters
    ----------
    instance, policy
        What to run.
    step_by_step
        Ask before every iteration, whatever batches promise (`heuristics.simulator.simulate`).
    """
    watched = Watched(policy, instance.name)
    run: Run | None = None
    fault: Finding | None = None
    try:
        with redirect_stdout(sys.stderr):
            run = simulate(instance, watched, step_by_step=step_by_step)
    except PolicyError as refusal:
        fault = _refused(refusal, watched)
    except InputError as problem:
        fault = Finding("refuses-instance", f"does not run on this instance: {problem}", WARNING, instance.name)
    except (Exception, DoesNotReturn, SystemExit) as problem:
        fault = _raised(problem, watched)
    found = list(watched.findings) if fault is None else [*watched.findings, fault]
    if run is not None:  # the judge that knows nothing of simulators
        found += [of_violation(v, instance.name) for v in violations(run.instance, run.schedule)]
        found += _own_rules(instance, run)
    return Attempt(run, tuple(found), tuple(watched.decisions), dict(watched.ends))


def _refused(refusal: PolicyError, watched: Watched) -> Finding:
    found = of_refusal(refusal, watched.instance)
    if refusal.rule != "idle" or not watched.unserved:
        return found
    if refusal.limit:  # it wants to be asked again and again
        return replace(found, rule="livelock", request=watched.unserved[0])
    left = ", ".join(watched.unserved[:5]) + (", ..." if len(watched.unserved) > 5 else "")
    return Finding("unserved", f"{found.message}; never served to the end: {left}", ERROR, watched.instance,
                   refusal.iteration, watched.unserved[0], len(watched.unserved), 0)  # fmt: skip


def _raised(problem: BaseException, watched: Watched) -> Finding:
    rule = "hangs" if isinstance(problem, DoesNotReturn) else "exception"
    where = "before the first iteration" if watched.iteration is None else f"iteration {watched.iteration}"
    return Finding(rule, f"{where}: {described(problem)}", ERROR, watched.instance, watched.iteration,
                   place=place_of(problem))  # fmt: skip


def _own_rules(instance: Instance, run: Run) -> list[Finding]:
    """Return a warning where the policy runs on an engine that does what the instance forbids, and makes use of it."""
    broken = violations(instance, run.schedule) if run.instance.engine != instance.engine else []
    if not broken:
        return []
    first = broken[0]
    message = f"runs on an engine of its own (`engine`), and breaks {first.rule} of the instance: {first.message}"
    return [Finding("own-engine", message, WARNING, instance.name, first.iteration, first.request, first.value,
                    first.limit)]  # fmt: skip
