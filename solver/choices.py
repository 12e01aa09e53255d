"""What a scheduler chose, freedom by freedom, read off one of its schedules; and which other schedules choose alike.

A schedule decides five things, and each can be compared between schedules whose iterations have nothing in common:

order
    In which order prefills end. Who ends strictly before whom; requests whose prefills end in one iteration have no
    order between them.
chunks
    Into which chunks each prompt is cut: per request, the sizes in order, whenever they run.
admissions
    When each request starts: the start of the iteration with its first chunk, to the µs.
decodes
    Who decodes when: per request, in which iterations after the one that ended its prefill it emits, counted from 1.
    ``1, 2, 3`` never pauses; ``2, 3, 4`` pauses once, for one iteration, whatever that iteration holds.
preemptions
    Who is evicted. Schedules with evictions are not compared yet: the model that fixes choices does not evict.

None of the four says anything about another: every combination can be held while the rest stays free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from instances.errors import InputError
from instances.instance import Instance
from instances.replay import replay
from instances.schedule import Schedule

KINDS = ("order", "chunks", "admissions", "decodes")
"""The freedoms that can be fixed."""


@dataclass(frozen=True)
class Choices:
    """What a schedule chose.

    Parameters
    ----------
    ends
        Per request with a prefill, the index of the iteration that ends it: the order of prefills.
    chunks
        Per request with a prefill, its chunk sizes in order.
    admissions
        Per request that was not resident at time 0, the start in µs of the iteration with its first chunk.
    decodes
        Per request with decodes, the iterations in which it decodes, counted from the one that ended its prefill (or
        from time 0, where it had ended before); its first iteration after that is 1.
    """

    ends: Mapping[str, int]
    chunks: Mapping[str, tuple[int, ...]]
    admissions: Mapping[str, int]
    decodes: Mapping[str, tuple[int, ...]]


def choices_of(instance: Instance, schedule: Schedule) -> Choices:
    """Return what a valid schedule chose.

    Raises
    ------
    InputError
        Where it evicts.
    """
    ends: dict[str, int] = {}
    chunks: dict[str, list[int]] = {}
    admissions: dict[str, int] = {}
    decodes: dict[str, list[int]] = {}
    resident = {r.id for r in instance.requests if r.progress is not None}
    for step in replay(instance, schedule).steps:
        if step.moved_out:
            what = "a schedule without evictions (choices are not compared across evictions yet)"
            raise InputError.expected(what, f"{next(iter(step.moved_out))!r} evicted", f"iterations[{step.index}]")
        for name, (before, after) in step.chunks.items():
            if name not in chunks and name not in resident:
                admissions[name] = step.iteration.start_us
            chunks.setdefault(name, []).append(after - before)
            if name in step.emitted:
                ends[name] = step.index
        for name in step.contexts:
            decodes.setdefault(name, []).append(step.index - ends.get(name, -1))
    return Choices(
        ends,
        {name: tuple(sizes) for name, sizes in chunks.items()},
        admissions,
        {name: tuple(places) for name, places in decodes.items()},
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
        """Return (earlier, later) for all requests whose prefills end in different iterations."""
        ends = self.choices.ends
        return [(a, b) for a in ends for b in ends if ends[a] < ends[b]]

    def admits(self, instance: Instance, schedule: Schedule) -> bool:
        """Return whether a valid schedule without evictions chooses alike in every freedom that is held."""
        other = choices_of(instance, schedule)
        same = {
            "order": all(other.ends[a] <= other.ends[b] for a, b in self.pairs()),
            "chunks": other.chunks == self.choices.chunks,
            "admissions": other.admissions == self.choices.admissions,
            "decodes": other.decodes == self.choices.decodes,
        }
        return all(same[kind] for kind in self.kinds)


def fix(instance: Instance, schedule: Schedule, kinds: Iterable[str]) -> Fixing:
    """Return the freedoms `kinds` of `KINDS`, held as a valid schedule chose them.

    Raises
    ------
    InputError
        For an unknown freedom, or a schedule that evicts.
    """
    wanted = frozenset(kinds)
    for kind in sorted(wanted - set(KINDS)):
        raise InputError.expected(f"one of {', '.join(KINDS)}", kind, "freedom")
    return Fixing(choices_of(instance, schedule), wanted)
