"""Random schedules, mutations of them, and an independent verdict on whether a schedule is legal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from instances.instance import Instance
from instances.schedule import Iteration, Schedule
from tests.judges.batches import Batch, Batches, State, batches_of

FIELDS = ("decode", "evict", "restore")


def as_schedule(instance: Instance, way: Sequence[Batch], ends: Sequence[int]) -> Schedule:
    """Return a sequence of batches with its ends as a schedule."""
    ids = [r.id for r in instance.requests]

    def named(batch: Batch, what: str) -> tuple[str, ...]:
        return tuple(name for name, move in zip(ids, batch.moves, strict=True) if getattr(move, what))

    rows = []
    for batch, end in zip(way, ends, strict=True):
        chunks = {name: move.tokens for name, move in zip(ids, batch.moves, strict=True) if move.chunk}
        rows.append(Iteration(end - batch.duration, batch.duration, chunks, named(batch, "context"),
                              named(batch, "evicted"), named(batch, "restored")))  # fmt: skip
    return Schedule(instance.name, "judge", tuple(rows))


def random_schedule(
    instance: Instance, rng: random.Random, max_preemptions: int | None = 1, idle_us: int = 3, no_pause: bool = False
) -> Schedule | None:
    """Return a legal schedule made of random batches and pauses, None where 50 walks end in dead ends."""
    batches = batches_of(instance, max_preemptions, no_pause)
    for _ in range(50):
        state, now, way, ends = batches.initial(), 0, [], []
        while not batches.is_goal(state):
            choices = batches.batches(state)
            if not choices or len(way) > 60:
                break
            batch = rng.choice(choices)
            now = max(now, batch.release) + rng.choice((0, 0, rng.randint(0, idle_us))) + batch.duration
            way.append(batch)
            ends.append(now)
            state = batch.after
        if batches.is_goal(state):
            return as_schedule(instance, way, ends)
    return None


def mutated(instance: Instance, plan: Schedule, rng: random.Random) -> Schedule:
    """Return `plan` with one or two random changes: sizes, members, order, times."""
    rows = list(plan.iterations)
    names = [r.id for r in instance.requests]
    for _ in range(rng.choice((1, 1, 2))):
        k = rng.randrange(len(rows))
        row, name = rows[k], rng.choice(names)
        prefill, members = dict(row.prefill), {field: list(getattr(row, field)) for field in FIELDS}
        kind = rng.choice(("chunk", "chunk", "member", "member", "start", "duration", "drop", "swap", "merge", "shift"))
        if kind == "chunk":
            prefill[name] = max(1, prefill.get(name, 0) + rng.choice((-1, 1)))
        elif kind == "member":
            chosen = members[rng.choice(FIELDS if instance.engine.preemption != "none" else FIELDS[:1])]
            chosen.remove(name) if name in chosen else chosen.append(name)
        elif kind == "shift" and name in prefill and k + 1 < len(rows):  # one token to the next iteration
            prefill[name] -= 1
            later = dict(rows[k + 1].prefill)
            later[name] = later.get(name, 0) + 1
            rows[k + 1] = replace(rows[k + 1], prefill=later)
        prefill = {n: t for n, t in prefill.items() if t > 0}
        rows[k] = replace(row, prefill=prefill, **{field: tuple(members[field]) for field in FIELDS})
        if kind == "start":
            rows[k] = replace(rows[k], start_us=max(0, row.start_us + rng.choice((-1, 1, -500, 500))))
        elif kind == "duration":
            rows[k] = replace(rows[k], duration_us=max(0, row.duration_us + rng.choice((-1, 1))))
        elif kind == "drop" and len(rows) > 1:
            del rows[k]
        elif kind == "swap" and k + 1 < len(rows):
            rows[k], rows[k + 1] = rows[k + 1], rows[k]
        elif kind == "merge" and k + 1 < len(rows) and not set(row.prefill) & set(rows[k + 1].prefill):
            decode = tuple(dict.fromkeys(row.decode + rows[k + 1].decode))
            rows[k : k + 2] = [replace(row, prefill=row.prefill | rows[k + 1].prefill, decode=decode)]
    repaired = rng.random() < 0.7
    return replace(plan, iterations=retimed(instance, rows) if repaired else tuple(rows))


def retimed(instance: Instance, rows: Sequence[Iteration]) -> tuple[Iteration, ...]:
    """Return the rows with the durations of their batches, as far as legal, pushed apart where they overlap."""
    batches = batches_of(instance, None)
    state, now, result = batches.initial(), 0, []
    for row in rows:
        batch = None if state is None else matching(batches, state, instance, row)
        start = max(row.start_us, now)
        if batch is None:
            state, duration = None, row.duration_us
        else:
            state, duration, start = batch.after, batch.duration, max(start, batch.release)
        now = start + duration
        result.append(replace(row, start_us=start, duration_us=duration))
    return tuple(result)


def matching(batches: Batches, state: State, instance: Instance, row: Iteration) -> Batch | None:
    """Return the legal batch of `state` that does what the row says, None where there is none."""
    named = [*row.prefill, *row.decode]
    lists = [named, list(row.evict), list(row.restore)]
    ids = [r.id for r in instance.requests]
    if any(len(set(names)) < len(names) or not set(names) <= set(ids) for names in lists):
        return None
    for batch in batches.batches(state):
        if all(
            (move.tokens if move.chunk else 0) == row.prefill.get(name, 0)
            and bool(move.context) == (name in row.decode)
            and move.evicted == (name in row.evict)
            and move.restored == (name in row.restore)
            for name, move in zip(ids, batch.moves, strict=True)
        ):
            return batch
    return None


def is_legal(instance: Instance, plan: Schedule, no_pause: bool = False) -> bool:
    """Return whether a schedule obeys every rule of model.md, however many evictions it has.

    An iteration that restores a request and evicts it at once is not known here (see `Batches`).
    """
    batches = batches_of(instance, None, no_pause)
    state, now = batches.initial(), 0
    for row in plan.iterations:
        batch = matching(batches, state, instance, row)
        if batch is None or row.start_us < max(now, batch.release) or row.duration_us != batch.duration:
            return False
        state, now = batch.after, row.end_us
    return batches.is_goal(state)
