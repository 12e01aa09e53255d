"""The timeline of a schedule: spans by hand, what is a stall, who is shown, and that all of it adds up."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from chunkfront.timeline.build import build_timeline
from chunkfront.timeline.choice import CHOSEN
from chunkfront.timeline.document import timeline_document
from chunkfront.timeline.lines import MOST_STEPS, exact_line, kv_line, step_line
from chunkfront.timeline.spans import Kind, Row, Timeline, merged
from chunkfront.timeline.words import duration, short, visible
from instances.check import violations
from instances.metrics import all_metrics, per_iteration, per_request
from instances.request import Progress, Request
from instances.schedule import Iteration, Schedule
from tests.judges.build import build, schedule
from tests.judges.random_instances import tiny_instance
from tests.judges.scenes import broken, crowd, empty, evicted, waiting
from tests.judges.walks import mutated, random_schedule

Q, P, D, W, E = Kind.QUEUED, Kind.PREFILL, Kind.DECODE, Kind.PAUSED, Kind.EVICTED


def spans(row: Row) -> list[tuple[Kind, float, float]]:
    return [(span.kind, span.start_us / 1000, span.end_us / 1000) for span in row.spans]


def rows(timeline: Timeline) -> dict[str, Row]:
    return {row.request.id: row for row in timeline.rows}


def test_a_request_is_queued_then_prefilled_then_decodes() -> None:
    timeline = build_timeline(*waiting())
    assert spans(rows(timeline)["A"]) == [(Q, 0, 4), (P, 4, 10), (D, 10, 17)]
    assert spans(rows(timeline)["B"]) == [(P, 10, 17)]
    assert list(timeline.idle()) == [(0, 4000)]
    assert timeline.queue == ((0, 1), (4000, 0))  # B starts when it arrives
    assert (timeline.start_us, timeline.end_us) == (0, 17_000)


def test_spans_tell_iteration_tokens_context_and_outputs() -> None:
    prefill, decode = rows(build_timeline(*waiting()))["A"].spans[1:]
    assert (prefill.iteration, prefill.tokens, prefill.computed, prefill.emitted) == (0, 1, 1, 1)
    assert (decode.iteration, decode.tokens, decode.computed, decode.emitted) == (1, 1, 2, 2)


@pytest.mark.parametrize(("mode", "work"), [("recompute", P), ("swap", D)])
def test_an_eviction_lasts_until_the_request_works_again(mode: str, work: Kind) -> None:
    # B is resident from 0 and paused from 1 to 2, when A takes its place; it is back at 4.
    instance, plan = evicted(mode)
    assert mode == "recompute" or violations(instance, plan) == []
    timeline = build_timeline(instance, plan)
    row = rows(timeline)["B"]
    assert spans(row) == [(P, 0, 1), (W, 1, 2), (E, 2, 4), (work, 4, 5)]
    assert row.evictions == (2000,)
    assert [(beat.queued, beat.evicted, beat.paused) for beat in timeline.beats] == [(0, 0, 0), (0, 1, 0), (0, 0, 0)]
    assert timeline.queue == ((1000, 1), (4000, 0))  # A from 1 to 2, B from 2 to 4
    assert row.spans[2].computed == (0 if mode == "recompute" else 2)


def test_a_swapped_request_that_is_brought_back_early_is_paused_until_it_works() -> None:
    instance = build([Request("A", 1, 1), Request("B", 1, 2)], 2, preemption="swap")
    plan = schedule((0, 1, {"B": 1}, ()), Iteration(1000, 1000, {"A": 1}, evict=("B",), restore=()),
                    Iteration(2000, 1000, {}, ("B",), restore=("B",)))  # fmt: skip
    assert violations(instance, plan) == []
    assert spans(rows(build_timeline(instance, plan))["B"]) == [(P, 0, 1), (E, 1, 2), (D, 2, 3)]


def test_a_resident_of_time_0_is_paused_until_it_works_and_its_first_gap_began_before() -> None:
    request = Request("r", 4, 4, progress=Progress(4, 2, last_token_us=-3000))
    instance = build([request, Request("s", 2, 1)], 2)
    timeline = build_timeline(instance, schedule((0, 1, {"s": 2}, ()), (1, 1, {}, ["r"]), (2, 1, {}, ["r"])))
    row = rows(timeline)["r"]
    assert spans(row) == [(W, 0, 1), (D, 1, 2), (D, 2, 3)]
    assert [(gap.start_us, gap.end_us) for gap in row.gaps] == [(-3000, 2000), (2000, 3000)]
    assert [gap.length_us for gap in timeline.stalls] == [5000]
    assert row.ttft_us is None


def three_gaps(**slo: int) -> Timeline:
    # Tokens at 1, 2, 4, 7: gaps of 1, 2, 3 ms.
    plan = schedule((0, 1, {"r": 1}, ()), (1, 1, {}, ["r"]), (3, 1, {}, ["r"]), (6, 1, {}, ["r"]))
    return build_timeline(build([Request("r", 1, 4, **slo)], 1), plan)


def test_without_a_threshold_the_longest_gap_is_a_stall_and_those_above_the_slo() -> None:
    assert [gap.length_us for gap in three_gaps().stalls] == [3000]
    assert [gap.length_us for gap in three_gaps(tbt_slo_us=1500).stalls] == [2000, 3000]


def test_a_threshold_marks_the_gaps_above_it_and_no_others() -> None:
    timeline = three_gaps(tbt_slo_us=500)
    plan = schedule((0, 1, {"r": 1}, ()), (1, 1, {}, ["r"]), (3, 1, {}, ["r"]), (6, 1, {}, ["r"]))
    marked = build_timeline(timeline.instance, plan, stall_us=2000).stalls
    assert [gap.length_us for gap in marked] == [3000]  # 2000 is not above 2000
    assert build_timeline(timeline.instance, plan, stall_us=3000).stalls == ()


def test_an_invalid_schedule_has_its_violations_and_leaves_out_work_that_cannot_be() -> None:
    timeline = build_timeline(*broken())
    assert [v.rule for v in timeline.violations] == ["arrival", "time-order", "phase"]
    assert spans(rows(timeline)["A"]) == [(P, 0, 6), (W, 6, 8), (D, 8, 15)]  # the third decode is none
    assert list(timeline.idle()) == [(6000, 8000)]


def test_an_empty_schedule_has_a_timeline_too() -> None:
    timeline = build_timeline(*empty())
    assert (len(timeline.rows), timeline.beats, timeline.end_us) == (2, (), 1)
    assert {v.rule for v in timeline.violations} == {"completion"}


def test_of_many_requests_a_few_are_shown_and_all_are_counted() -> None:
    instance, plan = crowd()
    timeline = build_timeline(instance, plan)
    assert (len(timeline.rows), timeline.hidden) == (CHOSEN, 60 - CHOSEN)
    shown = set(rows(timeline))
    known = per_request(instance, plan)
    for measure in ("max_tbt_ms", "ttft_ms"):
        assert max(known, key=lambda entry, m=measure: entry[m])["id"] in shown
    assert [row.request.arrival_us for row in timeline.rows] == sorted(row.request.arrival_us for row in timeline.rows)
    everybody = build_timeline(instance, plan, most_rows=None)
    assert (len(everybody.rows), everybody.hidden) == (60, 0)
    assert everybody.beats == timeline.beats


def test_a_request_in_a_violation_is_shown_however_dull_it_is() -> None:
    instance, plan = crowd()
    dull = next(r.id for r in instance.requests if r.id not in rows(build_timeline(instance, plan)))
    cut = Schedule(plan.instance, plan.producer, tuple(
        Iteration(it.start_us, it.duration_us, {k: v for k, v in it.prefill.items() if k != dull},
                  tuple(name for name in it.decode if name != dull), it.evict, it.restore) for it in plan.iterations
    ))  # fmt: skip
    assert dull in rows(build_timeline(instance, cut))


def add_up(timeline: Timeline, plan: Schedule) -> None:
    """Check a timeline of all requests against metrics and replay, which count on their own."""
    instance = timeline.instance
    metrics = all_metrics(instance, plan)
    worked = {(span.iteration, span.kind): 0 for row in timeline.rows for span in row.spans}
    for row in timeline.rows:
        assert all(before.end_us == after.start_us for before, after in pairwise(row.spans))
        assert row.spans[0].start_us == row.request.arrival_us
        assert row.spans[-1].end_us == row.token_times[-1]
        for span in row.spans:
            worked[span.iteration, span.kind] += span.tokens
    for beat, known in zip(timeline.beats, per_iteration(instance, plan), strict=True):
        assert (beat.prefill_tokens, beat.decode_tokens) == (
            worked.get((beat.index, P), 0), worked.get((beat.index, D), 0)
        )  # fmt: skip
        assert beat.kv_blocks == known["kv_blocks"]
        assert beat.prefilling + beat.decoding + beat.paused == known["residents"]
        at = beat.start_us
        states = [span.kind for row in timeline.rows for span in row.spans if span.start_us <= at < span.end_us]
        assert [states.count(kind) for kind in (P, D, W, Q, E)] == [
            beat.prefilling, beat.decoding, beat.paused, beat.queued, beat.evicted
        ]  # fmt: skip
        waiting_now = [count for moment, count in timeline.queue if moment <= at][-1:] or [0]
        assert waiting_now == [beat.queued + beat.evicted]
    longest = max((gap.length_us for row in timeline.rows for gap in row.gaps), default=None)
    assert metrics["max_tbt"] == (None if longest is None else longest / 1000)
    assert metrics["preemptions"] == sum(len(row.evictions) for row in timeline.rows)
    busy = sum(beat.end_us - beat.start_us for beat in timeline.beats)
    assert busy + sum(end - start for start, end in timeline.idle()) == timeline.end_us - timeline.start_us


def test_timelines_of_random_schedules_add_up() -> None:
    seen = 0
    for seed in range(60):
        instance = tiny_instance(seed, every_feature=True)
        plan = random_schedule(instance, random.Random(seed), idle_us=3000)
        if plan is None or any(it.duration_us == 0 for it in plan.iterations):
            continue
        timeline = build_timeline(instance, plan, most_rows=None)
        if timeline.violations or any(not row.spans for row in timeline.rows):
            continue
        add_up(timeline, plan)
        seen += 1
    assert seen > 30


def test_broken_schedules_have_a_timeline_without_a_crash() -> None:
    for seed in range(40):
        instance = tiny_instance(seed, every_feature=True)
        rng = random.Random(seed)
        plan = random_schedule(instance, rng)
        if plan is not None:
            timeline_document(build_timeline(instance, mutated(instance, plan, rng)))


def test_step_lines_fall_to_what_is_kept_while_the_engine_idles() -> None:
    # A holds 1 token from 4 to 10, then A and B 2 + 1 until both finish at 17.
    timeline = build_timeline(*waiting())
    assert kv_line(timeline) == ([0, 4000, 10_000, 17_000], [0, 1, 3, 0])
    paused = build_timeline(*evicted("swap"))
    assert kv_line(paused) == ([0, 1000, 2000, 3000, 4000, 5000], [2, 2, 2, 0, 3, 0])


def test_long_step_lines_keep_their_peaks() -> None:
    instance = build([(0, 1, 3 * MOST_STEPS)], 1)
    steps = [(k, 1, {"r0": 1} if k == 0 else {}, () if k == 0 else ["r0"]) for k in range(3 * MOST_STEPS)]
    timeline = build_timeline(instance, schedule(*steps))
    exact = exact_line(timeline, lambda beat: beat.kv_blocks)
    times, values = step_line(timeline, lambda beat: beat.kv_blocks)
    assert len(exact[0]) > 3 * MOST_STEPS
    assert len(times) <= MOST_STEPS
    assert max(values) == max(exact[1]) == 3 * MOST_STEPS  # prompt 1 + outputs - 1 tokens at the end
    assert times == sorted(times)


def test_merged_spans_cover_the_same_time_with_the_same_tokens() -> None:
    row = three_gaps(tbt_slo_us=1).rows[0]
    joined = merged(row.spans)
    assert [(span.kind, span.start_us, span.end_us, span.tokens) for span in joined] == [
        (P, 0, 1000, 1), (D, 1000, 2000, 1), (W, 2000, 3000, 0), (D, 3000, 4000, 1), (W, 4000, 6000, 0),
        (D, 6000, 7000, 1),
    ]  # fmt: skip
    plan = schedule((0, 1, {"r0": 1}, ()), (1, 1, {}, ["r0"]), (2, 1, {}, ["r0"]))
    steady = build_timeline(build([(0, 1, 3)], 1), plan)
    assert [(s.kind, s.start_us, s.end_us, s.tokens) for s in merged(steady.rows[0].spans)] == [
        (P, 0, 1000, 1), (D, 1000, 3000, 2)
    ]  # fmt: skip


def test_long_names_keep_both_ends_and_nothing_unprintable_is_shown() -> None:
    assert short("a" * 10 + "b" * 10, 9) == "aaaa…bbbb"
    assert short("short", 9) == "short"
    assert visible("a\n\x1b[31m\u202eb") == "a··[31m·b"


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 ms"), (1, "0.001 ms"), (1234, "1.23 ms"), (12_345, "12.3 ms"), (209_000, "209 ms"), (12_345_678, "12.3 s")],
)
def test_durations_are_short(us: int, text: str) -> None:
    assert duration(us) == text
