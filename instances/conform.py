"""Does a JSON document have a shape of `instances.shapes`? The answer is the struct, or an error in plain words.

msgspec describes the shapes; its own errors speak of "float" and "invalid enum value" and leave out the value, so
the judging is done here, by one small function per kind of type.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from msgspec import NODEFAULT
from msgspec import inspect as shape

from instances.errors import InputError, join_path, shown, shown_json
from instances.units import whole_number


def conform(raw: Any, kind: Any) -> Any:
    """Return the parsed JSON value `raw` as `kind`, a struct or a union of tagged structs.

    Whole numbers may be written as floats (``4.0``), and NumPy numbers count as numbers.

    Raises
    ------
    InputError
        Naming the path, the value and what was expected, at the first place that does not fit.
    """
    return _value(raw, shape.type_info(kind), "")


def _value(raw: Any, kind: shape.Type, path: str) -> Any:
    if isinstance(kind, shape.Metadata):
        return _value(raw, kind.type, path)
    judge = _JUDGES.get(type(kind))
    if judge is None:
        raise TypeError(f"no rule for {kind} (shapes.py uses a type that conform.py does not know)")
    return judge(raw, kind, path)


def _integer(raw: Any, kind: shape.IntType, path: str) -> int:
    what = "an integer" if kind.ge is None else f"an integer >= {kind.ge}"
    number = whole_number(raw)
    if number is None:
        raise _unfit(what, raw, path)
    if kind.ge is not None and number < kind.ge:
        raise _unfit(what, raw, path)
    return number


def _number(raw: Any, kind: shape.FloatType, path: str) -> float:
    limits = ((">=", kind.ge, operator.ge), (">", kind.gt, operator.gt), ("<=", kind.le, operator.le))
    what = "a number" + "".join(f" {sign} {limit:g}" for sign, limit, _ in limits if limit is not None)
    if isinstance(raw, bool) or not isinstance(raw, numbers.Real):
        raise _unfit(what, raw, path)
    number = int(raw) if isinstance(raw, numbers.Integral) else float(raw)
    finite = isinstance(number, int) or math.isfinite(number)
    if not finite or not all(limit is None or holds(number, limit) for _, limit, holds in limits):
        raise _unfit(what, raw, path)
    return number


def _string(raw: Any, kind: shape.StrType, path: str) -> str:
    what = "a non-empty string" if kind.min_length else "a string"
    if not isinstance(raw, str) or (kind.min_length and not raw):
        raise _unfit(what, raw, path)
    if any("\ud800" <= character <= "\udfff" for character in raw):
        raise _unfit(f"{what} of whole characters (no lone surrogates)", raw, path)
    return str(raw)


def _boolean(raw: Any, kind: shape.BoolType, path: str) -> bool:
    if not isinstance(raw, bool):
        raise _unfit("true or false", raw, path)
    return raw


def _literal(raw: Any, kind: shape.LiteralType, path: str) -> Any:
    if not isinstance(raw, str) or raw not in kind.values:
        raise _unfit(_one_of(kind.values), raw, path)
    return raw


def _list(raw: Any, kind: shape.ListType, path: str) -> list[Any]:
    if not isinstance(raw, (list, tuple)):
        raise _unfit("a list", raw, path)
    if len(raw) < (kind.min_length or 0):
        raise InputError("expected a list that is not empty, got []", field=path)
    return [_value(item, kind.item_type, f"{path}[{index}]") for index, item in enumerate(raw)]


def _tuple(raw: Any, kind: shape.TupleType, path: str) -> tuple[Any, ...]:
    length = len(kind.item_types)
    if not isinstance(raw, (list, tuple)):
        raise _unfit(f"a list of {length}", raw, path)
    if len(raw) != length:
        raise InputError(f"expected a list of {length}, got a list of {len(raw)}", field=path)
    return tuple(_value(raw[i], item, f"{path}[{i}]") for i, item in enumerate(kind.item_types))


def _mapping(raw: Any, kind: shape.DictType, path: str) -> dict[str, Any]:
    found = _object(raw, path)
    return {
        _value(key, kind.key_type, path): _value(value, kind.value_type, f"{path}[{shown(key)}]")
        for key, value in found.items()
    }


def _union(raw: Any, kind: shape.UnionType, path: str) -> Any:
    structs = {option.tag: option for option in kind.types if isinstance(option, shape.StructType)}
    if not structs:  # a type or null
        (option,) = (option for option in kind.types if not isinstance(option, shape.NoneType))
        return None if raw is None else _value(raw, option, path)
    tag_field = next(iter(structs.values())).tag_field or ""
    found = _object(raw, path)
    if tag_field not in found:
        raise InputError(f"is missing, expected {_one_of(structs)}", field=join_path(path, tag_field))
    tag = found[tag_field]
    if not isinstance(tag, str) or tag not in structs:
        raise _unfit(_one_of(structs), tag, join_path(path, tag_field))
    return _value(raw, structs[tag], path)


def _struct(raw: Any, kind: shape.StructType, path: str) -> Any:
    found = _object(raw, path)
    known = [field.encode_name for field in kind.fields] + ([kind.tag_field] if kind.tag_field else [])
    for name in found:
        if name not in known:
            raise InputError(f"unknown field, expected {_one_of(known)}", field=join_path(path, _key(name)))
    values = {}
    for field in kind.fields:
        place = join_path(path, field.encode_name)
        if field.encode_name in found:
            values[field.name] = _value(found[field.encode_name], field.type, place)
        elif field.required and field.default is NODEFAULT:
            raise InputError("is missing", field=place)
    return kind.cls(**values)


def _object(raw: Any, path: str) -> dict[Any, Any]:
    if not isinstance(raw, dict):
        raise _unfit("an object", raw, path)
    return raw


_JUDGES: dict[type, Any] = {
    shape.IntType: _integer,
    shape.FloatType: _number,
    shape.StrType: _string,
    shape.BoolType: _boolean,
    shape.LiteralType: _literal,
    shape.ListType: _list,
    shape.TupleType: _tuple,
    shape.DictType: _mapping,
    shape.UnionType: _union,
    shape.StructType: _struct,
}


def _unfit(what: str, raw: Any, path: str) -> InputError:
    return InputError(f"expected {what}, got {shown_json(raw)}", field=path)


def _one_of(names: Any) -> str:
    words = [f"'{name}'" for name in names]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _key(name: Any) -> str:
    return name if isinstance(name, str) else shown(name)
