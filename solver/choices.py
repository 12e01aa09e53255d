"""What a scheduler chose, freedom by freedom, read off one of its schedules; and which other schedules choose alike.

A schedule decides five things, and each can be compared between schedules whose iterations have nothing in common.

order
    In which order first tokens come. Who comes strictly before whom; requests whose first tokens come at the end of one
    iteration have no order between them.
chunks
    Into which chunks each prompt is cut: per request, the sizes in order, whenever they run.
admissions
    When each request starts: the start of the iteration with its first chunk, to the µs.
decodes
    Who decodes when: per request, in which iterations after the one that ended its prefill it emits, counted from 1.
    ``1, 2, 3`` never pauses; ``2, 3, 4`` pauses once, for one iteration, whatever that iteration holds.
preemptions
    Who is evicted: how often each request, whenever it is.

Not every engine has all of them (`freedoms`): without eviction there are no preemptions to hold. With swap the exact
start of an iteration that moves KV is not known to the model, so admissions are not held; with recompute an eviction
begins chunks and decodes anew, and neither is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from instances.errors import InputError
from instances.instance import Instance
from instances.replay import replay
from instances.schedule import Schedule

FREEDOMS: Mapping[str, tuple[str, ...]] = {
    "none": ("order", "chunks", "admissions", "decodes"),
    "swap": ("order", "chunks", "decodes", "preemptions"),
    "recompute": ("order", "preemptions"),
}
"""The freedoms that can be held, by the engine's preemption."""


@dataclass(frozen=True)
class Choices:
    """What a schedule chose.

    Parameters
    ----------
    ends
        Per request with a first token to come, the index of the iteration that emits it: the order of prefills.
    chunks
        Per request with a prefill, its chunk sizes in order, those of later prefills included.
    admissions
        Per request that was not resident at time 0, the start in µs of the iteration with its first chunk.
    decodes
        Per request with decodes, the iterations in which it decodes, counted from the one that ended its prefill (or
        from time 0, where it had ended before); its first iteration after that is 1.
    evictions
        Per request that is evicted, how often.
    """

    ends: Mapping[str, int]
    chunks: Mapping[str, tuple[int, ...]]
    admissions: Mapping[str, int]
    decodes: Mapping[str, tuple[int, ...]]
    evictions: Mapping[str, int]


def freedoms(instance: Instance) -> tuple[str, ...]:
    """Return the freedoms that can be held on the engine of an instance."""
    return FREEDOMS[instance.engine.preemption]


def choices_of(instance: Instance, schedule: Schedule) -> Choices:
    """Return what a valid schedule chose."""
    ends: dict[str, int] = {}
    chunks: dict[str, list[int]] = {}
    admissions: dict[str, int] = {}
    decodes: dict[str, list[int]] = {}
    evictions: Counter[str] = Counter()
    resident = {r.id for r in instance.requests if r.progress is not None}
    begun = {r.id for r in instance.requests if r.starts_in_decode}
    for step in replay(instance, schedule).steps:
        evictions.update(step.moved_out.keys())
        for name, (before, after) in step.chunks.items():
            if name not in chunks and name not in resident:
                admissions[name] = step.iteration.start_us
            chunks.setdefault(name, []).append(after - before)
            if name in step.emitted and name not in begun:
                ends.setdefault(name, step.index)
        for name in step.contexts:
            decodes.setdefault(name, []).append(step.index - ends.get(name, -1))
    return Choices(
        ends,
        {name: tuple(sizes) for name, sizes in chunks.items()},
        admissions,
        {name: tuple(places) for name, places in decodes.items()},
        evictions,
    )


@dataclass(frozen=True)
class Fixing:
    """Some freedoms, held as one schedule chose them.

    Parameters
    ----------
    choices
        Of that schedule.
    kinds
        Which of them are held; the others are free.
    """

    choices: Choices
    kinds: frozenset[str]

    @property
    def releases_us(self) -> Mapping[str, int]:
        """Per request, the time before which it may not start, where admissions are held."""
        return self.choices.admissions if "admissions" in self.kinds else {}

    def pairs(self) -> list[tuple[str, str]]:
        """Return (earlier, later) for all requests whose first tokens come in different iterations."""
        ends = self.choices.ends
        return [(a, b) for a in ends for b in ends if ends[a] < ends[b]]

    def admits(self, instance: Instance, schedule: Schedule) -> bool:
        """Return whether a valid schedule chooses alike in every freedom that is held."""
        other = choices_of(instance, schedule)
        same = {
            "order": all(other.ends[a] <= other.ends[b] for a, b in self.pairs()),
            "chunks": other.chunks == self.choices.chunks,
            "admissions": other.admissions == self.choices.admissions,
            "decodes": other.decodes == self.choices.decodes,
            "preemptions": other.evictions == self.choices.evictions,
        }
        return all(same[kind] for kind in self.kinds)


def fix(instance: Instance, schedule: Schedule, kinds: Iterable[str]) -> Fixing:
    """Return some of the `freedoms` of an instance, held as a valid schedule chose them.

    Raises
    ------
    InputError
        For a freedom that is unknown or cannot be held on this engine.
    """
    wanted = frozenset(kinds)
    known = freedoms(instance)
    for kind in sorted(wanted - set(known)):
        what = f"one of {', '.join(known)} (engine.preemption is {instance.engine.preemption})"
        raise InputError.expected(what, kind, "freedom")
    return Fixing(choices_of(instance, schedule), wanted)
