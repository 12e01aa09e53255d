"""Docstrings as Markdown: an extension of griffe, for mkdocstrings. What is plain text stays plain text."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTIONS = "Parameters|Returns|Yields|Raises|Notes|Examples|Attributes"
"""What numpydoc knows; other underlined lines are only set off."""


class Docstrings(griffe.Extension):
    """Makes Markdown of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring whose examples are code, whose headings are bold and whose brackets are no links."""
    text = re.sub(r"^Example\n-+$", "Examples\n--------", text, flags=re.MULTILINE)
    text = re.sub(r"^(\w+(?:, \w+)+)\n((?: {4}.*(?:\n|\Z))+)", _one_by_one, text, flags=re.MULTILINE)
    head, *examples = re.split(r"^(?=Examples\n---)", text, maxsplit=1, flags=re.MULTILINE)
    head = re.sub(rf"^(?!(?:{SECTIONS})$)(\S.*)\n---+$", r"**\1**\n", head, flags=re.MULTILINE)
    head = re.sub(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?)*)+", _code, head, flags=re.MULTILINE)
    head = re.sub(r"::$", ":", head, flags=re.MULTILINE)
    parts = re.split(r"(^```.*?^```$)", head, flags=re.MULTILINE | re.DOTALL)
    return "".join([*(part if part.startswith("```") else part.replace("][", "]\\[") for part in parts), *examples])


def _one_by_one(found: re.Match[str]) -> str:
    """Parameters that share a description: each on its own, for each has its own type."""
    return "".join(f"{name}\n{found[2].rstrip()}\n" for name in found[1].split(", "))


def _code(found: re.Match[str]) -> str:
    return f"```pycon\n{found[0].rstrip()}\n```\n"
