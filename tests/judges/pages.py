"""Reading a page as a program does: its tables, its links, its scripts' data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = ("meta", "link", "br", "img", "hr", "input")


@dataclass
class Row:
    """A row of a table: its attributes, the texts of its cells, the numbers that cells carry."""

    attributes: dict[str, str | None]
    cells: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class Page(HTMLParser):
    """A parsed page.

    Parameters
    ----------
    text
        HTML; the tags of everything but void elements must be balanced.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[Row]] = {}
        self.links: list[str] = []
        self.data: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.elements: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links, rows and cells."""
        attributes = dict(attrs)
        self.elements.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href") and value is not None]
        if tag in VOID:
            return
        self._open.append((tag, attributes))
        rows = self._rows()
        if tag == "tr" and rows is not None:
            rows.append(Row(attributes))
        elif tag in ("td", "th") and rows:
            rows[-1].cells.append("")
            if attributes.get("data-value") is not None:
                rows[-1].values.append(float(str(attributes["data-value"])))

    def handle_endtag(self, tag: str) -> None:
        """Demand that it closes what is open."""
        if tag not in VOID:
            assert self._open.pop()[0] == tag

    def handle_data(self, text: str) -> None:
        """Collect cells, texts by id, and JSON of scripts."""
        tag, attributes = self._open[-1] if self._open else ("", {})
        name = attributes.get("id")
        if tag == "script":
            if attributes.get("type") == "application/json":
                self.data[str(name)] = json.loads(text)
            return
        rows = self._rows()
        if rows and any(each in ("td", "th") for each, _ in self._open):
            rows[-1].cells[-1] += text
        for _, around in self._open:
            if around.get("id") is not None:
                self.texts[str(around["id"])] = self.texts.get(str(around["id"]), "") + text

    def _rows(self) -> list[Row] | None:
        for tag, attributes in reversed(self._open):
            if tag == "table":
                return self.tables.setdefault(str(attributes.get("id")), [])
        return None
