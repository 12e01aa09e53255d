"""Pictures of schedules: in the terminal, by matplotlib, as a page. What is told apart, what fits, what is escaped."""

from __future__ import annotations

import io
import json
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.cells import cell_len

from chunkfront.pages.schedule_figure import schedule_figure
from chunkfront.pages.schedule_page import schedule_page
from chunkfront.plots.files import figure_file, missing_glyphs_allowed
from chunkfront.plots.schedule import draw_schedule
from chunkfront.plots.schedule_rows import EXTENT, KIND_STYLE
from chunkfront.terminal.columns import Columns, height_marks, kind_per_column
from chunkfront.terminal.schedule import schedule_lines
from chunkfront.timeline.build import build_timeline
from chunkfront.timeline.spans import Kind
from instances.request import Request
from tests.judges.build import base_and_tokens, build, schedule
from tests.judges.scenes import AWKWARD_NAMES, SCENES, Scene, awkward, broken, crowd, evicted, waiting
from tests.test_plot import in_new_python

EVERY_SCENE = pytest.mark.parametrize("scene", SCENES)


def terminal(scene: Scene, width: int = 60, **options: bool) -> list[str]:
    return [line.plain.rstrip() for line in schedule_lines(build_timeline(*scene), width, **options)]


def picture(scene: Scene, **options: float) -> Figure:
    figure = draw_schedule(*scene, **options)
    with missing_glyphs_allowed():
        figure.draw_without_rendering()
    return figure


def brightness(kind: Kind) -> float:
    red, green, blue = to_rgb(KIND_STYLE[kind]["facecolor"])
    return 0.299 * red + 0.587 * green + 0.114 * blue


# --- the terminal ---------------------------------------------------------------------------------------------------


def test_the_terminal_shows_rows_stalls_idleness_budget_and_kv() -> None:
    # 17 ms on 34 columns behind 7 of labels and before a spare one: A queued and the engine idle for 8, A's chunk for
    # 12, its decode and B's chunk for 14.
    lines = terminal(waiting(), 7 + 34 + 1)
    assert lines[0] == "built (test): 2 iterations in 17 ms"
    body = [line[7:] for line in lines]
    assert body[2:7] == [
        "0                8.5         17 ms",
        "├────────────────┼───────────────┤",
        "········▐████ 1 ████│▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "                    ├─── 7 ms ───┤",
        "                    ▐█████ 1 █████",
    ]
    assert [line[:6].rstrip() for line in lines[4:7]] == ["A", "", "B"]
    assert lines[8] == "tokens         ▁▁▁▁▁▁▁▁▁▁▁▁▂▂▂▂▂▂▂▂▂▂▂▂▂▂"  # 1 and 2 of 8 tokens
    assert lines[9] == "       peak 2 per iteration, limit 8"
    assert lines[11] == "       peak 3 tokens, no limit"
    assert lines[-1] == "engine idle for 4 ms (24%): no tokens there"


