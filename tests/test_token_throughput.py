"""Dai, Deng, Li, Peng (2504.07347): batches of Fig. 8, the stability boundary of Theorem 2, vertex C (papers.md 1.8).

Cost of CodeLlama-34B on an A100: 11.28 ms + 35.47 ms for every 128 tokens begun. No memory limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from heuristics.recorder import Run
from heuristics.simulator import simulate
from instances.check import require_valid
from instances.cost_model import CostModel, Piece
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.request import Progress, Request
from instances.units import PS_PER_US

STAIRCASE = CostModel((Piece(base_ps=11_280 * PS_PER_US, tile_tokens=128, tile_ps=35_470 * PS_PER_US),))


def arriving(count: int, gap_us: float, prompt: int, decodes: int, budget: int, **engine: object) -> Instance:
    """Return requests that arrive at equal gaps; their decodes come after the token of the prefill."""
    requests = tuple(Request(f"r{k}", prompt, decodes + 1, round(gap_us * k)) for k in range(count))
    return Instance("stream", requests, EngineLimits(budget, **engine), STAIRCASE)  # type: ignore[arg-type]


def backlog(run: Run, tokens: int, at_us: float) -> int:
    """Return the tokens of arrived requests, `tokens` each, that have not been computed by a time."""
    arrived = sum(r.arrival_us <= at_us for r in run.instance.requests)
    ended = (record for record in run.records if record.start_us + record.duration_us <= at_us)
    return arrived * tokens - sum(n for record in ended for _, n in record.tokens)


def waits_ms(run: Run) -> list[float]:
    """Return how long requests wait for their first iteration, in the order of their arrival."""
    starts: dict[str, int] = {}
    for record in run.records:
        for request in record.prefills:
            starts.setdefault(request.id, record.start_us)
    return [(starts[r.id] - r.arrival_us) / 1000 for r in run.instance.requests]


def mixes(run: Run, from_us: int, to_us: int) -> Counter[tuple[int, int]]:
    """Return how often which (prefill tokens, decodes) ran between two times."""
    seen: Counter[tuple[int, int]] = Counter()
    for record in run.records:
        if from_us <= record.start_us < to_us:
            prefill = sum(n for r, n in record.tokens if r in record.prefills)
            seen[prefill, sum(n for _, n in record.tokens) - prefill] += 1
    return seen


# Figure 8: A, B, C decode with 2, 4, 3 left; D and E (one prefill, one decode) come during batch 1.

FIGURE = {
    "sarathi:chunk_size=4": (4, ["A B C", "A B C Dp", "B C D Ep", "B E"]),
    "vllm-v0": (4, ["A B C", "Dp Ep", "A B C D", "B C E", "B"]),
    "faster-transformer": (4, ["A B C", "A B C", "B C", "B", "Dp Ep", "D E"]),
    "orca-paper": (5, ["A B C", "A B C Dp Ep", "B C D E", "B"]),
}


@pytest.mark.parametrize("policy", FIGURE)
def test_the_four_policies_run_the_batches_of_figure_8(policy: str) -> None:
    budget, expected = FIGURE[policy]
    decoding = [Request(n, 1, left + 1, progress=Progress(1, 1, 0)) for n, left in (("A", 2), ("B", 4), ("C", 3))]
    requests = (*decoding, *(Request(n, 1, 2, 500) for n in ("D", "E")))
    run = simulate(Instance("figure 8", requests, EngineLimits(budget), CostModel.unit()), policy)
    require_valid(run.instance, run.schedule)

    def written(tokens: Sequence[tuple[object, int]], prefills: frozenset[object]) -> str:
        return " ".join(sorted(f"{r.id}{'p' if r in prefills else ''}" for r, _ in tokens))  # type: ignore[attr-defined]

    assert [written(record.tokens, record.prefills) for record in run.records] == expected


# Theorem 2: stable if and only if the arriving tokens per ms are fewer than b / t(b).


def test_the_boundary_is_that_of_a_full_batch() -> None:
    full_us = STAIRCASE.duration_us([(0, 512)], [])
    assert full_us == 153_160
    assert round(512_000 / full_us, 3) == 3.343
    assert round(512e6 / full_us / (100 + 100), 2) == 16.71


@pytest.mark.parametrize("policy", ["sarathi:chunk_size=512", "greedy-chunked:decode_first=false"])
def test_work_conserving_policies_are_stable_up_to_the_boundary_and_not_beyond(policy: str) -> None:
    # The paper's Orca fills the budget with prefills first. At 104 % of the boundary, of the 800 * 200 tokens that
    # arrive between two counts 4 in 104 stay undone; at 96 % the backlog only swings by less than two batches.
    grown = {}
    for load in (0.96, 1.04):
        gap_us = 1e6 / (16.71 * load)
        run = simulate(arriving(1900, gap_us, 100, 100, 512), policy)
        grown[load] = backlog(run, 200, 1800 * gap_us) - backlog(run, 200, 1000 * gap_us)
    assert abs(grown[0.96]) < 2 * 512
    assert grown[1.04] == pytest.approx(800 * 200 * 4 / 104, abs=2 * 512)


# Vertex C: an arrival of (290, 990) every 467.5 ms; ten full batches of 128 tokens (46.75 ms each) do exactly that.


def vertex_c(budget: int, **engine: object) -> Instance:
    return arriving(300, 467_500, 290, 990, budget, max_num_seqs=100, **engine)


LAST_US = 299 * 467_500


def test_sarathi_128_locks_onto_29_prefill_tokens_and_99_decodes() -> None:
    run = simulate(vertex_c(128), "sarathi:chunk_size=128")
    settled = mixes(run, 200 * 467_500, LAST_US)
    assert set(settled) == {(29, 99)}
    assert settled[29, 99] == pytest.approx((LAST_US - 200 * 467_500) / 46_750, abs=1)
    assert max(waits_ms(run)) <= 46.75


@pytest.mark.parametrize(
    ("policy", "budget", "common"),
    [("greedy-chunked:decode_first=false", 128, (0, 100)), ("sarathi:chunk_size=1024", 1024, (0, 100))],
)
def test_orca_128_and_sarathi_1024_fall_behind(policy: str, budget: int, common: tuple[int, int]) -> None:
    # Both end up with 100 decodes alone in most batches: 28 of the 128 tokens that they cost are given away.
    run = simulate(vertex_c(budget), policy)
    settled = mixes(run, LAST_US // 2, LAST_US)
    assert settled.most_common(1)[0][0] == common
    waits = waits_ms(run)
    assert waits[99] < waits[199] < waits[299]
    assert waits[299] > 15_000


@pytest.mark.parametrize("engine", ["faster-transformer", "vllm-v0"])
def test_whole_prefills_of_290_tokens_never_fit_in_128(engine: str) -> None:
    # FT-128 and vLLM-128 run no batch in the paper. Here the instance is refused before any policy runs.
    with pytest.raises(InputError, match=r"'r0' can never be prefilled: 290 prompt tokens .* at most 128"):
        vertex_c(128, enable_chunked_prefill=False)
    assert simulate(arriving(2, 467_500, 128, 3, 128, enable_chunked_prefill=False), engine).records


@pytest.mark.slow
def test_the_lock_in_lasts() -> None:
    requests = arriving(3000, 467_500, 290, 990, 128, max_num_seqs=100)
    settled = mixes(simulate(requests, "sarathi:chunk_size=128"), 300 * 467_500, 2999 * 467_500)
    assert set(settled) == {(29, 99)}
