"""sarathi-vllm: vLLM's first scheduler as Sarathi-Serve and Vidur have it for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heuristics.knobs import knob
from heuristics.passes import whole_prefill
from heuristics.plan import Plan
from heuristics.prefill_batches import PrefillBatches
from heuristics.state import RequestState


@dataclass
class SarathiVllm(PrefillBatches):
    """Whole prompts in batches of their own; residents decode, and are preempted, in the order of arrival.

    Vidur's copy counts a batch of prompts as padded to the longest one: ``padded=true,max_tokens_in_batch=4096``.
    """

    name: ClassVar[str] = "sarathi-vllm"
    summary: ClassVar[str] = "whole prompts in batches of their own, else decodes (Sarathi-Serve's vLLM, 2026-01)"

    max_tokens_in_batch: int = knob(0, "prompt tokens of one batch; 0: the token budget", minimum=0)
    padded: bool = knob(False, "count every prompt of a batch as long as the longest one (Vidur)")

    def tokens(self, plan: Plan, request: RequestState) -> int:
        """Return the first tokens of a request that is admitted: all of its prefill, or none."""
        tokens = whole_prefill(plan, request)
        batch = [*plan.tokens.values(), tokens]
        total = len(batch) * max(batch) if self.padded else sum(batch)
        most = self.max_tokens_in_batch or plan.limits.max_num_batched_tokens
        return tokens if total <= most or not plan.tokens else 0
