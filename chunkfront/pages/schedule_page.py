"""A schedule as one HTML file: an interactive figure and a table of its requests; works off-line."""

from __future__ import annotations

from typing import Any

from chunkfront.pages.render import render, script_safe
from chunkfront.pages.schedule_figure import schedule_figure
from chunkfront.timeline.spans import Row, Timeline
from chunkfront.timeline.words import choice_sentence, headline


def schedule_page(timeline: Timeline) -> str:
    """Return the page of a schedule, valid or not."""
    return render(
        "schedule.html",
        headline=headline(timeline),
        chosen=choice_sentence(timeline),
        violations=timeline.violations,
        rows=[_row(row) for row in timeline.rows],
        figure=script_safe(schedule_figure(timeline).to_json()),
    )


def _row(row: Row) -> dict[str, Any]:
    request = row.request
    times = [request.arrival_us, row.ttft_us, row.worst_gap_us if row.gaps else None, row.e2e_us]
    arrival, *rest = ("-" if us is None else f"{us / 1000:.3f}" for us in times)
    cells = [arrival, str(request.prompt_tokens), str(request.output_tokens), *rest, str(len(row.evictions))]
    return {"id": request.id, "cells": cells}
