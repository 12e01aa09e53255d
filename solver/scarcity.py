"""Whether evictions can help at all: where nothing is scarce they are mostly useless, with the proof."""

from __future__ import annotations

from dataclasses import replace

from instances.cost_model import Piece
from instances.engine import EngineLimits
from instances.instance import Instance
from solver.problem import Job, Problem


def evictions_are_useless(instance: Instance, *, no_pause: bool) -> bool:
    """Return whether the optima with any number of evictions are those without (False where that is not proved).

    Notes
    -----
    An eviction takes an iteration that works on others, so one request alone is never evicted. Otherwise let nothing
    be scarce: seats, pool and unfinished prefills for all at once. Then a schedule can keep everybody where it is.

    Swap: without its evictions and restores a schedule stays valid, and no iteration gets longer. (Under `no_pause`
    a request that is away may pause.)

    Recompute: of every request keep the chunks of the prefill that emits its first token, and all decodes; where a
    later prefill emitted a token, let a decode do it in the same iteration; drop all other chunks and iterations that
    are left empty. Batches may be mixed and nothing is padded, so this is valid, and it is no later: chunks that are
    left out cost time, and the decode costs no more than the last chunk of the prefill that it replaces
    (`_decode_is_cheaper`). A resident whose prefill was under way at time 0 keeps the last chunks of a prefill that
    began further back, which is only sure to be allowed where every size is.
    """
    engine, jobs = instance.engine, Problem(instance).jobs
    if engine.preemption == "none" or len(jobs) == 1:
        return True
    if no_pause or is_scarce(instance):
        return False
    if engine.preemption == "swap":
        return True
    any_size = engine.enable_chunked_prefill and engine.chunk_quantum == 1 and engine.chunk_sizes is None
    under_way = any(job.resident and job.left for job in jobs)
    if not engine.mixed_batches or instance.cost.capture_sizes is not None or (under_way and not any_size):
        return False
    return all(_decode_is_cheaper(piece, job, engine) for piece in instance.cost.pieces for job in jobs)


def is_scarce(instance: Instance) -> bool:
    """Return whether seats, pool or unfinished prefills may run out with every request resident at its largest."""
    engine, count = instance.engine, len(instance.requests)
    blocks = sum(engine.blocks(request.peak_kv_tokens) for request in instance.requests)
    limits = ((engine.max_num_seqs, count), (engine.max_partial_prefills, count), (engine.num_kv_blocks, blocks))
    return any(limit is not None and limit < most for limit, most in limits)


def _decode_is_cheaper(piece: Piece, job: Job, engine: EngineLimits) -> bool:
    """Return whether a decode that then holds T tokens costs no more than the last chunk of a prefill of T, any T."""
    for context in range(job.held + job.left + 1, job.peak + 1):
        before = context - 1 if engine.enable_chunked_prefill else job.request.cached_tokens
        if piece.decode_us(context) > piece.prefill_us(context) - piece.prefill_us(before):
            return False
    return True


def without_scarcity(instance: Instance) -> Instance:
    """Return the instance with seats, pool and unfinished prefills for all: a relaxation."""
    engine = replace(instance.engine, max_num_seqs=None, num_kv_blocks=None, max_partial_prefills=None)
    return replace(instance, engine=engine)
