"""The pages in a real browser: they load without errors or requests, hover and click work, numbers are the document's.

Needs Playwright and the system's Chromium (Debian: ``apt-get install chromium``); skipped where either is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkfront.pages.schedule_page import schedule_page
from chunkfront.report.page import report_page
from chunkfront.timeline.build import build_timeline
from chunkfront.timeline.words import stall_words, visible
from instances.instance import Instance
from tests.judges.scenes import awkward, crowd
from tests.test_report import ODD, run_frontier, two_requests

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser on this machine (looked for {', '.join(BROWSERS)})")
    with sync_api.sync_playwright() as playwright:
        # without a sandbox, as root has none; without a network, as the pages must need none
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


class Visit:
    """An open page, and what went wrong with it."""

    def __init__(self, browser: Any, path: Path, size: tuple[int, int] = (1280, 900), script: bool = True) -> None:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, java_script_enabled=script, offline=True
        )
        self.page = context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.path = path
        if script:
            self.page.wait_for_selector(".main-svg")

    def check(self) -> None:
        """Demand that nothing went wrong and nothing was fetched."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [self.path.as_uri()]

    def marker(self, plot: str, name: str, at: int) -> Any:
        """Return the marker number `at` of a trace."""
        traces = self.page.evaluate(f"document.getElementById({plot!r}).data.map(trace => trace.name)")
        drawn = [trace for trace in traces if self.page.locator(f"#{plot} .scatterlayer .trace").count()]
        index = drawn.index(name)
        return self.page.locator(f"#{plot} .scatterlayer .trace").nth(index).locator("path.point").nth(at)

    def at(self, marker: Any) -> tuple[float, float]:
        """Return the middle of a marker, scrolled into view."""
        marker.scroll_into_view_if_needed()
        box = marker.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("report")
    policies = ("--policies", "static,orca,greedy-chunked:chunk=1")
    out = run_frontier(two_requests(*ODD, "<i>odd</i> & 日本"), folder, *policies)
    document = json.loads((out / "frontier.json").read_text())
    (folder / "report.html").write_text(report_page(document, Instance.read(out / "instance.json")))
    return folder / "report.html", document


@pytest.fixture(scope="module")
def visit(browser: Any, report: tuple[Path, dict[str, Any]]) -> Visit:
    """The report in one window for all tests that only look and click."""
    return Visit(browser, report[0])


def test_a_report_loads_without_errors_and_fetches_nothing(visit: Visit) -> None:
    assert visit.page.locator("h1").inner_text() == "<i>odd</i> & 日本: makespan × max_tbt"
    visit.check()


def test_on_a_narrow_screen_wide_parts_scroll_on_their_own(browser: Any, report: tuple[Path, dict[str, Any]]) -> None:
    visit = Visit(browser, report[0], (420, 800))
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 420
    visit.check()


def test_the_numbers_that_a_reader_sees_are_those_of_the_document(
    visit: Visit, report: tuple[Path, dict[str, Any]]
) -> None:
    page = visit.page
    for kind, entries in (("point", report[1]["points"]), ("policy", report[1]["policies"])):
        for index, entry in enumerate(entries):
            cells = page.locator(f"#{kind}-{index} td[data-value]").all_inner_texts()
            assert cells[:2] == [f"{value:.3f}" for value in entry["values"]]
    drawn = page.evaluate("document.getElementById('frontier-plot').data.find(t => t.name === 'proved point')")
    assert [list(pair) for pair in zip(drawn["x"], drawn["y"], strict=True)] == [
        point["values"] for point in report[1]["points"]
    ]


def test_the_pointer_over_a_point_tells_its_metrics(visit: Visit, report: tuple[Path, dict[str, Any]]) -> None:
    visit.page.mouse.move(*visit.at(visit.marker("frontier-plot", "proved point", 1)))
    visit.page.wait_for_selector("#frontier-plot .hovertext")
    text = visit.page.locator("#frontier-plot .hovertext").first.text_content()
    point = report[1]["points"][1]
    assert "point 1, OPTIMAL" in text
    assert f"makespan: {point['values'][0]:.3f} ms" in text
    assert f"mean_ttft: {point['metrics']['mean_ttft_ms']:.3f} ms" in text
    visit.check()


def drawn_spans(page: Any) -> int:
    """Return how many bars of work the schedule's picture has."""
    found: int = page.evaluate(
        "document.getElementById('schedule').data.filter(t => t.type === 'bar' && t.name !== 'queued'"
        " && t.name !== 'paused').reduce((sum, t) => sum + t.x.length, 0)"
    )
    return found


def work(entry: dict[str, Any]) -> int:
    return sum(len(it["prefill"]) + len(it["decode"]) for it in entry["schedule"]["iterations"])


def test_a_click_on_a_point_shows_its_schedule(visit: Visit, report: tuple[Path, dict[str, Any]]) -> None:
    for at in (1, 0):
        visit.page.mouse.click(*visit.at(visit.marker("frontier-plot", "proved point", at)))
        sync_api.expect(visit.page.locator("#schedule-title")).to_have_text(f"Schedule of point {at}")
        assert visit.page.locator("tr.chosen").get_attribute("id") == f"point-{at}"
        assert drawn_spans(visit.page) == work(report[1]["points"][at])
    # the stall is named, also in a picture that has taken the place of another
    assert visit.page.locator("#schedule .textpoint text").all_text_contents() == [" 7 ms"]
    # both requests stand there by name, markup and all
    labels = visit.page.locator("#schedule .ytick text").all_text_contents()
    assert labels[0] == ODD[0]
    visit.check()


def test_a_button_shows_the_schedule_of_a_heuristic(visit: Visit, report: tuple[Path, dict[str, Any]]) -> None:
    visit.page.locator("#policy-2 button").click()
    sync_api.expect(visit.page.locator("#schedule-title")).to_have_text("Schedule by greedy-chunked:chunk=1")
    assert drawn_spans(visit.page) == work(report[1]["policies"][2])
    visit.check()


def test_without_javascript_the_tables_and_a_still_picture_remain(
    browser: Any, report: tuple[Path, dict[str, Any]]
) -> None:
    page = Visit(browser, report[0], script=False).page
    assert page.locator("#points tr").count() == 1 + len(report[1]["points"])
    assert page.locator("#policies tr").count() == 1 + len(report[1]["policies"])
    assert page.locator("noscript img").is_visible()
    assert page.locator("button:visible").count() == 0


@pytest.mark.parametrize(("scene", "size"), [(awkward, (1280, 900)), (crowd, (420, 800))])
def test_a_schedule_page_loads_and_tells_about_a_bar(
    browser: Any, tmp_path: Path, scene: Any, size: tuple[int, int]
) -> None:
    timeline = build_timeline(*scene())
    (tmp_path / "schedule.html").write_text(schedule_page(timeline))
    visit = Visit(browser, tmp_path / "schedule.html", size)
    lengths = visit.page.locator("#schedule .textpoint text").all_text_contents()
    assert lengths == [f" {stall_words(gap)}" for gap in timeline.stalls]
    last = scene()[1].iterations[-1]
    bar = visit.page.locator("#schedule .barlayer .trace").nth(1).locator(".point path").last  # the last decode
    visit.page.mouse.move(*visit.at(bar))
    visit.page.wait_for_selector("#schedule .hovertext")
    text = visit.page.locator("#schedule .hovertext").first.text_content()
    assert text.startswith(f"{visible(last.decode[-1])}: decode")
    assert f"iteration {len(scene()[1].iterations) - 1}, 1 token" in text
    visit.check()
