"""The checker: every rule of model.md §2-4, one pure function each. It knows neither solver nor policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from instances.instance import Instance
from instances.replay import Replay, Status, Step, replay
from instances.schedule import Schedule
from instances.units import ms_from_us


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Parameters
    ----------
    rule
        Name of the rule.
    iteration, request
        Where; None where it is about the whole schedule or the whole iteration.
    message
        One sentence.
    value, limit
        What was found and what is allowed, where numbers say it (times in ms).
    """

    rule: str
    iteration: int | None
    request: str | None
    message: str
    value: float | None = None
    limit: float | None = None


class InvalidSchedule(ValueError):
    """A schedule that breaks rules; `violations` lists them."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("; ".join(v.message for v in violations[:5]))


def violations(instance: Instance, schedule: Schedule, *, no_pause: bool = False) -> list[Violation]:
    """Return every broken rule, in the order of iterations; empty for a valid schedule.

    Parameters
    ----------
    instance, schedule
        The problem and the answer.
    no_pause
        Demand too that every resident whose prefill is complete decodes in every iteration.
    """
    run = replay(instance, schedule)
    rules = (*RULES, _no_pause) if no_pause else RULES
    found = [violation for rule in rules for violation in rule(instance, run)]
    last = len(run.steps)
    return sorted(found, key=lambda v: last if v.iteration is None else v.iteration)


def require_valid(instance: Instance, schedule: Schedule, *, no_pause: bool = False) -> None:
    """Raise `InvalidSchedule` unless `schedule` obeys every rule."""
    found = violations(instance, schedule, no_pause=no_pause)
    if found:
        raise InvalidSchedule(found)


def _at(step: Step) -> str:
    return f"iteration {step.index}"


def _known_requests(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Every id exists, and stands once."""
    ids = {r.id for r in instance.requests}
    for step in run.steps:
        it = step.iteration
        for names in (it.prefill, it.decode, it.evict, it.restore):
            for name in dict.fromkeys(names):
                if name not in ids:
                    yield Violation("known-request", step.index, name, f"{_at(step)}: there is no request {name!r}")
                elif list(names).count(name) > 1:
                    yield Violation("once", step.index, name, f"{_at(step)}: {name!r} stands there more than once",
                                    list(names).count(name), 1)
        for name in it.prefill:
            if name in it.decode:
                yield Violation("once", step.index, name, f"{_at(step)}: {name!r} is in prefill and in decode", 2, 1)


def _tokens(instance: Instance, run: Replay) -> Iterator[Violation]:
    """An iteration processes at least one token, at most the token budget, and no chunk below one."""
    budget = instance.engine.max_num_batched_tokens
    for step in run.steps:
        tokens = step.iteration.tokens
        if tokens < 1:
            yield Violation("non-empty", step.index, None, f"{_at(step)} processes no token", tokens, 1)
        if tokens > budget:
            message = f"{_at(step)} processes {tokens} tokens, max_num_batched_tokens is {budget}"
            yield Violation("token-budget", step.index, None, message, tokens, budget)
        for name, chunk in step.iteration.prefill.items():
            if chunk < 1:
                yield Violation("chunk", step.index, name, f"{_at(step)}: {name!r} has a chunk of {chunk}", chunk, 1)


def _time_order(instance: Instance, run: Replay) -> Iterator[Violation]:
    """No iteration starts before the one before it has ended."""
    end = 0
    for step in run.steps:
        start = step.iteration.start_us
        if start < end:
            began, ended = ms_from_us(start), ms_from_us(end)
            message = f"{_at(step)} starts at {began} ms, the one before ends at {ended} ms"
            yield Violation("time-order", step.index, None, message, began, ended)
        end = step.iteration.end_us


def _arrival(instance: Instance, run: Replay) -> Iterator[Violation]:
    """No iteration starts before the arrival of a request that it works on."""
    arrivals = {r.id: r.arrival_us for r in instance.requests}
    for step in run.steps:
        start = step.iteration.start_us
        for name in step.before:
            if start < arrivals[name]:
                began, arrives = ms_from_us(start), ms_from_us(arrivals[name])
                message = f"{_at(step)} starts at {began} ms, {name!r} arrives at {arrives} ms"
                yield Violation("arrival", step.index, name, message, began, arrives)


