"""Twenty and more mutants of the greedy scheduler, each of which the conformance suite finds out (issue 5)."""

from __future__ import annotations

import pytest

from chunkfront.validate import watching
from chunkfront.validate.conformance import examine
from chunkfront.validate.suite import EDGES, suite
from heuristics import simulator
from heuristics.greedy_chunked import GreedyChunked
from instances.instance import Instance
from tests.judges.mutants import CONSEQUENCES, MUTANTS

WITHOUT_NUMBERS = {"mixed-batch", "eviction", "restore", "known-request"}
"""Rules about what is, not about how much of it."""
OF_THE_WHOLE_BATCH = {"token-budget", "seats", "kv-pool", "partial-prefills", "mixed-batch"}
"""Rules that no single request breaks."""
STREAM = "edge:stream-over-oldest"


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    """The edge cases that are small, one stream beside them."""
    return list(suite([f"edge:{name}" for name in EDGES if not name.startswith("stream")] + [STREAM]))


def test_there_are_more_than_twenty_mutants_of_every_kind() -> None:
    assert len(MUTANTS) >= 20
    assert all(issubclass(mutant, GreedyChunked) for mutant in MUTANTS)
    habits = {"livelock", "unserved", "empty-batch", "starvation", "non-deterministic", "state-leaks", "hash-order",
              "knows-output-lengths", "knows-future", "repeat-promise", "exception", "hangs"}  # fmt: skip
    assert habits <= set(MUTANTS.values())


def test_greedy_chunking_itself_has_no_fault(instances: list[Instance]) -> None:
    assert examine(GreedyChunked, instances).faults == ()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_every_mutant_is_found_out_by_its_own_fault_and_no_other(
    mutant: type[GreedyChunked], instances: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = MUTANTS[mutant]
    monkeypatch.setattr(simulator, "MAX_IDLE_PASSES", 20)
    if rule == "hangs":  # nobody else is measured by the clock
        monkeypatch.setattr(watching, "PASS_LIMIT_S", 0.2)
    tried = instances if rule == "starvation" else [each for each in instances if each.name != STREAM]
    if rule == "hangs":
        tried = [each for each in instances if each.name == "edge:one-seat"]
    found = {fault.finding.rule: fault.finding for fault in examine(mutant, tried, shrinking=False).faults}
    assert rule in found
    assert set(found) - CONSEQUENCES.get(mutant, set()) == {rule}
    finding = found[rule]
    assert finding.iteration is not None
    assert finding.instance
    habits = {"livelock", "unserved", "repeat-promise", "exception", "hangs", "non-empty"}
    if rule not in OF_THE_WHOLE_BATCH | habits:
        assert finding.request is not None
    numbers = {"token-budget", "seats", "kv-pool", "partial-prefills", "prefill-target", "once", "livelock", "unserved",
               "empty-batch", "starvation"}  # fmt: skip
    if rule in numbers:
        assert finding.value is not None
        assert finding.limit is not None
        assert finding.value != finding.limit
