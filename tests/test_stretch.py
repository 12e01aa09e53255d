"""Alike iterations in one step: the durations, the schedule and the metrics of one step at a time."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest

from heuristics.policy import PolicyError
from heuristics.simulator import simulate, summarise
from heuristics.state import RequestState
from heuristics.stretch import Durations, durations_until, durations_us
from instances.cost_model import SAFE_PS, CostModel, Piece
from instances.generate import random_instance
from instances.instance import Instance
from instances.metrics import report
from instances.request import Request
from tests.judges.build import build

POLICIES = (
    "greedy-chunked", "static", "vllm-v1", "vllm-v1:long_prefill_token_threshold=2,policy=priority", "sarathi",
    "sarathi:chunk_size=3", "sglang", "preemptive-srpt:reserve_peak=false",
)  # fmt: skip


def drawn_cost(rng: random.Random) -> CostModel:
    """Return a cost with odd coefficients, so that rounding shows: contexts, tiles, captures, a maximum of pieces."""

    def amount(most: int) -> int:
        return rng.choice([0, rng.randrange(most)])

    pieces = tuple(
        Piece(amount(10**9), amount(10**7), amount(10**6), amount(10**8), amount(10**7), rng.choice([None, 3, 8]))
        for _ in range(rng.randint(1, 3))
    )
    pieces = tuple(Piece(p.base_ps, p.prefill_ps, p.prefill_context_ps, p.decode_ps, p.decode_context_ps,
                         p.tile_tokens, amount(10**8) if p.tile_tokens else 0) for p in pieces)  # fmt: skip
    captures = rng.choice([None, (1, 2, 4), (4, 8, 16)])
    return CostModel(pieces, captures, eager_ps=amount(10**8) if captures else 0)


def prolonged(instance: Instance) -> Instance:
    """Return the instance with outputs, and the KV pool, eight times as long: stretches beyond a few iterations."""
    requests = tuple(
        replace(r, output_tokens=8 * r.output_tokens, max_output_tokens=8 * r.declared_output_tokens)
        for r in instance.requests
    )
    blocks = instance.engine.num_kv_blocks
    return replace(instance, requests=requests, engine=replace(instance.engine, num_kv_blocks=blocks and 8 * blocks))


@pytest.mark.parametrize("seed", range(200))
def test_durations_of_a_stretch_are_those_of_its_iterations(seed):
    rng = random.Random(seed)
    cost = drawn_cost(rng)
    starts = [(rng.randrange(50), rng.randint(1, 9)) for _ in range(rng.randint(0, 2))]
    contexts = [rng.randrange(1, 3000) for _ in range(rng.randint(0 if starts else 1, 12))]
    expected = [
        cost.duration_us([(u + k * n, u + (k + 1) * n) for u, n in starts], [c + k for c in contexts])
        for k in range(300)
    ]
    chunks = [(u, u + n) for u, n in starts]
    assert durations_us(cost, chunks, contexts, 0, 300) == expected
    # It stops with the first iteration that ends at the event or after it, whatever the size of the blocks.
    event = rng.randrange(1, 2 + sum(expected))
    count = next((k for k in range(1, 300) if sum(expected[:k]) >= event), 300)
    assert list(durations_until(cost, chunks, contexts, expected[0], 300, event)) == expected[:count]
    assert list(durations_until(cost, chunks, contexts, expected[0], 300, None)) == expected


@pytest.mark.parametrize("seed", range(100))
def test_durations_of_a_batch_are_those_of_its_iterations_whatever_the_kind_of_cost(seed):
    rng = random.Random(seed)
    linear = CostModel.linear(*(rng.randrange(most) for most in (10**9, 10**7, 10**8)))
    cost = rng.choice([linear, drawn_cost(rng), CostModel.unit()])
    states = [RequestState(Request(f"r{k}", 900, 900), k) for k in range(rng.randint(1, 6))]
    decodes = states[rng.randint(0, 2):]
    for state in decodes:
        state._computed, state._decoding = rng.randint(1, 500), True
    prefills = [(state, rng.randint(1, 7)) for state in states if state not in decodes]
    swapped = rng.choice([([], []), ([30], [40, 50])])
    most = rng.randint(1, 20)
    expected = [
        cost.duration_us([(k * n, (k + 1) * n) for _, n in prefills], [r.computed + 1 + k for r in decodes],
                         *(swapped if k == 0 else ()))
        for k in range(most)
    ]  # fmt: skip
    assert list(Durations(cost).of(decodes, prefills, *swapped, most, None)) == expected
    event = rng.randrange(1, 2 + sum(expected))
    count = next((k for k in range(1, most) if sum(expected[:k]) >= event), most)
    assert list(Durations(cost).of(decodes, prefills, *swapped, most, event)) == expected[:count]


def test_amounts_beyond_64_bits_are_exact():
    cost = CostModel((Piece(decode_context_ps=SAFE_PS // 2**12),))
    assert durations_us(cost, [], [5000, 7], 1, 2) == [cost.duration_us([], [5001, 8]), cost.duration_us([], [5002, 9])]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(40))
def test_one_step_or_many_give_the_same_records_and_the_same_metrics(policy, seed):
    rng = random.Random(seed)
    instance = prolonged(random_instance(seed, requests=(1, 6), preemption=("none", "recompute", "swap")))
    instance = replace(instance, cost=drawn_cost(rng))
    try:
        slow = simulate(instance, policy, step_by_step=True)
    except PolicyError as error:
        with pytest.raises(PolicyError, match=error.rule):
            simulate(instance, policy)
        return
    fast = simulate(instance, policy)
    assert fast.decisions == slow.decisions
    assert fast.schedule == slow.schedule
    expected = report(fast.instance, fast.schedule)
    found = summarise(instance, policy).metrics
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)), key


def test_a_summary_counts_gaps_and_keeps_no_iteration():
    # 1 ms per iteration: a prefill and 999 decodes; 999 gaps of one length are one entry.
    found = summarise(build([(0, 1, 1000)], 4), "greedy-chunked")
    assert found.tally.gaps == {1000: 999}
    assert found.metrics["iterations"] == 1000
    assert found.metrics["p99_tbt_ms"] == 1.0


@pytest.mark.parametrize("policy", ["vllm-v1", "sarathi"])
def test_chunks_that_are_alike_are_one_stretch_up_to_the_one_that_makes_room_for_another_prefill(policy):
    # Budget 4 and chunks of at most 2: r0 is chunked 2, 2, 2 and ends with 2. One prefill may be left unfinished, so r1
    # gets in beside the last chunk of r0, not before; a stretch that ran over it would leave r1 out.
    instance = build([(0, 8, 1), (0, 4, 1)], 4, max_chunk_tokens=2, max_partial_prefills=1)
    found = [each["scheduled"] for each in simulate(instance, policy).decisions]
    assert found == [{"r0": 2}, {"r0": 2}, {"r0": 2}, {"r0": 2, "r1": 2}, {"r1": 2}]
    assert summarise(instance, policy).metrics["iterations"] == 5


def traced_kib(outputs):
    """Return the peak of traced memory in KiB while two requests with so many outputs are simulated."""
    instance = build([(0, 4, outputs), (0, 4, outputs)], 8, max_num_seqs=2)
    summarise(instance, "vllm-v1")  # what is allocated once is not counted
    tracemalloc.start()
    summarise(instance, "vllm-v1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1024


def test_a_summary_needs_no_more_memory_for_more_iterations():
    # 4,000 and 64,000 iterations. A schedule would take hundreds of bytes for each, durations 8 for each: 480 KiB more.
    short, long = traced_kib(4_000), traced_kib(64_000)
    assert long < short + 50
