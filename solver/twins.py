"""Requests that are alike but for their names: which of them is first is no choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from instances.request import Request
from solver.problem import Job
from solver.variables import Variables


def twins(jobs: Sequence[Job]) -> list[tuple[Job, Job]]:
    """Return the pairs of neighbours within each group of requests that differ in their ids alone."""
    groups: dict[Request, list[Job]] = {}
    for job in jobs:
        groups.setdefault(replace(job.request, id="twin"), []).append(job)
    return [pair for group in groups.values() for pair in pairwise(group)]


def order_twins(variables: Variables) -> None:
    """Add: of two twins the first one begins (or, where both have begun, finishes) no later.

    Proof: with the names of two twins exchanged a schedule is still one, and every amount is the same.
    """
    for one, other in twins(variables.problem.jobs):
        rows = variables.begun if one.left else variables.finished
        for first, second in zip(rows[one.index], rows[other.index], strict=True):
            variables.model.add_implication(second, first)
