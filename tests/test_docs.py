"""The documentation keeps its promises: its blocks run, its links lead somewhere, it knows every command and option.

What a fence means: ``python`` runs, all of a page in one namespace; ``console`` runs each ``$ chunkfront`` line, with
exit code 0 or the one that a comment names; ``bash`` and Python that needs something else (``needs=``) are only
compiled; ``json`` has to be valid; a block with a ``title`` is written to that file first; ``output`` has to be what
the block before printed (of a command: its lines are among those printed, whatever the columns' widths).
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from heuristics.registry import ELSEWHERE, POLICIES, knobs
from instances.bundled import bundled_names
from instances.instance import Instance
from instances.metrics import UNITS
from instances.schedule import Schedule
from tests.judges.command import ROOT, chunkfront

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOREIGN = {"--scheduler-cls", "--no-async-scheduling", "--strict", "--version", "--help"}
"""Options of vLLM and mkdocs, and those that every command has."""


def load_hooks() -> Any:
    """Import the hook of mkdocs from its file."""
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load_hooks()


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    kind: str
    settings: str
    text: str

    @property
    def title(self) -> str | None:
        found = re.search(r'title="(.*?)"', self.settings)
        return None if found is None else found[1]


def source(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(source(page))]


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


class Reader:
    """Somebody who tries every block of a page in an empty folder, from top to bottom."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "page"}
        self.printed = ""
        self.compared = False

    def read(self, block: Block) -> None:
        if block.title is not None:
            Path(block.title).write_text(block.text, encoding="utf-8")
        getattr(self, block.kind)(block)

    def python(self, block: Block) -> None:
        code = compile(block.text, "page", "exec")
        if "needs=" in block.settings:
            return
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        self.printed, self.compared = printed.getvalue(), True

    def console(self, block: Block) -> None:
        self.printed, self.compared = "", False
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            assert words[:2] == ["$", "chunkfront"], line
            code = re.search(r"# exit code (\d+)$", line)
            outcome = chunkfront(*words[2:])
            assert outcome.code == (int(code[1]) if code else 0), (line, outcome.out, outcome.err)
            self.printed += outcome.out + outcome.err

    def output(self, block: Block) -> None:
        wanted, printed = squeezed(block.text), squeezed(self.printed)
        if self.compared:
            assert printed == wanted
        else:
            joined = "\n".join(printed)
            assert [line for line in wanted if line not in joined] == []

    def bash(self, block: Block) -> None:
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)

    def json(self, block: Block) -> None:
        document = json.loads(block.text)
        readers: dict[str, Any] = {"chunkfront/instance@1": Instance, "chunkfront/schedule@1": Schedule}
        if "kind" in document:  # a cost model
            engine, requests = {"max_num_batched_tokens": 8}, [{"id": "a", "prompt_tokens": 1, "output_tokens": 1}]
            document = {"format": "chunkfront/instance@1", "name": "a cost", "requests": requests, "engine": engine,
                        "cost": document}  # fmt: skip
        if "format" in document:
            readers[document["format"]].from_dict(document)

    def csv(self, block: Block) -> None:
        assert block.title is not None

    def text(self, block: Block) -> None:
        assert block.text.strip()


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_does_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    reader = Reader()
    for block in blocks(page):
        reader.read(block)


@pytest.mark.parametrize("page", PAGES)
def test_no_block_of_a_page_is_overlooked(page: str) -> None:
    text = source(page)
    assert len(re.findall(r"^ *```\w", text, flags=re.MULTILINE)) == len(blocks(page))
    assert [line for line in re.findall(r"(?:\A|\n)\n(?: {4}|\t)([^\n]+)", text) if line.startswith("chunkfront")] == []


def test_links_between_files_lead_to_files() -> None:
    texts = {DOCS / page: source(page) for page in PAGES} | {ROOT / "README.md": (ROOT / "README.md").read_text()}
    links = [(path, link) for path, text in texts.items() for link in LINK.findall(FENCE.sub("", text))]
    inside = [(path, link.split("#")[0]) for path, link in links if not link.startswith(("http", "#"))]
    assert len(inside) > 30
    assert [(path.name, link) for path, link in inside if not (path.parent / link).is_file()] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    assert sorted(re.findall(r": (\S+\.md)$", navigation, flags=re.MULTILINE)) == PAGES


def test_the_page_of_commands_has_every_command_and_the_options_it_really_has() -> None:
    page = source("commands.md")
    sections = {text.split("\n")[0]: text for text in hooks.expand(page).split("\n## ")[1:]}
    assert sorted(sections) == sorted(hooks.commands())
    for name, section in sections.items():
        rows = re.findall(r"^\| (`-.*?`) \| ", section, flags=re.MULTILINE)
        shown = [option for row in rows for option in re.findall(r"`(--[a-z-]+)", row)]
        lines = re.findall(r"^  (--[a-z-]+)(?: / (--[a-z-]+))?", chunkfront(name, "--help").out, flags=re.MULTILINE)
        said = [option for line in lines for option in line if option and option != "--help"]
        assert sorted(shown) == sorted(said), name


def test_every_option_that_a_page_names_exists() -> None:
    known = {option for command in hooks.commands().values() for p in command.params
             for option in (*p.opts, *p.secondary_opts)} | FOREIGN  # fmt: skip
    named = {(page, option) for page in PAGES for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", source(page))}
    assert [(page, option) for page, option in sorted(named) if option not in known] == []


def test_the_page_of_policies_has_every_policy_with_every_knob() -> None:
    sections = hooks.expand(source("policies.md")).split("\n### ")[1:]
    assert [section.split("\n")[0] for section in sections] == [*POLICIES, *ELSEWHERE]
    for section in sections:
        name = section.split("\n")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE) == [knob.name for knob in knobs(name)]


def test_the_page_of_files_has_every_metric_and_bundled_instance() -> None:
    shown = re.findall(r"^\| `([\w-]+)` \|", hooks.expand(source("files.md")), flags=re.MULTILINE)
    assert shown == [*bundled_names(), *UNITS]


def test_no_generated_part_is_left_open() -> None:
    for page in PAGES:
        assert "<!-- generated" not in hooks.expand(source(page)), page
