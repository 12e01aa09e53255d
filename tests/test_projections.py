"""The plot of three axes: three panels, shades that survive grey, proofs told apart, numbered heuristics."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from chunkfront.compare import ComparedPolicy
from chunkfront.plots.files import figure_file
from chunkfront.plots.projections import SHADES, plot_projections
from instances.schedule import Schedule
from solver.result import FEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint

AXES = ("makespan", "mean_ttft", "max_tbt")
TRIPLES = [(17.0, 13.0, 11.0), (17.0, 14.0, 10.0), (18.0, 14.0, 6.0), (22.0, 12.0, 16.0)]


def frontier(values: list[tuple[float, ...]], *, proved: bool = True, axes: tuple[str, ...] = AXES) -> Frontier:
    status, nothing = OPTIMAL if proved else FEASIBLE, Schedule("x", "x", ())
    points = tuple(FrontierPoint(v, v, tuple(map(round, v)), status, nothing, {}) for v in values)
    zones = () if proved else ({"better_than": dict.fromkeys(axes), "bounds": {}},)
    return Frontier(axes, ("ms",) * 3, points, complete=proved, status=status if values else UNKNOWN, open_zones=zones)


def policy(name: str, *values: float | None, comparable: bool = True) -> ComparedPolicy:
    return ComparedPolicy(name, values, comparable, None if comparable else "why", None, {})


def panels(figure: Figure) -> list[tuple[str, str]]:
    return [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes if axes.get_ylabel()]


def test_every_pair_of_axes_has_a_panel_and_the_third_is_the_shade() -> None:
    figure = plot_projections(frontier(TRIPLES))
    assert panels(figure) == [
        ("makespan (ms)", "mean_ttft (ms)"), ("makespan (ms)", "max_tbt (ms)"), ("mean_ttft (ms)", "max_tbt (ms)")
    ]  # fmt: skip
    bars = [axes.get_xlabel() for axes in figure.axes if not axes.get_ylabel()]
    assert bars == ["shade: max_tbt (ms)", "shade: mean_ttft (ms)", "shade: makespan (ms)"]


def test_shades_are_told_apart_in_grey() -> None:
    # Luma of ITU-R BT.601: what a black-and-white printer makes of a colour.
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b, _ in map(colormaps[SHADES], range(0, 256, 8))]
    assert all(lighter > darker for darker, lighter in pairwise(grey))
    assert grey[-1] - grey[0] > 0.6


def test_proved_points_are_discs_and_others_rings() -> None:
    for proved in (True, False):
        panel = plot_projections(frontier(TRIPLES, proved=proved)).axes[0]
        faces = [line.get_markerfacecolor() for line in panel.lines if line.get_marker() == "o"]
        assert len(faces) == len(TRIPLES)
        assert all((face == "white") is not proved for face in faces)


def test_the_edge_of_a_panel_is_that_of_its_two_axes_alone() -> None:
    # On makespan and mean TTFT (17, 13) reaches (17, 14) and (18, 14): only it and (22, 12) are left.
    panel = plot_projections(frontier(TRIPLES)).axes[0]
    (stairs,) = [line for line in panel.lines if line.get_drawstyle() == "steps-post"]
    corners = list(zip(*stairs.get_data(orig=True), strict=True))
    assert corners[1:3] == [(17.0, 13.0), (22.0, 12.0)]


def test_heuristics_are_numbered_and_named_in_the_key() -> None:
    named = [policy("a", 20.0, 15.0, 9.0), policy("b", 20.0, 15.0, 9.0), policy("c", 25.0, 15.0, 9.0, comparable=False),
             policy("failed", None, None, None)]  # fmt: skip
    figure = plot_projections(frontier(TRIPLES), named)
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["proved point", "edge of the two axes alone", "1: a, b", "2: c (not comparable)"]
    notes = [[t.get_text() for t in axes.texts if isinstance(t, Annotation)] for axes in figure.axes[:3]]
    # On mean TTFT and max TBT both places are the same.
    assert notes == [["1", "2"], ["1", "2"], ["1, 2"]]


def test_one_cut_short_says_so() -> None:
    figure = plot_projections(frontier(TRIPLES, proved=False), title="mine")
    assert figure.get_suptitle() == "mine  (cut short, 1 open zone)"


@pytest.mark.parametrize("values", [[], [(5.0, 5.0, 5.0)], [(0.0, 0.0, 0.0)], TRIPLES])
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_any_number_of_points_can_be_drawn_and_gives_the_same_bytes_twice(
    values: list[tuple[float, ...]], kind: str
) -> None:
    first, second = (figure_file(plot_projections(frontier(values), [policy("a", 1.0, 1.0, 1.0)]), kind) for _ in "12")
    assert first == second
    assert first.startswith(b"\x89PNG" if kind == "png" else b"<?xml")
