"""Windows of traces: shifted, compressed and rounded once; made into instances; real files end to end."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.cost_model import CostModel
from instances.engine import EngineLimits
from instances.errors import InputError
from instances.instance import Instance
from instances.traces.build import DEFAULT_COST, DEFAULT_ENGINE, to_instance
from instances.traces.read import read_trace
from instances.traces.window import window
from tests.judges.trace_text import B11, PLAIN, Reader, reader_in

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Return a function that reads a text as a trace file."""
    return reader_in(tmp_path)


def shared(path: str) -> Path:
    if not (SHARED / path).exists():
        pytest.skip(f"../shared/{path} is not there")
    return SHARED / path


# --- windows and instances ---------------------------------------------------------------------------------------


def test_a_window_starts_at_a_time_and_holds_a_count_or_a_duration(read: Reader) -> None:
    trace = read(PLAIN + "".join(f"{1000 + 500 * i},{i + 1},1\n" for i in range(6)))  # 0, 0.5, ... 2.5 s

    def prompts(**options: float | Decimal) -> list[int]:
        return [row.prompt_tokens for row in window(trace, **options).rows]  # type: ignore[arg-type]

    assert prompts() == [1, 2, 3, 4, 5, 6]
    assert prompts(start_s=1) == [3, 4, 5, 6]  # at the second of the third request: with it
    assert prompts(start_s=1.1, count=2) == [4, 5]
    assert prompts(count=99) == [1, 2, 3, 4, 5, 6]
    assert prompts(duration_s=1) == [1, 2]  # the end is left out
    assert prompts(start_s=0.5, duration_s=1.001) == [2, 3, 4]
    assert prompts(start_s=Decimal("0.5000000001")) == [3, 4, 5, 6]  # a moment after the second


def test_a_window_without_requests_says_how_long_the_trace_is(read: Reader) -> None:
    trace = read(PLAIN + "0,1,1\n2500,1,1\n")
    with pytest.raises(InputError, match=r"t\.csv: window: no requests in the window: the trace has 2 in 2\.5 s"):
        window(trace, start_s=2.6)
    with pytest.raises(InputError, match="no requests in the window"):
        window(trace, start_s=1, duration_s=1)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"count": 0}, "count: expected an integer >= 1"), ({"count": 1.5}, "count: expected an integer >= 1"),
     ({"start_s": -1}, "start: expected a number of seconds"), ({"start_s": float("nan")}, "start: expected a finite"),
     ({"start_s": 1e300}, "start: expected"), ({"duration_s": float("inf")}, "duration: expected a finite"),
     ({"duration_s": -1}, "duration: expected a number of"), ({"compress": 0}, "compress: expected a number > 0"),
     ({"compress": -2}, "compress: expected a number > 0"), ({"compress": float("nan")}, "compress: expected a finite"),
     ({"compress": True}, "compress: expected a number"), ({"compress": 1e-300}, "compress: expected"),
     ({"count": 1, "duration_s": 1}, "window: give a count")],
)  # fmt: skip
def test_a_window_of_impossible_numbers_is_refused(read: Reader, options: dict[str, float], named: str) -> None:
    trace = read(PLAIN + "0,1,1\n1000,1,1\n")
    with pytest.raises(InputError, match=named):
        window(trace, **options)  # type: ignore[arg-type]


def test_gaps_are_divided_exactly_and_rounded_half_up_once(read: Reader) -> None:
    trace = read(PLAIN + "10,1,1\n10.0045,1,1\n10.006,1,1\n13.01,1,1\n")  # gaps 4.5, 6 and 3010 µs from the first
    imported = to_instance(window(trace, compress=3))
    assert [r.arrival_us for r in imported.instance.requests] == [0, 2, 2, 1003]  # 1.5 up, 2 exact, 1003.33
    assert "2 of 4 arrivals rounded half up to whole µs" in imported.notices
    exact = to_instance(window(trace, compress=1.5))
    assert [r.arrival_us for r in exact.instance.requests] == [0, 3, 4, 2007]  # 3, 4, 2006.67
    slower = to_instance(window(trace, compress=0.5))
    assert [r.arrival_us for r in slower.instance.requests] == [0, 9, 12, 6020]


def test_arrivals_of_epoch_size_are_shifted_before_they_are_rounded(read: Reader) -> None:
    # known-trouble B1: epoch stamps of the rows of B11, here in ms with seven decimals of a second
    rows = ["1700158623979.9600", "1700158624031.9600", "1700158624078.1490"]
    trace = read(PLAIN + "".join(f"{row},1,1\n" for row in rows))
    requests = to_instance(window(trace)).instance.requests
    assert [r.arrival_us for r in requests] == [0, 52_000, 98_189]


def test_requests_that_never_fit_are_dropped_and_the_totals_add_up(read: Reader) -> None:
    # known-trouble A5: 16 KV tokens; 14 + 4 - 1 = 17
    trace = read(PLAIN + "0,14,4\n7,14,3\n9,10,7\n")
    imported = to_instance(window(trace), EngineLimits(32, num_kv_blocks=16), CostModel.unit())
    assert imported.never_fit + len(imported.instance.requests) == len(trace.rows)
    assert [r.arrival_us for r in imported.instance.requests] == [0, 2000]  # from the first that is kept
    assert [r.id for r in imported.instance.requests] == ["r0", "r1"]
    (notice,) = imported.notices
    assert notice.startswith("1 of 3 requests can never be served and were dropped, 2 kept (first, line 2: request")
    assert "17" in notice


