"""alpha-protection: greedy admission that leaves a share of the KV pool free; an overflow clears the engine."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import FOREVER, Batch, Policy, Setup
from heuristics.promises import Promises
from heuristics.queues import OrderedQueue
from heuristics.state import EngineState, RequestState
from instances.engine import EngineLimits
from instances.errors import InputError


@dataclass
class AlphaProtection(Policy):
    """The two benchmarks of Jaillet et al. (2502.07115): alpha-protection, and with ``beta`` alpha-protection with
    beta-clearing.

    First come, first served: whoever leaves the share ``alpha`` of the pool free at the end of the coming iteration
    enters with its whole prompt, whatever follows. When the decodes need more than the pool has, all residents are
    evicted, or each with probability ``beta``, again and again until the rest fits. Where our model differs: the
    emitted tokens of an evicted request are kept and prefilled again, and an iteration needs work, so the resident
    that arrived first stays (the paper's runs can repeat themselves for ever where ``alpha`` is small).

    It preempts, by recompute where the instance forbids preemption.
    """

    name: ClassVar[str] = "alpha-protection"
    summary: ClassVar[str] = "a share of KV left free, all evicted on overflow (alpha/beta of arXiv 2502.07115)"

    alpha: float = knob(0.2, "share of the KV pool that an admission leaves free, below 1", minimum=0)
    beta: float = knob(1.0, "probability with which an overflow evicts each resident; 1: all", minimum=0)
    seed: int = knob(0, "of the draws with beta < 1", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha >= 1:
            raise InputError.expected("a number < 1", self.alpha, "alpha")
        if not 0 < self.beta <= 1:
            raise InputError.expected("a number > 0 and <= 1", self.beta, "beta")

    def engine(self, limits: EngineLimits) -> EngineLimits:
        """Return the engine of the instance, able to recompute."""
        return replace(limits, preemption="recompute") if limits.preemption == "none" else limits

    def start(self, setup: Setup) -> None:
        """Begin a run with an empty queue and the first draw."""
        self.queue = OrderedQueue(lambda r: (r.arrival_us, r.index))
        self._draws = random.Random(self.seed)
        pool = setup.limits.num_kv_blocks
        self._most = None if pool is None else int((1 - Fraction(str(self.alpha))) * pool)

    def arrived(self, request: RequestState) -> None:
        """Queue a new request, unless it is resident from the start."""
        if not request.resident:
            self.queue.push(request)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date."""
        self.queue.follow(batch)

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan = Plan(state)
        promises = Promises(plan, lambda r: r.max_output_tokens, "order")
        residents = sorted(state.running, key=lambda r: (r.arrival_us, r.index))
        self._clear(plan, promises, residents)
        decode(plan, promises, residents)
        prefill(plan, promises, residents, whole_prefill)
        admit(plan, _Protection(plan, promises, self._most), self.queue, whole_prefill)
        alike = not plan.evicted and all(r.decoding and r in plan.tokens for r in state.running)
        settled = alike and not promises.overbooked and all(r.resident for r in plan.tokens)
        return plan.batch(repeat=FOREVER if settled else 1)

    def _clear(self, plan: Plan, promises: Promises, residents: list[RequestState]) -> None:
        """Evict until the next token of everybody in phase decode fits; who cannot come back stays."""

        def overflow() -> bool:
            return sum(plan.need(r, 1) for r in residents if r.decoding and r not in plan.evicted) > plan.blocks

        while overflow():
            victims = [r for r in residents[1:] if r not in plan.evicted and promises.may_evict(r)]
            if not victims:
                return
            for victim in victims:
                if self._draws.random() < self.beta:
                    plan.evict(victim)


@dataclass(frozen=True, slots=True)
class _Protection:
    """Admission up to a number of KV blocks (None: any); an empty engine takes the first one whatever it needs."""

    plan: Plan
    promises: Promises
    most: int | None

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        plan, pool = self.plan, self.plan.limits.num_kv_blocks
        if not self.promises.may_enter(request, tokens):
            return False
        if self.most is None or pool is None or (len(plan.state.running) == len(plan.evicted) and not plan.tokens):
            return True
        whole = plan.need(request, request.remaining)
        return pool - plan.blocks + whole <= self.most
