"""What a simulation leaves behind: a schedule and the decisions that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from heuristics.engine import Engine
from heuristics.state import UNLIMITED, RequestState
from heuristics.stretch import Stretch
from instances.instance import Instance
from instances.schedule import Iteration, Schedule
from instances.units import ms_from_us


@dataclass(frozen=True, slots=True)
class Record:
    """One iteration as it was decided and run.

    Parameters
    ----------
    start_us, duration_us
        When, and how long.
    tokens
        Tokens per request, in the order of the decision.
    prefills
        Those of `tokens` that were in phase prefill.
    evict, restore
        As decided.
    emitted
        Requests that emitted a token, in the order of the decision.
    finished, running
        Requests that finished, and the residents after scheduling (finishing ones included), in running order.
    free_blocks
        KV blocks free after the compute, before finished requests are released; `UNLIMITED` without a pool.
    """

    start_us: int
    duration_us: int
    tokens: Sequence[tuple[RequestState, int]]
    prefills: frozenset[RequestState]
    evict: Sequence[RequestState]
    restore: Sequence[RequestState]
    emitted: Sequence[RequestState]
    finished: Sequence[RequestState]
    running: Sequence[RequestState]
    free_blocks: int

    def iteration(self) -> Iteration:
        """Return it as an iteration of a schedule."""
        return Iteration(
            self.start_us,
            self.duration_us,
            {r.id: n for r, n in self.tokens if r in self.prefills},
            tuple(r.id for r, _ in self.tokens if r not in self.prefills),
            tuple(r.id for r in self.evict),
            tuple(r.id for r in self.restore),
        )

    def decision(self) -> dict[str, Any]:
        """Return it in the form that `simulate --json` shows."""
        return {
            "start_ms": ms_from_us(self.start_us),
            "scheduled": {r.id: n for r, n in self.tokens},
            "preempted": [r.id for r in self.evict],
            "emitted": sorted(r.id for r in self.emitted),
            "finished": [r.id for r in self.finished],
            "running": [r.id for r in self.running],
            "free_blocks_after": None if self.free_blocks > UNLIMITED // 2 else self.free_blocks,
        }


class Log:
    """Keeps every iteration."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, stretch: Stretch, engine: Engine, finished: Sequence[RequestState]) -> None:
        """Record a stretch that has just run; finishing requests are still in their seats."""
        start, work, count = stretch.start_us, stretch.tokens, len(stretch.durations_us)
        decodes, ended = stretch.decodes, set(stretch.ended)
        prefills = frozenset(r for r, _ in stretch.prefills)
        emitted = [r for r, _ in work if r not in prefills or r in ended]
        blocks = engine.limits.blocks
        for k, duration in enumerate(stretch.durations_us):
            last = k == count - 1
            free = engine.free_blocks
            if not last and free < UNLIMITED:  # take back what the later iterations grew
                free += sum(blocks(r.computed) - blocks(r.computed - (count - 1 - k) * n) for r, n in work)
            self.records.append(Record(
                start, duration, work, prefills, () if k else stretch.evict, () if k else stretch.restore,
                emitted if last else decodes, finished if last else (), engine.running, free,
            ))  # fmt: skip
            start += duration


@dataclass(frozen=True)
class Run:
    """A finished simulation.

    Parameters
    ----------
    instance
        What was simulated: the instance, on the engine that the policy runs on (`Policy.engine`).
    policy
        The policy as the command line says it.
    records
        One per iteration.
    """

    instance: Instance
    policy: str
    records: tuple[Record, ...] = field(repr=False)

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule, as checker and metrics read it."""
        return Schedule(self.instance.name, self.policy, tuple(r.iteration() for r in self.records))

    @cached_property
    def decisions(self) -> list[dict[str, Any]]:
        """The decisions in the form of `simulate --json`, one per iteration.

        Keys: ``start_ms``; ``scheduled`` (tokens by id in the order of the decision, victims dropped);
        ``preempted``; ``emitted`` (ids in the order of strings); ``finished`` and ``running`` (in running order,
        as after scheduling); ``free_blocks_after`` (before finished requests are released, None without a pool).
        """
        return [r.decision() for r in self.records]
