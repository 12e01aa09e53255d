"""Runs as the tables of policies.md show them, so that a worked example is a test as it stands.

Cells: ``p8`` 8 tokens of a prefill; ``p2*`` 2 and the prefill ended, so a token came out; ``d*`` a decode; ``#`` behind
a cell: finished; ``.`` alive but not scheduled; ``-`` not arrived or gone; ``x`` evicted. One column per iteration.
"""

from __future__ import annotations

from heuristics.recorder import Record, Run
from heuristics.simulator import simulate
from instances.check import require_valid
from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Request
from instances.units import US_PER_MS


def loads(text: str, **fields: dict[str, int]) -> tuple[Request, ...]:
    """Return the requests of a text like ``A(P10,O3)@1 B(P5,O2,M8)@1``; ``@k``: there from the
    k-th iteration on, of 1 ms each.

    Parameters
    ----------
    text
        Requests separated by spaces; M is the declared cap.
    fields
        Other fields per id, like ``A={"priority": 5}``.
    """
    requests = []
    for entry in text.split():
        name, _, rest = entry.partition("(")
        sizes, _, first = rest.partition(")")
        sized = {part[0]: int(part[1:]) for part in sizes.split(",")}
        requests.append(
            Request(name, sized["P"], sized["O"], (int(first.lstrip("@") or 1) - 1) * US_PER_MS, sized.get("M"),
                    **fields.get(name, {}))
        )  # fmt: skip
    return tuple(requests)


def play(requests: tuple[Request, ...], policy: str, budget: int, **engine: object) -> Run:
    """Return the checked run of a policy with iterations of 1 ms; preemption is by recompute unless said."""
    limits = EngineLimits(budget, **{"preemption": "recompute", **engine})  # type: ignore[arg-type]
    run = simulate(Instance("table", requests, limits, CostModel.unit()), policy)
    require_valid(run.instance, run.schedule)
    return run


def table(run: Run) -> dict[str, str]:
    """Return the row of cells of every request."""
    return {r.id: " ".join(_row(r, run.records)) for r in run.instance.requests}


def rows(text: str) -> dict[str, str]:
    """Return the rows of a table written as lines of an id and cells."""
    lines = (line.split() for line in text.strip().splitlines())
    return {cells[0]: " ".join(cells[1:]) for cells in lines}


def free_blocks(run: Run) -> list[int]:
    """Return the KV blocks free after each iteration, finished requests released (as the tables count them)."""
    blocks = run.instance.engine.blocks
    peaks = {r.id: blocks(r.peak_kv_tokens) for r in run.instance.requests}
    return [record.free_blocks + sum(peaks[r.id] for r in record.finished) for record in run.records]


def _row(request: Request, records: tuple[Record, ...]) -> list[str]:
    cells, gone = [], False
    for record in records:
        alive = not gone and request.arrival_us <= record.start_us
        cells.append(_cell(request.id, record) if alive else "-")
        gone = gone or request.id in [r.id for r in record.finished]
    return cells


def _cell(name: str, record: Record) -> str:
    if name in [r.id for r in record.evict]:
        return "x"
    tokens = {r.id: n for r, n in record.tokens}
    if name not in tokens:
        return "."
    cell = f"p{tokens[name]}" if name in {r.id for r in record.prefills} else "d"
    cell += "*" if name in [r.id for r in record.emitted] else ""
    return cell + ("#" if name in [r.id for r in record.finished] else "")
