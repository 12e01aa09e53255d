"""How fast the simulator is: a real trace under several policies, sched-sim beside it, growth of time and memory.

Usage::

    python benchmarks/simulate.py AzureLLMInferenceTrace_conv.csv            # the whole trace
    python benchmarks/simulate.py AzureLLMInferenceTrace_conv.csv --peer     # beside sched-sim, at a mean batch of 16
    python benchmarks/simulate.py AzureLLMInferenceTrace_conv.csv --growth   # 1,000 to all requests, at one rate

Prints iterations per CPU-second, the mean batch, CPU seconds (the best of `--repeat` runs) and the peak memory of the
process so far. ``--peer`` runs sched-sim 0.2.1 (``pip install sched-sim==0.2.1``) on the same lengths and arrivals, at
the same seats and budget. ``--growth`` keeps the rate of arrivals, so that time against requests is told apart from
time against the batch, and then prolongs the outputs of 500 requests and traces memory.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from heuristics.simulator import summarise
from heuristics.summary import Tally
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.traces.build import DEFAULT_COST, to_instance
from instances.traces.read import read_trace
from instances.traces.window import window
from instances.units import ps_from_ms

POLICIES = "vllm-v1,sarathi,sglang,static"
BLOCK = 16
SIZES = (1_000, 2_000, 4_000, 8_000, 19_366)
PROLONGED = (1, 2, 4, 8)
PEER_COUNT, PEER_COMPRESS = 4_000, 0.67
"""The part of the trace, and its load, at which both simulators have a mean batch of about 16."""
GROWTH_RATE = 4.0
"""Requests per second of every slice of --growth."""
COSTS = {
    "linear": DEFAULT_COST,
    # Llama-3.1-8B on A100 under vLLM (aiconfigurator): base of its decode table, 0.042 µs per token of context
    "context": CostModel((
        Piece(ps_from_ms(11.6, "base"), ps_from_ms(0.0667, "prefill"), 0, ps_from_ms(0.01, "decode"),
              ps_from_ms(0.000055, "decode_context")),
    )),
}  # fmt: skip


def best_of(runs: int, work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` returns and the CPU seconds of its fastest run."""
    best = math.inf
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return result, best


def header() -> None:
    """Print what stands in the columns."""
    print(f"{'':26} {'requests':>8} {'iterations':>10} {'batch':>6} {'CPU s':>8} {'it/CPU-s':>10} {'MB':>6}")


