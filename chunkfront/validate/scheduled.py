"""Running somebody's scheduler where only its schedule matters; a fault of the user's code is told in one sentence."""

from __future__ import annotations

from chunkfront.compare import PolicyRun
from chunkfront.running import run_policy
from chunkfront.validate.blame import described
from chunkfront.validate.loading import PolicySource
from instances.errors import InputError
from instances.instance import Instance


def run_source(instance: Instance, source: PolicySource) -> PolicyRun:
    """Run a new policy of `source` on an instance.

    Raises
    ------
    InputError
        Where the user's class raises.
    """
    try:
        return run_policy(instance, source())
    except InputError:
        raise
    except Exception as problem:
        if source.file is None:
            raise
        what = f"fails on {instance.name}: {described(problem)}; `chunkfront validate` tells more"
        raise InputError(what, field=source.text) from problem
