"""Policies that decide by a script, to test the simulator with."""

from __future__ import annotations

from collections.abc import Callable

from heuristics.policy import Batch, EngineState, Policy, RequestState

Decision = Callable[[EngineState], Batch]


class Scripted(Policy):
    """Decides by a list of functions, one per pass, the last one again and again."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = decisions
        self.passes = 0

    def schedule(self, state: EngineState) -> Batch:
        self.passes += 1
        return self.decisions[min(self.passes, len(self.decisions)) - 1](state)


class OneByOne(Policy):
    """The example of the guide in heuristics/policy.py."""

    def schedule(self, state: EngineState) -> Batch:
        request = (state.running or state.waiting)[0]
        tokens = 1 if request.decoding else min(request.remaining, state.limits.max_num_batched_tokens)
        return Batch([(request, tokens)])


def named(state: EngineState, name: str) -> RequestState:
    """Return the arrived request of that id."""
    return next(r for r in (*state.running, *state.waiting) if r.id == name)


def work(**tokens: int) -> Decision:
    """Return the decision to give these tokens."""
    return lambda state: Batch([(named(state, name), n) for name, n in tokens.items()])


def evict(name: str, **tokens: int) -> Decision:
    """Return the decision to evict one request and give tokens to others."""
    return lambda s: Batch([(named(s, k), n) for k, n in tokens.items()], evict=[named(s, name)])
