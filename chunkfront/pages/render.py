"""Pages from templates: everything that a user named is escaped, plotly is inlined once, nothing is fetched."""

from __future__ import annotations

import json
from typing import Any

PLOT_SETTINGS = {"displaylogo": False, "responsive": True, "scrollZoom": False,
                 "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}  # fmt: skip


def render(template: str, **values: Any) -> str:
    """Return a page from a template of this package's folder ``templates``; its values are escaped.

    Parameters
    ----------
    template
        Name of the file.
    values
        What it names, text unless it says ``| safe``. ``plotly_js`` and ``settings`` are given.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("chunkfront.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(template).render(
        plotly_js=get_plotlyjs(), plot_settings=script_json(PLOT_SETTINGS), **values
    )


def script_json(document: Any) -> str:
    """Return JSON that may stand inside a ``<script>``: nothing in it ends the script or opens a comment."""
    return script_safe(json.dumps(document, allow_nan=False, separators=(",", ":")))


def script_safe(text: str) -> str:
    """Return JSON text with every ``<`` written as an escape."""
    return text.replace("<", "\\u003c")
