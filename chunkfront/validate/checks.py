"""What a scheduler must not do, one function per habit; each takes a trial: an instance, and a source of new policies.

Rules (budget, seats, blocks, phases, ...) are judged by every run (`chunkfront.validate.attempt`). The habits here
need two runs that may only differ where the scheduler knows a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest

from chunkfront.validate.attempt import Attempt, attempt
from chunkfront.validate.differences import difference
from chunkfront.validate.finding import ERROR, WARNING, Finding
from chunkfront.validate.variations import cuts, longer, other_futures, renamed, without_letter
from heuristics.policy import Policy
from instances.instance import Instance

Source = Callable[[], Policy]
"""Makes a new policy per call (`chunkfront.validate.loading.PolicySource`)."""
FEWEST_OVERTAKERS = 12
"""Later requests, at least, that are served to the end while an earlier one gets nothing: starvation."""


class Trial:
    """A scheduler on one instance; the runs that several checks look at are made once.

    Parameters
    ----------
    instance, source
        What to run, and what makes new policies.
    """

    def __init__(self, instance: Instance, source: Source) -> None:
        self.instance = instance
        self.source = source

    @cached_property
    def policy(self) -> Policy:
        """The policy of the usual run."""
        return self.source()

    @cached_property
    def usual(self) -> Attempt:
        """A run as the simulator makes it."""
        return attempt(self.instance, self.policy)

    @cached_property
    def careful(self) -> Attempt:
        """A run in which a new policy is asked before every iteration."""
        return attempt(self.instance, self.source(), step_by_step=True)


Check = Callable[[Trial], Iterator[Finding]]


def rules(trial: Trial) -> Iterator[Finding]:
    """Yield what one run shows: broken rules, exceptions, livelock, requests that are never served, empty batches."""
    yield from trial.usual.findings


def reuse(trial: Trial) -> Iterator[Finding]:
    """Yield where a policy object decides otherwise the second time: `start` has to forget the run before."""
    first, second = trial.usual, attempt(trial.instance, trial.policy)
    yield from difference("state-leaks", trial.instance, first, second, "in its first run", "in its second run")


def determinism(trial: Trial) -> Iterator[Finding]:
    """Yield where two new objects decide differently on one instance."""
    second = attempt(trial.instance, trial.source())
    yield from difference("non-deterministic", trial.instance, trial.usual, second, "once", "and once")


def hash_order(trial: Trial) -> Iterator[Finding]:
    """Yield where decisions hang on the hashes of ids, which differ from process to process.

    A letter before every id keeps their order as texts and changes all hashes.
    """
    instance = trial.instance
    second = attempt(renamed(instance), trial.source())
    back = replace(second, decisions=tuple(without_letter(d) for d in second.decisions))
    yield from difference("hash-order", instance, trial.usual, back, "with its ids", 'with an "x" before every id')


def promises(trial: Trial) -> Iterator[Finding]:
    """Yield where `Batch.repeat` promised more than the policy keeps when it is asked before every iteration."""
    usual, careful = trial.usual, trial.careful
    if usual.run is None or careful.run is None:
        return
    pairs = zip_longest(usual.run.schedule.iterations, careful.run.schedule.iterations)
    for index, (promised, kept) in enumerate(pairs):
        if promised is None or kept is None or (dict(promised.prefill), set(promised.decode), promised.start_us) != (
            dict(kept.prefill), set(kept.decode), kept.start_us
        ):  # fmt: skip
            message = f"iteration {index}: a batch that promised to repeat itself is not what the policy decides there"
            yield Finding("repeat-promise", message, ERROR, trial.instance.name, index)
            return


def future(trial: Trial) -> Iterator[Finding]:
    """Yield where decisions hang on arrivals to come: before a moment, they may not change with what comes after it.

    Later requests come later still, or not at all (where that leaves the others in their places). Not for policies
    that declare `knows_future`.
    """
    instance = trial.instance
    if trial.policy.knows_future:
        return
    for cut in cuts(instance):
        for other, how in other_futures(instance, cut):
            changed = attempt(other, trial.source(), step_by_step=True)
            one, two = (replace(a, decisions=tuple(d for d in a.decisions if d.now_us < cut))
                        for a in (trial.careful, changed))  # fmt: skip
            when = f"with arrivals from {cut / 1000:g} ms on"
            found = list(difference("knows-future", instance, one, two, when, how, alike=False))
            if found:
                yield from found
                return


def output_lengths(trial: Trial) -> Iterator[Finding]:
    """Yield where decisions hang on true output lengths: until a request ends, more outputs may not change them.

    The declared caps stay the same. Not for policies that declare themselves clairvoyant.
    """
    instance = trial.instance
    if trial.policy.clairvoyant:
        return
    for index in dict.fromkeys((0, len(instance.requests) - 1)):
        pair = longer(instance, index)
        if pair is None:
            continue
        first, second = (attempt(each, trial.source(), step_by_step=True) for each in pair)
        name = instance.requests[index].id
        end = first.ends.get(name)  # from then on its length may be known
        cut = [a.decisions[:end] for a in (first, second)]
        when = [f"where {name!r} will produce {each.requests[index].output_tokens} tokens" for each in pair]
        found = list(difference(
            "knows-output-lengths", instance, replace(first, decisions=cut[0]), replace(second, decisions=cut[1]),
            when[0], when[1], alike=False, request=name,
        ))  # fmt: skip
        if found:
            yield from found
            return


def starvation(trial: Trial) -> Iterator[Finding]:
    """Yield a request that gets nothing while nearly all who arrive later are served to the end."""
    instance, run = trial.instance, trial.usual.run
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
    "rules": rules, "determinism": determinism, "reuse": reuse, "hash_order": hash_order, "promises": promises,
    "future": future, "output_lengths": output_lengths, "starvation": starvation,
}  # fmt: skip
"""By name, in the order in which they run."""
