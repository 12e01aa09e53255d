"""Where the bundled instances come from: made by hand or drawn with a fixed seed, all by us.

``python -m instances.make_bundled`` writes them to ``instances/data``; a test compares the files with `make_all`.
Costs called measured are the linear fit to Llama-3.1-70B on 4 x H100 that `MEASURED` holds.
"""

from __future__ import annotations

import random
from pathlib import Path

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.instance import Instance
from instances.request import Progress, Request
from instances.roofline import roofline_cost
from instances.units import ps_from_ms

TOY = CostModel.linear(prefill_ps=ps_from_ms(0.1, "toy"), decode_ps=ps_from_ms(1, "toy"))
"""The lesson's costs: 0.1 ms per prompt token, 1 ms per decode."""
MEASURED = CostModel.linear(
    iteration_ps=ps_from_ms(14.467, "measured"),
    prefill_ps=ps_from_ms(0.05406, "measured"),
    decode_ps=ps_from_ms(0.038, "measured"),
)
"""14.467 ms per iteration, 0.05406 ms per prompt token, 0.038 ms per decode."""


def _running(outputs_left: int) -> tuple[Request, ...]:
    """Return four requests that decode since before time 0."""
    progress = Progress(prefilled=100, emitted=10)
    return tuple(
        Request(f"run{k}", prompt_tokens=100, output_tokens=10 + outputs_left, progress=progress) for k in range(4)
    )


def interference() -> Instance:
    """Return the lesson with a cost per iteration: each split of the prompt protects streams and delays it."""
    toy = TOY.pieces[0]
    return Instance(
        "interference",
        (*_running(outputs_left=6), Request("prompt", prompt_tokens=2000, output_tokens=1)),
        EngineLimits(max_num_batched_tokens=2048, chunk_quantum=500),
        CostModel.linear(ps_from_ms(5, "iteration"), toy.prefill_ps, toy.decode_ps),
        description="Four running streams and a 2000-token prompt; toy rates plus 5 ms per iteration.",
        axes=("mean_ttft", "max_tbt"),
    )


def interference_toy() -> Instance:
    """Return exactly the lesson: no cost per iteration, a budget of 256 tokens."""
    return Instance(
        "interference-toy",
        (*_running(outputs_left=10), Request("prompt", prompt_tokens=2000, output_tokens=1)),
        EngineLimits(max_num_batched_tokens=256),
        TOY,
        description="The lesson's costs exactly: chunks of 252 beside four decodes, 29.2 ms per iteration.",
        axes=("makespan", "max_tbt"),
    )


def utilisation() -> Instance:
    """Return the lesson of static and continuous batching: 5/8 and 5/6 of the seats used."""
    return Instance(
        "utilisation",
        (Request("a", 1, 2), Request("b", 1, 1), Request("c", 1, 2)),
        EngineLimits(max_num_batched_tokens=8, max_num_seqs=2),
        CostModel.unit(),
        description="Outputs of 2, 1 and 2 tokens on two seats: static groups use 5/8 of them, continuous ones 5/6.",
        axes=("makespan", "mean_ttft"),
    )


def _drawn(
    seed: int, count: int, prompts: tuple[int, int], outputs: tuple[int, int], mean_gap_ms: float
) -> list[Request]:
    """Return requests with uniform sizes and exponential times between arrivals, to the µs."""
    random_source = random.Random(seed)
    arrival = 0
    requests = []
    for k in range(count):
        requests.append(
            Request(f"r{k}", random_source.randint(*prompts), random_source.randint(*outputs), arrival_us=arrival)
        )
        arrival += round(random_source.expovariate(1 / (mean_gap_ms * 1000)))
    return requests


def chat() -> Instance:
    """Return short prompts with some output, arriving one after the other."""
    return Instance(
        "chat",
        tuple(_drawn(11, 3, (40, 400), (3, 6), 20.0)),
        EngineLimits(max_num_batched_tokens=512, max_num_seqs=64, chunk_quantum=64),
        MEASURED,
        description="Three chat turns: short prompts, 3 to 6 tokens out; measured linear cost (70B on 4 x H100).",
        axes=("makespan", "max_tbt"),
    )


