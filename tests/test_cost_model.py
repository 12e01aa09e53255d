"""CostModel: each term alone, by hand, then against the contract written out a second time."""

from __future__ import annotations

import random
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from instances.cost_model import CostModel, Piece
from instances.errors import InputError
from instances.roofline import ACCELERATORS, MODELS, roofline_cost
from instances.units import PS_PER_MS

MS = PS_PER_MS
US = PS_PER_MS // 1000


def test_the_lesson_is_a_linear_cost() -> None:
    toy = CostModel.linear(0, MS // 10, MS)
    assert toy.duration_us([], [7, 8, 9, 9]) == 4_000  # 4 decodes x 1 ms
    assert toy.duration_us([(0, 2000)], [7, 8, 9, 9]) == 204_000  # + 2000 x 0.1 ms
    assert toy.duration_us([(0, 252)], [7] * 4) == 29_200
    assert toy.is_linear


def test_an_iteration_pays_its_base_once() -> None:
    cost = CostModel.linear(5 * MS, MS, MS)
    assert cost.duration_us([(0, 1), (0, 2)], [3]) == 9_000  # 5 + 3 + 1


def test_a_unit_iteration_lasts_one_ms_whatever_is_in_it() -> None:
    assert CostModel.unit().duration_us([(0, 500)], [3, 4]) == 1_000
    assert CostModel.unit().is_linear


def test_attention_telescopes_so_any_split_of_a_prompt_costs_the_same() -> None:
    piece = Piece(prefill_ps=333_333, prefill_context_ps=777)  # amounts that round at every step
    whole = piece.prefill_us(100)
    for cuts in ((0, 100), (0, 1, 100), (0, 33, 66, 100), tuple(range(101))):
        parts = [piece.prefill_us(after) - piece.prefill_us(before) for before, after in pairwise(cuts)]
        assert sum(parts) == whole
        assert min(parts) >= 0


def test_later_tokens_of_a_prompt_cost_more() -> None:
    # c(c+1)/2 at 1 µs: tokens 1 and 2 cost 1 + 2, tokens 3 and 4 cost 3 + 4
    cost = CostModel((Piece(prefill_context_ps=US),))
    assert cost.duration_us([(0, 2)], []) == 3
    assert cost.duration_us([(2, 4)], []) == 7
    assert not cost.is_linear


def test_a_decode_pays_for_the_tokens_it_then_holds() -> None:
    cost = CostModel((Piece(decode_ps=10 * US, decode_context_ps=US),))
    assert cost.duration_us([], [5, 7]) == 32  # (10 + 5) + (10 + 7)


def test_each_decode_is_rounded_half_up_by_itself() -> None:
    cost = CostModel.linear(0, 0, 500_000)  # half a µs
    assert cost.duration_us([], [1] * 3) == 3
    assert CostModel.linear(0, 0, 499_999).duration_us([], [1] * 3) == 0


def test_the_longest_piece_counts() -> None:
    compute, memory = Piece(prefill_ps=10 * US), Piece(base_ps=50 * US, decode_ps=US)
    cost = CostModel((compute, memory))
    assert cost.duration_us([(0, 1)], [9]) == 51  # 10 against 50 + 1
    assert cost.duration_us([(0, 6)], [9]) == 60  # 60 against 51
    assert not cost.is_linear


def test_tiles_count_all_tokens_of_the_iteration_and_no_padding() -> None:
    cost = CostModel((Piece(tile_tokens=4, tile_ps=100 * US),), capture_sizes=(8,))
    assert cost.duration_us([(0, 3)], [9]) == 100  # 4 tokens: one tile
    assert cost.duration_us([(0, 4)], [9]) == 200  # 5 tokens: two
    assert cost.duration_us([], [9, 9, 9]) == 100  # 3 real decodes though 8 are run


def test_tiles_are_rounded_together() -> None:
    cost = CostModel((Piece(tile_tokens=1, tile_ps=500_000),))
    assert cost.duration_us([], [1, 1]) == 1  # 2 tiles x 0.5 µs


def test_a_pure_decode_batch_is_padded_to_the_next_captured_size() -> None:
    cost = CostModel((Piece(decode_ps=10 * US, decode_context_ps=US),), capture_sizes=(4, 1, 2, 4))
    assert cost.capture_sizes == (1, 2, 4)
    assert [cost.padded_decodes(n) for n in range(7)] == [0, 1, 2, 4, 4, 5, 6]  # none above the largest
    assert cost.duration_us([], [3, 3, 3]) == 3 * 13 + 10  # the padding holds no context
    assert cost.duration_us([(0, 1)], [3, 3, 3]) == 3 * 13  # with a prefill nothing is padded
    assert cost.duration_us([], [3] * 5) == 5 * 13


def test_eager_time_is_added_after_the_maximum_unless_the_batch_is_captured() -> None:
    cost = CostModel((Piece(decode_ps=US), Piece(base_ps=100 * US)), capture_sizes=(1, 2), eager_ps=1000 * US)
    assert cost.duration_us([], [5, 5]) == 100
    assert cost.duration_us([], [5, 5, 5]) == 1100  # above the largest size
    assert cost.duration_us([(0, 1)], []) == 1100  # a prefill
    assert not cost.is_eager(2, has_prefill=False)
    assert CostModel.unit().is_eager(99, has_prefill=True) is False  # no sizes: nothing is captured or eager


def test_swaps_are_paid_per_token_after_the_maximum_each_rounded() -> None:
    cost = CostModel((Piece(base_ps=MS),), swap_out_ps=1_500_000, swap_in_ps=400_000)
    assert cost.duration_us([], [1], swapped_out=[1, 1]) == 1_004  # 1.5 µs rounds up, twice
    assert cost.duration_us([], [1], swapped_in=[1, 5]) == 1_002  # 0.4 and 2.0
    assert cost.duration_us([], [1], [3], [5]) == 1_007  # 4.5 up to 5, and 2


def test_durations_are_those_of_the_contract_written_out_again() -> None:
    rng = random.Random(2)
    for _ in range(500):
        cost = random_cost(rng)
        chunks = [(c, c + rng.randint(1, 9)) for c in rng.sample(range(50), rng.randint(0, 2))]
        decodes = [rng.randint(1, 60) for _ in range(rng.randint(0, 6))]
        out, back = [rng.randint(1, 9)], [rng.randint(1, 9), rng.randint(1, 9)]
        assert cost.duration_us(chunks, decodes, out, back) == duration_by_the_text(cost, chunks, decodes, out, back)


def duration_by_the_text(
    cost: CostModel, chunks: list[tuple[int, int]], decodes: list[int], out: list[int], back: list[int]
) -> int:
    """Model.md §4 in exact fractions of µs, rounded where it says so."""

    def us(ps: int) -> int:
        return (ps + 500_000) // 1_000_000

    tokens = sum(v - u for u, v in chunks) + len(decodes)
    sizes = cost.capture_sizes
    captured = sizes is not None and not chunks and len(decodes) <= max(sizes)
    run = min((s for s in sizes if s >= len(decodes)), default=0) if captured and sizes and decodes else len(decodes)
    amounts = []
    for piece in cost.pieces:
        amount = us(piece.base_ps) + (run - len(decodes)) * us(piece.decode_ps)
        for u, v in chunks:
            for c, sign in ((v, 1), (u, -1)):
                attention = sum(piece.prefill_context_ps * position for position in range(1, c + 1))
                amount += sign * us(piece.prefill_ps * c + attention)
        amount += sum(us(piece.decode_ps + piece.decode_context_ps * held) for held in decodes)
        if piece.tile_tokens:
            amount += us(piece.tile_ps * ((tokens + piece.tile_tokens - 1) // piece.tile_tokens))
        amounts.append(amount)
    eager = us(cost.eager_ps) if sizes is not None and not captured else 0
    moved = sum(us(cost.swap_out_ps * n) for n in out) + sum(us(cost.swap_in_ps * n) for n in back)
    return max(amounts) + eager + moved


def random_cost(rng: random.Random) -> CostModel:
    def amount() -> int:
        return rng.choice((0, rng.randint(1, 10**6), rng.randint(1, 10**8)))

    pieces = []
    for _ in range(rng.randint(1, 3)):
        tile = rng.choice((None, rng.randint(1, 5)))
        pieces.append(Piece(*(amount() for _ in range(5)), tile_tokens=tile, tile_ps=amount() if tile else 0))
    sizes = rng.choice((None, tuple(rng.sample(range(1, 8), 3))))
    return CostModel(tuple(pieces), sizes, amount() if sizes else 0, amount(), amount())


@pytest.mark.parametrize("value", [-1, 0.5, True, None, float("nan"), 10**400])
@pytest.mark.parametrize("name", [field.name for field in fields(Piece) if field.name != "tile_tokens"])
def test_a_coefficient_that_is_no_amount_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{name}: expected an integer >= 0"):
        Piece(**{name: value})  # type: ignore[arg-type]


def test_numpy_numbers_and_whole_floats_are_taken_as_ints() -> None:
    piece = Piece(np.int64(5), 2.0)  # type: ignore[arg-type]
    assert piece == Piece(5, 2)
    assert type(piece.base_ps) is type(piece.prefill_ps) is int


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"pieces": ()}, "pieces"), ({"eager_ps": 1}, "capture_sizes"), ({"capture_sizes": ()}, "capture_sizes"),
     ({"capture_sizes": (0,)}, r"capture_sizes\[0\]"), ({"kind": "cubic"}, "kind"), ({"kind": "roofline"}, "roofline"),
     ({"kind": "unit"}, "kind"), ({"pieces": (Piece(), Piece()), "kind": "linear"}, "kind"),
     ({"swap_in_ps": 1, "kind": "linear"}, "kind"), ({"swap_out_ps": -1}, "swap_out_ps")],
)  # fmt: skip
def test_a_cost_that_contradicts_itself_is_refused(fields: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=f"^{field}: expected"):
        CostModel(**{"pieces": (Piece(),), **fields})  # type: ignore[arg-type]


