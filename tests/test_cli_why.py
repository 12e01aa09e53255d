"""``chunkfront why``: documents, sentences and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.command import ROOT, chunkfront

SCHEDULER = """
from heuristics.policy import Batch, Policy


class OneByOne(Policy):
    def schedule(self, state):
        request = (state.running or state.waiting)[0]
        tokens = 1 if request.decoding else min(request.remaining, state.limits.max_num_batched_tokens)
        return Batch([(request, tokens)])
"""


def test_the_shares_of_the_document_add_up_to_its_gap() -> None:
    outcome = chunkfront("why", "chat", "--policy", "greedy-chunked", "--metric", "mean_ttft", "--json")
    assert outcome.code == 0
    document = outcome.document
    assert document["optimum"]["status"] == "OPTIMAL"
    assert [share["freedom"] for share in document["shares"]] == ["order", "chunks", "admissions", "decodes"]
    total = sum(share["value"] for share in document["shares"]) + document["interaction"]["value"]
    assert total == pytest.approx(document["gap"]["value"], abs=1e-9)
    assert document["gap"]["value"] == pytest.approx(document["value"] - document["optimum"]["value"], abs=1e-9)
    assert sum(share["share"] for share in document["shares"]) + document["interaction"]["share"] == pytest.approx(1)
    online = document["online"]
    assert online["value"] - document["optimum"]["value"] == pytest.approx(online["price"], abs=1e-9)
    assert online["price"] + online["lost_online"] == pytest.approx(document["gap"]["value"], abs=1e-9)


def test_a_schedule_of_a_file_is_explained_as_the_policy_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    chunkfront("simulate", "chat", "--policy", "orca", "--out", file)
    options = ("--metric", "makespan", "--no-online", "--json")
    documents = [chunkfront("why", "chat", *source, *options).document for source in ((file,), ("--policy", "orca"))]
    for document in documents:
        del document["wall_s"]
    assert documents[0] == documents[1]


def test_the_table_names_every_decision_and_the_clairvoyance() -> None:
    outcome = chunkfront("why", "chat", "--policy", "greedy-chunked", "--metric", "makespan", "--no-online")
    assert outcome.code == 0
    for words in ("order of prefills", "chunk sizes", "admission times", "who decodes", "interaction", "clairvoyant"):
        assert words in outcome.out


def test_one_request_is_explained_in_words_and_in_parts() -> None:
    # 205 ms: the prompt of 2000 tokens takes 200 ms and the base 5; the streams pause meanwhile.
    command = ("why", "interference", "--policy", "prefill-first", "--request", "run0")
    assert "was paused 205 ms (200 ms behind prompt's prefill, 5 ms for base costs)" in " ".join(
        chunkfront(*command).out.split()
    )
    document = chunkfront(*command, "--json").document
    assert document["ttft_ms"] is None
    assert sum(part["ms"] for part in document["e2e_parts"]) == document["e2e_ms"] == 259.0


def test_the_readme_quotes_what_the_command_says() -> None:
    said = " ".join(chunkfront("why", "chat", "--policy", "greedy-chunked", "--request", "r1").out.split())
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    quote = readme.partition('in words that add up: "')[2].partition(', ..."')[0]
    assert len(quote) > 80
    assert quote in said


def test_a_scheduler_of_ones_own_is_explained(tmp_path: Path) -> None:
    # One by one, the prompt behind the four streams that run: it waits for all of their decodes.
    (tmp_path / "mine.py").write_text(SCHEDULER, encoding="utf-8")
    outcome = chunkfront("why", "interference", "--policy", f"{tmp_path / 'mine.py'}:OneByOne", "--request", "prompt")
    assert outcome.code == 0
    assert "behind run0's decodes" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("chat",), "expected a schedule's file or --policy, got neither"),
        (("chat", "--policy", "nope"), "got 'nope'"),
        (("chat", "--policy", "orca", "--metric", "throughput"), "makespan"),
        (("chat", "--policy", "orca", "--request", "r9"), "one of r0, r1, r2, got 'r9'"),
        (("chat", "--policy", "orca", "--limit", "max_tbt=1"), "not comparable"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    outcome = chunkfront("why", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err
