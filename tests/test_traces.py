"""Trace files: read exactly, refused by file, line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.errors import InputError
from instances.traces.build import to_instance
from instances.traces.cells import count, stamp_ns, time_ns
from instances.traces.read import FORMATS, read_trace
from instances.traces.trace import Trace
from instances.traces.window import window
from tests.judges.trace_text import AZURE, B11, PLAIN, Reader, reader_in


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Return a function that reads a text as a trace file."""
    return reader_in(tmp_path)


def refusal(read: Reader, text: str | bytes, format: str = "csv", **options: bool) -> str:
    with pytest.raises(InputError) as error:
        read(text, format, **options)
    assert "t.csv: " in str(error.value)
    return str(error.value).split("t.csv: ", 1)[1]


def arrivals_us(trace: Trace) -> list[int]:
    return [request.arrival_us for request in to_instance(window(trace)).instance.requests]


# --- cells -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("12.0", 12), ("12.", 12), ("0", 0), ("007", 7)])
def test_token_counts_are_whole_numbers(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize("text", ["12.5", "-1", "NaN", "", "inf", "1e3", "1,000", "1_0", "٣", "0x10", "9" * 30])
def test_what_is_no_token_count_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a whole number"):
        count(text)


@pytest.mark.parametrize(
    ("fraction", "ns"),
    [("", 0), (".5", 500_000_000), (".97996", 979_960_000), (".9799600", 979_960_000), (".123456789", 123_456_789)],
)
def test_stamps_have_up_to_nine_decimals(fraction: str, ns: int) -> None:
    start = stamp_ns("2023-11-16 18:17:03")
    assert stamp_ns(f"2023-11-16 18:17:03{fraction}") - start == ns


def test_stamps_count_through_midnight_leap_days_and_offsets() -> None:
    second = 10**9
    assert stamp_ns("2024-03-01 00:00:00") - stamp_ns("2024-02-28 23:59:59") == 86_401 * second
    assert stamp_ns("2024-05-10 02:00:00.5+02:00") == stamp_ns("2024-05-10T00:00:00.5Z")
    assert stamp_ns("2024-05-10 00:00:00-01:30") == stamp_ns("2024-05-10 01:30:00")


@pytest.mark.parametrize(
    "text",
    ["", "NaN", "2023-11-16", "2023-11-16 18:17", "2023-13-16 18:17:03", "2023-02-30 18:17:03", "2023-11-16 24:00:00",
     "2023-11-16 18:60:00", "2023-11-16 18:17:60", "2023-11-16 18:17:03.", "2023-11-16 18:17:03.1234567890",
     "1700158623", "-1"],
)  # fmt: skip
def test_what_is_no_stamp_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        stamp_ns(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("5", 5 * 10**9), ("0.000001", 1000), ("1e-05", 10_000), (".5", 500_000_000), ("5.", 5 * 10**9),
     ("0.30000000000000004", 300_000_000), ("0.0000000005", 1), ("1700158623.979960", 1_700_158_623_979_960_000)],
)  # fmt: skip
def test_seconds_are_read_exactly_and_the_noise_of_floats_is_rounded_away(text: str, ns: int) -> None:
    assert time_ns(text, 10**9) == ns


@pytest.mark.parametrize("text", ["", "-1", "NaN", "inf", ".", "e5", "1e999", "5 s", "1_0", "1,5", "0x1"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a time in s >= 0"):
        time_ns(text, 10**9)


# --- formats ---------------------------------------------------------------------------------------------------


def test_azure_rows_have_exact_arrivals(read: Reader) -> None:
    # known-trouble B11: seven decimals, CRLF, no end on the last line
    trace = read(B11, "azure")
    assert [(row.prompt_tokens, row.output_tokens) for row in trace.rows] == [(4808, 10), (3180, 8), (110, 27)]
    assert arrivals_us(trace) == [0, 52_000, 98_189]
    assert [row.line for row in trace.rows] == [2, 3, 4]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "END", "END END"])
def test_line_ends_of_every_kind_make_the_same_trace(read: Reader, ending: str, last: str) -> None:
    text = B11.replace("\r\n", ending) + last.replace("END", ending).replace(" ", "")
    assert arrivals_us(read(text, "azure")) == [0, 52_000, 98_189]


