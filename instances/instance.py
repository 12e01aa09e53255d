"""Instance: requests, engine limits and cost model, validated once; JSON in and out.

Example
-------
>>> from instances.instance import Instance
>>> from instances.request import Request
>>> from instances.engine import EngineLimits
>>> from instances.cost_model import CostModel
>>> one = Instance("one", (Request("r0", prompt_tokens=4, output_tokens=2),), EngineLimits(8), CostModel.unit())
>>> Instance.from_json(one.to_json()) == one
True
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET

from instances import files, shapes
from instances.conform import conform
from instances.conversion import (
    cost_dict,
    cost_from_file,
    engine_dict,
    engine_from_file,
    request_dict,
    request_from_file,
)
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError, in_file, inside
from instances.request import Request
from instances.units import MAX_TIME_US, ms_from_us


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem to schedule (model.md).

    Parameters
    ----------
    name
        Non-empty.
    requests
        At least one, with unique ids.
    engine, cost
        Limits of the engine, and what an iteration costs.
    description, source
        Free text.
    axes
        The two metrics that `frontier` shows when it is not told.

    Raises
    ------
    InputError
        (a ValueError) for duplicate ids, residents that exceed the limits at time 0, and requests that can never be
        served, by name with the two numbers.
    """

    name: str
    requests: tuple[Request, ...]
    engine: EngineLimits
    cost: CostModel
    description: str | None = None
    source: str | None = None
    axes: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError.expected("a non-empty string", self.name, "name")
        object.__setattr__(self, "requests", tuple(self.requests))
        if not self.requests:
            raise InputError.expected("at least one request", [], "requests")
        self._check_ids()
        for index, request in enumerate(self.requests):
            reason = self.engine.never_fits(request)
            if reason:
                raise InputError(reason, field=f"requests[{index}]")
        self._check_residents()
        self._check_range()

    def _check_ids(self) -> None:
        seen: dict[str, int] = {}
        for index, request in enumerate(self.requests):
            if request.id in seen:
                what = f"a unique id (requests[{seen[request.id]}] has it too)"
                raise InputError.expected(what, request.id, f"requests[{index}].id")
            seen[request.id] = index

    def _check_residents(self) -> None:
        """Check that what is resident at time 0 obeys the limits."""
        residents = [r for r in self.requests if r.progress is not None]
        seats, pool = self.engine.max_num_seqs, self.engine.num_kv_blocks
        if seats is not None and len(residents) > seats:
            raise InputError(f"{len(residents)} requests have progress (resident at time 0), max_num_seqs is {seats}",
                             field="requests")
        held = sum(self.engine.blocks(r.computed_before) for r in residents)
        if pool is not None and held > pool:
            raise InputError(f"requests with progress hold {held} KV blocks at time 0, num_kv_blocks is {pool}",
                             field="requests")

    def _check_range(self) -> None:
        """Refuse instances whose schedules may end later than the largest time that files hold exactly."""
        tokens = max(r.peak_kv_tokens for r in self.requests)
        steps = sum(r.prompt_tokens + r.output_tokens for r in self.requests)
        padded = self.cost.capture_sizes[-1] if self.cost.capture_sizes else 1
        # every token in an iteration of its own, with a prefill, a decode and a swap as dear as any
        slowest = self.cost.duration_us([(tokens - 1, tokens)], [tokens] * padded, [tokens], [tokens])
        worst = max(r.arrival_us for r in self.requests) + steps * slowest
        if worst > MAX_TIME_US:
            what = f"costs with which a schedule ends by {ms_from_us(MAX_TIME_US):.0f} ms"
            raise InputError(f"expected {what}, this one may last {ms_from_us(worst):.0f} ms", field="cost")

    def request(self, request_id: str) -> Request:
        """Return the request of that id; KeyError where there is none."""
        for request in self.requests:
            if request.id == request_id:
                return request
        raise KeyError(request_id)

    @property
    def origin_us(self) -> int:
        """Earliest arrival, from which the makespan counts."""
        return min(r.arrival_us for r in self.requests)

    @classmethod
    def from_json(cls, text: str, *, file: str = "") -> Instance:
        """Return the instance that a JSON text describes; `file` is named in errors."""
        with in_file(file):
            return cls.from_dict(files.parse_json(text))

    @classmethod
    def read(cls, path: Path | str) -> Instance:
        """Return the instance in a file.

        Raises
        ------
        InputError
            Naming the file, the path in it, the value and what was expected.
        """
        return cls.from_json(files.read_text(path), file=str(path))

    @classmethod
    def from_dict(cls, raw: Any) -> Instance:
        """Return the instance that a parsed JSON document describes."""
        data: shapes.InstanceFile = conform(raw, shapes.InstanceFile)
        requests = []
        for index, entry in enumerate(data.requests):
            with inside(f"requests[{index}]"):
                requests.append(request_from_file(entry))
        with inside("engine"):
            engine = engine_from_file(data.engine)
        with inside("cost"):
            cost = cost_from_file(data.cost)
        return cls(
            name=data.name,
            requests=tuple(requests),
            engine=engine,
            cost=cost,
            description=None if data.description is UNSET else data.description,
            source=None if data.source is UNSET else data.source,
            axes=None if data.axes is UNSET else data.axes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document; `from_dict` of it equals this instance."""
        document: dict[str, Any] = {"format": shapes.INSTANCE_FORMAT, "name": self.name}
        for name in ("description", "source"):
            if getattr(self, name) is not None:
                document[name] = getattr(self, name)
        if self.axes is not None:
            document["axes"] = list(self.axes)
        document["requests"] = [request_dict(r) for r in self.requests]
        document["engine"] = engine_dict(self.engine)
        document["cost"] = cost_dict(self.cost)
        return document

    def to_json(self) -> str:
        """Return the JSON text, indented."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
