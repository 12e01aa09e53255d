"""CSV tables with a header, cell by cell, every fault with its line and column.

The rule for headers: the names are compared without case, spaces, underscores and hyphens, and the columns may be
in any order (``Request tokens`` is ``request_tokens``). A header that lacks a wanted column is an error that lists
the names found and wanted, so a file without a header never loses its first row. Blank lines are ignored; a byte
order mark, CRLF and a last line without its end are fine.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from instances.errors import InputError, shown

Value = TypeVar("Value")
LISTED_LENGTH = 300


def place(line: int, row: int, column: str) -> str:
    """Return how errors name a cell; `line` counts lines of the file, `row` rows of data, both from 1."""
    return f"line {line} (row {row}), column '{column}'"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of data; ask it for the value of a column."""

    line: int
    number: int
    columns: dict[str, int]
    cells: list[str]

    def value(self, column: str, parse: Callable[[str], Value]) -> Value:
        """Return the parsed cell of a column; an error of `parse` gets the cell's place."""
        try:
            return parse(self.cells[self.columns[column]].strip())
        except InputError as error:
            raise InputError(error.message, field=place(self.line, self.number, column)) from None

    def text(self, column: str) -> str:
        """Return the cell of a column, "" where the table has no such column."""
        return self.cells[self.columns[column]].strip() if column in self.columns else ""


def read_table(
    text: str, wanted: Sequence[str], optional: Sequence[str] = (), *, closed: bool = False
) -> Iterator[TableRow]:
    """Yield the rows of a CSV text.

    Parameters
    ----------
    text
        The whole file.
    wanted, optional
        Names of the columns that must and that may be there.
    closed
        Refuse other columns (otherwise they are not looked at).

    Raises
    ------
    InputError
        For a header that lacks a column, repeats one or (if closed) has an unknown one, for a row with more or
        fewer cells than the header, and for text that is no CSV.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: dict[str, int] | None = None
    width = number = 0
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                width, columns = len(cells), _columns(cells, wanted, optional, closed=closed)
                continue
            number += 1
            if len(cells) != width:
                what = f"expected {width} cells as in the header, got {len(cells)}"
                raise InputError(what, field=f"line {reader.line_num} (row {number})")
            yield TableRow(reader.line_num, number, columns, cells)
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", field=f"line {reader.line_num}") from None


def _columns(
    header: list[str], wanted: Sequence[str], optional: Sequence[str], *, closed: bool
) -> dict[str, int]:
    known = {_plain(name): name for name in (*wanted, *optional)}
    found = [cell.strip() for cell in header]
    present = {_plain(cell) for cell in header}
    missing = [name for name in wanted if _plain(name) not in present]
    if missing:
        what = f"expected the columns {_listed(wanted)}, found {_listed(found)} (missing: {_listed(missing)})"
        raise InputError(what, field="header")
    columns: dict[str, int] = {}
    for index, cell in enumerate(found):
        name = known.get(_plain(cell))
        if name in columns:
            raise InputError(f"the column {name!r} is there twice", field="header")
        if name is not None:
            columns[name] = index
        elif closed:
            what = f"unknown column {shown(cell)}, known are {_listed((*wanted, *optional))}"
            raise InputError(what, field="header")
    return columns


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).casefold()


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(f"'{name}'" for name in names)
    return text if len(text) <= LISTED_LENGTH else text[: LISTED_LENGTH - 3] + "..."
