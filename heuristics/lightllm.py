"""lightllm: LightLLM's scheduler as Vidur has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import admit, decode, prefill, whole_prefill
from heuristics.plan import Plan
from heuristics.policy import Batch, Setup
from heuristics.promises import Promises
from heuristics.queued import QueuedPolicy
from heuristics.state import EngineState, RequestState


@dataclass
class LightLlm(QueuedPolicy):
    """Batches of whole prompts, or of decodes; admission by the KV peak of all that run together.

    While something runs, prompts get a turn after every ``max_waiting_iters`` batches of decodes. It looks at the
    true output lengths (``oracle=false``: at the declared caps). Nobody is preempted; residents at time 0 that claim
    more than the pool grow one after the other.
    """

    name: ClassVar[str] = "lightllm"
    summary: ClassVar[str] = "prompts every few decodes, admission by the peak of all (Vidur's LightLLM, 2024-11)"

    oracle: bool = knob(True, "look at the true output lengths (clairvoyant); false: at the declared caps")
    max_waiting_iters: int = knob(10, "batches of decodes between two attempts to admit", minimum=0)
    max_tokens_in_batch: int = knob(4096, "prompt tokens of one batch; a longer prompt runs alone", minimum=1)

    def start(self, setup: Setup) -> None:
        """Begin a run."""
        super().start(setup)
        self._waited = 0
        self._decodes = False

    def schedule(self, state: EngineState) -> Batch:
        """Return the next batch."""
        plan, residents = Plan(state), self.residents(state)
        promises = Promises(plan, self.outputs, "order")
        prefill(plan, promises, residents, whole_prefill)
        if not residents or plan.tokens or self._waited >= self.max_waiting_iters:
            if residents and not plan.tokens:
                self._waited = 0
            admit(plan, PeakTest(plan, self.outputs), self.queue, self._prompt)
        self._decodes = not plan.tokens
        if self._decodes:
            decode(plan, promises, residents)
        alike = self._decodes and not plan.evicted and not promises.overbooked
        return plan.batch(repeat=max(1, self.max_waiting_iters - self._waited) if alike else 1)

    def ran(self, batch: Batch, iterations: int, start_us: int, end_us: int) -> None:
        """Bring the queue up to date, and count batches of decodes."""
        super().ran(batch, iterations, start_us, end_us)
        if self._decodes:
            self._waited += iterations

    def _prompt(self, plan: Plan, request: RequestState) -> int:
        """Return the first tokens of a prompt: all of it, where the batch has room."""
        tokens = whole_prefill(plan, request)
        total = sum(plan.tokens.values()) + tokens
        return tokens if total <= self.max_tokens_in_batch or not plan.tokens else 0


class PeakTest:
    """Whether the KV of all that run together stays below the pool, when all decode in step until they finish.

    In step, the peak is reached when some request finishes: each of those that last as long has then grown by what
    that one had to come. The test is strict, as the original's; a request alone is held to nothing.

    Parameters
    ----------
    plan
        The pass.
    outputs
        Output tokens to reckon with.
    """

    def __init__(self, plan: Plan, outputs: Callable[[RequestState], int]) -> None:
        self.plan = plan
        self.outputs = outputs

    def may_enter(self, request: RequestState, tokens: int) -> bool:
        """Whether a request may be admitted."""
        pool = self.plan.limits.num_kv_blocks
        entering = [r for r in self.plan.tokens if not r.resident]
        others = [*(r for r in self.plan.state.running if r not in self.plan.evicted), *entering]
        return pool is None or not others or self.peak([*others, request]) < pool

    def peak(self, requests: list[RequestState]) -> int:
        """Return the most KV blocks that requests hold at once."""
        blocks = self.plan.limits.blocks
        pairs = sorted(map(self.pair, requests), key=lambda pair: -pair[1])
        return max(
            sum(blocks(now + to_come) for now, _ in pairs[: k + 1]) for k, (_, to_come) in enumerate(pairs)
        )

    def pair(self, request: RequestState) -> tuple[int, int]:
        """Return a request's KV tokens after its next token, and those to come after that."""
        now = request.known_tokens + (not request.decoding)
        return now, max(0, self.outputs(request) - request.emitted - 1 - (not request.decoding))
