"""The notebooks run from start to end without a display, hold no outputs, and teach what the issue lists.

What their text claims is asserted in their own cells, so that a run also proves the numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install '.[test]')")

ROOT = Path(__file__).parents[1]
NAMES = (
    "01-prefill-interference",
    "02-chunked-prefill",
    "03-your-first-exact-frontier",
    "04-heuristics-against-the-optimum",
    "05-validate-your-own-scheduler",
    "06-a-real-trace-window",
    "07-the-cost-of-preemption",
    "08-arithmetic-intensity-and-chunk-size",
)
HANG_S = 300
"""A cell that takes longer hangs; each takes seconds."""
PLACES = re.compile(r"/(?:home|root|tmp|work|Users|usr|opt|mnt|var)/|[A-Z]:\\")
"""Paths of somebody's machine."""
EACH = pytest.mark.parametrize("name", NAMES)


def notebook(name: str) -> nbformat.NotebookNode:
    """Return a notebook as it is in the repository."""
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)


def text(name: str, kind: str) -> str:
    """Return all cells of a kind as one text."""
    return "\n".join(cell.source for cell in notebook(name).cells if cell.cell_type == kind)


def test_the_folder_holds_the_eight_notebooks_and_nothing_else() -> None:
    assert sorted(path.name for path in (ROOT / "notebooks").iterdir() if not path.name.startswith(".")) == [
        f"{name}.ipynb" for name in NAMES
    ]


@EACH
def test_a_notebook_runs_from_start_to_end_without_a_display(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # these packages, not installed ones
    ran = notebook(name)
    nbclient.NotebookClient(
        ran, timeout=HANG_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()  # raises where a cell does, failed assertions included
    outputs = [output for cell in ran.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert list(tmp_path.iterdir()) == []  # nothing is left where the reader works


@EACH
def test_a_notebook_is_valid_and_stripped_of_outputs(name: str) -> None:
    stored = notebook(name)
    nbformat.validate(stored)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code if cell.outputs or cell.execution_count is not None or cell.metadata] == []
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    assert stored.metadata.kernelspec.name == "python3"
    assert set(stored.metadata.language_info) == {"name"}  # no versions of somebody's machine


@EACH
def test_a_notebook_names_no_place_on_a_machine(name: str) -> None:
    source = (ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert PLACES.findall(source) == []


@EACH
def test_a_notebook_asks_a_question_shows_what_was_learnt_and_sets_exercises(name: str) -> None:
    words = text(name, "markdown")
    assert words.startswith(f"# {name[:2]} · ")
    for part in ("**Question.**", "## What was learnt", "## Exercises"):
        assert words.count(part) == 1
    assert text(name, "code").count("assert ") >= 3


@EACH
def test_the_commands_that_a_notebook_shows_exist(name: str) -> None:
    from chunkfront.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    shown = set(re.findall(r"`chunkfront ([a-z]+)", text(name, "markdown")))
    assert shown <= known


def test_the_readme_says_how_to_run_them() -> None:
    assert "jupyter lab notebooks" in (ROOT / "README.md").read_text(encoding="utf-8")
