"""``chunkfront instances``: what is bundled, one line each."""

from __future__ import annotations

from chunkfront import options, output


def instances(json: options.JsonOption = False) -> int:
    """The bundled instances, one line each."""
    from instances.bundled import bundled_names, load_bundled, worst_names

    found = [load_bundled(name) for name in bundled_names()]
    if json:
        rows = [
            {"name": i.name, "requests": len(i.requests), "axes": i.axes, "description": i.description} for i in found
        ]
        output.emit_json({"instances": rows, "worst": list(worst_names())})
        return 0
    from chunkfront.tables import plain_table

    columns = [("name", "left"), ("requests", "right"), ("description", "left")]
    rows_shown = [(i.name, str(len(i.requests)), i.description or "") for i in found]
    worst = f"And {len(worst_names())} worst cases of single policies, by the names worst/POLICY-METRIC."
    output.emit_rich(plain_table("Bundled instances", columns, rows_shown), worst)
    return 0
