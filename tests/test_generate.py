"""The seeded instances: reproducible, valid, and wide enough to test with."""

import pytest

from instances.cost_model import CostModel
from instances.errors import InputError
from instances.generate import random_instance
from instances.instance import Instance

SEEDS = range(400)
ALL_MODES = ("none", "recompute", "swap")


def test_a_seed_gives_the_same_instance_every_time():
    assert random_instance(5) == random_instance(5)
    assert random_instance(5) != random_instance(6)


def test_the_stream_of_a_seed_does_not_change_between_versions():
    # Frozen on purpose: failures quoted by seed must stay reproducible.
    first = random_instance(0)
    drawn = [(r.prompt_tokens, r.output_tokens, r.arrival_us) for r in first.requests]
    assert drawn == [(1, 4, 0), (6, 2, 0), (3, 1, 0), (1, 2, 0)]
    assert first.engine.max_num_batched_tokens == 2


def test_files_of_random_instances_round_trip():
    for seed in SEEDS:
        instance = random_instance(seed, preemption=ALL_MODES, cost_kinds=("linear", "unit", "pieces"))
        assert Instance.from_json(instance.to_json()) == instance


def test_every_limit_and_every_kind_of_request_appears():
    drawn = [random_instance(s, preemption=ALL_MODES, cost_kinds=("linear", "unit", "pieces")) for s in SEEDS]
    engines = [i.engine for i in drawn]
    for field in ("max_num_seqs", "num_kv_blocks", "chunk_sizes", "max_chunk_tokens", "max_partial_prefills"):
        set_in = sum(getattr(e, field) is not None for e in engines)
        assert 20 < set_in < len(engines), field
    assert {e.preemption for e in engines} == set(ALL_MODES)
    assert sum(not e.enable_chunked_prefill for e in engines) > 20
    assert sum(not e.mixed_batches for e in engines) > 20
    assert sum(e.chunk_quantum > 1 for e in engines) > 20
    requests = [r for i in drawn for r in i.requests]
    assert any(r.cached_tokens for r in requests)
    assert any(r.starts_in_decode for r in requests)
    assert any(r.progress is not None and not r.starts_in_decode for r in requests)
    assert {i.cost.kind for i in drawn} == {"linear", "unit", "pieces"}


def test_options_switch_things_off():
    for seed in SEEDS:
        plain = random_instance(seed, requests=(2, 2), cost_kinds=("unit",), limits=False, progress=False, cached=False)
        assert len(plain.requests) == 2
        assert plain.cost == CostModel.unit()
        assert plain.engine.num_kv_blocks is None
        assert plain.engine.max_num_seqs is None
        assert all(r.progress is None and not r.cached_tokens for r in plain.requests)


def test_an_unknown_cost_kind_is_named():
    with pytest.raises(InputError, match="cost_kinds: expected one of linear, unit, pieces, got 'table'"):
        random_instance(1, cost_kinds=("table",))
