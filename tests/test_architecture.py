"""Layout and habits of the code (style.md), checked on the syntax trees of all modules."""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "instances": {"instances"},
    "heuristics": {"instances", "heuristics"},
    "solver": {"instances", "heuristics", "solver"},
    "chunkfront": {"instances", "heuristics", "solver", "chunkfront"},
}
"""Package -> the packages that it may import."""
HOMES = {
    "ortools": "solver",
    **dict.fromkeys(("matplotlib", "plotly", "jinja2", "pyarrow", "typer", "rich"), "chunkfront"),
}
"""Library -> the only package that may import it."""
MAX_FILE_LINES = 250
MAX_FUNCTION_LINES = 40
"""Without signature (long on the command line) and docstring."""
LONGER_FILES = {
    "instances.check": 280,  # one function per rule of the contract, read from top to bottom
}
"""Files that read better in one piece -> the lines that they may have."""
LONGER_FUNCTIONS = {
    "chunkfront.commands.solve.solve": 45,
}
"""Functions that read better in one piece -> the lines that they may have (at most 60)."""

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
MODULES = pytest.mark.parametrize("module", sorted(FILES))


def imported(module: str) -> Iterator[str]:
    """Yield the full names that a module imports, at any depth; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def defining_module(name: str) -> str | None:
    """Return which of our modules an imported name comes from."""
    for candidate in (name, name.rpartition(".")[0]):
        if candidate in FILES:
            return candidate
        if f"{candidate}.__init__" in FILES:
            return f"{candidate}.__init__"
    return None


def functions(module: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield all functions and methods with their dotted names."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{prefix}.{child.name}", child
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from walk(child, f"{prefix}.{child.name}")
            else:
                yield from walk(child, prefix)

    yield from walk(TREES[module], module)


@MODULES
def test_imports_point_one_way(module: str) -> None:
    allowed = PACKAGES[module.split(".")[0]]
    used = {name.split(".")[0] for name in imported(module)}
    assert used & set(PACKAGES) <= allowed


@MODULES
def test_each_library_is_seen_by_its_own_package_only(module: str) -> None:
    for name in imported(module):
        home = HOMES.get(name.split(".")[0])
        assert home in (None, module.split(".")[0]), f"{module} imports {name}"


@MODULES
def test_imports_name_the_defining_module_and_never_a_package(module: str) -> None:
    for name in imported(module):
        if name.split(".")[0] in PACKAGES:
            source = defining_module(name)
            assert source is not None, f"{module} imports {name}, which is nowhere"
            assert not source.endswith("__init__"), f"{module} imports {name} from a package's __init__"


@MODULES
def test_an_init_holds_a_docstring_and_nothing_else(module: str) -> None:
    if module.endswith("__init__"):
        assert all(isinstance(node, ast.Expr) for node in TREES[module].body)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = nx.DiGraph()
    for module in FILES:
        graph.add_edges_from((module, source) for name in imported(module) if (source := defining_module(name)))
    assert graph.number_of_edges() > 50
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []
    assert list(nx.selfloop_edges(graph)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_those_of_this_repository(package: str) -> None:
    # the names are generic: another `solver` on the path would be used in silence
    found = importlib.import_module(package).__file__
    assert found is not None
    assert Path(found).parent == ROOT / package


def test_tests_have_no_init_which_would_hide_the_real_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@MODULES
def test_files_are_short(module: str) -> None:
    lines = len(FILES[module].read_text(encoding="utf-8").splitlines())
    assert lines < LONGER_FILES.get(module, MAX_FILE_LINES)


@MODULES
def test_functions_are_short(module: str) -> None:
    for name, function in functions(module):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        assert lines <= LONGER_FUNCTIONS.get(name, MAX_FUNCTION_LINES), f"{name} has {lines} lines"


def test_the_lists_of_longer_ones_have_no_stale_or_excessive_entries() -> None:
    names = {name for module in FILES for name, _ in functions(module)}
    assert set(LONGER_FILES) <= set(FILES)
    assert set(LONGER_FUNCTIONS) <= names
    assert max(LONGER_FUNCTIONS.values(), default=0) <= 60
    assert max(LONGER_FILES.values(), default=0) <= 400


@MODULES
def test_everything_public_has_a_docstring(module: str) -> None:
    assert ast.get_docstring(TREES[module]), module
    for node in TREES[module].body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{module}.{node.name}"
            members = [child for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            members = [node]
        else:
            members = []
        for member in members:
            assert member.name.startswith("_") or ast.get_docstring(member), f"{module}: {member.name}"


@pytest.mark.parametrize("module", sorted(name for name, path in FILES.items() if ">>> " in path.read_text("utf-8")))
def test_the_examples_in_docstrings_hold(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("module", ["instances.cost_model", "instances.engine", "instances.replay"])
def test_what_decides_durations_and_validity_knows_no_floats(module: str) -> None:
    for node in ast.walk(TREES[module]):
        assert not isinstance(node, ast.Div), f"{module} divides"
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), f"{module} has a float"
        assert not (isinstance(node, ast.Name) and node.id in ("float", "round")), f"{module} uses {node}"


def test_the_cost_of_context_has_one_formula() -> None:
    # everybody else asks Piece.prefill_us, Piece.decode_us or CostModel.duration_us
    readers = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("prefill_context_ps", "decode_context_ps")
    }
    assert readers == {"instances.cost_model"}