def test_mooncake_times_are_ms_and_known_blocks_are_cached(read: Reader) -> None:
    lines = [
        {"timestamp": 0, "input_length": 1500, "output_length": 1, "hash_ids": [0, 1, 2]},
        {"timestamp": 3000, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 7]},  # 2 blocks known
        {"timestamp": 3000, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 7]},  # all: one token left
        {"timestamp": 3000.5, "input_length": 600, "output_length": 2, "hash_ids": [9, 1]},  # a prefix must lead
        {"timestamp": 4000, "input_length": 10, "output_length": 2},  # no blocks given
    ]
    trace = read("\n".join(json.dumps(line) for line in lines) + "\n", "mooncake")
    instance = to_instance(window(trace)).instance
    assert [r.cached_tokens for r in instance.requests] == [0, 1024, 1099, 0, 0]
    assert [r.arrival_us for r in instance.requests] == [0, 3_000_000, 3_000_000, 3_000_500, 4_000_000]


def test_a_window_of_mooncake_finds_the_cache_of_what_came_before_it(read: Reader) -> None:
    lines = [{"timestamp": 1000 * i, "input_length": 600, "output_length": 1, "hash_ids": [4]} for i in range(2)]
    trace = read("\n".join(map(json.dumps, lines)), "mooncake")
    (request,) = to_instance(window(trace, start_s=1)).instance.requests
    assert request.cached_tokens == 512


def test_burstgpt_times_are_seconds_and_models_are_classes(read: Reader) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n"
    )
    requests = to_instance(window(read(text, "burstgpt"))).instance.requests
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens, r.group) for r in requests] == [
        (0, 472, 18, "ChatGPT"),
        (40_500_000, 1087, 230, "GPT-4"),
    ]


def test_burstgpt_version_3_has_two_more_columns_and_fails_have_no_tokens(read: Reader) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,a,1.2,ChatGPT,472,18,490,Conversation log\n6,b,0.1,GPT-4,10,0,10,API log\n"
    )
    assert refusal(read, text, "burstgpt").startswith("line 3 (row 2), column 'Response tokens': expected at least 1")
    trace = read(text, "burstgpt", drop_zeros=True)
    assert len(trace.rows) == 1
    assert trace.notices == ("1 of 2 rows without prompt or output tokens dropped, 1 kept",)


def test_plain_columns_are_the_fields_of_a_request(read: Reader) -> None:
    text = (
        "id,arrival_ms,prompt_tokens,output_tokens,max_output_tokens,cached_tokens,priority,weight,ttft_slo_ms,"
        "tbt_slo_ms,e2e_slo_ms,class\n"
        "a,0,10,3,5,4,-1,2,100,20.5,900,chat\nb,1.5,7,2,,,,,,,,\n"
    )
    first, second = to_instance(window(read(text))).instance.requests
    assert (first.id, first.max_output_tokens, first.cached_tokens, first.priority, first.weight) == ("a", 5, 4, -1, 2)
    assert (first.ttft_slo_us, first.tbt_slo_us, first.e2e_slo_us) == (100_000, 20_500, 900_000)
    assert first.group == "chat"
    assert (second.id, second.arrival_us, second.declared_output_tokens, second.group) == ("b", 1500, 2, "default")


@pytest.mark.parametrize(
    ("row", "expected"),
    [("0,10,3,10", "line 2 (row 1): cached_tokens: expected at most prompt_tokens - 1 = 9, got 10"),
     ("0,10,3,4.5", "line 2 (row 1), column 'cached_tokens': expected a whole number >= 0, got '4.5'"),
     ("0,10,3,-1", "line 2 (row 1), column 'cached_tokens': expected a whole number >= 0, got '-1'")],
)  # fmt: skip
def test_fields_that_no_request_may_have_are_refused(read: Reader, row: str, expected: str) -> None:
    assert refusal(read, PLAIN.replace("\n", ",cached_tokens\n") + row) == expected


