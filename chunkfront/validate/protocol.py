"""The Policy protocol of somebody's class: whether it is there, and can be called as the simulator calls it."""

from __future__ import annotations

import inspect

from heuristics.policy import Policy
from instances.errors import InputError

HOOKS = {
    "start": "setup", "arrived": "request", "schedule": "state", "ran": "batch, iterations, start_us, end_us",
    "finished": "request", "engine": "limits",
}  # fmt: skip
"""Methods of the protocol, with the arguments that the simulator passes."""


def as_policy_class(found: object, text: str) -> type[Policy]:
    """Return a class as a class of policies: itself, or with the hooks that it lacks.

    Raises
    ------
    InputError
        Where it is no class, has no `schedule`, or has a hook that takes other arguments than the simulator passes.
    """
    if not inspect.isclass(found):
        raise InputError(f"expected a class with the Policy protocol, got {_kind(found)}", field=text)
    if getattr(found, "schedule", Policy.schedule) is Policy.schedule:
        raise InputError(f"class {found.__name__} has no method schedule(state), so it is no policy", field=text)
    for hook, arguments in HOOKS.items():
        _check_hook(found, hook, arguments, text)
    if issubclass(found, Policy):
        return found
    try:
        return type(found.__name__, (found, Policy), {"__module__": found.__module__, "__doc__": found.__doc__})
    except TypeError as problem:
        raise InputError(f"class {found.__name__} cannot be used as a policy: {problem}", field=text) from None


def _kind(found: object) -> str:
    if isinstance(found, Policy):
        return f"an object of {type(found).__name__}; give the class"
    return f"a {type(found).__name__}"


def _check_hook(found: type, hook: str, arguments: str, text: str) -> None:
    """Refuse a hook that cannot be called as the simulator calls it."""
    method = getattr(found, hook, None)
    if method is None:
        return
    wanted = f"{hook}({arguments})"
    if not callable(method):
        raise InputError(f"{found.__name__}.{hook} is {_kind(method)}, expected a method {wanted}", field=text)
    static = isinstance(inspect.getattr_static(found, hook), (staticmethod, classmethod))
    try:
        inspect.signature(method).bind(*[None] * (len(arguments.split(", ")) + (not static)))
    except TypeError:
        raise InputError(f"{found.__name__}.{hook}{inspect.signature(method)} cannot be called as {wanted}",
                         field=text) from None  # fmt: skip
    except ValueError:  # a method without a readable signature
        return
    if inspect.iscoroutinefunction(method):
        raise InputError(f"{found.__name__}.{hook} is async, expected a plain method {wanted}", field=text)
