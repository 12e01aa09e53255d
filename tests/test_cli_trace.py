"""``chunkfront trace``: real traces in, instances out."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.instance import Instance
from tests.judges.command import chunkfront

SHARED = Path(__file__).parents[2] / "shared"
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n"
    "2023-11-16 18:17:04.0319600,3180,8\r\n"
    "2023-11-16 18:17:04.0781490,110,27"
)


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    path = tmp_path / "azure.csv"
    path.write_bytes(AZURE.encode())
    return path


def test_an_azure_window_becomes_an_instance_with_arrivals_to_the_microsecond(azure: Path, tmp_path: Path) -> None:
    out = tmp_path / "instance.json"
    outcome = chunkfront("trace", azure, "--format", "azure", "--out", out, "--json")
    assert outcome.code == 0
    assert (outcome.document["requests"], outcome.document["rows_read"], outcome.document["out"]) == (3, 3, str(out))
    instance = Instance.read(out)
    assert Instance.from_dict(outcome.document["instance"]) == instance
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens) for r in instance.requests] == [
        (0, 4808, 10), (52_000, 3180, 8), (98_189, 110, 27)
    ]  # fmt: skip


def test_start_count_and_compress_choose_the_window(azure: Path, tmp_path: Path) -> None:
    # From 0.05 s on: the last two, 46.189 ms apart, divided by 2: 23.0945 ms, half up to 23.095.
    out = tmp_path / "instance.json"
    outcome = chunkfront("trace", azure, "--format", "azure", "--start", 0.05, "--count", 2, "--compress", 2,
                         "--out", out)  # fmt: skip
    assert outcome.code == 0
    assert "2 requests of 3 rows" in outcome.out
    assert "rounded half up" in outcome.out
    assert [r.arrival_us for r in Instance.read(out).requests] == [0, 23_095]


def test_engine_and_cost_come_from_files(azure: Path, tmp_path: Path) -> None:
    engine, cost, out = (tmp_path / name for name in ("engine.json", "cost.json", "instance.json"))
    engine.write_text('{"max_num_batched_tokens": 2048, "chunk_quantum": 128}')
    cost.write_text('{"kind": "unit"}')
    outcome = chunkfront("trace", azure, "--format", "azure", "--engine", engine, "--cost", cost, "--name", "mine",
                         "--out", out)  # fmt: skip
    assert outcome.code == 0
    instance = Instance.read(out)
    assert (instance.name, instance.engine.max_num_batched_tokens, instance.cost.kind) == ("mine", 2048, "unit")


BAD_WINDOWS = [
    (["--count", "0"], ["--count", "0"]),
    (["--count", "two"], ["--count", "two"]),
    (["--start", "-1"], ["--start", "-1"]),
    (["--start", "nan"], ["--start", "nan"]),
    (["--start", "999"], ["no requests in the window"]),
    (["--compress", "0"], ["--compress", "0"]),
    (["--duration", "-3"], ["--duration", "-3"]),
    (["--duration", "1", "--count", "1"], ["count", "duration", "not both"]),
    (["--format", "azzure"], ["--format", "azzure", "mooncake"]),
    (["--engine", "none.json"], ["none.json"]),
    (["--cost", "none.json"], ["none.json"]),
]


@pytest.mark.parametrize(("args", "named"), BAD_WINDOWS, ids=[" ".join(args) for args, _ in BAD_WINDOWS])
def test_wrong_windows_are_exit_code_2_and_name_the_option(
    args: list[str], named: list[str], azure: Path, tmp_path: Path
) -> None:
    out = tmp_path / "instance.json"
    outcome = chunkfront("trace", azure, "--format", "azure", "--out", out, *args)
    assert outcome.code == 2
    assert [text for text in named if text not in outcome.err] == []
    assert not out.exists()


def test_a_fault_in_the_file_names_file_line_and_column(azure: Path, tmp_path: Path) -> None:
    azure.write_text(AZURE.replace("3180", "3180.5"))
    outcome = chunkfront("trace", azure, "--format", "azure", "--out", tmp_path / "instance.json")
    assert outcome.code == 2
    assert [text for text in ("azure.csv", "line 3", "ContextTokens", "3180.5") if text not in outcome.err] == []


def test_disorder_and_zeros_are_errors_unless_told_otherwise(tmp_path: Path) -> None:
    trace, out = tmp_path / "azure.csv", tmp_path / "instance.json"
    first, *rows = AZURE.split("\r\n")
    trace.write_text("\n".join([first, rows[1], rows[0], rows[2].replace(",27", ",0")]))
    args = ("trace", trace, "--format", "azure", "--out", out)
    assert chunkfront(*args).code == 2
    assert chunkfront(*args, "--sort").code == 2
    outcome = chunkfront(*args, "--sort", "--drop-zeros", "--json")
    assert outcome.code == 0
    assert (outcome.document["requests"], outcome.document["dropped_zeros"]) == (2, 1)
    assert len(outcome.document["notices"]) >= 2


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared, which is not there")
def test_a_window_of_the_real_azure_code_trace_can_be_solved(tmp_path: Path) -> None:
    out = tmp_path / "instance.json"
    trace = SHARED / "data" / "traces" / "azure2023" / "AzureLLMInferenceTrace_code.csv"
    made = chunkfront("trace", trace, "--format", "azure", "--start", 60, "--count", 3, "--compress", 3, "--out", out)
    assert made.code == 0
    outcome = chunkfront("solve", out, "--minimize", "makespan", "--time-limit", 5, "--json")
    assert outcome.code == 0
    assert outcome.document["bound"] <= outcome.document["value"]
