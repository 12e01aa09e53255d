"""What a scheduler must not do, one function per habit; each takes an instance and a source of new policies.

Rules (budget, seats, blocks, phases, ...) are judged by every run (`chunkfront.validate.attempt`). The habits here
need two runs that may only differ where the scheduler knows a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from chunkfront.validate.attempt import Attempt, attempt
from chunkfront.validate.finding import ERROR, WARNING, Finding
from chunkfront.validate.watching import Decision
from heuristics.policy import Policy
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Request

Source = Callable[[], Policy]
"""Makes a new policy per call (`chunkfront.validate.loading.PolicySource`)."""
Check = Callable[[Instance, Source], Iterator[Finding]]
MOST_CUTS = 3
MORE_OUTPUTS = 8
FEWEST_OVERTAKERS = 12
"""Later requests, at least, that are served to the end while an earlier one gets nothing: starvation."""


def rules(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield what one run shows: broken rules, exceptions, livelock, requests that are never served, empty batches."""
    yield from attempt(instance, source()).findings


def reuse(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where a policy object decides otherwise the second time: `start` has to forget the run before."""
    policy = source()
    first, second = attempt(instance, policy), attempt(instance, policy)
    yield from _difference("state-leaks", instance, first, second, "in its first run", "in its second run")


def determinism(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where two new objects decide differently on one instance."""
    first, second = attempt(instance, source()), attempt(instance, source())
    yield from _difference("non-deterministic", instance, first, second, "once", "and once")


def hash_order(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where decisions hang on the hashes of ids, which differ from process to process.

    A letter before every id keeps their order as texts and changes all hashes.
    """
    renamed = replace(instance, requests=tuple(replace(r, id=f"x{r.id}") for r in instance.requests))
    first, second = attempt(instance, source()), attempt(renamed, source())
    back = replace(second, decisions=tuple(_without_letter(d) for d in second.decisions))
    yield from _difference("hash-order", instance, first, back, "with its ids", 'with an "x" before every id')


def promises(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where `Batch.repeat` promised more than the policy keeps when it is asked before every iteration."""
    usual, careful = attempt(instance, source()), attempt(instance, source(), step_by_step=True)
    if usual.run is None or careful.run is None:
        return
    pairs = zip_longest(usual.run.schedule.iterations, careful.run.schedule.iterations)
    for index, (promised, kept) in enumerate(pairs):
        if promised is None or kept is None or (dict(promised.prefill), set(promised.decode), promised.start_us) != (
            dict(kept.prefill), set(kept.decode), kept.start_us
        ):  # fmt: skip
            message = f"iteration {index}: a batch that promised to repeat itself is not what the policy decides there"
            yield Finding("repeat-promise", message, ERROR, instance.name, index)
            return


def future(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where decisions hang on arrivals to come: before a moment, they may not change when those are taken away.

    Not for policies that declare `knows_future`.
    """
    if source().knows_future:
        return
    whole = attempt(instance, source(), step_by_step=True)
    for cut in _cuts(instance):
        prefix = replace(instance, requests=tuple(r for r in instance.requests if r.arrival_us < cut))
        part = attempt(prefix, source(), step_by_step=True)
        ours, theirs = (tuple(d for d in a.decisions if d.now_us < cut) for a in (whole, part))
        found = list(_difference(
            "knows-future", instance, replace(whole, decisions=ours), replace(part, decisions=theirs),
            f"with arrivals from {cut / 1000:g} ms on", "without them", alike=False,
        ))  # fmt: skip
        if found:
            yield from found
            return


def output_lengths(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield where decisions hang on true output lengths: until a request ends, more outputs may not change them.

    The declared caps stay the same. Not for policies that declare themselves clairvoyant.
    """
    if source().clairvoyant:
        return
    for index in dict.fromkeys((0, len(instance.requests) - 1)):
        pair = _longer(instance, index)
        if pair is None:
            continue
        first, second = (attempt(each, source(), step_by_step=True) for each in pair)
        name = instance.requests[index].id
        end = first.ends.get(name)  # from then on its length may be known
        cut = [a.decisions[:end] for a in (first, second)]
        when = [f"where {name!r} will produce {each.requests[index].output_tokens} tokens" for each in pair]
        found = list(_difference(
            "knows-output-lengths", instance, replace(first, decisions=cut[0]), replace(second, decisions=cut[1]),
            when[0], when[1], alike=False, request=name,
        ))  # fmt: skip
        if found:
            yield from found
            return


def starvation(instance: Instance, source: Source) -> Iterator[Finding]:
    """Yield a request that gets nothing while nearly all who arrive later are served to the end."""
    run = attempt(instance, source()).run
    if run is None:
        return
    arrivals = {r.id: r.arrival_us for r in instance.requests}
    for request in instance.requests:
        later = [r.id for r in instance.requests if r.arrival_us > request.arrival_us]
        least = max(FEWEST_OVERTAKERS, -(-3 * len(later) // 4))
        overtaken = since = 0
        for index, record in enumerate(run.records):
            if record.start_us < arrivals[request.id]:
                continue
            if any(r.id == request.id for r, _ in record.tokens):
                overtaken, since = 0, index + 1
                if request.id in (r.id for r in record.finished):
                    break
                continue
            overtaken += sum(r.arrival_us > request.arrival_us for r in record.finished)
            if overtaken >= least:
                message = (f"iteration {index}: {request.id!r} has had nothing since iteration {since}, while "
                           f"{overtaken} of the {len(later)} requests that arrive later were served to the end")
                yield Finding("starvation", message, WARNING, instance.name, index, request.id, overtaken, least - 1)
                return


CHECKS: dict[str, Check] = {
    "rules": rules, "reuse": reuse, "determinism": determinism, "hash_order": hash_order, "promises": promises,
    "future": future, "output_lengths": output_lengths, "starvation": starvation,
}  # fmt: skip
"""By name, in the order in which they run."""


def _difference(
    rule: str, instance: Instance, first: Attempt, second: Attempt, when: str, otherwise: str, *,
    alike: bool = True, request: str | None = None,
) -> Iterator[Finding]:  # fmt: skip
    """Yield the first decision in which two attempts differ.

    `alike`: the instances are alike, so that a failure of one of them alone is a difference too. Otherwise the
    failure is told where that instance is tried, and what came before it is compared.
    """
    for one, other in zip_longest(first.decisions, second.decisions):
        if one == other:
            continue
        known = one or other
        assert known is not None
        missing = first if one is None else second if other is None else None
        if missing is not None and _failure(missing) and not alike:
            return
        message = f"iteration {known.iteration}: {when} {one or _failure(first) or 'nothing'}"
        message += f", {otherwise} {other or _failure(second) or 'nothing'}"
        yield Finding(rule, message, ERROR, instance.name, known.iteration, request or _whom(one, other))
        return
    faults = _failure(first), _failure(second)
    if alike and (faults[0] is None) != (faults[1] is None):
        message = f"{when} {faults[0] or 'no fault'}, {otherwise} {faults[1] or 'no fault'}"
        yield Finding(rule, message, ERROR, instance.name)


def _failure(found: Attempt) -> str | None:
    """Return why an attempt has no run, None where it has one."""
    return None if found.run is not None or not found.findings else f"[{found.findings[-1].message}]"


def _whom(one: Decision | None, other: Decision | None) -> str | None:
    """Return the first request that two decisions treat differently."""
    tokens = [{} if d is None else d.tokens for d in (one, other)]
    names: Sequence[str] = [*tokens[0], *tokens[1]]
    return next((name for name in names if tokens[0].get(name) != tokens[1].get(name)), None)


def _without_letter(decision: Decision) -> Decision:
    return replace(decision, tokens={name[1:]: n for name, n in decision.tokens.items()},
                   evict=frozenset(name[1:] for name in decision.evict),
                   restore=frozenset(name[1:] for name in decision.restore))  # fmt: skip


def _cuts(instance: Instance) -> Sequence[int]:
    """Return some arrival times after the first: the earliest, the latest, one amid them."""
    times = sorted({r.arrival_us for r in instance.requests})[1:]
    return sorted({times[0], times[len(times) // 2], times[-1]})[:MOST_CUTS] if times else ()


def _longer(instance: Instance, index: int) -> tuple[Instance, Instance] | None:
    """Return the instance with a wider cap for one request, and with more outputs under the same cap."""
    request = instance.requests[index]
    capacity = instance.engine.kv_capacity_tokens
    room = MORE_OUTPUTS if capacity is None else min(MORE_OUTPUTS, capacity - request.peak_kv_tokens)
    if room < 1:
        return None
    outputs = request.output_tokens + room
    cap = max(outputs, request.declared_output_tokens)

    def made(output: int) -> Instance:
        changed: list[Request] = list(instance.requests)
        changed[index] = replace(request, output_tokens=output, max_output_tokens=cap)
        return replace(instance, requests=tuple(changed))

    try:
        return made(request.output_tokens), made(outputs)
    except InputError:
        return None
