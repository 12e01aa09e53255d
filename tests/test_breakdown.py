"""Parts of a duration: they sum to what the cost model says, and name whose work it is."""

from __future__ import annotations

import random

from instances.breakdown import breakdown
from instances.cost_model import CostModel, Piece
from instances.replay import replay
from instances.units import PS_PER_MS
from tests.judges.build import build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.walks import random_schedule


def test_a_linear_cost_splits_into_base_chunks_and_decodes() -> None:
    # 5 + 2 per token + 3 per decode: a chunk of 4 costs 8, a decode 3, the base 5: 16 in all.
    instance = build([(0, 1, 2), (0, 4, 1)], 8, CostModel.linear(5 * PS_PER_MS, 2 * PS_PER_MS, 3 * PS_PER_MS))
    made = schedule((0, 7, {"r0": 1}, ()), (7, 16, {"r1": 4}, ("r0",)))
    parts = breakdown(instance.cost, replay(instance, made).steps[1], swap=False)
    assert (parts.base, parts.prefill, parts.decode) == (5000, {"r1": 8000}, {"r0": 3000})
    assert parts.total_us == 16_000


def test_only_the_piece_that_binds_is_split() -> None:
    # Compute: 1 + 1 per token = 5; memory: 9 whatever runs. Memory binds, so the chunk of 4 is for free.
    cost = CostModel((Piece(base_ps=PS_PER_MS, prefill_ps=PS_PER_MS), Piece(base_ps=9 * PS_PER_MS)))
    instance = build([(0, 4, 1)], 8, cost)
    parts = breakdown(cost, replay(instance, schedule((0, 9, {"r0": 4}, ()))).steps[0], swap=False)
    assert (parts.base, parts.prefill, parts.total_us) == (9000, {"r0": 0}, 9000)


def test_parts_sum_to_the_duration_under_every_feature_of_the_cost_model() -> None:
    checked = 0
    for seed in range(150):
        instance = tiny_instance(seed, every_feature=True)
        made = random_schedule(instance, random.Random(seed))
        for step in replay(instance, made).steps if made else ():
            parts = breakdown(instance.cost, step, swap=instance.engine.preemption == "swap")
            assert parts.total_us == step.iteration.duration_us
            checked += 1
    assert checked > 500
