"""sarathi: the scheduler of Sarathi-Serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.booked import BookedPlan
from heuristics.knobs import knob
from heuristics.paged import PagedPolicy
from heuristics.passes import chunk_cap
from heuristics.plan import Plan
from heuristics.policy import Batch, PolicyError, Setup
from heuristics.state import RequestState
from instances.errors import InputError


@dataclass
class ChunkedPolicy(PagedPolicy):
    """Base of those with Sarathi-Serve's chunk budget: what decodes and prefills of an iteration share."""

    chunk_size: int = knob(512, "tokens of one iteration that prefills may fill up, decodes included", minimum=1)

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._chunk_size = chunk_cap(setup.limits, self.chunk_size)

    def size(self, request: RequestState) -> int:
        """Return the chunk budget for a request."""
        return self._chunk_size

    def chunk(self, plan: Plan, request: RequestState) -> int:
        """Return the tokens of a request: what the chunk budget and the limits of the engine leave."""
        used = plan.limits.max_num_batched_tokens - plan.budget
        return plan.tokens_for(request, max(0, self.size(request) - used))


@dataclass
class Sarathi(ChunkedPolicy):
    """Sarathi-Serve: decodes first, then running prefills, then new ones, all under one chunk budget.

    Decodes are bounded by the instance's token budget only; where they alone use up the chunk budget, prefills get
    nothing.

    Three bugs of the originals lead to what no schedule can hold. With ``bug_compatible`` the run stops with an error
    where the first of them strikes, and up to there it is the original's; without, the clean rule applies. The rest of
    the chunk budget becomes negative, and an unfinished prefill gets a negative chunk. A preempted request forgets how
    much it has emitted, and one that goes up to its declared outputs generates too much. In Vidur's copy, one that is
    evicted amid its prefill loses the rest of its prompt.

    With ``dynamic_chunks`` the chunk budget of a prompt shrinks with its progress: ``chunk_schedule_stages`` sizes
    from high to low, rounded to multiples of 32, each for an equal share of ``chunk_schedule_max_tokens``.
    Upstream has no defaults for these four.
    """

    name: ClassVar[str] = "sarathi"
    summary: ClassVar[str] = "decodes, then chunks under a chunk budget, whole prompts booked (Sarathi-Serve, 2026-01)"

    dynamic_chunks: bool = knob(False, "the chunk budget shrinks with a prompt's progress")
    high_chunk_size: int = knob(1024, "chunk budget at the start of a prompt (dynamic_chunks), in tokens", minimum=1)
    low_chunk_size: int = knob(256, "chunk budget at its end (dynamic_chunks), in tokens", minimum=1)
    chunk_schedule_stages: int = knob(16, "number of sizes (dynamic_chunks)", minimum=1)
    chunk_schedule_max_tokens: int = knob(4096, "prompt tokens that the sizes cover (dynamic_chunks)", minimum=1)
    bug_compatible: bool = knob(False, "stop with an error where a bug of the original would break the schedule")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low_chunk_size > self.high_chunk_size:
            expected = f"an integer <= high_chunk_size {self.high_chunk_size}"
            raise InputError.expected(expected, self.low_chunk_size, "low_chunk_size")

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._per_stage = -(-self.chunk_schedule_max_tokens // self.chunk_schedule_stages)
        self._sizes = [chunk_cap(setup.limits, size) for size in self.sizes()]
        self._forgotten: dict[RequestState, int] = {}
        self._begun: set[RequestState] = set()
        self._iteration = 0

    def sizes(self) -> list[int]:
        """Return the dynamic chunk sizes, the first one for the start of a prompt."""
        low, high, steps = self.low_chunk_size, self.high_chunk_size, self.chunk_schedule_stages - 1
        unit = min(32, low)
        exact = [high - (high - low) * k // max(1, steps) for k in range(steps + 1)]
        return [(size + unit // 2) // unit * unit for size in exact]

    def chunk(self, plan: Plan, request: RequestState) -> int:
        """Return the tokens of a request, see `ChunkedPolicy.chunk`."""
        left = self.size(request) - plan.limits.max_num_batched_tokens + plan.budget
        if self.bug_compatible and left < 0 and request.resident and not request.decoding:
            problem = f"{left} tokens are left of the chunk budget, and the original gives {request.id!r} such a chunk"
            raise PolicyError(self.spec, plan.state.iteration, "chunk", problem, request.id, left, 1)
        return super().chunk(plan, request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date; find those that the original would have made forget something."""
        super().ran(batch, iterations, start_us, end_us)
        self._iteration += iterations
        if not self.bug_compatible:
            return
        for request in batch.evict:
            if request.emitted:
                self._forgotten[request] = request.emitted
            elif request in self._begun:
                problem = f"Vidur's copy evicts {request.id!r} amid its prefill and loses the rest of its prompt"
                raise PolicyError(self.spec, self._iteration - 1, "prefill-target", problem, request.id)
        self._begun.update(request for request, _ in batch.tokens if not request.decoding)

    def finished(self, request: RequestState) -> None:
        """Find out whether the original would go on."""
        if request in self._forgotten and not request.outputs_left:
            count = self._forgotten[request]
            problem = f"the original has forgotten that {request.id!r} emitted {count} tokens before it was preempted"
            raise PolicyError(self.spec, self._iteration - 1, "emission", problem + ", and generates on", request.id)

    def size(self, request: RequestState) -> int:
        """Return the chunk budget for a request."""
        if not self.dynamic_chunks:
            return self._chunk_size
        return self._sizes[min(request.computed // self._per_stage, len(self._sizes) - 1)]

    def decide(self, plan: BookedPlan) -> None:
        """Make the decisions of one pass."""
        residents = self.by_arrival(plan.state)
        self.decode(plan, residents)
        self.prefill(plan, residents, self.chunk)
        self.admit(plan, self.waiting, self.chunk)

    def repeats(self, plan: Plan) -> int:
        """Return how often a batch would be the same: chunks too, while the blocks that nobody has booked suffice.

        Whoever was not admitted now does not get in later: budget and seats stay, the blocks get fewer.
        """
        if self.dynamic_chunks or not plan.goes_on or not plan.has_chunks:
            return super().repeats(plan)
        if not plan.decodes:
            return plan.rounds()
        spare = plan.blocks - 1 - plan.decodes  # one takes a block per block size and one more, and needs a free one
        return max(1, min(plan.rounds(), spare * plan.limits.block_size // plan.decodes))
