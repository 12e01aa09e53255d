"""Figures without a display: made without pyplot, written as files that the same input always gives byte by byte."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from instances.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib, which is not installed: pip install matplotlib") from None
    figure: Figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def missing_glyphs_allowed() -> Iterator[None]:
    """Draw characters that the font lacks as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def figure_file(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file of kind ``png`` or ``svg``."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "chunkfront", "svg.fonttype": "none"}), missing_glyphs_allowed():
        figure.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()
