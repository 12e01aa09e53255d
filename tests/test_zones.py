"""Search zones: what they cover after points are added, by counting all integer amounts."""

from __future__ import annotations

import random
from itertools import product

import pytest

from solver.proofs import NEVER, Proofs
from solver.zones import Zones


def covered(z: tuple[int, ...], points: list[tuple[int, ...]]) -> bool:
    return any(all(a <= b for a, b in zip(point, z, strict=True)) for point in points)


@pytest.mark.parametrize("axes", [2, 3])
def test_the_zones_are_what_no_point_covers(axes: int) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        zones, points = Zones([6] * axes), []
        for _ in range(8):
            point = tuple(rng.randrange(6) for _ in range(axes))
            points.append(point)
            zones.split(point)
        for z in product(range(6), repeat=axes):
            held = any(all(a < b for a, b in zip(z, corner, strict=True)) for corner in zones.open)
            assert held is not covered(z, points)


def test_no_zone_lies_inside_another() -> None:
    # (2, 2, 2) cuts the cube of 9 into three; (1, 3, 3) lies in that whose first axis is below 2 alone.
    zones = Zones([9, 9, 9])
    zones.split((2, 2, 2))
    assert sorted(zones.open) == [(2, 9, 9), (9, 2, 9), (9, 9, 2)]
    zones.split((1, 3, 3))
    # (2, 3, 9) and (2, 9, 3) are new; the part below 1 on the first axis is (1, 9, 9).
    assert sorted(zones.open) == [(1, 9, 9), (2, 3, 9), (2, 9, 3), (9, 2, 9), (9, 9, 2)]


def test_closed_zones_swallow_what_lies_inside() -> None:
    zones = Zones([9, 9])
    zones.split((5, 5))
    zones.close((5, 9))
    assert zones.open == [(9, 5)]
    # The part (5, 5) of the zone (9, 5) lies in the closed one.
    zones.split((5, 3))
    assert zones.open == [(9, 3)]


def test_a_proof_holds_for_tighter_caps_only() -> None:
    proofs = Proofs()
    proofs.add("makespan", {"max_tbt": 7}, 17)
    assert proofs.bound("makespan", {"max_tbt": 7}) == 17
    assert proofs.bound("makespan", {"max_tbt": 8}) == 0
    assert proofs.bound("makespan", {}) == 0
    assert proofs.bound("max_tbt", {"max_tbt": 7}) == 0


def test_nothing_under_a_cap_on_the_metric_itself_bounds_it_by_the_cap() -> None:
    proofs = Proofs()
    proofs.add("makespan", {"makespan": 16, "max_tbt": 7}, None)
    assert proofs.bound("makespan", {"max_tbt": 7}) == 17
    proofs.add("makespan", {"max_tbt": 3}, None)
    assert proofs.bound("makespan", {"max_tbt": 2}) == NEVER
