"""Schedules worth a picture: idleness, evictions, a broken one, awkward names, many requests."""

from __future__ import annotations

import random

from heuristics.simulator import simulate
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Request
from instances.schedule import Iteration, Schedule
from instances.units import PS_PER_MS
from tests.judges.build import base_and_tokens, build, schedule

Scene = tuple[Instance, Schedule]

AWKWARD_NAMES = (
    "<b>bold</b>", "$\\frac{1}{2$", "日本語の要求", "x" * 300, "new\nline\x1b[31m",
    "\"'&amp;</script><script>alert(1)</script>", "a&b%{y}", "\u202eoverride",
)  # fmt: skip


def waiting() -> Scene:
    """model.md §8, example 1: A waits on purpose from 0 to 4 ms, and both end at 17 ms."""
    instance = build([Request("A", 1, 2), Request("B", 1, 1, arrival_us=10_000)], 8, base_and_tokens(5))
    return instance, schedule((4, 6, {"A": 1}, ()), (10, 7, {"B": 1}, ["A"]))


def broken() -> Scene:
    """The same with B before its arrival, an iteration that overlaps, and a decode too many."""
    instance, _ = waiting()
    return instance, schedule((0, 6, {"A": 1}, ()), (8, 7, {"B": 1}, ["A"]), (14, 6, {}, ["A"]))


def evicted(mode: str = "recompute") -> Scene:
    """B runs from 0, is evicted at 2 ms for one iteration of A, and comes back: 1 ms per iteration."""
    instance = build([Request("A", 2, 1, arrival_us=1000), Request("B", 2, 2)], 3, preemption=mode)
    out = Iteration(2000, 1000, {"A": 2}, evict=("B",))
    # With recompute B prefills its prompt and its first token again, with swap it decodes.
    back = Iteration(4000, 1000, {"B": 3}) if mode == "recompute" else Iteration(4000, 1000, {}, ("B",), (), ("B",))
    return instance, schedule((0, 1, {"B": 2}, ()), out, back)


def awkward() -> Scene:
    """Names that are markup, formulas, too long, not printable."""
    requests = tuple(Request(name, 4, 3) for name in AWKWARD_NAMES)
    instance = Instance("<i>odd</i> $x$ 日本", requests, EngineLimits(8), base_and_tokens(5))
    return instance, simulate(instance, "greedy-chunked").schedule


def crowd(count: int = 60) -> Scene:
    """Many requests under KV pressure, by a policy that preempts."""
    rng = random.Random(5)
    requests = [Request(f"r{k}", rng.randint(20, 300), rng.randint(5, 20), arrival_us=20_000 * k) for k in range(count)]
    cost = CostModel.linear(5 * PS_PER_MS, PS_PER_MS // 10, PS_PER_MS)
    engine = EngineLimits(256, max_num_seqs=16, num_kv_blocks=60, block_size=16, preemption="recompute")
    instance = Instance("crowd", tuple(requests), engine, cost)
    return instance, simulate(instance, "vllm-v1").schedule


def empty() -> Scene:
    """No iterations at all."""
    return waiting()[0], schedule()


SCENES = {
    "waiting": waiting, "broken": broken, "recompute": evicted, "swap": lambda: evicted("swap"), "awkward": awkward,
    "crowd": crowd, "empty": empty,
}  # fmt: skip
