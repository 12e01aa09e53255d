"""How fast the simulator is: a whole Azure trace under several policies, and sched-sim beside it.

Usage::

    python benchmarks/simulate.py AzureLLMInferenceTrace_conv.csv [--count N] [--policies A,B] [--peer]

Prints iterations per CPU-second, the mean batch, CPU seconds and the peak memory of the process so far. ``--peer``
runs sched-sim 0.2.1 (``pip install sched-sim==0.2.1``) on the same lengths and arrivals at the same seats and budget.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

from heuristics.simulator import summarise
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.traces.build import DEFAULT_COST, to_instance
from instances.traces.read import read_trace
from instances.traces.window import window
from instances.units import ps_from_ms

POLICIES = "vllm-v1,sarathi,sglang,static"
BLOCK = 16
# Speed depends on the mean batch, so compare at like batches: --compress and --peer-overhead set them.
COSTS = {
    "linear": DEFAULT_COST,
    # Llama-3.1-8B on A100 under vLLM (aiconfigurator): base of its decode table, 0.042 µs per token of context
    "context": CostModel((
        Piece(ps_from_ms(11.6, "base"), ps_from_ms(0.0667, "prefill"), 0, ps_from_ms(0.01, "decode"),
              ps_from_ms(0.000055, "decode_context")),
    )),
}  # fmt: skip


def cpu_seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` returns and the CPU seconds that it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def line(name: str, requests: int, iterations: int, active: float, seconds: float) -> None:
    """Print one row."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:30} {requests:9,} {iterations:12,} {active / iterations:10.1f} {seconds:9.1f} "
          f"{iterations / seconds:12,.0f} {memory:8,.0f}", flush=True)  # fmt: skip


def run_ours(instance: Instance, policy: str) -> float:
    """Run one policy and print its row; return iterations per CPU-second."""
    summary, seconds = cpu_seconds(lambda: summarise(instance, policy))
    tally = summary.tally
    line(policy, len(instance.requests), tally.iterations, tally.active, seconds)
    return float(tally.iterations / seconds)


def run_peer(instance: Instance, overhead_ms: float) -> float:
    """Run sched-sim's chunked scheduler on the same requests and print its row; return iterations per CPU-second."""
    from sched_sim.core.event_engine import Simulator
    from sched_sim.core.request import Request
    from sched_sim.hardware.presets import get_hardware_profile
    from sched_sim.schedulers.factory import create_scheduler

    # an 8B model: the preset's 70B leaves no KV block on 80 GB, and sched-sim then never ends
    # its overhead per iteration is raised until mean batches are alike: speed per iteration depends on the batch
    small = {
        "kernel_launch_overhead_ms": overhead_ms,
        "parameter_count_billions": 8.0,
        "num_layers": 32,
        "hidden_size": 4096,
        "num_heads": 32,
    }
    hardware = get_hardware_profile("h100").model_copy(update=small)
    scheduler = create_scheduler("chunked", hardware, token_budget=instance.engine.max_num_batched_tokens,
                                 max_batch_size=instance.engine.max_num_seqs)  # fmt: skip
    simulator = Simulator(hardware, scheduler)
    simulator.submit_workload([
        Request(request_id=r.id, arrived_at=r.arrival_us / 1e6, prompt_tokens=r.prompt_tokens,
                output_tokens=r.output_tokens)
        for r in instance.requests
    ])  # fmt: skip
    _, seconds = cpu_seconds(simulator.run)
    sizes = simulator.iteration_batch_sizes
    line("sched-sim 0.2.1, chunked", len(instance.requests), len(sizes), sum(sizes), seconds)
    return len(sizes) / seconds


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="Azure trace, CSV")
    parser.add_argument("--count", type=int, help="first requests only (default: all)")
    parser.add_argument("--compress", type=float, default=1.0, help="divide the gaps between arrivals by this")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--cost", choices=tuple(COSTS), default="linear")
    parser.add_argument("--seats", type=int, default=64)
    parser.add_argument("--budget", type=int, default=2048)
    parser.add_argument("--blocks", type=int, default=20_000, help=f"KV blocks of {BLOCK} tokens")
    parser.add_argument("--peer", action="store_true", help="run sched-sim too")
    parser.add_argument("--peer-overhead", type=float, default=9.5, help="sched-sim, ms per iteration")
    args = parser.parse_args()
    engine = EngineLimits(args.budget, args.seats, args.blocks, BLOCK)
    found = window(read_trace(args.trace, "azure", drop_zeros=True), count=args.count, compress=args.compress)
    instance = to_instance(found, engine, COSTS[args.cost]).instance
    print(f"{'':30} {'requests':>9} {'iterations':>12} {'mean batch':>10} {'CPU s':>9} {'it/CPU-s':>12} {'MB':>8}")
    speeds = {policy: run_ours(instance, policy) for policy in args.policies.split(",")}
    if args.peer:
        peer = run_peer(instance, args.peer_overhead)
        for policy, speed in speeds.items():
            print(f"{policy}: {speed / peer:.1f} x sched-sim")


if __name__ == "__main__":
    main()
