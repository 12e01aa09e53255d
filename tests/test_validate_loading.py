"""Loading somebody's scheduler: what works, and one clear sentence for everything that does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chunkfront.validate.loading import load_policy
from heuristics.policy import Policy
from heuristics.simulator import simulate
from instances.errors import InputError
from tests.judges.build import build

BODY = '''
from dataclasses import dataclass
from heuristics.knobs import knob
from heuristics.policy import Batch, Policy
import beside

@dataclass
class OneByOne(Policy):
    most: int = knob(0, "largest chunk in tokens", minimum=0)

    def schedule(self, state):
        request = (state.running or state.waiting)[0]
        tokens = min(request.remaining, self.most or beside.MOST, state.limits.max_num_batched_tokens)
        return Batch([(request, tokens)])

class Duck:
    def schedule(self, state):
        return Batch([((state.running or state.waiting)[0], 1)])

class NoSchedule(Policy):
    pass

class ForgotState:
    def schedule(self):
        pass

class WrongHook:
    def schedule(self, state):
        pass
    def ran(self, batch):
        pass

class Async:
    async def schedule(self, state):
        pass

class NotAMethod:
    schedule = 3

class NeedsMore:
    def __init__(self, budget):
        pass
    def schedule(self, state):
        pass

class Fails:
    def __init__(self):
        raise RuntimeError("no luck")
    def schedule(self, state):
        pass

made = Duck()
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(BODY, encoding="utf-8")
    (tmp_path / "beside.py").write_text("MOST = 4\n", encoding="utf-8")
    return path


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        load_policy(text)
    return str(caught.value)


def test_a_file_and_a_class_are_found_with_what_lies_beside_the_file(file: Path) -> None:
    source = load_policy(f"{file}:OneByOne")
    assert source.file == str(file)
    # A prompt of 6 in chunks of at most 4, which the module beside it says: 4 + 2.
    run = simulate(build([(0, 6, 1)], 8), source())
    assert [dict(i.prefill) for i in run.schedule.iterations] == [{"r0": 4}, {"r0": 2}]


def test_knobs_are_set_and_judged_as_those_of_built_in_policies(file: Path) -> None:
    run = simulate(build([(0, 6, 1)], 8), load_policy(f"{file}:OneByOne:most=3")())
    assert [dict(i.prefill) for i in run.schedule.iterations] == [{"r0": 3}, {"r0": 3}]
    assert "most: expected an integer >= 0, got -1" in refused(f"{file}:OneByOne:most=-1")
    assert "has no knob 'least'; its knobs: most=0" in refused(f"{file}:OneByOne:least=1")
    assert "expected key=value after OneByOne:, got 'most'" in refused(f"{file}:OneByOne:most")


def test_every_call_makes_a_new_policy(file: Path) -> None:
    source = load_policy(f"{file}:Duck")
    assert source() is not source()


def test_a_class_with_the_protocol_need_not_inherit_anything(file: Path) -> None:
    made = load_policy(f"{file}:Duck")()
    assert isinstance(made, Policy)
    assert made.spec == "Duck"
    assert len(simulate(build([(0, 3, 2)], 8), made).schedule.iterations) == 4


def test_a_module_is_found_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "found_by_name.py").write_text("class Me:\n    def schedule(self, state): pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_policy("found_by_name:Me").policy.__name__ == "Me"


def test_a_module_of_the_working_directory_hides_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances" / "request.py").write_text("raise SystemExit\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "has no method schedule(state), so it is no policy" in refused("instances.request:Request")


@pytest.mark.parametrize("text", ["greedy-chunked", "greedy-chunked:chunk=3,order=srpt", "rolling-horizon"])
def test_a_built_in_policy_is_found_by_its_name(text: str) -> None:
    source = load_policy(text)
    assert source.file is None
    assert source().spec.partition(":")[0] == text.partition(":")[0]
    assert load_policy(source.text)().spec == source().spec
    if "chunk=3" in text:
        assert source().chunk == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoSchedule", "class NoSchedule has no method schedule(state), so it is no policy"),
        ("ForgotState", "ForgotState.schedule(self) cannot be called as schedule(state)"),
        ("WrongHook", "WrongHook.ran(self, batch) cannot be called as ran(batch, iterations, start_us, end_us)"),
        ("Async", "Async.schedule is async, expected a plain method schedule(state)"),
        ("NotAMethod", "NotAMethod.schedule is a int, expected a method schedule(state)"),
        ("NeedsMore", "NeedsMore() fails: TypeError: "),
        ("Fails", "Fails() fails: RuntimeError: no luck ("),
        ("made", "expected a class with the Policy protocol, got a Duck"),
        ("Missing", "has no class 'Missing'; its classes: OneByOne, Duck, NoSchedule"),
    ],
)
def test_a_class_without_the_protocol_is_refused_in_a_sentence(file: Path, name: str, words: str) -> None:
    assert words in refused(f"{file}:{name}")


def test_an_exception_while_importing_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import json\n\nvalue = 1 / 0\n", encoding="utf-8")
    assert f"importing {path} fails: ZeroDivisionError: division by zero ({path}, line 3, in <module>)" in refused(
        f"{path}:Mine"
    )
    path.write_text("class Mine:\n    def schedule(self, state)\n        pass\n", encoding="utf-8")
    assert f"fails: SyntaxError: expected ':' ({path}, line 2)" in refused(f"{path}:Mine")
    path.write_text("import sys\nsys.exit(3)\n", encoding="utf-8")
    assert "fails: SystemExit: 3" in refused(f"{path}:Mine")


def test_a_missing_module_and_a_module_that_misses_another_are_told_apart(tmp_path: Path) -> None:
    assert "there is no module 'no_such_module'" in refused("no_such_module:Mine")
    assert "there is no module 'json.nothing'" in refused("json.nothing:Mine")
    path = tmp_path / "needs.py"
    path.write_text("import no_such_library\n", encoding="utf-8")
    assert "fails: ModuleNotFoundError: No module named 'no_such_library'" in refused(f"{path}:Mine")
    assert "there is no file 'nowhere.py'" in refused("nowhere.py:Mine")


@pytest.mark.parametrize("text", ["", "greedy-chunkd", "module:", ":Class", "greedy-chunkd:chunk=3", "a.py"])
def test_what_names_nothing_is_refused_with_the_forms_that_do(text: str) -> None:
    words = refused(text)
    assert "expected a built-in policy (see `chunkfront policies`), module:Class or path/to/file.py:Class" in words
    if "chunkd" in text:
        assert "did you mean greedy-chunked" in words
