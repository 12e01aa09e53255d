"""Schedule: the answer, an immutable list of iterations; JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from instances import files, shapes
from instances.conform import conform
from instances.errors import in_file
from instances.units import MAX_TIME_US, as_int, ms_from_us, us_from_ms


@dataclass(frozen=True)
class Iteration:
    """One iteration of the engine (model.md §3). Times in µs.

    Parameters
    ----------
    start_us, duration_us
        When it starts and how long it lasts.
    prefill
        Tokens prefilled per request id, in decision order.
    decode
        Ids of the requests that decode one token.
    evict, restore
        Ids evicted at its start, and swapped-out ids brought back at its start (before the evictions).
    """

    start_us: int
    duration_us: int
    prefill: Mapping[str, int] = field(default_factory=dict)
    decode: tuple[str, ...] = ()
    evict: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("start_us", "duration_us"):
            object.__setattr__(self, name, as_int(getattr(self, name), name, maximum=MAX_TIME_US))
        chunks = {key: as_int(tokens, f"prefill[{key!r}]") for key, tokens in self.prefill.items()}
        object.__setattr__(self, "prefill", MappingProxyType(chunks))
        for name in ("decode", "evict", "restore"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __hash__(self) -> int:
        return hash((self.start_us, self.duration_us, frozenset(self.prefill.items()), self.decode))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled
        return Iteration, (self.start_us, self.duration_us, dict(self.prefill), self.decode, self.evict, self.restore)

    @property
    def end_us(self) -> int:
        """When it ends, and its tokens are emitted."""
        return self.start_us + self.duration_us

    @property
    def tokens(self) -> int:
        """Tokens of the budget that it uses."""
        return sum(self.prefill.values()) + len(self.decode)


@dataclass(frozen=True)
class Schedule:
    """A schedule of an instance.

    Parameters
    ----------
    instance
        Name of the instance.
    producer
        Who made it: a policy's name, or the solver.
    iterations
        In time order.
    """

    instance: str
    producer: str
    iterations: tuple[Iteration, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", tuple(self.iterations))

    @classmethod
    def from_json(cls, text: str, *, file: str = "") -> Schedule:
        """Return the schedule that a JSON text describes; `file` is named in errors."""
        with in_file(file):
            return cls.from_dict(files.parse_json(text))

    @classmethod
    def read(cls, path: Path | str) -> Schedule:
        """Return the schedule in a file.

        Raises
        ------
        InputError
            Naming the file, the path in it, the value and what was expected.
        """
        return cls.from_json(files.read_text(path), file=str(path))

    @classmethod
    def from_dict(cls, raw: Any) -> Schedule:
        """Return the schedule that a parsed JSON document describes."""
        data: shapes.ScheduleFile = conform(raw, shapes.ScheduleFile)
        iterations = [
            Iteration(
                start_us=us_from_ms(entry.start_ms, f"iterations[{k}].start_ms"),
                duration_us=us_from_ms(entry.duration_ms, f"iterations[{k}].duration_ms"),
                prefill=entry.prefill,
                decode=tuple(entry.decode),
                evict=tuple(entry.evict),
                restore=tuple(entry.restore),
            )
            for k, entry in enumerate(data.iterations)
        ]
        return cls(data.instance, data.producer, tuple(iterations))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document; `from_dict` of it equals this schedule."""
        iterations = [
            {
                "start_ms": ms_from_us(it.start_us),
                "duration_ms": ms_from_us(it.duration_us),
                "prefill": dict(it.prefill),
                "decode": list(it.decode),
                "evict": list(it.evict),
                "restore": list(it.restore),
            }
            for it in self.iterations
        ]
        return {
            "format": shapes.SCHEDULE_FORMAT,
            "instance": self.instance,
            "producer": self.producer,
            "iterations": iterations,
        }

    def to_json(self) -> str:
        """Return the JSON text, indented."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
