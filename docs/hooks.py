"""What the documentation says of the program is read from the program: a hook of mkdocs, usable without it.

A line ``<!-- generated: KIND [NAME] -->`` in a page stands for text made from the command line's options, the
policies' knobs and docstrings, the metrics, the bundled instances, the roofline presets or the modules.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the pages tell of this source tree, whatever is installed

import typer  # noqa: E402

from chunkfront.cli import app  # noqa: E402
from heuristics.knobs import knobs_of  # noqa: E402
from heuristics.registry import ELSEWHERE, POLICIES, policy_class  # noqa: E402
from instances.bundled import bundled_names, load_bundled  # noqa: E402
from instances.metrics import UNITS, json_key  # noqa: E402
from instances.objectives import OBJECTIVES  # noqa: E402
from instances.roofline import ACCELERATORS, MODELS  # noqa: E402

MARK = re.compile(r"^<!-- generated: (\w+)(?: (\S+))? -->$", flags=re.MULTILINE)


def on_startup(**_: Any) -> None:
    """Put the source tree first again; mkdocs takes back what a hook does to the path while it is loaded."""
    sys.path.insert(0, str(ROOT))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its generated parts filled in; mkdocs calls this for every page."""
    return expand(markdown)


def expand(markdown: str) -> str:
    """Return a page with its generated parts filled in.

    Raises
    ------
    KeyError
        For a kind of part, or a name, that does not exist.
    """
    return MARK.sub(lambda mark: KINDS[mark[1]](*filter(None, [mark[2]])), markdown)


def commands() -> dict[str, Any]:
    """Return every command of the command line by name."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def options(name: str) -> str:
    """Return what a command does, how it is called, and all of its options."""
    command = commands()[name]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["chunkfront", name, *(p.metavar for p in arguments), "[OPTIONS]"])
    rows = [(f"`{p.metavar}`", "", p.help) for p in arguments]
    rows += [(_spelling(p), _default(p), p.help) for p in command.params if p.param_type_name == "option"]
    text = inspect.cleandoc(command.help or "")
    return f"{text}\n\n```text\n{usage}\n```\n\n{table(('argument or option', 'default', 'meaning'), rows)}"


def _spelling(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar}"
    return " / ".join(f"`{name}{value}`" for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.required:
        return "required"
    if option.is_flag:
        return "on" if option.default and option.secondary_opts else ""
    shown = f"{option.default:g}" if isinstance(option.default, float) else option.default
    return "" if option.default is None else f"`{shown}`"


def policies() -> str:
    """Return one section per policy: what it is, what is known of it, its knobs."""
    return "\n\n".join(_policy(name) for name in POLICIES | ELSEWHERE)


def _policy(name: str) -> str:
    chosen = policy_class(name)
    text = inspect.cleandoc(chosen.__doc__ or "").split("\n\nParameters\n---")[0]
    rows = [
        (f"`{k.name}`", f"`{str(k.default).lower() if k.kind is bool else k.default}`" if k.default != "" else "",
         ", ".join(f"`{choice}`" for choice in k.choices) or k.kind.__name__, k.help)
        for k in knobs_of(chosen)
    ]  # fmt: skip
    own = table(("knob", "default", "values", "meaning"), rows) if rows else "It has no knobs."
    return f"### {name}\n\n*{chosen.summary}*\n\n{text}\n\n{own}"


def metrics() -> str:
    """Return the table of all metrics."""
    rows = []
    for name, unit in UNITS.items():
        role = "" if name not in OBJECTIVES else "maximise" if OBJECTIVES[name].maximise else "minimise"
        rows.append((f"`{name}`", unit, f"`{json_key(name)}`", role))
    return table(("metric", "unit", "key in JSON and CSV", "as an objective"), rows)


def bundled() -> str:
    """Return the table of the bundled instances."""
    loaded = [load_bundled(name) for name in bundled_names()]
    rows = [(f"`{i.name}`", len(i.requests), " x ".join(f"`{axis}`" for axis in i.axes or ()), i.description)
            for i in loaded]  # fmt: skip
    return table(("name", "requests", "axes of `frontier`", "what it is"), rows)


def presets() -> str:
    """Return the models and accelerators of the roofline presets."""
    return "\n".join([f"- models: {_listed(MODELS)}", f"- accelerators: {_listed(ACCELERATORS)}"])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def modules(package: str) -> str:
    """Return every module of a package with the first sentence of its docstring."""
    rows = []
    for file in sorted((ROOT / package).rglob("*.py")):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        if file.name != "__init__.py" and text:
            rows.append((f"`{'.'.join(file.relative_to(ROOT).with_suffix('').parts)}`", text.split("\n\n")[0]))
    return table(("module", "what it is"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    text = " ".join(str("" if value is None else value).split())
    return re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or "\\|", text)  # within code a bar divides no cells


KINDS: dict[str, Callable[..., str]] = {
    "options": options, "policies": policies, "metrics": metrics, "bundled": bundled, "presets": presets,
    "modules": modules,
}  # fmt: skip
"""Kinds of generated parts -> what makes them."""
