"""The built-in policies by name; a policy's module is loaded when it is asked for."""

from __future__ import annotations

import importlib

from heuristics.knobs import Knob, knobs_of, parse_knobs
from heuristics.policy import Policy
from instances.errors import InputError, inside

POLICIES: dict[str, tuple[str, str]] = {
    "static": ("heuristics.static", "Static"),
    "orca": ("heuristics.orca", "Orca"),
    "prefill-first": ("heuristics.prefill_first", "PrefillFirst"),
    "greedy-chunked": ("heuristics.greedy_chunked", "GreedyChunked"),
    "preemptive-srpt": ("heuristics.preemptive_srpt", "PreemptiveSrpt"),
    "preemptive-mlfq": ("heuristics.preemptive_mlfq", "PreemptiveMlfq"),
    "vllm-v1": ("heuristics.vllm_v1", "VllmV1"),
    "vllm-v0": ("heuristics.vllm_v0", "VllmV0"),
    "vllm-v0-chunked": ("heuristics.vllm_v0_chunked", "VllmV0Chunked"),
    "sarathi": ("heuristics.sarathi", "Sarathi"),
    "sarathi-vllm": ("heuristics.sarathi_vllm", "SarathiVllm"),
    "faster-transformer": ("heuristics.faster_transformer", "FasterTransformer"),
    "simple-chunking": ("heuristics.simple_chunking", "SimpleChunking"),
    "lightllm": ("heuristics.lightllm", "LightLlm"),
    "fastserve-fcfs": ("heuristics.fastserve", "FastServeFcfs"),
    "fastserve-srpt": ("heuristics.fastserve", "FastServeSrpt"),
    "fastserve-mlfq": ("heuristics.fastserve_mlfq", "FastServeMlfq"),
    "orca-paper": ("heuristics.orca_paper", "OrcaPaper"),
    "sglang": ("heuristics.sglang", "Sglang"),
    "trtllm": ("heuristics.trtllm", "Trtllm"),
    "mc-sf": ("heuristics.walks", "McSf"),
    "mc-benchmark": ("heuristics.walks", "McBenchmark"),
    "smallest-volume-first": ("heuristics.walks", "SmallestVolumeFirst"),
    "sorted-f": ("heuristics.sorted_f", "SortedF"),
    "class-budget": ("heuristics.class_budget", "ClassBudget"),
    "alpha-protection": ("heuristics.alpha_protection", "AlphaProtection"),
    "wait": ("heuristics.wait", "Wait"),
    "rad": ("heuristics.rad", "Rad"),
    "slai": ("heuristics.slai", "Slai"),
}
"""Module and class of every policy, in the order in which lists show them."""
ELSEWHERE: dict[str, tuple[str, str]] = {"rolling-horizon": ("solver.rolling", "RollingHorizon")}
"""Policies of packages that know this one: named here, loaded from there when asked for, not among `policy_names`.

Their passes take long; ``all`` does not mean them.
"""


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies."""
    return tuple(POLICIES)


def policy_class(name: str) -> type[Policy]:
    """Return the class of a policy.

    Raises
    ------
    InputError
        For an unknown name, listing those that exist.
    """
    known = POLICIES | ELSEWHERE
    if name not in known:
        raise InputError(f"there is no policy {name!r}; there are {', '.join(known)}", field="policy")
    module, attribute = known[name]
    found: type[Policy] = getattr(importlib.import_module(module), attribute)
    return found


def make_policy(spec: str) -> Policy:
    """Return the policy of a text ``NAME[:key=value,...]``.

    Raises
    ------
    InputError
        For an unknown name, an unknown knob (listing those that exist) or a value of the wrong type.

    Examples
    --------
    >>> make_policy("greedy-chunked:chunk=64,order=srpt").spec
    'greedy-chunked:order=srpt,chunk=64'
    """
    name, _, settings = spec.strip().partition(":")
    chosen = policy_class(name.strip())
    values = assignments(settings, name)
    with inside(name):
        return chosen(**parse_knobs(chosen, name, values))


def assignments(settings: str, name: str) -> dict[str, str]:
    """Return the settings ``key=value,...`` of the policy `name` by key.

    Raises
    ------
    InputError
        For a part without ``=``, or a knob that is set twice.
    """
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in settings.split(","))):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not equals:
            raise InputError.expected(f"key=value after {name}:", part, "policy")
        if key in found:
            raise InputError(f"the knob {key!r} of {name} is set twice", field="policy")
        found[key] = value
    return found


def knobs(name: str) -> tuple[Knob, ...]:
    """Return the knobs of a policy."""
    return knobs_of(policy_class(name))


def describe(name: str) -> str:
    """Return a policy's one line (engine and version meant), and one line per knob: type, default, meaning."""
    chosen = policy_class(name)
    return "\n".join([f"{name}: {chosen.summary}", *(f"  {knob}" for knob in knobs_of(chosen))])
