"""The limits that a user sets, and what a problem is without some of them.

A limit is a bound on a metric, the option `no_pause`, or a limit of the engine. Every one can be dropped: what obeyed
it still obeys the rest, so a problem with fewer limits has more schedules, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from instances.instance import Instance
from instances.objectives import OBJECTIVES, amount_key, limit_amounts
from solver.build import ANY
from solver.horizon import PREFIX_METRICS
from solver.search import Search

METRIC = "metric"
ENGINE = "engine"
OPTION = "option"
NO_PAUSE = "no_pause"


def _tokens(instance: Instance) -> int:
    return sum(r.prompt_tokens + r.output_tokens for r in instance.requests)


LOOSEST: dict[str, Callable[[Instance], Any]] = {
    "chunk_quantum": lambda instance: 1,
    "chunk_sizes": lambda instance: None,
    "max_chunk_tokens": _tokens,
    "enable_chunked_prefill": lambda instance: True,
    "mixed_batches": lambda instance: True,
    "max_partial_prefills": lambda instance: len(instance.requests),
    "max_num_seqs": lambda instance: len(instance.requests),
    "num_kv_blocks": lambda instance: sum(instance.engine.blocks(r.peak_kv_tokens) for r in instance.requests),
    "max_num_batched_tokens": _tokens,
}
"""Engine limit -> a value that limits nothing; in the order in which they are dropped."""
COUNTED = ("max_chunk_tokens", "max_partial_prefills", "max_num_seqs", "num_kv_blocks", "max_num_batched_tokens")
"""Engine limits of which a larger value allows everything that a smaller one does."""


@dataclass(frozen=True)
class Limit:
    """One limit that a user set.

    Parameters
    ----------
    name
        Metric, engine limit, or `no_pause`.
    kind
        ``metric``, ``engine`` or ``option``.
    value
        In the unit of the metric; as in the instance for an engine limit; True for `no_pause`.
    """

    name: str
    kind: str
    value: Any


def user_limits(instance: Instance, limits: Mapping[str, float], *, no_pause: bool) -> list[Limit]:
    """Return every limit that rules anything out: engine limits first, bounds on metrics last."""
    found = []
    for name, loosest in LOOSEST.items():
        value, free = getattr(instance.engine, name), loosest(instance)
        if value is not None and value != free and not (name in COUNTED and value >= free):
            found.append(Limit(name, ENGINE, value))
    if no_pause:
        found.append(Limit(NO_PAUSE, OPTION, True))
    return found + [Limit(name, METRIC, value) for name, value in limits.items()]


class Relaxations:
    """Searches of one problem with some of its limits dropped or changed; they share clock and schedules.

    Parameters
    ----------
    search
        Of the problem itself.
    max_preemptions
        As for `solve`.
    """

    def __init__(self, search: Search, max_preemptions: int) -> None:
        self.search = search
        self.instance = search.instance
        self.max_preemptions = max_preemptions
        self._searches = {(search.instance.engine, search.no_pause): search}

    def amounts(self, kept: Iterable[Limit]) -> dict[str, int]:
        """Return the largest amounts that the bounds on metrics among `kept` allow."""
        caps: dict[str, int] = {}
        for limit in kept:
            if limit.kind == METRIC:
                key = amount_key(limit.name)
                (cap,) = limit_amounts(self.instance, {limit.name: limit.value}).values()
                caps[key] = min(cap, caps.get(key, cap))
        return caps

    def search_under(self, kept: Iterable[Limit]) -> Search:
        """Return the search of the problem with the limits `kept` and no others of the user's."""
        kept = list(kept)
        engine = self.instance.engine
        values = {
            name: loosest(self.instance) for name, loosest in LOOSEST.items() if getattr(engine, name) is not None
        }
        values |= {limit.name: limit.value for limit in kept if limit.kind == ENGINE}
        engine = replace(engine, **values)
        no_pause = any(limit.name == NO_PAUSE for limit in kept)
        if (engine, no_pause) not in self._searches:
            shown = [known.schedule for search in self._searches.values() for known in search.incumbents.found]
            self._searches[engine, no_pause] = type(self.search)(
                replace(self.instance, engine=engine), self.search.settings, self.search.clock.part(),
                no_pause=no_pause, max_preemptions=self.max_preemptions, known=shown,
            )  # fmt: skip
        return self._searches[engine, no_pause]

    def feasible(self, kept: Iterable[Limit], share: float) -> bool | None:
        """Return whether some schedule obeys the limits `kept`, None where it was not decided in `share` seconds."""
        kept = list(kept)
        caps = self.amounts(kept)
        name = "max_ttft" if PREFIX_METRICS.issuperset(caps) else "makespan"
        answer = self.search_under(kept).optimum(name, caps, time_limit=share, at_least=ANY)
        return answer.best is not None if answer.proved else None

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped one of the searches."""
        return any(search.interrupted for search in self._searches.values())


def unit_of(limit: Limit) -> str | None:
    """Return the unit of a limit's value, None for one without."""
    return OBJECTIVES[limit.name].unit if limit.kind == METRIC else None
