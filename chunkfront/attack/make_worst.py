"""Makes the bundled worst cases and their table: ``python -m chunkfront.attack.make_worst [POLICY...]``.

Takes about a minute per policy and metric; the finds are the same on every machine with the same version of the solver.
"""

from __future__ import annotations

import sys
from pathlib import Path

import instances.bundled as bundled
from chunkfront import output
from chunkfront.attack.genes import Ranges
from chunkfront.attack.judge import Question
from chunkfront.attack.proof import named, proof_document
from chunkfront.attack.search import Attack
from chunkfront.attack.table import worst_table
from chunkfront.validate.loading import load_policy
from heuristics.registry import policy_names

RANGES = Ranges(requests=3, arrival=20, prompt=16, output=6, budget=16)
EVALUATIONS = 90
NO_WORSE = {"max_tbt": ("makespan",), "mean_ttft": ()}
"""Metrics to attack on, and what the optimum must not be worse in."""
NO_LIMIT_S = 3600.0


def make(policy: str, metric: str, folder: Path) -> None:
    """Attack a policy on a metric, and write what was found into a folder."""
    question = Question(load_policy(policy), metric, no_worse=NO_WORSE[metric])
    find = Attack(question, RANGES, seed=0, evaluations=EVALUATIONS, time_limit=NO_LIMIT_S).run()
    name = f"{policy}-{metric}"
    if find.verdict is None or find.verdict.ratio == 1:
        print(f"{name}: nothing found")
        return
    origin = "python -m chunkfront.attack.make_worst"
    document = proof_document(find, question, name)
    for key in ("wall_s", "interrupted"):
        del document[key]
    found = named(find.verdict, question, name, origin)
    output.write_file(folder / f"{name}{bundled.SUFFIX}", found.to_json())
    output.write_file(folder / f"{name}{bundled.PROOF}", output.json_text(document))
    print(f"{name}: {float(find.verdict.ratio):.2f} after {find.judged} instances, {find.wall_s:.0f} s")


def main(policies: list[str]) -> None:
    """Make the worst cases of some policies, of all built-in ones where none is named."""
    folder = Path(bundled.__file__).parent / "data" / "worst"
    folder.mkdir(exist_ok=True)
    for policy in policies or list(policy_names()):
        for metric in NO_WORSE:
            make(policy, metric, folder)
    write_table(Path(__file__).parents[2] / "docs" / "worst.md")


def write_table(page: Path) -> None:
    """Replace the table at the end of the page, where there is one."""
    if page.is_file():
        text = page.read_text(encoding="utf-8").partition("| policy |")[0]
        output.write_file(page, text + worst_table())


if __name__ == "__main__":
    main(sys.argv[1:])