def _phase(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Prefill in phase prefill, decode in phase decode, both only while it may work at all."""
    for step in run.steps:
        for kind, names in (("prefill", step.iteration.prefill), ("decode", step.iteration.decode)):
            for name in names:
                view = step.at_work.get(name)
                if view is None or (view.can_prefill if kind == "prefill" else view.can_decode):
                    continue
                state = view.status.value
                if view.status in (Status.WAITING, Status.RESIDENT):
                    state = f"in phase {view.phase.value}"
                yield Violation("phase", step.index, name, f"{_at(step)}: {kind} of {name!r}, which is {state}")


def _chunk(instance: Instance, run: Replay) -> Iterator[Violation]:
    """A chunk stays within the target and has a shape that the engine allows."""
    for step in run.steps:
        for name, tokens in step.iteration.prefill.items():
            view = step.at_work.get(name)
            if view is None or not view.can_prefill or tokens < 1:
                continue
            left = view.target - view.computed
            if tokens > left:
                yield Violation("prefill-target", step.index, name,
                                f"{_at(step)}: a chunk of {tokens} for {name!r}, {left} tokens are left", tokens, left)
            elif not instance.engine.chunk_allowed(tokens, left):
                largest = instance.engine.largest_allowed_chunk(left, tokens)
                yield Violation("chunk", step.index, name,
                                f"{_at(step)}: a chunk of {tokens} for {name!r} ({left} left) is not allowed by "
                                f"{_chunk_rules(instance)}", tokens, largest)


def _chunk_rules(instance: Instance) -> str:
    engine = instance.engine
    rules = [f"chunk_quantum {engine.chunk_quantum}"]
    if not engine.enable_chunked_prefill:
        rules = ["enable_chunked_prefill false"]
    if engine.max_chunk_tokens is not None:
        rules.append(f"max_chunk_tokens {engine.max_chunk_tokens}")
    if engine.chunk_sizes is not None:
        rules.append(f"chunk_sizes {list(engine.chunk_sizes)}")
    return ", ".join(rules)


def _seats(instance: Instance, run: Replay) -> Iterator[Violation]:
    """No more residents than seats after the compute, finishing ones included."""
    seats = instance.engine.max_num_seqs
    for step in run.steps:
        if seats is not None and step.residents > seats:
            yield Violation("seats", step.index, None,
                            f"{_at(step)}: {step.residents} requests are resident, max_num_seqs is {seats}",
                            step.residents, seats)


def _kv_pool(instance: Instance, run: Replay) -> Iterator[Violation]:
    """No more KV blocks than the pool has after the compute, finishing requests included."""
    pool = instance.engine.num_kv_blocks
    for step in run.steps:
        if pool is not None and step.blocks > pool:
            yield Violation("kv-pool", step.index, None,
                            f"{_at(step)}: {step.blocks} KV blocks are in use, num_kv_blocks is {pool}",
                            step.blocks, pool)


def _partial_prefills(instance: Instance, run: Replay) -> Iterator[Violation]:
    """No more unfinished prefills among the residents than allowed."""
    limit = instance.engine.max_partial_prefills
    for step in run.steps:
        if limit is not None and len(step.partial) > limit:
            yield Violation("partial-prefills", step.index, None,
                            f"{_at(step)} leaves {len(step.partial)} unfinished prefills ({', '.join(step.partial)}), "
                            f"max_partial_prefills is {limit}", len(step.partial), limit)


def _mixing(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Prefills only or decodes only, where batches may not be mixed."""
    for step in run.steps:
        if not instance.engine.mixed_batches and step.iteration.prefill and step.iteration.decode:
            yield Violation("mixed-batch", step.index, None,
                            f"{_at(step)} mixes prefill and decode, mixed_batches is false")


def _eviction(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Only residents are evicted, only where preemption is allowed, and they do not work in that iteration."""
    for step in run.steps:
        it = step.iteration
        for name in it.evict:
            if instance.engine.preemption == "none":
                yield Violation("eviction", step.index, name, f"{_at(step)} evicts {name!r}, preemption is none")
            elif name in step.before and name not in step.moved_out:
                state = step.before[name].status.value
                yield Violation("eviction", step.index, name, f"{_at(step)} evicts {name!r}, which is {state}")
            elif name in it.prefill or name in it.decode:
                yield Violation("eviction", step.index, name, f"{_at(step)} evicts {name!r} and works on it")


def _restore(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Only requests that an earlier iteration swapped out are restored."""
    for step in run.steps:
        for name in step.iteration.restore:
            if name in step.before and name not in step.moved_in:
                state = step.before[name].status.value
                yield Violation("restore", step.index, name, f"{_at(step)} restores {name!r}, which is {state}")


def _duration(instance: Instance, run: Replay) -> Iterator[Violation]:
    """An iteration lasts as long as the cost model says (judged where all of its work is legal)."""
    swap = instance.engine.preemption == "swap"
    for step in run.steps:
        it = step.iteration
        legal = len(step.chunks) == len(it.prefill) and len(step.contexts) == len(it.decode)
        if not legal or any(after - before != it.prefill[name] for name, (before, after) in step.chunks.items()):
            continue
        moved = (list(step.moved_out.values()), list(step.moved_in.values())) if swap else ((), ())
        cost = instance.cost.duration_us(list(step.chunks.values()), list(step.contexts.values()), *moved)
        if it.duration_us != cost:
            lasts, costs = ms_from_us(it.duration_us), ms_from_us(cost)
            message = f"{_at(step)} lasts {lasts} ms, the cost model says {costs} ms"
            yield Violation("duration", step.index, None, message, lasts, costs)


def _completion(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Every request finishes."""
    for request in instance.requests:
        view = run.views[request.id]
        if view.status is not Status.FINISHED:
            yield Violation("completion", None, request.id,
                            f"request {request.id!r} has emitted {view.emitted} of {request.output_tokens} tokens",
                            view.emitted, request.output_tokens)


def _no_pause(instance: Instance, run: Replay) -> Iterator[Violation]:
    """Every resident whose prefill is complete decodes in every iteration."""
    for step in run.steps:
        for name in step.decoding:
            if name not in step.contexts:
                yield Violation("no-pause", step.index, name, f"{_at(step)}: {name!r} could decode and does not")


Rule = Callable[[Instance, Replay], Iterator[Violation]]
RULES: tuple[Rule, ...] = (
    _known_requests, _tokens, _time_order, _arrival, _phase, _chunk, _seats, _kv_pool, _partial_prefills, _mixing,
    _eviction, _restore, _duration, _completion,
)  # fmt: skip
