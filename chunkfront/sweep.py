"""A sweep: one policy again and again, with one knob or one engine limit set to each of some values.

``[POLICY:]KEY=A,B,C`` on the command line. A knob is a policy's own; an engine limit is the instance's, and then the
policy runs on the instance with that limit. Such a run may use moves that the instance itself forbids: it is comparable
with the instance's optimum only where the swept limit is no looser than the instance's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from chunkfront.options import did_you_mean
from chunkfront.running import parse_policy
from chunkfront.validate.blame import described
from heuristics.knobs import Knob, knobs_of
from heuristics.policy import Policy, PolicyError
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance

ENGINE_LIMIT = "engine limit"
KNOB = "knob"
LIMITS = tuple(f.name for f in fields(EngineLimits) if f.name != "chunk_sizes")
"""Engine limits that can be swept; a list of sizes cannot, its values would need commas."""
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Sweep:
    """What is swept.

    Parameters
    ----------
    key
        A knob or an engine limit.
    kind
        `KNOB` or `ENGINE_LIMIT`.
    values
        In the order in which they were given.
    policies
        Those that are swept; one curve each.
    """

    key: str
    kind: str
    values: tuple[Any, ...]
    policies: tuple[Policy, ...]


@dataclass(frozen=True)
class Variant:
    """One policy at one value of a sweep.

    Parameters
    ----------
    base, value
        The policy as it is without the sweep, in words, and the swept value.
    name
        Both of them: ``greedy-chunked:chunk=64``, ``vllm-v1 [max_num_seqs=8]``.
    policy, instance
        Who runs, and on what; no instance where that one has no schedule.
    problem
        Why there is none.
    """

    base: str
    value: Any
    name: str
    policy: Policy
    instance: Instance | None
    problem: str | None = None


def parse_sweep(text: str, policies: Sequence[str], option: str = "--sweep") -> Sweep:
    """Return the sweep of a text ``[POLICY:]KEY=A,B,C``.

    Parameters
    ----------
    text
        Without a policy, a knob is swept for each of `policies` that has it, an engine limit for all of them.
    policies
        Those of the command, as it says them.
    option
        What errors name.

    Raises
    ------
    InputError
        For a malformed text, an unknown key (listing limits and knobs), one that is a knob and an engine limit, a value
        out of range, or a value given twice.
    """
    head, equals, tail = text.rpartition("=")
    named, colon, key = (part.strip() for part in head.rpartition(":"))
    texts = [part.strip() for part in tail.split(",")]
    if not equals or not key or "" in texts or (colon and not named):
        raise InputError.expected("[POLICY:]KEY=A,B,C, like max_num_batched_tokens=128,256", text, option)
    chosen = [parse_policy(spec, option) for spec in ([named] if named else policies)]
    owners = [(policy, knob) for policy in chosen if (knob := _knob(policy, key)) is not None]
    if owners and key in LIMITS:
        names = ", ".join(policy.spec for policy, _ in owners)
        raise InputError(f"{key} is ambiguous: an engine limit, and a knob of {names}", field=option)
    if not chosen or not (owners or key in LIMITS):
        raise _unknown(key, chosen, option)
    if key in LIMITS:
        values = [_limit(key, each, option) for each in texts]
        return Sweep(key, ENGINE_LIMIT, _distinct(values, text, option), tuple(chosen))
    for policy, knob in owners:
        if getattr(policy, key) != knob.default:
            raise InputError(f"{policy.spec} sets {key} already", field=option)
        values = [_knob_value(knob, each, option) for each in texts]
    return Sweep(key, KNOB, _distinct(values, text, option), tuple(policy for policy, _ in owners))


def variants(instance: Instance, sweep: Sweep) -> list[Variant]:
    """Return every policy at every value, policy by policy."""
    found = []
    for policy in sweep.policies:
        base = policy.spec
        for value in sweep.values:
            setting = f"{sweep.key}={shown(value)}"
            name = f"{base}{',' if '=' in base else ':'}{setting}" if sweep.kind == KNOB else f"{base} [{setting}]"
            own, set_policy, problem = instance, policy, None
            try:
                set_policy = replace(policy, **{sweep.key: value} if sweep.kind == KNOB else {})
                if sweep.kind == ENGINE_LIMIT:
                    own = replace(instance, engine=replace(instance.engine, **{sweep.key: value}))
            except InputError as impossible:
                problem = str(impossible)
            found.append(Variant(base, value, name, set_policy, None if problem else own, problem))
    return found


def looser(instance: Instance, sweep: Sweep, value: Any) -> str | None:
    """Return the sentence that an engine limit of a sweep allows more than the instance's own, None where it does not.

    What is neither looser nor tighter (swapping instead of recomputing) counts as looser.
    """
    if sweep.kind == KNOB:
        return None
    own = getattr(instance.engine, sweep.key)
    if value == own:
        return None
    if sweep.key == "preemption":
        tighter = value == "none"
    elif sweep.key == "chunk_quantum":
        tighter = value % own == 0
    elif isinstance(own, bool):
        tighter = own
    else:  # a count; with the same number of blocks, larger ones hold more
        tighter = value is not None and (own is None or value < own)
    return None if tighter else f"{sweep.key}={shown(value)} is looser than the instance's {shown(own)}"


def failure_of(policy: Policy, problem: Exception) -> str:
    """Return why a run failed, in words; a fault of our own is raised again."""
    if isinstance(problem, (PolicyError, InputError)):
        return str(problem)
    if type(policy).__module__.partition(".")[0] in ("heuristics", "solver"):
        raise problem
    return described(problem)


def shown(value: Any) -> str:
    """Return a value as the command line says it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _knob(policy: Policy, key: str) -> Knob | None:
    return next((knob for knob in knobs_of(type(policy)) if knob.name == key), None)


def _knob_value(knob: Knob, text: str, option: str) -> Any:
    try:
        return knob.parse(text)
    except InputError as wrong:
        raise InputError(f"{knob.name}: {wrong.message}", field=option) from None


def _limit(key: str, text: str, option: str) -> Any:
    """Return the value of an engine limit."""
    value: Any = _WORDS.get(text.lower(), text)
    if key == "preemption":
        value = text
    elif isinstance(value, str):
        with suppress(ValueError):
            value = int(text)
    try:
        replace(EngineLimits(1), **{key: value})
    except InputError as wrong:
        raise InputError(f"{key}: {wrong.message}", field=option) from None
    return value


def _distinct(values: list[Any], text: str, option: str) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise InputError.expected("each value once", text, option)
    return tuple(values)


def _unknown(key: str, policies: Sequence[Policy], option: str) -> InputError:
    """Return the error that lists what can be swept, closest names first."""
    if not policies:
        return InputError("there is no policy to sweep: name it, like vllm-v1:max_num_seqs=4,8", field=option)
    own = {policy.spec: [knob.name for knob in knobs_of(type(policy))] for policy in policies}
    hint = did_you_mean(key, [*LIMITS, *(name for names in own.values() for name in names)])
    listing = "; ".join(f"{spec}: {', '.join(names) or 'none'}" for spec, names in own.items())
    return InputError(f"expected an engine limit ({', '.join(LIMITS)}) or a knob ({listing}), got {key!r}{hint}",
                      field=option)  # fmt: skip
