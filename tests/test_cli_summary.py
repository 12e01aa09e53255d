"""``chunkfront simulate --summary``: the metrics of the schedule, without it."""

from __future__ import annotations

import pytest

from tests.judges.command import chunkfront


@pytest.mark.parametrize("policy", ["orca", "greedy-chunked", "static"])
def test_a_summary_has_the_metrics_of_the_schedule(policy):
    whole = chunkfront("simulate", "chat", "--policy", policy, "--json").document
    brief = chunkfront("simulate", "chat", "--policy", policy, "--summary", "--json").document
    assert brief["metrics"] == pytest.approx(whole["metrics"], rel=1e-12)
    assert brief["policy"] == whole["policy"]
    assert "schedule" not in brief


@pytest.mark.parametrize(("policy", "same"), [("orca", True), ("vllm-v1", False)])
def test_a_summary_says_where_the_policy_has_rules_of_its_own(policy, same):
    # kv-pressure forbids preemption; vllm-v1 runs on an engine that may recompute.
    found = chunkfront("simulate", "kv-pressure", "--policy", policy, "--summary", "--json").document
    assert found["instance_rules"] is same


def test_a_summary_has_no_schedule_to_write(tmp_path):
    refused = chunkfront("simulate", "chat", "--policy", "orca", "--summary", "--out", tmp_path / "s.json")
    assert refused.code == 2
    assert "--summary" in refused.err
