"""The timeline of a schedule: what each request and the engine do at every moment. Times in µs.

One structure for the terminal, matplotlib, plotly and trace files, so that all of them show the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from instances.check import Violation
from instances.instance import Instance
from instances.objectives import gaps_us
from instances.request import Request


class Kind(Enum):
    """What a request does during a span.

    ``queued``: arrived, not started. ``prefill``: a chunk of its prompt (or of its recompute). ``decode``: one token.
    ``paused``: it holds its KV and is not worked on (left out of the iteration, or the engine idles).
    ``evicted``: thrown out, waiting to come back.
    """

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    PAUSED = "paused"
    EVICTED = "evicted"


WORK = (Kind.PREFILL, Kind.DECODE)
"""Kinds of spans that are part of an iteration."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which a request does one thing.

    Parameters
    ----------
    kind, start_us, end_us
        What, and when.
    iteration
        Index of the iteration that it is part of; None for waiting.
    tokens
        Tokens processed: of a chunk its size, of a decode 1, of waiting 0.
    computed, emitted
        Tokens whose KV is there, and output tokens emitted, at its end.
    """

    kind: Kind
    start_us: int
    end_us: int
    iteration: int | None = None
    tokens: int = 0
    computed: int = 0
    emitted: int = 0

    @property
    def duration_us(self) -> int:
        """How long it lasts."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Gap:
    """The time between two tokens of a request; the first may lie before time 0.

    Parameters
    ----------
    request
        Its id.
    start_us, end_us
        Times of the two tokens.
    """

    request: str
    start_us: int
    end_us: int

    @property
    def length_us(self) -> int:
        """The gap (TBT)."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Row:
    """One request over time.

    Parameters
    ----------
    request
        The request.
    spans
        In time order; they touch, unless the schedule is invalid.
    token_times
        When it emitted tokens, from time 0 on.
    gaps
        Between its tokens, in time order.
    evictions
        When it was evicted.
    """

    request: Request
    spans: tuple[Span, ...]
    token_times: tuple[int, ...]
    gaps: tuple[Gap, ...]
    evictions: tuple[int, ...]

    @property
    def ttft_us(self) -> int | None:
        """Arrival to first token; None without one, or if that lies before time 0."""
        if self.request.starts_in_decode or not self.token_times:
            return None
        return self.token_times[0] - self.request.arrival_us

    @property
    def e2e_us(self) -> int | None:
        """Arrival to last token; None without one."""
        return self.token_times[-1] - self.request.arrival_us if self.token_times else None

    @property
    def worst_gap_us(self) -> int:
        """Its longest gap, 0 without any."""
        return max((gap.length_us for gap in self.gaps), default=0)


@dataclass(frozen=True, slots=True)
class Beat:
    """One iteration, in numbers.

    Parameters
    ----------
    index, start_us, end_us
        Which, and when.
    prefill_tokens, decode_tokens
        Its share of the token budget.
    kv_blocks
        In use after its compute, finishing requests included.
    kv_kept
        The same without those of finishing requests: in use until the next iteration.
    prefilling, decoding, paused
        Residents by what they do in it.
    queued, evicted
        Requests that wait during it: not started, and thrown out.
    """

    index: int
    start_us: int
    end_us: int
    prefill_tokens: int
    decode_tokens: int
    kv_blocks: int
    kv_kept: int
    prefilling: int
    decoding: int
    paused: int
    queued: int
    evicted: int


@dataclass(frozen=True)
class Timeline:
    """A whole schedule over time; `chunkfront.timeline.build.build_timeline` makes it.

    Parameters
    ----------
    instance
        What was scheduled.
    producer
        Who made the schedule.
    rows
        The requests that are shown, by arrival; `hidden` more are only counted.
    beats
        One per iteration.
    queue
        Moments and the number of requests that wait (queued or evicted) from then on.
    stalls
        The gaps worth marking, of the shown requests.
    stall_us
        What a gap must exceed to be marked; None: its request's TBT SLO, or to be the longest.
    violations
        Rules that the schedule breaks.
    hidden
        Requests without a row.
    """

    instance: Instance
    producer: str
    rows: tuple[Row, ...]
    beats: tuple[Beat, ...]
    queue: tuple[tuple[int, int], ...]
    stalls: tuple[Gap, ...]
    violations: tuple[Violation, ...]
    hidden: int = 0
    stall_us: int | None = None

    @property
    def start_us(self) -> int:
        """Where time begins: the first arrival, or an (invalid) start before it."""
        return min([self.instance.origin_us, *(beat.start_us for beat in self.beats)])

    @property
    def end_us(self) -> int:
        """Where it ends: the last iteration's end, but at least 1 µs after the start."""
        return max([self.start_us + 1, *(beat.end_us for beat in self.beats)])

    def idle(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches in which the engine does nothing."""
        free_from = self.start_us
        for beat in self.beats:
            if beat.start_us > free_from:
                yield free_from, beat.start_us
            free_from = max(free_from, beat.end_us)


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with touching ones of one kind joined, for pictures too small to tell them apart."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if last is not None and last.kind is span.kind and last.end_us == span.start_us:
            joined[-1] = replace(span, start_us=last.start_us, iteration=last.iteration,
                                 tokens=last.tokens + span.tokens)  # fmt: skip
        else:
            joined.append(span)
    return joined


def token_gaps(request: Request, times: Sequence[int]) -> tuple[Gap, ...]:
    """Return the gaps between a request's tokens, the one since its last token before time 0 included."""
    lengths = gaps_us(request, times)
    ends = times[len(times) - len(lengths) :]
    return tuple(Gap(request.id, end - length, end) for length, end in zip(lengths, ends, strict=True))
