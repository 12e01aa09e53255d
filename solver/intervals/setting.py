"""When an instance is one of rounds and intervals (the setting of arXiv 2502.07115), and what it looks like then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from instances.request import Request
from instances.schedule import Schedule
from solver.problem import Problem
from solver.timing import durations, earliest

LARGEST = 4_000_000
"""Largest number of requests x rounds; above, the general model is as good."""
SUMS = ("mean_ttft", "mean_e2e", "weighted_e2e")
"""Objectives that add up over the requests, linear in their starts."""
COUNTED = "slo_attainment"


@dataclass(frozen=True)
class Span:
    """One request as an interval: it works in `rounds` consecutive rounds, the first of which does its whole prefill.

    Parameters
    ----------
    index, request
        Its place in the instance, and itself.
    prompt, rounds
        KV tokens at the end of its first round, and how many rounds it takes (its outputs).
    """

    index: int
    request: Request
    prompt: int
    rounds: int

    @property
    def peak(self) -> int:
        """KV tokens at the end of its last round."""
        return self.prompt + self.rounds - 1


@dataclass(frozen=True)
class Rounds:
    """An instance in which a schedule is one start per request, in rounds of the same length.

    Parameters
    ----------
    problem
        Of the solver.
    spans
        In the order of the requests.
    unit_us
        Length of a round.
    """

    problem: Problem
    spans: tuple[Span, ...]
    unit_us: int

    @property
    def horizon(self) -> int:
        """Rounds in which everything ends, in some optimum under any limits.

        Proof: take out the rounds in which nobody works; all others keep who works in them, and nothing gets later.
        Then every round before the last end is worked in, and there are no more of those than outputs.
        """
        return sum(span.rounds for span in self.spans)

    def last_start(self, span: Span) -> int:
        """Return the latest start that matters."""
        return self.horizon - span.rounds

    def on_time(self, span: Span) -> int:
        """Return the latest start with which a request keeps its SLOs, -1 where none does."""
        request, last = span.request, self.last_start(span)
        if span.rounds > 1 and request.tbt_slo_us is not None and request.tbt_slo_us < self.unit_us:
            return -1
        if request.ttft_slo_us is not None:
            last = min(last, request.ttft_slo_us // self.unit_us - 1)
        if request.e2e_slo_us is not None:
            last = min(last, request.e2e_slo_us // self.unit_us - span.rounds)
        return max(last, -1)

    def weights(self, name: str) -> list[tuple[int, int]]:
        """Return per request the (a, b) whose sum of a·start + b is an objective of `SUMS`, in rounds."""
        if name == "mean_ttft":
            return [(1, 1) for _ in self.spans]
        if name == "mean_e2e":
            return [(1, span.rounds) for span in self.spans]
        return [(span.request.weight, span.request.weight * span.rounds) for span in self.spans]

    def offsets(self, name: str) -> list[int]:
        """Return per request the b for which an objective that is a maximum is that of start + b, in rounds."""
        return [1 if name == "max_ttft" else span.rounds for span in self.spans]

    def amount_us(self, name: str, rounds: int) -> int:
        """Return an amount in rounds as µs (a count stays one)."""
        return rounds if name == COUNTED else rounds * self.unit_us

    def schedule(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of one start per request; rounds in which nobody works are left out."""
        batches: list[tuple[Mapping[str, int], Sequence[str]]] = []
        placed = list(zip(self.spans, starts, strict=True))
        for now in sorted({start + n for span, start in placed for n in range(span.rounds)}):
            chunks = {s.request.id: s.request.prefill_left for s, start in placed if start == now}
            decodes = tuple(s.request.id for s, start in placed if start < now < start + s.rounds)
            batches.append((chunks, decodes))
        instance = self.problem.instance
        timed = earliest(instance, durations(instance, batches, "exact"))
        assert timed is not None, "without gap limits every sequence has a timing"
        return timed


def rounds_of(problem: Problem, *, no_pause: bool) -> Rounds | None:
    """Return the instance in rounds where this formulation holds, None elsewhere.

    It holds where every iteration lasts the same, nobody pauses (`no_pause`) or is evicted, all requests arrive at
    once and none is resident before, batches may be mixed, and every prompt may be prefilled whole; where chunks are
    allowed, the token budget must be enough for all requests at once, so that it never binds.

    Proof. Idle time is of no use: without it no iteration starts before the common arrival, and no token or gap gets
    longer. So iterations are rounds 0, 1, 2, ... of equal length. Where chunks are allowed, let a prefill do all of its
    chunks in the round of its last one: that round emits the same token and holds the same KV after it, earlier ones
    hold less, seats are taken later, nothing is left partial, the budget suffices, and rounds that become empty are
    left out. So each request prefills whole in one round, its start, emits in it, and as it may not pause, in each
    of the following rounds until its outputs are out: an interval that holds ``prompt + j`` KV tokens at the end of
    its j-th following round. Conversely starts that keep pool, seats and budget in every round are a schedule.

    With different arrivals this would be wrong: all residents may then stand still for a while, so that they hold less
    when a short request arrives (idling is no pause). Pausing itself can help too, so without `no_pause` the
    optimum may be better.
    """
    instance, engine = problem.instance, problem.engine
    requests = instance.requests
    if not no_pause or engine.preemption != "none" or not engine.mixed_batches or not instance.cost.is_constant:
        return None
    if any(r.progress is not None for r in requests) or len({r.arrival_us for r in requests}) > 1:
        return None
    lefts = [r.prefill_left for r in requests]
    if not all(engine.chunk_allowed(left, left) for left in lefts):
        return None
    if engine.enable_chunked_prefill and sum(lefts) > engine.max_num_batched_tokens:
        return None
    spans = tuple(Span(i, r, r.prompt_tokens, r.output_tokens) for i, r in enumerate(requests))
    found = Rounds(problem, spans, instance.cost.duration_us([(0, 1)], []))
    return found if found.unit_us and found.horizon * len(spans) <= LARGEST else None