@pytest.mark.parametrize("slo", ["0", "0.0", "-1", "20.0005", "x"])
def test_an_slo_is_a_time_above_zero_of_whole_microseconds(read: Reader, slo: str) -> None:
    text = refusal(read, PLAIN.replace("\n", ",tbt_slo_ms\n") + f"0,10,3,{slo}")
    assert text.startswith("line 2 (row 1), column 'tbt_slo_ms': expected a time in ms")


def test_two_rows_of_one_id_are_refused(read: Reader) -> None:
    text = "id," + PLAIN + "a,0,1,1\nb,0,1,1\na,1,1,1\n"
    expected = "line 4 (row 3), column 'id': expected a unique id (line 2 has it too), got 'a'"
    assert refusal(read, text) == expected


def test_an_unknown_format_lists_the_known_ones(read: Reader) -> None:
    with pytest.raises(InputError, match="format: expected one of azure, mooncake, burstgpt, csv, got 'vidur'"):
        read(B11, "vidur")


# --- headers (known-trouble B12) ---------------------------------------------------------------------------------


def test_a_byte_order_mark_does_no_harm(read: Reader) -> None:
    assert len(read(b"\xef\xbb\xbf" + B11.encode(), "azure").rows) == 3


def test_a_missing_header_names_what_was_found_and_what_is_wanted(read: Reader) -> None:
    text = refusal(read, B11.split("\r\n", 1)[1], "azure")
    assert text.startswith("header: expected the columns 'TIMESTAMP', 'ContextTokens', 'GeneratedTokens', found ")
    assert "'2023-11-16 18:17:03.9799600', '4808', '10'" in text
    assert "found '0', '4', '2'" in refusal(read, "0,4,2\n1,4,2\n")


@pytest.mark.parametrize(
    "header", ["generatedtokens,contexttokens,timestamp", " Generated Tokens , CONTEXT_TOKENS,Timestamp"]
)
def test_columns_may_be_in_any_order_case_and_spacing(read: Reader, header: str) -> None:
    rows = read(f"{header}\n10,4808,2023-11-16 18:17:03.9799600\n", "azure").rows
    assert (rows[0].prompt_tokens, rows[0].output_tokens) == (4808, 10)


def test_a_column_given_twice_is_refused(read: Reader) -> None:
    assert "'prompt_tokens' is there twice" in refusal(read, PLAIN.replace("\n", ",Prompt Tokens\n") + "0,4,2,4\n")


def test_an_unknown_column_of_plain_csv_is_refused_since_it_may_be_misspelt(read: Reader) -> None:
    text = refusal(read, PLAIN.replace("\n", ",cached\n") + "0,4,2,4\n")
    assert text.startswith("header: unknown column 'cached', known are 'arrival_ms', ")


# --- rows (known-trouble B12) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("0,4,2\n-1,4,2\n", "line 3 (row 2), column 'arrival_ms': expected a time in ms >= 0, got '-1'"),
        ("NaN,4,2\n", "line 2 (row 1), column 'arrival_ms': expected a time in ms >= 0, got 'NaN'"),
        (",4,2\n", "line 2 (row 1), column 'arrival_ms': expected a time in ms >= 0, got ''"),
        ("0,12.5,2\n", "line 2 (row 1), column 'prompt_tokens': expected a whole number >= 0, got '12.5'"),
        ("0,4,x\n", "line 2 (row 1), column 'output_tokens': expected a whole number >= 0, got 'x'"),
        ("0,4,0\n", "line 2 (row 1), column 'output_tokens': expected at least 1, got 0"),
        ("0,0,4\n", "line 2 (row 1), column 'prompt_tokens': expected at least 1, got 0"),
        ("\n0,4\n", "line 3 (row 1): expected 3 cells as in the header, got 2"),
        ("0,4,2,9\n", "line 2 (row 1): expected 3 cells as in the header, got 4"),
        ("0,4,2\n5,4,2\n3,4,2\n", "line 4 (row 3), column 'arrival_ms': arrives 0.002 s before the row of line 3"),
        ('0,"4,2\n', "line 2: is not CSV"),
        ("0,4,2\0\n", "line 2"),
    ],
)
def test_a_fault_is_named_with_line_and_column(read: Reader, rows: str, expected: str) -> None:
    assert refusal(read, PLAIN + rows).startswith(expected)