def test_tile_time_without_tile_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="tile_tokens"):
        Piece(tile_ps=1)


# --- roofline presets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_single_decodes_are_bound_by_memory_and_long_prefills_by_compute(model: str, accelerator: str) -> None:
    compute, memory = roofline_cost(model, accelerator).pieces
    alone = ([], [1000])
    assert CostModel((memory,)).duration_us(*alone) > 10 * CostModel((compute,)).duration_us(*alone)
    prompt = ([(0, 4096)], [])
    assert CostModel((compute,)).duration_us(*prompt) > 5 * CostModel((memory,)).duration_us(*prompt)


def test_llama_8b_on_h100_takes_the_time_its_public_figures_give() -> None:
    cost = roofline_cost("Llama-3.1-8B", "H100")
    # reading 8.03e9 x 2 bytes at 3.35e12 bytes/s: 4.794 ms; the KV of 1000 tokens, 131072 bytes each, 0.039 ms more
    assert cost.duration_us([], [1]) == pytest.approx(4_794, abs=1)
    assert cost.duration_us([], [1000]) - cost.duration_us([], [1]) == pytest.approx(39, abs=1)
    # 8192 tokens x 2 x 8.03e9 FLOPs at 989e12 FLOP/s: 133.03 ms; attention 4 x 32 x 4096 x c(c+1)/2: 17.79 ms
    assert cost.duration_us([(0, 8192)], []) == pytest.approx(150_820, abs=30)


def test_two_accelerators_take_half_the_time() -> None:
    one, two = (roofline_cost("Qwen3-32B", "h200", ranks).duration_us([], [64]) for ranks in (1, 2))
    assert one / two == pytest.approx(2, abs=0.001)


def test_unknown_presets_and_ranks_are_refused() -> None:
    with pytest.raises(InputError, match=r"model: expected one of llama-3.1-8b"):
        roofline_cost("gpt-2", "h100")
    with pytest.raises(InputError, match=r"accelerator: expected one of a100-80g"):
        roofline_cost("qwen3-32b", "tpu")
    with pytest.raises(InputError, match="tensor_parallel"):
        roofline_cost("qwen3-32b", "h100", 0)