def line(name: str, requests: int, iterations: int, active: float, seconds: float) -> None:
    """Print one row."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:26} {requests:8,} {iterations:10,} {active / iterations:6.1f} {seconds:8.2f} "
          f"{iterations / seconds:10,.0f} {memory:6,.0f}", flush=True)  # fmt: skip


def run_ours(instance: Instance, policy: str, runs: int) -> tuple[Tally, float]:
    """Run one policy and print its row; return what was counted, and CPU seconds."""
    summary, seconds = best_of(runs, lambda: summarise(instance, policy))
    line(policy, len(instance.requests), summary.tally.iterations, summary.tally.active, seconds)
    return summary.tally, seconds


def run_peer(instance: Instance, overhead_ms: float, runs: int) -> float:
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
    best = math.inf
    for _ in range(runs):
        scheduler = create_scheduler("chunked", hardware, token_budget=instance.engine.max_num_batched_tokens,
                                     max_batch_size=instance.engine.max_num_seqs)  # fmt: skip
        simulator = Simulator(hardware, scheduler)
        simulator.submit_workload([
            Request(request_id=r.id, arrived_at=r.arrival_us / 1e6, prompt_tokens=r.prompt_tokens,
                    output_tokens=r.output_tokens)
            for r in instance.requests
        ])  # fmt: skip
        best = min(best, best_of(1, simulator.run)[1])
    sizes = simulator.iteration_batch_sizes
    line("sched-sim 0.2.1, chunked", len(instance.requests), len(sizes), sum(sizes), best)
    return len(sizes) / best


def compare(instance: Instance, policies: Sequence[str], overhead_ms: float, runs: int) -> None:
    """Run our policies and sched-sim, and print how many times as fast we are."""
    header()
    speeds = {}
    for policy in policies:
        tally, seconds = run_ours(instance, policy, runs)
        speeds[policy] = tally.iterations / seconds
    peer = run_peer(instance, overhead_ms, runs)
    print("\n".join(f"{policy}: {speed / peer:.1f} x sched-sim" for policy, speed in speeds.items()))


def grow(build: Callable[[int, float], Instance], policies: Sequence[str], runs: int) -> None:
    """Print time against the number of requests at one rate, and memory against the number of iterations."""
    for policy in policies:
        print(f"\n{policy}, {GROWTH_RATE:g} requests per second")
        header()
        sizes, times, work = [], [], []
        for size in SIZES:
            seconds = build(size, 1.0).requests[-1].arrival_us / 1e6
            instance = build(size, GROWTH_RATE * seconds / size)
            tally, spent = run_ours(instance, policy, runs)
            sizes.append(len(instance.requests))
            times.append(spent)
            work.append(tally.active)
        each = ", ".join(f"{1e6 * spent / size:.0f}" for size, spent in zip(sizes, times, strict=True))
        print(f"CPU µs per request: {each}; exponent of time in requests {exponent(sizes, times):.2f}, "
              f"in sequence-iterations {exponent(work, times):.2f}")  # fmt: skip
    print("\nMemory while it runs (traced), outputs of 500 requests prolonged")
    short = build(500, 1.0)
    for factor in PROLONGED:
        longer = tuple(
            replace(r, output_tokens=factor * r.output_tokens, max_output_tokens=None) for r in short.requests
        )
        tracemalloc.start()
        tally = summarise(replace(short, requests=longer), policies[0]).tally
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"outputs x {factor}: {tally.iterations:10,} iterations, {peak / 1024:8,.0f} KiB")


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the slope of a straight line through the logarithms."""
    u, v = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mean_u, mean_v = sum(u) / len(u), sum(v) / len(v)
    spread = sum((a - mean_u) ** 2 for a in u)
    return sum((a - mean_u) * (b - mean_v) for a, b in zip(u, v, strict=True)) / spread


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="Azure trace, CSV")
    parser.add_argument("--count", type=int, help="first requests only (default: all; with --peer 4,000)")
    parser.add_argument("--compress", type=float, help="divide the gaps between arrivals by this")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--cost", choices=tuple(COSTS), default="linear")
    parser.add_argument("--seats", type=int, default=64)
    parser.add_argument("--budget", type=int, default=2048)
    parser.add_argument("--blocks", type=int, default=20_000, help=f"KV blocks of {BLOCK} tokens")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the fastest counts")
    parser.add_argument("--peer", action="store_true", help="run sched-sim too")
    parser.add_argument("--peer-overhead", type=float, default=11.7, help="sched-sim, ms per iteration")
    parser.add_argument("--growth", action="store_true", help="slices of the trace at one rate, and memory")
    args = parser.parse_args()
    engine = EngineLimits(args.budget, args.seats, args.blocks, BLOCK)
    trace, policies = read_trace(args.trace, "azure", drop_zeros=True), args.policies.split(",")

    def build(count: int | None, compress: float) -> Instance:
        return to_instance(window(trace, count=count, compress=compress), engine, COSTS[args.cost]).instance

    if args.growth:
        grow(build, policies, args.repeat)
    elif args.peer:
        instance = build(args.count or PEER_COUNT, args.compress or PEER_COMPRESS)
        compare(instance, policies, args.peer_overhead, args.repeat)
    else:
        header()
        for policy in policies:
            run_ours(build(args.count, args.compress or 1.0), policy, args.repeat)


if __name__ == "__main__":
    main()