def test_rows_out_of_order_are_sorted_on_demand_and_said(read: Reader) -> None:
    trace = read(PLAIN + "0,1,1\n5,2,1\n3,3,1\n", sort=True)
    assert [row.prompt_tokens for row in trace.rows] == [1, 3, 2]
    assert trace.notices == ("rows were out of order: sorted by arrival",)
    assert read(PLAIN + "0,1,1\n3,2,1\n", sort=True).notices == ()


def test_equal_arrivals_keep_the_order_of_the_file(read: Reader) -> None:
    for sort in (False, True):
        assert [row.prompt_tokens for row in read(PLAIN + "0,3,1\n0,1,1\n0,2,1\n", sort=sort).rows] == [3, 1, 2]


def test_rows_without_tokens_are_dropped_on_demand_and_counted(read: Reader) -> None:
    trace = read(PLAIN + "0,4,0\n1,0,4\n2,4,2\n", drop_zeros=True)
    assert (trace.rows_read, trace.dropped_zeros, len(trace.rows)) == (3, 2, 1)
    assert trace.notices == ("2 of 3 rows without prompt or output tokens dropped, 1 kept",)
    assert refusal(read, PLAIN + "0,4,0\n", drop_zeros=True).startswith("no requests: all 1 rows")


def test_twelve_point_zero_tokens_are_twelve(read: Reader) -> None:
    assert read(PLAIN + "0,12.0,2\n").rows[0].prompt_tokens == 12


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", ["", "\n\n", "  \r\n"])
def test_an_empty_file_has_no_requests(read: Reader, format: str, text: str) -> None:
    assert refusal(read, text, format) == "no requests: the file has no rows"


def test_a_header_alone_has_no_requests(read: Reader) -> None:
    assert refusal(read, AZURE, "azure") == "no requests: the file has no rows"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "line 1 column 2: is not JSON"),
        ("[1]", "line 1: expected a JSON object"),
        ('{"timestamp": 0}', "line 1 (row 1), column 'input_length': is missing, found 'timestamp'"),
        ('{"timestamp": "0", "input_length": 1, "output_length": 1}', "line 1 (row 1), column 'timestamp': expected"),
        ('{"timestamp": null, "input_length": 1, "output_length": 1}', "line 1 (row 1), column 'timestamp': expected"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "line 1 (row 1), column 'timestamp': expected"),
        ('{"timestamp": -1, "input_length": 1, "output_length": 1}', "line 1 (row 1), column 'timestamp': expected"),
        ('{"timestamp": 0, "input_length": 1.5, "output_length": 1}', "line 1 (row 1), column 'input_length': expect"),
        ('{"timestamp": 0, "input_length": 1, "output_length": true}', "line 1 (row 1), column 'output_length': expe"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 0}', "line 1 (row 1), column 'output_length': expecte"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": 3}', "line 1 (row 1), column 'hash_ids'"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0.5]}', "line 1 (row 1), column 'hash"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1e99999]}', "line 1 (row 1), column "),
        ('{"timestamp": 0, "timestamp": 1, "input_length": 1, "output_length": 1}', "line 1: the key 'timestamp'"),
        ("[" * 100_000, "line 1: is not usable JSON"),
    ],
)
def test_a_fault_in_json_lines_is_named_with_line_and_key(read: Reader, line: str, expected: str) -> None:
    assert refusal(read, line, "mooncake").startswith(expected)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_a_damaged_trace_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, format: str, data: st.DataObject
) -> None:
    whole = {
        "azure": B11,
        "csv": PLAIN + "0,4,2\n5,4,2\n",
        "burstgpt": "Timestamp,Model,Request tokens,Response tokens\n5,a,4,2\n6,b,4,2\n",
        "mooncake": '{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}\n' * 2,
    }[format]
    content = bytearray(whole.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "t.csv"
    path.write_bytes(bytes(content))
    answer = read_or_error(path, format)
    assert isinstance(answer, Trace) or str(answer).startswith(f"{path}: ")


def read_or_error(path: Path, format: str) -> Trace | InputError:
    try:
        return read_trace(path, format)
    except InputError as error:
        return error
