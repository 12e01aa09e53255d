"""``chunkfront validate`` from outside: verdicts, documents, files, and the command that shows a fault again."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from chunkfront.plots.distance import plot_distance
from chunkfront.plots.files import figure_file
from chunkfront.validate.conformance import examine
from chunkfront.validate.distance import measure
from chunkfront.validate.library import METRICS, known_keys
from chunkfront.validate.loading import load_policy
from chunkfront.validate.suite import EDGES, instance_of, suite, suite_keys
from chunkfront.validate.template import TEMPLATE
from heuristics.greedy_chunked import GreedyChunked
from heuristics.registry import policy_names
from heuristics.simulator import simulate
from instances.bundled import bundled_names
from instances.errors import InputError
from instances.instance import Instance
from tests.judges.command import chunkfront

FEW = ("--on", "edge:single-outputs", "--on", "chat")
BAD = '''
from heuristics.greedy_chunked import GreedyChunked

class Crashes(GreedyChunked):
    def schedule(self, state):
        batch = super().schedule(state)
        return batch if state.iteration < 1 else batch[0]

class Talks(GreedyChunked):
    print("hello from the module")
    def schedule(self, state):
        print("hello from a pass")
        return super().schedule(state)

class Refuses(GreedyChunked):
    def start(self, setup):
        from instances.errors import InputError
        if setup.limits.max_num_batched_tokens < 1000:
            raise InputError("expected a larger budget")
        super().start(setup)

class Waits(GreedyChunked):
    def schedule(self, state):
        batch = super().schedule(state)
        return type(batch)(batch.tokens) if state.now_us % 2 else type(batch)([], until_us=state.now_us + 1)
'''


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.py"
    path.write_text(BAD, encoding="utf-8")
    return path


def test_the_template_conforms_and_every_part_of_the_report_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert chunkfront("validate", "--template", "--out", folder).code == 0
    file = folder / "my_scheduler.py"
    assert file.read_text(encoding="utf-8") == TEMPLATE == chunkfront("validate", "--template").out
    text = f"{file}:MyScheduler"
    outcome = chunkfront("validate", text, "--seeds", 5, "--policies", "orca", "--json", "--out", folder)
    assert outcome.code == 0
    document = outcome.document
    assert document == json.loads((folder / "validation.json").read_text(encoding="utf-8"))
    conformance, distance = document["conformance"], document["distance"]
    tried = len(list(suite(suite_keys(5))))
    assert conformance == {"conforms": True, "instances": tried, "not_tried": 0, "findings": []}
    assert (document["scheduler"], document["file"]) == (text, str(file))
    assert distance["instances"] == len(known_keys())
    assert [policy["name"] for policy in distance["policies"]] == ["my_scheduler.py:MyScheduler", "orca"]
    for policy in distance["policies"]:
        for metric in METRICS:
            spread = policy[metric]
            assert 0 <= spread["median_gap"] <= spread["max_gap"] <= 1
            assert 0 <= spread["mean_gap"] <= spread["max_gap"]
    sure = [row["least_gap"] for row in distance["rows"]]
    assert sure == sorted(sure, reverse=True)
    assert len(sure) == len(METRICS) * distance["instances"]
    written = {path.name for path in folder.iterdir() if path.is_file()}
    assert written == {"my_scheduler.py", "validation.json", "distance.png", "distance.svg"}


def test_an_exception_is_reported_with_file_line_iteration_and_instance(bad: Path) -> None:
    outcome = chunkfront("validate", f"{bad}:Crashes", *FEW, "--json")
    assert outcome.code == 1
    (finding,) = outcome.document["conformance"]["findings"]
    # `Batch` has no items; line 7 of the file is where it is asked for one.
    assert finding["rule"] == "exception"
    assert finding["place"] == f"{bad}, line 7, in schedule"
    assert finding["message"] == f"iteration 1: TypeError: 'Batch' object is not subscriptable ({finding['place']})"
    assert (finding["iteration"], finding["severity"]) == (1, "error")
    assert finding["seen_on"] == ["edge:single-outputs", "chat"]
    assert finding["file"] is None
    # Two iterations need one request with two tokens to compute, or to emit: nothing is simpler.
    assert len(finding["instance"]["requests"]) == 1
    text = chunkfront("validate", f"{bad}:Crashes", *FEW).out
    assert "bad.py:Crashes does not conform: 1 rule broken (2 instances)." in text
    assert "ERROR exception: iteration 1: TypeError" in text


def test_the_printed_command_shows_the_fault_again(bad: Path, tmp_path: Path) -> None:
    out = tmp_path / "with space"
    first = chunkfront("validate", f"{bad}:Crashes", *FEW, "--policies", "none", "--out", out, "--json")
    (finding,) = first.document["conformance"]["findings"]
    assert finding["file"] == str(out / "exception.json")
    assert Instance.read(finding["file"]).to_dict() == finding["instance"]
    assert f"again: {finding['reproduce']}" in chunkfront(
        "validate", f"{bad}:Crashes", *FEW, "--policies", "none", "--out", out
    ).out.replace("\n", " ").replace("  ", " ")
    program, *args = shlex.split(finding["reproduce"])
    assert program == "chunkfront"
    again = chunkfront(*args, "--json")
    assert again.code == 1
    (same,) = again.document["conformance"]["findings"]
    assert [same[key] for key in ("rule", "message", "place")] == [finding[key] for key in ("rule", "message", "place")]


def test_warnings_fail_only_where_that_is_asked_for(bad: Path) -> None:
    lenient = chunkfront("validate", f"{bad}:Waits", *FEW, "--policies", "none", "--json")
    assert lenient.code == 0
    assert lenient.document["conformance"]["conforms"]
    rules = {(f["rule"], f["severity"]) for f in lenient.document["conformance"]["findings"]}
    assert ("empty-batch", "warning") in rules
    assert chunkfront("validate", f"{bad}:Waits", *FEW, "--policies", "none", "--strict").code == 1


def test_what_a_scheduler_prints_is_no_part_of_the_answer(bad: Path) -> None:
    talks = f"{bad}:Talks"
    for args in (("validate", talks, *FEW), ("simulate", "chat", "--policy", talks),
                 ("compare", "chat", "--metrics", "max_tbt", "--policies", talks)):  # fmt: skip
        outcome = chunkfront(*args, "--json")
        assert outcome.code == 0
        assert outcome.document
        assert "hello from a pass" in outcome.err
        assert "hello" not in chunkfront(*args).out


def test_refusing_an_instance_is_a_warning_and_refusing_all_of_them_an_error(bad: Path) -> None:
    # chat has a budget of 512 tokens, `interference` one of more than 1000.
    for instances, code, severity in ((("chat", "interference"), 0, "warning"), (("chat",), 1, "error")):
        on = [word for name in instances for word in ("--on", name)]
        outcome = chunkfront("validate", f"{bad}:Refuses", *on, "--policies", "none", "--json")
        assert outcome.code == code
        (finding,) = outcome.document["conformance"]["findings"]
        assert (finding["rule"], finding["severity"]) == ("refuses-instance", severity)
        assert "expected a larger budget" in finding["message"]


def test_what_the_policy_declares_is_in_the_document() -> None:
    document = chunkfront("validate", "greedy-chunked:oracle=true", *FEW, "--policies", "none", "--json").document
    assert (document["clairvoyant"], document["knows_future"], document["file"]) == (True, False, None)
    assert document["conformance"]["findings"] == []


@pytest.mark.parametrize(("args", "words"), [
    ((), "SCHEDULER: expected module:Class"),
    (("greedy-chunked", "--template"), "SCHEDULER: expected module:Class"),
    (("no_such_module:Mine",), "there is no module 'no_such_module'"),
    (("greedy-chunked", "--on", "nowhere"), "--on: there is no instance 'nowhere'"),
    (("greedy-chunked", "--metrics", "slo_attainment"), "--metrics: expected metrics with best-known values"),
    (("greedy-chunked", "--policies", "nobody"), "there is no policy 'nobody'"),
    (("greedy-chunked", "--seeds", "-1"), "expected a whole number within 0.."),
])  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(args: tuple[str, ...], words: str) -> None:
    outcome = chunkfront("validate", *args)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_without_time_something_is_tried_and_the_rest_is_counted() -> None:
    document = chunkfront("validate", "greedy-chunked", "--seeds", 0, "--time-limit", 0.001, "--policies", "none",
                          "--json").document  # fmt: skip
    conformance = document["conformance"]
    assert conformance["instances"] == 1
    assert conformance["not_tried"] > len(EDGES)
    assert document["distance"]["not_run"] > 0


# The suite.


def test_every_key_of_the_suite_names_an_instance_of_that_name_that_can_be_served() -> None:
    keys = suite_keys(30)
    made = list(suite(keys))
    assert {f"edge:{name}" for name in EDGES} | set(bundled_names()) <= {instance.name for instance in made}
    assert len(made) > 0.9 * len(keys)
    assert all(instance_of(instance.name) == instance for instance in made)


def test_the_edge_cases_use_every_limit_of_the_engine() -> None:
    plain = instance_of("edge:one-token").engine
    names = {field.name for field in fields(plain)}
    engines = [instance_of(f"edge:{edge}").engine for edge in EDGES]
    assert {name for name in names for engine in engines if getattr(engine, name) != getattr(plain, name)} == names


@pytest.mark.parametrize("key", ["", "edge:", "edge:nothing", "random:x", "random:1:2", "rounds:3", "serving", "a:b:c"])
def test_a_key_that_names_nothing_is_refused(key: str) -> None:
    with pytest.raises(InputError, match=r"there is no instance"):
        instance_of(key)


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
def test_every_built_in_policy_conforms(name: str) -> None:
    outcome = chunkfront("validate", name, "--seeds", 300, "--policies", "none", "--json")
    assert outcome.code == 0
    rules = {finding["rule"] for finding in outcome.document["conformance"]["findings"]}
    assert rules <= {"own-engine", "starvation", "empty-batch"}


# The plot.


def test_the_curves_are_the_distributions_of_the_gaps_and_the_file_is_always_the_same() -> None:
    instances = [instance_of(key) for key in ("interference", "chat", "code", "utilisation")]
    distance = measure(GreedyChunked, "mine", instances, ["max_tbt", "makespan"], ["static"])
    figure = plot_distance(distance)
    above = figure.axes[0].get_lines()[0]
    gaps = sorted(distance.gaps("mine", "max_tbt"))
    ends = list(zip(above.get_xdata(), above.get_ydata(), strict=True))
    for count, gap in enumerate(gaps, start=1):
        reached = max(y for x, y in ends if x <= 100 * gap + 1e-9)
        assert reached >= count / len(gaps)
    assert ends[-1][1] == 1.0
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["max_tbt", "makespan"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mine", "static"]
    again = plot_distance(distance)
    assert figure_file(figure, "svg") == figure_file(again, "svg")


def test_the_template_keeps_its_knob_as_far_as_the_engine_can(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(TEMPLATE, encoding="utf-8")
    source = load_policy(f"{file}:MyScheduler:chunk=500")
    run = simulate(instance_of("interference"), source())
    assert [n for i in run.schedule.iterations for n in i.prefill.values()] == [500] * 4
    edges = list(suite(["edge:chunk-quantum", "edge:chunk-sizes", "edge:one-partial-prefill", "edge:no-chunking"]))
    assert examine(load_policy(f"{file}:MyScheduler:chunk=1"), edges).faults == ()


# A scheduler of one's own elsewhere.


def test_simulate_and_compare_take_a_scheduler_of_ones_own(bad: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(TEMPLATE, encoding="utf-8")
    mine = f"{file}:MyScheduler:chunk=500"
    run = chunkfront("simulate", "interference", "--policy", mine, "--json").document
    assert run["policy"] == "MyScheduler:chunk=500"
    compared = chunkfront("compare", "interference", "--metrics", "max_tbt", "--json", "--policies",
                          f"orca,{mine},{bad}:Crashes").document  # fmt: skip
    by_name = {policy["name"]: policy for policy in compared["instances"][0]["policies"]}
    assert list(by_name) == ["orca", mine, f"{bad}:Crashes"]
    # The README's point: four chunks of 500 beside four streams stall them for 59 ms at most.
    assert by_name[mine]["values"]["max_tbt"] == run["metrics"]["max_tbt_ms"] == 59
    assert by_name[f"{bad}:Crashes"]["reason"] == (
        f"TypeError: 'Batch' object is not subscriptable ({bad}, line 7, in schedule)"
    )


def test_simulate_tells_where_the_users_code_raised(bad: Path) -> None:
    outcome = chunkfront("simulate", "interference", "--policy", f"{bad}:Crashes")
    assert outcome.code == 2
    assert "--policy: fails: TypeError: 'Batch' object is not subscriptable" in outcome.err
    assert f"({bad}, line 7, in schedule)" in outcome.err
    assert "--policy: there is no policy 'nobody'" in chunkfront("simulate", "chat", "--policy", "nobody:x=1").err
    assert "there is no module 'nobody'" in chunkfront("simulate", "chat", "--policy", "nobody:X").err