def test_a_window_of_which_nothing_fits_has_no_requests_left(read: Reader) -> None:
    trace = read(PLAIN + "0,10,1\n")
    with pytest.raises(InputError, match=r"t\.csv: no requests left, all 1 can never be served"):
        to_instance(window(trace), EngineLimits(8, enable_chunked_prefill=False), CostModel.unit())


def test_a_load_so_low_that_requests_never_meet_is_said(read: Reader) -> None:
    # alone, a request of 4 prompt and 2 output tokens takes two iterations of 1 ms
    engine, cost = EngineLimits(8), CostModel.unit()
    low = "the load is so low"
    apart = to_instance(window(read(PLAIN + "0,4,2\n2,4,2\n")), engine, cost)
    assert any(low in notice for notice in apart.notices)
    meeting = to_instance(window(read(PLAIN + "0,4,2\n1.999,4,2\n")), engine, cost)
    assert not any(low in notice for notice in meeting.notices)
    # chunks of at most 3 tokens: a third iteration, so they meet
    chunked = to_instance(window(read(PLAIN + "0,4,2\n2,4,2\n")), EngineLimits(3), cost)
    assert not any(low in notice for notice in chunked.notices)


def test_an_instance_from_a_trace_can_be_written_and_says_where_it_came_from(read: Reader) -> None:
    instance = to_instance(window(read(B11, "azure"), start_s=0.01, compress=2), name="mine").instance
    assert instance.name == "mine"
    assert instance.source == "azure trace t.csv, lines 3 to 4; gaps divided by 2"
    assert Instance.from_json(instance.to_json()) == instance
    assert (instance.engine, instance.cost) == (DEFAULT_ENGINE, DEFAULT_COST)


def test_ids_that_collide_with_the_numbered_ones_are_refused(read: Reader) -> None:
    trace = read("id," + PLAIN + "r1,0,1,1\n,0,1,1\n")
    with pytest.raises(InputError, match=r"t\.csv: requests\[1\]\.id: expected a unique id"):
        to_instance(window(trace))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6), st.integers(1, 500))
def test_compressed_arrivals_are_the_nearest_microseconds(
    tmp_path_factory: pytest.TempPathFactory, arrivals_ns: list[int], tenths: int
) -> None:
    path = tmp_path_factory.mktemp("gaps") / "t.csv"
    path.write_text(PLAIN + "".join(f"{ns / 10**6:.6f},1,1\n" for ns in sorted(arrivals_ns)))
    compress = Fraction(tenths, 10)
    instance = to_instance(window(read_trace(path, "csv"), compress=tenths / 10)).instance
    for request, ns in zip(instance.requests, sorted(arrivals_ns), strict=True):
        exact = (ns - min(arrivals_ns)) / compress / 1000
        assert exact - Fraction(1, 2) < request.arrival_us <= exact + Fraction(1, 2)


# --- real files --------------------------------------------------------------------------------------------------


def test_the_whole_azure_conversation_trace_is_read_in_two_seconds() -> None:
    path = shared("data/traces/azure2023/AzureLLMInferenceTrace_conv.csv")
    start = time.perf_counter()
    trace = read_trace(path, "azure")
    assert time.perf_counter() - start < 2
    assert len(trace.rows) == trace.rows_read == 19_366
    assert trace.notices == ()


def test_the_azure_code_trace_is_what_was_inspected() -> None:
    trace = read_trace(shared("data/traces/azure2023/AzureLLMInferenceTrace_code.csv"), "azure")
    assert len(trace.rows) == 8_819
    assert (min(r.prompt_tokens for r in trace.rows), min(r.output_tokens for r in trace.rows)) == (3, 6)


@pytest.mark.parametrize("size", ["03", "04", "06", "08", "10", "12", "16", "24"])
@pytest.mark.parametrize("letter", ["a", "b", "c"])
def test_windows_of_the_azure_code_trace_are_those_of_the_ladder(size: str, letter: str) -> None:
    ladder = Instance.read(shared(f"bench/ladder/code-{size}-{letter}-linear.json"))
    trace = read_trace(shared("data/traces/azure2023/AzureLLMInferenceTrace_code.csv"), "azure")
    wanted = [(r.prompt_tokens, r.output_tokens) for r in ladder.requests]
    rows = [(r.prompt_tokens, r.output_tokens) for r in trace.rows]
    (first,) = (i for i in range(len(rows)) if rows[i : i + len(wanted)] == wanted)
    start_s = (trace.rows[first].arrival_ns - trace.origin_ns) / 10**9
    found = to_instance(window(trace, start_s=start_s, count=len(wanted), compress=3)).instance
    assert found.requests == ladder.requests
    assert found.engine == ladder.engine
    assert found.cost == ladder.cost


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_mooncake_traces_are_read_with_their_prefix_hits(name: str) -> None:
    trace = read_trace(shared(f"data/traces/mooncake/{name}_trace.jsonl"), "mooncake")
    assert len(trace.rows) == 2_000
    assert 500 < trace.duration_s < 1000  # ms taken as s would be a week
    hits = [row.fields["cached_tokens"] for row in trace.rows if row.fields]
    assert len(hits) > 100
    assert all(hit % 512 == 0 or hit == row.prompt_tokens - 1 for row in trace.rows if row.fields
               for hit in [row.fields["cached_tokens"]])  # fmt: skip
