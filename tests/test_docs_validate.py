"""docs/validate.md names every finding, with its severity, and every key of a decision log."""

from __future__ import annotations

import re

from chunkfront.validate.suite import instance_of
from chunkfront.validate.watching import PASS_LIMIT_S
from instances.decision_log import KEYS
from tests.judges.command import ROOT
from tests.judges.mutants import MUTANTS

PAGE = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
OTHERS = {"own-engine", "refuses-instance"}
"""What no mutant is caught by; tests/test_cli_validate.py and the built-in policies show them."""


def table(heading: str) -> dict[str, str]:
    """Return the names in the first column of a table, with the second column."""
    part = PAGE.split(f"| {heading} |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", part, flags=re.MULTILINE)
    return {name: second for names, second in rows for name in re.findall(r"`([^`]+)`", names)}


def test_every_finding_is_named_with_its_severity() -> None:
    findings = table("finding")
    assert set(findings) == set(MUTANTS.values()) | OTHERS
    warnings = {name for name, severity in findings.items() if severity == "warning"}
    assert warnings == {"starvation", "empty-batch"} | OTHERS
    assert f"does not come back within {PASS_LIMIT_S:g} s" in PAGE


def test_every_key_of_a_log_is_named() -> None:
    assert set(table("key")) == set(KEYS)


def test_the_families_that_are_named_exist() -> None:
    for key in ("edge:one-token", "random:1", "serving:1", "rounds:4:1"):
        assert f"`{key.partition(':')[0]}:" in PAGE
        assert instance_of(key).name == key
