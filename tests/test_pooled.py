"""The pooled relaxation: its bounds hold, its schedules are valid, and it is close on real windows."""

from __future__ import annotations

import random

import pytest

from instances.instance import Instance
from instances.objectives import amount_key
from solver.evictions import problem_for
from solver.pooled.relax import AIMS, Relaxer
from solver.run import Clock
from tests.judges.exhaustive import exact_optimum
from tests.judges.random_instances import tiny_instance


def check_bounds(instance: Instance, gap_us: int | None) -> int:
    """Assert that no bound exceeds the exhaustive optimum, with a cutoff and without; return how many applied."""
    limits = {} if gap_us is None else {"max_tbt": gap_us}
    applied = 0
    for name in sorted(AIMS):
        relaxer = Relaxer(problem_for(instance, 1), name, gap_us)
        if not relaxer.pool.applies:
            continue
        optimum = exact_optimum(instance, amount_key(name), limits)
        if optimum is None:
            continue
        for best in (None, optimum, optimum + 1):
            bound = relaxer.solve(best, Clock(20)).bound
            assert bound <= optimum, (name, best)
        applied += 1
    return applied


def drawn(seed: int, *, every_feature: bool) -> tuple[Instance, int | None]:
    """Return a random instance and a gap limit near its best one."""
    rng = random.Random(f"pooled {seed}")
    instance = tiny_instance(seed, every_feature=every_feature, requests=3, tokens=4, unit_us=rng.choice((3, 500)))
    best = exact_optimum(instance, "max_tbt")
    slack = rng.choice((None, 0, 1, 2, 4))
    return instance, None if slack is None or best is None else best + best * slack // 4


@pytest.mark.parametrize("every_feature", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_no_bound_exceeds_the_optimum_that_exhaustive_search_finds(seed: int, every_feature: bool) -> None:
    check_bounds(*drawn(seed, every_feature=every_feature))
