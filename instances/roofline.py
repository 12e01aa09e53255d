"""Roofline presets: two pieces (compute, memory) from public figures of models and accelerators.

Compute piece: 2 FLOPs per parameter and token, plus 4 x layers x query width FLOPs per token and token of context
(scores and weighted values), over the peak dense BF16 rate. Memory piece: all weights are read once per iteration,
each decode reads its KV cache, each prefill token writes its own KV, over the memory bandwidth. Both are divided by
the degree of tensor parallelism. Left out: communication, kernel overheads, the re-reading of earlier KV by later
chunks and activation traffic, so real engines are slower; ratios between schedules are what it is good for.

Figures
-------
Models (hidden, layers, heads x head size, KV heads, parameters), from their published configurations:
Llama-3.1-8B: 32 layers, 32 x 128 query, 8 KV heads, 8.03e9 parameters (Llama 3 paper, arXiv 2407.21783, and the
model card). Llama-3.1-70B: 80 layers, 64 x 128, 8 KV heads, 70.6e9 (same). Qwen3-32B: 64 layers, 64 x 128, 8 KV
heads, 32.8e9 (Qwen3 report, arXiv 2505.09388, and the model card). Weights and KV in 16 bits.

Accelerators, NVIDIA data sheets, dense BF16 FLOP/s and bytes/s: A100-80G SXM 312e12, 2.039e12; H100 SXM 989e12
(the sheet's 1,979e12 is with sparsity), 3.35e12; H200 SXM 989e12, 4.8e12.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.cost_model import CostModel, Piece, Roofline
from instances.errors import InputError
from instances.units import as_int

PS_PER_SECOND = 10**12
BYTES_PER_VALUE = 2


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Public figures of a transformer."""

    parameters: int
    layers: int
    query_width: int
    kv_width: int

    @property
    def flops_per_token(self) -> int:
        """FLOPs of one token without attention over its context."""
        return 2 * self.parameters

    @property
    def flops_per_context(self) -> int:
        """FLOPs of one token per token of its context."""
        return 4 * self.layers * self.query_width

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token."""
        return 2 * self.layers * self.kv_width * BYTES_PER_VALUE

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return self.parameters * BYTES_PER_VALUE


@dataclass(frozen=True, slots=True)
class AcceleratorFigures:
    """Peak rates of one accelerator."""

    flops_per_s: int
    bytes_per_s: int


MODELS = {
    "llama-3.1-8b": ModelFigures(8_030_000_000, 32, 32 * 128, 8 * 128),
    "llama-3.1-70b": ModelFigures(70_600_000_000, 80, 64 * 128, 8 * 128),
    "qwen3-32b": ModelFigures(32_800_000_000, 64, 64 * 128, 8 * 128),
}
ACCELERATORS = {
    "a100-80g": AcceleratorFigures(312 * 10**12, 2_039 * 10**9),
    "h100": AcceleratorFigures(989 * 10**12, 3_350 * 10**9),
    "h200": AcceleratorFigures(989 * 10**12, 4_800 * 10**9),
}


def _ps(amount: int, rate_per_s: int, tensor_parallel: int) -> int:
    """Return amount / (rate x tensor_parallel) in ps, rounded half up."""
    divisor = rate_per_s * tensor_parallel
    return (2 * amount * PS_PER_SECOND + divisor) // (2 * divisor)


def figures(preset: Roofline) -> tuple[ModelFigures, AcceleratorFigures]:
    """Return the figures of a preset; names are compared without case.

    Raises
    ------
    InputError
        For an unknown name, listing the known ones.
    """
    model = MODELS.get(preset.model.lower())
    if model is None:
        raise InputError.expected(f"one of {', '.join(MODELS)}", preset.model, "model")
    accelerator = ACCELERATORS.get(preset.accelerator.lower())
    if accelerator is None:
        raise InputError.expected(f"one of {', '.join(ACCELERATORS)}", preset.accelerator, "accelerator")
    return model, accelerator


def roofline_cost(model: str, accelerator: str, tensor_parallel: int = 1) -> CostModel:
    """Return the cost model of kind ``roofline``.

    Parameters
    ----------
    model, accelerator
        Names of presets: see `MODELS` and `ACCELERATORS`.
    tensor_parallel
        Accelerators that share the work, >= 1.
    """
    ranks = as_int(tensor_parallel, "tensor_parallel", minimum=1, maximum=1024)
    preset = Roofline(model, accelerator, ranks)
    m, a = figures(preset)
    compute = Piece(
        prefill_ps=_ps(m.flops_per_token, a.flops_per_s, ranks),
        prefill_context_ps=_ps(m.flops_per_context, a.flops_per_s, ranks),
        decode_ps=_ps(m.flops_per_token, a.flops_per_s, ranks),
        decode_context_ps=_ps(m.flops_per_context, a.flops_per_s, ranks),
    )
    memory = Piece(
        base_ps=_ps(m.weight_bytes, a.bytes_per_s, ranks),
        prefill_ps=_ps(m.kv_bytes_per_token, a.bytes_per_s, ranks),
        decode_ps=_ps(m.kv_bytes_per_token, a.bytes_per_s, ranks),
        decode_context_ps=_ps(m.kv_bytes_per_token, a.bytes_per_s, ranks),
    )
    return CostModel((compute, memory), kind="roofline", roofline=preset)
