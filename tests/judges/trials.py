"""Random problems for the solver: an instance, an objective, limits - and what the exhaustive judge says."""

from __future__ import annotations

import random
from dataclasses import dataclass

from instances.instance import Instance
from instances.objectives import OBJECTIVES
from tests.judges.exhaustive import OBJECTIVES as NAMES
from tests.judges.exhaustive import exact_optimum
from tests.judges.random_instances import tiny_instance


@dataclass(frozen=True)
class Trial:
    """One problem; amounts as in `tests.judges.exhaustive`, `limits` in the metrics' units."""

    instance: Instance
    objective: str
    limit_amounts: dict[str, int]
    no_pause: bool
    optimum: int | None

    @property
    def limits(self) -> dict[str, float]:
        """The limits as the solver takes them."""
        return {name: OBJECTIVES[name].value(self.instance, amount) for name, amount in self.limit_amounts.items()}


def trials(seed: int, *, every_feature: bool) -> list[Trial]:
    """Return one trial per objective on the random instance of a seed, limits drawn near the optima."""
    rng = random.Random(f"trials {seed}")
    unit = rng.choice((1, 3, 500))
    requests, tokens = rng.choice(((3, 3), (2, 4)) if every_feature else ((3, 3), (3, 4), (2, 5)))
    instance = tiny_instance(seed, every_feature=every_feature, requests=requests, tokens=tokens, unit_us=unit)
    no_pause = rng.random() < 0.15
    best = {name: exact_optimum(instance, name, no_pause=no_pause) for name in NAMES}
    found = []
    for objective in NAMES:
        limits = {}
        for name in rng.sample(NAMES, rng.choice((0, 1, 1, 2))):
            top = best[name]
            if top is None:
                continue
            slack = (0, 1) if name == "slo_attainment" else (0, 1, top // 8, top // 4, top // 2, -1)
            limits[name] = max(0, top + rng.choice(slack))
        if "slo_attainment" in limits:
            limits["slo_attainment"] = min(limits["slo_attainment"], len(instance.requests))
        optimum = exact_optimum(instance, objective, limits, no_pause=no_pause)
        found.append(Trial(instance, objective, limits, no_pause, optimum))
    return found
