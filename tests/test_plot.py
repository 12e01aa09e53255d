"""The plot of a frontier: what is told apart, what is readable, and that it needs no display."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from chunkfront.compare import ComparedPolicy
from chunkfront.plots.frontier import figure_bytes, plot_frontier
from instances.schedule import Schedule
from solver.result import FEASIBLE, OPTIMAL, UNKNOWN, Frontier, FrontierPoint

NO_SCHEDULE = Schedule("x", "x", ())
PNG = b"\x89PNG"


def frontier(
    values: list[tuple[float, float]], *, proved: bool = True, axes: tuple[str, str] = ("makespan", "max_tbt")
) -> Frontier:
    points = tuple(
        FrontierPoint(v, v, (round(v[0]), round(v[1])), OPTIMAL if proved else FEASIBLE, NO_SCHEDULE, {})
        for v in values
    )
    units = tuple("tokens/s" if axis == "throughput" else "ms" for axis in axes)
    return Frontier(axes, units, points, complete=proved, status=OPTIMAL if values else UNKNOWN)


def policy(name: str, x: float | None, y: float | None, *, comparable: bool = True) -> ComparedPolicy:
    return ComparedPolicy(name, (x, y), comparable, None if comparable else "why", None, {})


def line(axes: Axes, label: str) -> Line2D:
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found


def texts(axes: Axes) -> list[Annotation]:
    return [each for each in axes.texts if isinstance(each, Annotation) and each.get_text()]


STEPS = [(204.0, 204.0), (209.0, 104.0), (218.0, 54.0), (236.0, 29.0)]


@pytest.mark.parametrize("values", [[], [(5.0, 5.0)], [(5.0, 5.0), (6.0, 4.0)], [(0.0, 0.0)], [(5.0, 0.0)]])
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_any_number_of_points_and_equal_values_can_be_drawn(values: list[tuple[float, float]], kind: str) -> None:
    axes = plot_frontier(frontier(values), [policy("a", 5.0, 5.0), policy("b", 5.0, 5.0), policy("c", None, None)])
    data = figure_bytes(axes, kind)
    assert data.startswith(PNG if kind == "png" else b"<?xml")


def test_a_frontier_without_points_says_so_in_the_figure() -> None:
    axes = plot_frontier(frontier([]))
    assert any("no point found: UNKNOWN" in each.get_text() for each in axes.texts)


def test_proved_and_unproved_points_differ_in_more_than_colour() -> None:
    proved = line(plot_frontier(frontier(STEPS)), "proved point")
    unproved = line(plot_frontier(frontier(STEPS, proved=False)), "point, not proved")
    assert (proved.get_markerfacecolor(), unproved.get_markerfacecolor()) == ("black", "white")


def test_the_staircase_of_minimised_axes_turns_under_each_point() -> None:
    # Up to the border above the first point, on to the right border behind the last.
    axes = plot_frontier(frontier([(1.0, 4.0), (2.0, 3.0)]))
    stairs = line(axes, "frontier")
    xs, ys = stairs.get_data(orig=True)
    assert list(zip(xs, ys, strict=True)) == [
        (1.0, axes.get_ylim()[1]),
        (1.0, 4.0),
        (2.0, 3.0),
        (axes.get_xlim()[1], 3.0),
    ]
    assert stairs.get_drawstyle() == "steps-post"


def test_the_staircase_of_a_maximised_axis_runs_from_the_left_border() -> None:
    # More throughput is better: what (1, 3) reaches is to its left, so the edge comes from the left border at 3.
    axes = plot_frontier(frontier([(1.0, 3.0), (2.0, 4.0)], axes=("throughput", "max_tbt")))
    stairs = line(axes, "frontier")
    xs, ys = stairs.get_data(orig=True)
    assert list(zip(xs, ys, strict=True)) == [
        (axes.get_xlim()[0], 3.0),
        (1.0, 3.0),
        (2.0, 4.0),
        (2.0, axes.get_ylim()[1]),
    ]
    assert stairs.get_drawstyle() == "steps-pre"


def test_a_frontier_cut_short_is_dashed_and_its_open_interval_is_hatched() -> None:
    cut = Frontier(("makespan", "max_tbt"), ("ms", "ms"), frontier(STEPS).points, complete=False,
                   open_intervals=({"axis": "max_tbt", "above": 54.0, "below": None},))  # fmt: skip
    axes = plot_frontier(cut)
    (shade,) = [each for each in axes.patches if each.get_label() == "points may be missing"]
    assert shade.get_hatch()
    assert line(axes, "best found so far").get_linestyle() == "--"


def test_axes_carry_their_units_and_say_when_larger_is_better() -> None:
    axes = plot_frontier(frontier([(1.0, 3.0)], axes=("throughput", "max_tbt")))
    assert axes.get_xlabel() == "throughput (tokens/s, larger is better)"
    assert axes.get_ylabel() == "max_tbt (ms)"


def test_the_ideal_corner_is_the_best_of_both_axes() -> None:
    corner = line(plot_frontier(frontier(STEPS)), "ideal corner")
    assert (list(corner.get_xdata()), list(corner.get_ydata())) == ([204.0], [29.0])


def test_policies_with_equal_values_share_one_marker_and_one_label() -> None:
    axes = plot_frontier(frontier(STEPS), [policy("a", 240.0, 60.0), policy("b", 240.0, 60.0)])
    assert [each.get_text() for each in texts(axes)] == ["a, b"]


def test_many_policies_at_one_place_are_named_in_short_lines_inside_the_axes() -> None:
    axes = plot_frontier(frontier(STEPS), [policy(f"some-policy-{k}", 209.0, 104.0) for k in range(16)])
    (label,) = texts(axes)
    assert "some-policy-15" in label.get_text()
    assert max(len(line) for line in label.get_text().splitlines()) <= 38
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    assert axes.get_window_extent().containsx(label.get_window_extent().x1)


def test_policies_are_told_apart_by_shape_and_incomparable_ones_by_a_cross() -> None:
    named = [policy("a", 240.0, 60.0), policy("b", 250.0, 70.0), policy("c", 260.0, 80.0, comparable=False)]
    axes = plot_frontier(frontier(STEPS), named)
    markers = [each.get_marker() for each in axes.lines if each.get_label().startswith("_")]
    assert len(set(markers)) == 3
    assert "X" in markers


def test_labels_cover_neither_each_other_nor_a_marker_and_stay_inside() -> None:
    # Twelve heuristics close to each other and one far away.
    crowd = [policy(f"heuristic-{k}:chunk={64 * k}", 220.0 + 3 * (k % 4), 80.0 + 4 * (k // 4)) for k in range(12)]
    axes = plot_frontier(frontier(STEPS), [*crowd, policy("far", 300.0, 300.0)])
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    boxes = [each.get_window_extent() for each in texts(axes)]
    assert len(boxes) == 13
    inside = axes.get_window_extent()
    for box in boxes:
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    centres = [axes.transData.transform(p.values) for p in crowd]
    assert not [1 for box in boxes for x, y in centres if box.contains(x, y)]


def test_labels_leave_the_staircase_visible() -> None:
    axes = plot_frontier(frontier(STEPS), [policy(f"on-point-{k}", *place) for k, place in enumerate(STEPS)])
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    boxes = [each.get_window_extent() for each in texts(axes)]
    # The parts of the staircase between the points: level to the right, then down.
    for (x, y), (next_x, next_y) in pairwise(STEPS):
        part = axes.transData.transform([(x, y), (next_x, y), (next_x, next_y)])
        for start, end in pairwise(part):
            assert not [box for box in boxes if box.overlaps(Bbox([start, end]))]


def test_far_outliers_make_an_axis_logarithmic_and_its_label_says_so() -> None:
    axes = plot_frontier(frontier([(1.0, 5.0), (2.0, 4.0)]), [policy("static", 100.0, 6.0)])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert axes.get_xlabel() == "makespan (ms, logarithmic)"


def test_a_plot_draws_into_given_axes() -> None:
    figure = Figure()
    own = figure.subplots()
    assert plot_frontier(frontier(STEPS), ax=own, title="mine") is own
    assert own.get_title(loc="left") == "mine"


def test_the_same_frontier_gives_the_same_bytes() -> None:
    for kind in ("png", "svg"):
        first, second = (figure_bytes(plot_frontier(frontier(STEPS)), kind) for _ in range(2))
        assert first == second


def in_new_python(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "MPLBACKEND")}
    done = subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True,
                          check=False, cwd=Path(__file__).parents[1])  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


DRAW = """
import sys
from chunkfront.plots.frontier import figure_bytes, plot_frontier
assert "matplotlib" not in sys.modules
from solver.result import Frontier
axes = plot_frontier(Frontier(("makespan", "max_tbt"), ("ms", "ms"), (), complete=False))
print(len(figure_bytes(axes, "png")), "matplotlib.pyplot" in sys.modules)
"""


@pytest.mark.parametrize("environment", [{}, {"DISPLAY": "localhost:64.0"}])
def test_drawing_needs_no_display_and_chooses_no_backend(environment: dict[str, str]) -> None:
    size, pyplot = in_new_python(DRAW, **environment).split()
    assert int(size) > 1000
    assert pyplot == "False"


def test_without_matplotlib_the_plot_says_what_to_install() -> None:
    code = 'import sys; sys.modules["matplotlib"] = None; sys.modules["matplotlib.figure"] = None\n' + DRAW.replace(
        'assert "matplotlib" not in sys.modules\n', ""
    ).replace("axes = ", "try:\n    axes = ").replace(
        'print(len(figure_bytes(axes, "png")), "matplotlib.pyplot" in sys.modules)',
        "except ValueError as error:\n    print(error)",
    )
    assert "pip install matplotlib" in in_new_python(code)