@EVERY_SCENE
@pytest.mark.parametrize("width", [40, 60, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_terminal(scene: str, width: int, ascii_only: bool) -> None:
    lines = terminal(SCENES[scene](), width, ascii_only=ascii_only)
    picture = lines[lines.index("") : len(lines) - lines[::-1].index("")]  # sentences before and behind are wrapped
    assert len(picture) > 6
    assert max(cell_len(line) for line in picture) <= width


def test_all_columns_line_up_and_wide_names_too() -> None:
    lines = schedule_lines(build_timeline(*awkward()), 80)
    ruler = next(line.plain for line in lines if "┼" in line.plain)
    start = ruler.index("├")
    row = next(line.plain for line in lines if line.plain.startswith("日本語"))
    assert cell_len(row.partition("日本語の要求")[1] + row.partition("日本語の要求")[2]) <= 80
    assert cell_len(row[: row.index("·")]) >= start


def test_an_ascii_terminal_gets_ascii_only() -> None:
    text = "\n".join(terminal(waiting(), 60, ascii_only=True))
    assert text.isascii()
    assert "|######" in text


def test_wide_terminals_show_the_figures_of_each_request() -> None:
    row = next(line for line in terminal(waiting(), 120) if line.startswith("A "))
    assert row.split()[-6:] == ["10", "ms", "7", "ms", "17", "ms"]  # TTFT, worst gap, E2E


def test_every_broken_rule_is_named_and_marked_where_it_happens() -> None:
    lines = terminal(broken(), 48)
    assert lines[1] == "INVALID: 3 broken rules"
    ruler = next(line for line in lines if "▼" in line)
    # iterations 1 and 2 of 20 ms on 40 columns behind 7 of labels: at 8 and at 14 ms
    assert [at - 7 for at, mark in enumerate(ruler) if mark == "▼"] == [16, 28]


def test_evictions_show_however_short_they_are() -> None:
    instance, plan = evicted()
    (row,) = [row for row in build_timeline(instance, plan).rows if row.request.id == "B"]
    fine = [Kind.PREFILL, Kind.PAUSED, Kind.EVICTED, Kind.EVICTED, Kind.PREFILL]
    assert kind_per_column(row, Columns(0, 5000, 5)) == fine
    assert Kind.EVICTED in kind_per_column(row, Columns(0, 100_000, 4))


def test_lengths_of_neighbouring_stalls_never_overwrite_each_other() -> None:
    # Gaps of 5 ms on 33 columns for 40 ms: none has room for its length, the last of r has some behind it.
    decodes = [(5.0 * k, 5, {}, ["s", "r"] if k < 4 else ["s"]) for k in range(1, 8)]
    instance = build([Request("r", 1, 4), Request("s", 1, 8)], 2, base_and_tokens(3))
    timeline = build_timeline(instance, schedule((0, 5, {"r": 1, "s": 1}, ()), *decodes), stall_us=1)
    brackets = [line.plain[7:].rstrip() for line in schedule_lines(timeline, 40) if "┤" in line.plain][1:3]
    assert brackets == ["    ├──┤├──┤├──┤ 5 ms", "    ├──┤├──┤├──┤├──┤├──┤├──┤├──┤"]


def test_heights_are_full_at_the_limit_and_never_nothing_above_zero() -> None:
    line = ([0, 10, 20, 30], [0, 1, 99, 100])
    assert height_marks(line, Columns(0, 40, 4), 100, " 12345678") == " 188"
    assert height_marks(line, Columns(0, 40, 4), 50, " 12345678") == " 188"  # above the limit: as the limit
    assert height_marks(([0], [0]), Columns(0, 40, 4), 0, " 12345678") == "    "


# --- matplotlib -----------------------------------------------------------------------------------------------------


@EVERY_SCENE
def test_every_scene_can_be_drawn_and_lies_inside_its_figure(scene: str) -> None:
    figure = picture(SCENES[scene]())
    with missing_glyphs_allowed():
        (width, height), box = figure.canvas.get_width_height(), figure.get_tightbbox()
    assert box is not None
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 * figure.dpi <= width + 1
    assert box.y1 * figure.dpi <= height + 1
    assert figure_file(figure, "svg").startswith(b"<?xml")


def test_the_same_schedule_gives_the_same_bytes() -> None:
    for kind, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, second = (figure_file(draw_schedule(*waiting()), kind) for _ in range(2))
        assert first == second
        assert first.startswith(magic)


def test_prefill_and_decode_differ_in_brightness_and_the_rest_in_shape() -> None:
    assert brightness(Kind.DECODE) - brightness(Kind.PREFILL) > 0.4
    full = [kind for kind in Kind if EXTENT[kind] == EXTENT[Kind.PREFILL]]
    looks = [(round(brightness(kind), 1), KIND_STYLE[kind].get("hatch")) for kind in full]
    assert len(set(looks)) == len(full) == 3
    assert len({EXTENT[kind] for kind in (Kind.PREFILL, Kind.PAUSED, Kind.QUEUED)}) == 3


def test_chunks_carry_their_tokens_and_stalls_their_length() -> None:
    rows = picture(waiting()).axes[0]
    assert [text.get_text() for text in rows.texts] == ["1", "1", "7 ms"]
    assert [label.get_text() for label in rows.get_yticklabels()] == ["A\n1 + 2", "B\n1 + 1"]


def test_budget_and_kv_have_their_limits_drawn_or_named() -> None:
    instance, plan = evicted()
    _, budget, kv = picture((instance, plan)).axes
    assert [line.get_ydata()[0] for line in budget.lines] == [3]  # type: ignore[index]
    assert "no pool limit" in [text.get_text() for text in kv.texts]
    far = build([(0, 2, 1)], 1000)
    texts = [text.get_text() for text in picture((far, schedule((0, 1, {"r0": 2}, ())))).axes[1].texts]
    assert "budget 1,000: far above" in texts


def test_a_threshold_changes_which_stalls_are_marked() -> None:
    # Gaps of 7 ms only: nothing above 7.
    assert "7 ms" not in [text.get_text() for text in picture(waiting(), stall_ms=7).axes[0].texts]


def test_labels_of_rows_and_stalls_do_not_cover_each_other() -> None:
    rows = picture(awkward()).axes[0]
    for texts in ([text for text in rows.texts if "ms" in text.get_text()], rows.get_yticklabels()):
        boxes = [text.get_window_extent() for text in texts]
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_a_crowd_has_a_panel_of_all_requests_by_state() -> None:
    figure = picture(crowd())
    assert [axes.get_ylabel().replace("\n", " ") for axes in figure.axes] == [
        "request (prompt + output)", "all requests", "tokens per iteration", "KV (blocks of 16)"
    ]  # fmt: skip
    assert "12 of 60 requests are shown" in figure.axes[0].get_title(loc="left")


def test_the_picture_has_ink_in_grey_where_prefill_and_decode_are() -> None:
    image = imread(io.BytesIO(figure_file(picture(waiting()), "png")))[..., :3]
    grey = np.asarray(image) @ np.array([0.299, 0.587, 0.114])
    shares = [np.mean(np.abs(grey - brightness(kind)) < 0.02) for kind in (Kind.PREFILL, Kind.DECODE)]
    assert min(shares) > 0.02


def test_drawing_needs_no_pyplot_and_no_display() -> None:
    code = """
import sys
from chunkfront.plots.schedule import draw_schedule
from tests.judges.scenes import waiting
assert "matplotlib" not in sys.modules
draw_schedule(*waiting())
print("matplotlib.pyplot" in sys.modules)
"""
    assert in_new_python(code, DISPLAY="localhost:64.0").split() == ["False"]


# --- the page -------------------------------------------------------------------------------------------------------


@EVERY_SCENE
def test_every_scene_is_a_figure_whose_bars_are_the_spans(scene: str) -> None:
    timeline = build_timeline(*SCENES[scene]())
    figure = schedule_figure(timeline)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    count = sum(len(row.spans) for row in timeline.rows)
    assert sum(len(trace.x) for trace in bars) == count
    for trace in bars:
        assert len(trace.hovertext) == len(trace.y) == len(trace.base)
    starts = sorted(start * 1000 for trace in bars for start in trace.base)
    assert starts == pytest.approx(sorted(span.start_us for row in timeline.rows for span in row.spans))
    json.loads(figure.to_json())


def test_hover_tells_everything_about_a_span() -> None:
    figure = schedule_figure(build_timeline(*waiting()))
    decode = next(trace for trace in figure.data if trace.name == "decode")
    assert decode.hovertext == (
        "<b>A</b>: decode<br>10 to 17 ms (7 ms)<br>iteration 1, 1 token<br>then 2 KV tokens, 2 of 2 tokens emitted",
    )


def test_names_in_the_figure_are_shown_as_they_are_and_never_as_markup() -> None:
    text = schedule_figure(build_timeline(*awkward())).to_json().replace("\\u003c", "<")
    assert "&lt;b&gt;bold&lt;\\u002fb&gt;" in text.replace("/", "\\u002f")
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "x" * 61 not in text


def test_the_page_needs_nothing_from_outside_and_escapes_every_name() -> None:
    page = schedule_page(build_timeline(*awkward()))
    own = page.replace(page[page.index("<script>/**") : page.index("</script>", page.index("<script>/**"))], "")
    assert "http://" not in own
    assert "https://" not in own
    assert "<script>alert" not in own
    assert "<b>bold" not in own
    assert page.count("<script>/**") == 1  # plotly, once


def test_the_page_has_a_table_of_requests_for_readers_without_javascript() -> None:
    page = schedule_page(build_timeline(*waiting()))
    cells = ["0.000", "1", "2", "10.000", "7.000", "17.000", "0"]
    assert '<td class="name">A</td>' + "".join(f'<td class="n">{cell}</td>' for cell in cells) in page


def test_awkward_names_stand_whole_in_the_page() -> None:
    from html import unescape

    page = unescape(schedule_page(build_timeline(*awkward())))
    for name in AWKWARD_NAMES:
        assert f'<td class="name">{name}</td>' in page
