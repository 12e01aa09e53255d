"""``chunkfront policies``: the heuristics, one line each, or one with all of its knobs."""

from __future__ import annotations

from typing import Annotated

import typer

from chunkfront import options, output


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="List the knobs of this one.", show_default=False)
    ] = None,
    json: options.JsonOption = False,
) -> int:
    """The heuristics, one line each; with NAME the knobs of one."""
    from heuristics.registry import ELSEWHERE, describe, knobs, policy_class, policy_names
    from instances.errors import InputError

    names = (*policy_names(), *ELSEWHERE)
    if name is not None and name not in names:
        close = options.did_you_mean(name, names)
        raise InputError(f"expected one of {', '.join(names)}, got {name!r}{close}", field="NAME")
    chosen = names if name is None else (name,)
    if json:
        output.emit_json({
            "policies": [
                {
                    "name": each,
                    "summary": policy_class(each).summary,
                    "clairvoyant": policy_class(each).clairvoyant,
                    "options": [
                        {"name": knob.name, "type": knob.kind.__name__, "default": knob.default, "help": knob.help,
                         "minimum": knob.minimum, "choices": list(knob.choices)}
                        for knob in knobs(each)
                    ],
                }
                for each in chosen
            ]
        })  # fmt: skip
    elif name is not None:
        output.emit(describe(name) + "\n")
    else:
        from chunkfront.tables import plain_table

        rows = [(each, policy_class(each).summary) for each in chosen]
        output.emit_rich(plain_table("Policies", [("name", "left"), ("what it does", "left")], rows))
    return 0
