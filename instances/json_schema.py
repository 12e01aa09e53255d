"""The JSON Schemas of the file formats, derived from `instances.shapes`.

``python -m instances.json_schema`` writes them to ``instances/schemas`` after a change of shapes;
``tests/test_schemas.py`` fails while the files and the shapes differ. A schema says what one field may be; rules
between fields (``cached_tokens < prompt_tokens``, unique ids) are checked on reading only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from instances.shapes import InstanceFile, ScheduleFile

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).parent / "schemas"
KINDS: dict[str, type] = {"instance": InstanceFile, "schedule": ScheduleFile}
"""What has a schema: name of the file format -> its shape."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``instance`` or ``schedule`` files.

    Example
    -------
    >>> schema("schedule")["$defs"]["IterationFile"]["properties"]["start_ms"]["minimum"]
    0
    """
    derived = msgspec.json.schema(KINDS[name])
    for definition in derived["$defs"].values():
        for field in definition["properties"].values():
            field.pop("discriminator", None)  # a word of OpenAPI, not of JSON Schema
    return {"$schema": DRAFT, "title": f"chunkfront {name} file", **derived}


def path(name: str) -> Path:
    """Return the file that holds the schema."""
    return FOLDER / f"{name}.schema.json"


def text(name: str) -> str:
    """Return the schema as the file holds it."""
    return json.dumps(schema(name), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in KINDS:
        path(each).write_text(text(each), encoding="utf-8")
