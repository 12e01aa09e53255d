"""Properties of the engines' schedulers (vLLM V0, Sarathi-Serve, LightLLM, FastServe, Orca) on random instances.

They run on the engine that they model (`Policy.engine`): it preempts where the instance forbids it.
"""

from __future__ import annotations

import pytest

from heuristics.policy import PolicyError
from heuristics.recorder import Run
from heuristics.simulator import simulate
from instances.check import violations
from instances.instance import Instance
from instances.metrics import metric
from tests.judges.online import assert_no_future, assert_no_truth, assert_repeats_change_nothing, drawn

ONLINE = (
    "vllm-v0",
    "vllm-v0:policy=priority,watermark=0.3,one_free_block=false",
    "vllm-v0:scheduler_delay_factor=2,watermark=0",
    "vllm-v0-chunked",
    "vllm-v0-chunked:max_num_partial_prefills=3,long_prefill_token_threshold=2,block_aligned=true",
    "vllm-v0-chunked:max_num_partial_prefills=2,max_long_partial_prefills=2,one_free_block=false,watermark=0.2",
    "sarathi",
    "sarathi:chunk_size=3,watermark=0.3",
    "sarathi:dynamic_chunks=true,high_chunk_size=5,low_chunk_size=1,chunk_schedule_stages=3,chunk_schedule_max_tokens=9",
    "sarathi-vllm",
    "sarathi-vllm:padded=true,max_tokens_in_batch=6,one_free_block=false",
    "simple-chunking",
    "simple-chunking:chunk_size=2,watermark=0.2",
    "fastserve-fcfs",
    "fastserve-fcfs:max_batch_size=2,max_tokens_per_batch=4",
    "fastserve-srpt:oracle=false,max_batch_size=2",
    "fastserve-mlfq",
    "fastserve-mlfq:max_batch_size=2,quantum_ms=1,starvation_iterations=3,starvation_ms=2",
    "fastserve-mlfq:max_batch_size=3,proactive=false,skip_join=false,max_tokens_per_batch=5",
    "lightllm:oracle=false,max_waiting_iters=2",
    "orca:max_model_len=9",
    "orca-paper:slots=6,max_batch_size=2",
    "faster-transformer:max_model_len=7,batch_size=2",
)
"""Those that see what an online scheduler sees."""
CLAIRVOYANT = ("lightllm", "lightllm:max_waiting_iters=0,max_tokens_in_batch=3", "fastserve-srpt",
               "fastserve-srpt:max_batch_size=1")  # fmt: skip
SEEDS = range(150)


def attempt(instance: Instance, policy: str, **options: bool) -> Run | None:
    """Return the run; None where the engine hangs, as the real ones do where a request cannot come back."""
    try:
        return simulate(instance, policy, **options)
    except PolicyError as error:
        if error.rule != "idle":
            raise
        return None


@pytest.mark.parametrize("policy", ONLINE + CLAIRVOYANT)
def test_the_checker_is_silent_and_hardly_any_run_hangs(policy):
    hangs = 0
    for seed in SEEDS:
        run = attempt(drawn(seed), policy)
        hangs += run is None
        assert run is None or not violations(run.instance, run.schedule), f"seed {seed}"
    assert hangs <= len(SEEDS) // 50


@pytest.mark.parametrize("policy", ONLINE + CLAIRVOYANT)
def test_repeats_change_nothing(policy):
    assert_repeats_change_nothing(attempt, policy, SEEDS)


@pytest.mark.parametrize("policy", ONLINE + CLAIRVOYANT)
def test_what_has_not_arrived_changes_nothing(policy):
    assert_no_future(attempt, policy, SEEDS, at_least=25)


@pytest.mark.parametrize("policy", ONLINE)
def test_true_output_lengths_change_nothing_before_they_show(policy):
    assert_no_truth(attempt, policy, SEEDS, at_least=25)


@pytest.mark.parametrize("policy", [p for p in ONLINE + CLAIRVOYANT if p.startswith("fastserve")])
def test_fastserve_recomputes_nothing(policy):
    for seed in SEEDS:
        run = attempt(drawn(seed), policy)
        assert run is None or metric(run.instance, run.schedule, "recomputed_tokens") == 0
