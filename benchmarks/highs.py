"""A mixed-integer program row by row, and HiGHS to solve it: what the MIP baselines share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import highspy
import numpy as np

Terms = Mapping[int, float]
"""A linear expression: column -> coefficient; constants are coefficients of the column `ONE`."""
ONE = 0
"""The column that is fixed at 1."""
OBJECTIVE_STEP = 0.9
"""Objectives are integers, so a bound closer than 1 proves the optimum."""
TOLERANCE = 1e-8
"""On integrality and rows: a big-M of 10 s in µs then leaks 0.1 µs at most."""


def combined(*parts: tuple[float, Terms]) -> dict[int, float]:
    """Return the sum of factor x expression."""
    total: dict[int, float] = {}
    for factor, terms in parts:
        for column, coefficient in terms.items():
            total[column] = total.get(column, 0) + factor * coefficient
    return total


@dataclass(frozen=True)
class Solution:
    """What HiGHS says.

    Parameters
    ----------
    status
        ``OPTIMAL``, ``FEASIBLE``, ``INFEASIBLE`` or ``UNKNOWN``.
    values
        Per column, None without a solution.
    bound
        Proved lower bound on the objective, None where there is none.
    """

    status: str
    values: np.ndarray | None = None
    bound: float | None = None


@dataclass
class Rows:
    """Columns and rows of a program to be minimised.

    Attributes
    ----------
    lows, highs, integers
        Of the columns.
    row_lows, row_highs, terms
        Of the rows.
    """

    lows: list[float] = field(default_factory=lambda: [1.0])
    highs: list[float] = field(default_factory=lambda: [1.0])
    integers: list[bool] = field(default_factory=lambda: [False])
    row_highs: list[float] = field(default_factory=list)
    terms: list[Terms] = field(default_factory=list)

    def column(self, low: float, high: float, *, integer: bool = False) -> int:
        """Return a new column."""
        self.lows.append(low)
        self.highs.append(high)
        self.integers.append(integer)
        return len(self.lows) - 1

    def at_most(self, terms: Terms, *than: tuple[float, Terms]) -> None:
        """Add ``terms <= sum of factor x expression``."""
        row = combined((1, terms), *((-factor, other) for factor, other in than))
        self.row_highs.append(-row.pop(ONE, 0))
        self.terms.append(row)

    def minimize(self, objective: Terms, time_limit: float, threads: int) -> Solution:
        """Solve and return the best solution and bound."""
        highspy.Highs.resetGlobalScheduler(True)  # else it refuses another number of threads than the first one
        solver = highspy.Highs()
        for name, value in (
            ("output_flag", False), ("time_limit", float(time_limit)), ("threads", threads), ("mip_rel_gap", 0.0),
            ("mip_abs_gap", OBJECTIVE_STEP), ("mip_feasibility_tolerance", TOLERANCE),
            ("primal_feasibility_tolerance", TOLERANCE),
        ):  # fmt: skip
            solver.setOptionValue(name, value)
        solver.passModel(self._program(objective))
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
            return Solution("INFEASIBLE")
        bound = info.mip_dual_bound if np.isfinite(info.mip_dual_bound) else None
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Solution("UNKNOWN", None, bound)
        word = "OPTIMAL" if status == highspy.HighsModelStatus.kOptimal else "FEASIBLE"
        return Solution(word, np.asarray(solver.getSolution().col_value), bound)

    def _program(self, objective: Terms) -> highspy.HighsLp:
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.lows), len(self.terms)
        costs = np.zeros(len(self.lows))
        for column, coefficient in objective.items():
            costs[column] = coefficient
        program.col_cost_ = costs
        program.col_lower_, program.col_upper_ = np.asarray(self.lows, float), np.asarray(self.highs, float)
        program.row_lower_ = np.full(len(self.terms), -highspy.kHighsInf)
        program.row_upper_ = np.asarray(self.row_highs, float)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[integer] for integer in self.integers]
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0, *map(len, self.terms)])
        matrix.index_ = np.fromiter((c for row in self.terms for c in row), np.int32)
        matrix.value_ = np.fromiter((v for row in self.terms for v in row.values()), float)
        return program
