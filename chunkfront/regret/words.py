"""The critical path of a request in words: "waited 38 ms behind r3's prefill, 12 ms for base costs; ..."."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfront.regret.path import (
    AGAIN,
    BETWEEN,
    DECODE,
    EVICTED,
    IDLE,
    PAUSED,
    PREFILL,
    QUEUED,
    RUNNING,
    LatencyPath,
    Part,
)
from instances.units import US_PER_MS

DOING = {
    QUEUED: "waited",
    PREFILL: "was prefilled in",
    BETWEEN: "waited between chunks",
    DECODE: "decoded in",
    PAUSED: "was paused",
    EVICTED: "was evicted",
    AGAIN: "was prefilled again in",
}
OVERHEADS = {
    "base": "for base costs",
    "tiles": "for tiles",
    "padding": "for padding to captured sizes",
    "eager": "for batches without a captured graph",
}


def path_sentences(path: LatencyPath) -> list[str]:
    """Return one sentence per latency of the request, TTFT (where it has one) and E2E; the numbers add up."""
    sentences = []
    if path.first is not None and path.ttft_us is not None:
        sentences.append(_sentence(f"TTFT of {path.request}", path.ttft_us, path.first, path.request))
    sentences.append(_sentence(f"E2E of {path.request}", path.e2e_us, path.last, path.request))
    return sentences


def _sentence(what: str, total: int, parts: Sequence[Part], own: str) -> str:
    states = list(dict.fromkeys(part.state for part in parts))
    clauses = [_clause(state, [part for part in parts if part.state == state], own) for state in states]
    return f"{what}: {_ms(total)} = {'; '.join(clauses)}." if clauses else f"{what}: {_ms(total)}."


def _clause(state: str, parts: Sequence[Part], own: str) -> str:
    """Return what happened in one state, the longest part first."""
    total = sum(part.us for part in parts)
    working = state in (PREFILL, DECODE, AGAIN)
    causes = [f"{_ms(part.us)} {_cause(part, own, working=working)}" for part in sorted(parts, key=lambda p: -p.us)]
    if len(causes) == 1 and not working:
        return f"{DOING[state]} {causes[0]}"
    return f"{DOING[state]} {_ms(total)} ({', '.join(causes)})"


def _cause(part: Part, own: str, *, working: bool) -> str:
    if part.cause in OVERHEADS:
        return OVERHEADS[part.cause]
    if part.cause == RUNNING:
        return "for the iteration that ran already" + (f", mostly {part.request}'s" if part.request else "")
    if part.cause == IDLE:
        return "while the engine idled" + (f" until {part.request} arrived" if part.request is not None else "")
    work = {"prefill": "prefill", "decode": "decodes", "swap": "KV swaps"}[part.cause]
    if part.request == own:
        return f"for its own {work}"
    return f"{'beside' if working else 'behind'} {part.request}'s {work}"


def _ms(us: int) -> str:
    """Return µs in ms with every digit: the numbers of a sentence add up."""
    whole, rest = divmod(us, US_PER_MS)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + " ms"
