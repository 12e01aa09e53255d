"""The quick look at common batches never lets pass what the judge, rule by rule, refuses."""

from __future__ import annotations

import random

import pytest

from heuristics.enforcement import _decodes_of_common, _Judge
from heuristics.policy import Batch, Policy, PolicyError
from heuristics.registry import make_policy
from heuristics.simulator import simulate
from tests.judges.online import drawn


class Doubting(Policy):
    """Does what another policy does, and shows altered batches of it to both looks before."""

    name = "doubting"

    def __init__(self, spec, seed):
        self.inner, self.rng = make_policy(spec), random.Random(seed)
        self.passed = self.refused = self.doubted = 0
        for hook in ("engine", "start", "arrived", "ran", "finished"):
            setattr(self, hook, getattr(self.inner, hook))

    def schedule(self, state):
        batch = self.inner.schedule(state)
        for altered in (batch, *(self.altered(state, batch) for _ in range(6))):
            if altered.tokens:
                self.compare(state, altered)
        return batch

    def altered(self, state, batch):
        """Return a batch with one or two tokens, requests, evictions or the promise changed."""
        tokens = list(batch.tokens)
        everybody = [*state.running, *state.waiting]
        for _ in range(self.rng.randint(1, 2)):
            place = self.rng.randrange(len(tokens)) if tokens else 0
            kind = self.rng.randrange(5)
            if kind == 0 and tokens:
                tokens[place] = tokens[place][0], self.rng.choice([0, 1, 2, 3, 20, True, -1, 1.0])
            elif kind == 1:
                tokens.append((self.rng.choice(everybody), self.rng.choice([1, 1, 2, 5])))
            elif kind == 2 and tokens:
                del tokens[place]
            elif kind == 3 and tokens:
                tokens[place] = self.rng.choice(everybody), tokens[place][1]
            elif tokens:
                tokens[place] = self.rng.choice(["r0", None]), 1
        evict = self.rng.choice([batch.evict, (), [self.rng.choice(everybody)]])
        return Batch(tokens, evict, batch.restore, self.rng.choice([batch.repeat, 0, 1]))

    def compare(self, state, batch):
        try:
            _Judge(state, batch, "doubting").judge()
            fine = True
        except PolicyError:
            fine = False
        decodes = _decodes_of_common(state, batch)
        assert fine or decodes is None
        if decodes is not None:
            assert decodes == [request for request, _ in batch.tokens if request.decoding]
        self.passed += decodes is not None
        self.doubted += fine and decodes is None
        self.refused += not fine


@pytest.mark.parametrize("spec", ["greedy-chunked:chunk=2", "vllm-v1", "prefill-first", "preemptive-srpt"])
def test_a_quick_look_lets_nothing_pass_that_the_judge_refuses(spec):
    passed = refused = doubted = 0
    for seed in range(120):
        policy = Doubting(spec, seed)
        try:
            simulate(drawn(seed), policy, step_by_step=True)
        except PolicyError as error:
            if error.rule != "idle":
                raise
        passed, refused, doubted = passed + policy.passed, refused + policy.refused, doubted + policy.doubted
    assert passed > 1_000
    assert refused > 3_000
    assert doubted < passed / 2  # evictions and restores, which are rare, and right batches with them