def code() -> Instance:
    """Return long prompts with little output, as code completion sends them."""
    return Instance(
        "code",
        tuple(_drawn(12, 3, (300, 1200), (2, 5), 30.0)),
        EngineLimits(max_num_batched_tokens=512, max_num_seqs=64, chunk_quantum=64),
        MEASURED,
        description="Three code completions: prompts of 300 to 1200 tokens, 2 to 5 out; measured linear cost.",
        axes=("makespan", "max_tbt"),
    )


def long_document() -> Instance:
    """Return one long document among short questions."""
    return Instance(
        "long-document",
        (
            Request("chat0", prompt_tokens=120, output_tokens=8),
            Request("document", prompt_tokens=3000, output_tokens=3, arrival_us=10_000),
            Request("chat1", prompt_tokens=90, output_tokens=6, arrival_us=30_000),
        ),
        EngineLimits(max_num_batched_tokens=1024, max_num_seqs=64, chunk_quantum=256),
        MEASURED,
        description="A 3000-token document between two chats; measured linear cost.",
        axes=("makespan", "max_tbt"),
    )


def kv_pressure() -> Instance:
    """Return four requests of which the pool holds about two at their ends."""
    return Instance(
        "kv-pressure",
        tuple(_drawn(13, 4, (90, 250), (3, 8), 10.0)),
        EngineLimits(max_num_batched_tokens=512, num_kv_blocks=32, block_size=16, chunk_quantum=64),
        MEASURED,
        description="Four requests on a KV pool of 512 tokens, which holds about two of them.",
        axes=("makespan", "mean_ttft"),
    )


def tight_slos() -> Instance:
    """Return requests whose service levels cannot all be met."""
    requests = tuple(
        Request(r.id, r.prompt_tokens, r.output_tokens, r.arrival_us, ttft_slo_us=ttft, tbt_slo_us=35_000)
        for r, ttft in zip(_drawn(14, 4, (200, 700), (3, 6), 15.0), (60_000, 50_000, 80_000, 60_000), strict=True)
    )
    return Instance(
        "tight-slos",
        requests,
        EngineLimits(max_num_batched_tokens=512, max_num_seqs=64, chunk_quantum=64),
        MEASURED,
        description="Four requests with limits on TTFT (50 to 80 ms) and TBT (35 ms) that cannot all be met.",
        axes=("slo_attainment", "makespan"),
    )


def prefix_hits() -> Instance:
    """Return prompts of which large parts are in the cache already."""
    requests = (
        Request("cold", prompt_tokens=900, output_tokens=4),
        Request("warm", prompt_tokens=1000, output_tokens=5, arrival_us=5_000, cached_tokens=768),
        Request("hot", prompt_tokens=700, output_tokens=6, arrival_us=12_000, cached_tokens=640),
    )
    return Instance(
        "prefix-hits",
        requests,
        EngineLimits(max_num_batched_tokens=512, max_num_seqs=2, num_kv_blocks=128, block_size=16, chunk_quantum=64),
        MEASURED,
        description="Prefix hits leave 60 of 700 tokens to prefill, but all 700 hold KV; two seats.",
        axes=("mean_ttft", "max_tbt"),
    )


def roofline_mix() -> Instance:
    """Return chats and a prompt on a roofline of public figures, where decodes ride along for free."""
    return Instance(
        "roofline-mix",
        tuple(_drawn(15, 3, (100, 900), (3, 7), 8.0)),
        EngineLimits(max_num_batched_tokens=1024, max_num_seqs=64, chunk_quantum=128),
        roofline_cost("llama-3.1-8b", "h100"),
        description="Three requests on a roofline (Llama-3.1-8B on H100): compute or memory, whichever binds.",
        axes=("makespan", "max_tbt"),
    )


def make_all() -> dict[str, Instance]:
    """Return all bundled instances by name."""
    makers = (interference, interference_toy, utilisation, chat, code, long_document, kv_pressure, tight_slos,
              prefix_hits, roofline_mix)  # fmt: skip
    return {instance.name: instance for instance in (make() for make in makers)}


if __name__ == "__main__":
    for made in make_all().values():
        (Path(__file__).parent / "data" / f"{made.name}.json").write_text(made.to_json(), encoding="utf-8")
