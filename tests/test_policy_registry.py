"""Policies by name, and their knobs."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from heuristics.knobs import knob, knobs_of
from heuristics.policy import Policy
from heuristics.registry import describe, knobs, make_policy, policy_class, policy_names
from instances.errors import InputError


@pytest.mark.parametrize("name", policy_names())
def test_every_policy_has_its_name_a_summary_and_explained_knobs(name):
    chosen = policy_class(name)
    assert chosen.name == name
    assert chosen.summary
    assert make_policy(name).spec == name
    assert all(k.help and isinstance(k.default, k.kind) for k in knobs(name))


@pytest.mark.parametrize("name", policy_names())
def test_every_knob_takes_its_default_as_text(name):
    for each in knobs(name):
        text = str(each.default).lower() if each.kind is bool else str(each.default)
        assert make_policy(f"{name}:{each.name}={text}") == make_policy(name)


@pytest.mark.parametrize("name", policy_names())
def test_every_choice_of_a_knob_makes_a_policy(name):
    for each in knobs(name):
        for choice in each.choices:
            assert getattr(make_policy(f"{name}:{each.name}={choice}"), each.name) == choice


def test_a_policy_is_made_with_knobs_of_their_types_and_says_itself():
    policy = make_policy(" greedy-chunked : chunk = 64 , order=srpt,decode_first=FALSE ")
    assert (policy.chunk, policy.order, policy.decode_first) == (64, "srpt", False)
    assert policy.spec == "greedy-chunked:order=srpt,chunk=64,decode_first=false"
    assert make_policy(policy.spec) == policy
    assert make_policy("preemptive-mlfq:quantum_ms=2").quantum_ms == 2.0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gready", "policy: there is no policy 'gready'; there are static, orca, prefill-first"),
        ("orca:chunk=3", "orca.chunk: policy orca has no knob 'chunk'; its knobs: order=fcfs (fcfs|srpt|spf|priority)"),
        ("greedy-chunked:chunk=three", "greedy-chunked.chunk: expected an integer >= 0, got 'three'"),
        ("greedy-chunked:chunk=-1", "greedy-chunked.chunk: expected an integer >= 0, got -1"),
        ("greedy-chunked:chunk=1.5", "greedy-chunked.chunk: expected an integer >= 0, got '1.5'"),
        ("greedy-chunked:decode_first=1", "greedy-chunked.decode_first: expected true or false, got '1'"),
        ("greedy-chunked:order=lifo", "greedy-chunked.order: expected one of fcfs, srpt, spf, priority, got 'lifo'"),
        ("preemptive-mlfq:quantum_ms=nan", "preemptive-mlfq.quantum_ms: expected a number >= 0.001, got nan"),
        ("preemptive-mlfq:quantum_ms=inf", "preemptive-mlfq.quantum_ms: expected a number >= 0.001, got inf"),
        ("preemptive-mlfq:levels=0", "preemptive-mlfq.levels: expected an integer >= 1, got 0"),
        ("greedy-chunked:chunk", "policy: expected key=value after greedy-chunked:, got 'chunk'"),
        ("greedy-chunked:chunk=1,chunk=2", "policy: the knob 'chunk' of greedy-chunked is set twice"),
    ],
)
def test_a_wrong_policy_or_knob_is_named_with_what_was_expected(spec, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make_policy(spec)


def test_knobs_are_checked_in_python_too():
    chosen = policy_class("greedy-chunked")
    with pytest.raises(InputError, match="chunk: expected an integer >= 0, got '64'"):
        chosen(chunk="64")
    with pytest.raises(InputError, match="chunk: expected an integer >= 0, got True"):
        chosen(chunk=True)
    with pytest.raises(InputError, match="order: expected one of"):
        chosen(order=None)


def test_a_description_has_the_summary_and_one_line_per_knob():
    lines = describe("vllm-v1").splitlines()
    assert lines[0].startswith("vllm-v1: ")
    assert "0.33.0" in lines[0]
    assert lines[1].startswith("  policy=fcfs (fcfs|priority): ")
    assert lines[2].startswith("  long_prefill_token_threshold=0 (int): ")
    assert len(lines) == 6  # five knobs


def test_knobs_of_a_new_policy_are_its_fields():
    @dataclass
    class Mine(Policy):
        patience_ms: float = knob(2.5, "how long it waits, in ms", minimum=0)

    assert [str(k) for k in knobs_of(Mine)] == ["patience_ms=2.5 (float): how long it waits, in ms"]
    assert Mine(patience_ms=3).spec == "Mine:patience_ms=3.0"


def test_listing_names_loads_no_policy():
    code = (
        "import sys; from heuristics.registry import policy_names; policy_names();"
        "sys.exit('heuristics.vllm_v1' in sys.modules or 'heuristics.static' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
