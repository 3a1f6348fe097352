"""Converts JSON objects to structs; errors name the field and its rule in JSON terms."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from clob.signing.fields import received
from clob_server.api.faults import check_names, fault, missing
from clob_server.api.problems import ApiError

_PLACE: Final = re.compile(r" - at `\$(.*)`$")
_STEPS: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN: Final = "Object contains unknown field"


class _Spot(NamedTuple):
    """A value within a JSON object, and its type."""

    path: str
    value: Any
    kind: inspect.Type


def convert(content: dict[str, Any], kind: Any) -> Any:
    """Convert a JSON object to a struct, or to one of several that differ by their tag.

    Raises:
        ApiError: INVALID_FIELD.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise _rejection(str(error), content, kind) from None
    except RecursionError:
        raise ApiError("INVALID_FIELD", "the object is nested too deeply") from None


@cache
def _type_of(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _rejection(text: str, content: dict[str, Any], kind: Any) -> ApiError:
    """Return the error for the message of a failed conversion."""
    root, place = _type_of(kind), _PLACE.search(text)
    if isinstance(root, inspect.UnionType):
        chosen = [each for each in _structs(root) if each.tag == content.get("type")]
        if not chosen:
            return _unknown_type(root, content.get("type"))
        root = chosen[0]
    spot = _find(_Spot("", content, root), place[1] if place else "")
    absent = _MISSING.match(text)
    if absent is not None:
        return _missing(spot, absent[1])
    if text.startswith(_UNKNOWN):
        return _unknown(spot)
    return fault(spot.path, f"{spot.path} must be {_rule(spot.kind)}; got {received(spot.value)}")


def _unknown_type(root: inspect.UnionType, value: object) -> ApiError:
    rule = f"must be one of {', '.join(str(each.tag) for each in _structs(root))}"
    if value is None:
        return missing("type", rule)
    return fault("type", f"type {rule}; got {received(value)}")


def _missing(spot: _Spot, name: str) -> ApiError:
    kinds = {each.encode_name: each.type for each in _fields(spot.kind)}
    path = f"{spot.path}.{name}".lstrip(".")
    return missing(path, f"must be {_rule(kinds[name])}")


def _unknown(spot: _Spot) -> ApiError:
    known = {each.encode_name for each in _fields(spot.kind)}
    tag = _struct(spot.kind).tag_field
    within = f"{spot.path}." if spot.path else ""
    try:
        check_names(spot.value, known | {tag} if tag else known, within=within)
    except ApiError as error:
        return error
    raise AssertionError(f"no unknown field in {spot.path}")


def _find(spot: _Spot, place: str) -> _Spot:
    """Return the value at a place such as ``.scopes[0]``."""
    for step in _STEPS.finditer(place):
        name, index = step[1], step[2]
        if name is None:
            kind = next(each for each in _options(spot.kind) if hasattr(each, "item_type"))
            path = f"{spot.path}[{index}]"
            spot = _Spot(path, spot.value[int(index)], kind.item_type)
        else:
            kinds = {each.encode_name: each.type for each in _fields(spot.kind)}
            path = f"{spot.path}.{name}".lstrip(".")
            spot = _Spot(path, spot.value.get(name), kinds[name])
    return spot


def _options(kind: inspect.Type) -> Iterable[Any]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _structs(kind: inspect.Type) -> list[inspect.StructType]:
    return [each for each in _options(kind) if isinstance(each, inspect.StructType)]


def _struct(kind: inspect.Type) -> inspect.StructType:
    return _structs(kind)[0]


def _fields(kind: inspect.Type) -> tuple[inspect.Field, ...]:
    return _struct(kind).fields


# ----- rules ---------------------------------------------------------------------------------


def _rule(kind: inspect.Type) -> str:
    """Describe the values of a type. Null counts as absent, so it is not mentioned."""
    parts = [_rule_of(each) for each in _options(kind) if not isinstance(each, inspect.NoneType)]
    return " or ".join(parts)


def _rule_of(kind: inspect.Type) -> str:
    match kind:
        case inspect.StrType():
            return f"a string{_range(kind.min_length, kind.max_length, 'characters')}"
        case inspect.IntType():
            return f"an integer{_range(kind.ge, kind.le)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            words = [each if isinstance(each, str) else received(each) for each in kind.values]
            return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
        case inspect.ListType() | inspect.VarTupleType():
            return f"an array{_range(kind.min_length, kind.max_length, 'items')}"
        case inspect.DictType():
            return "an object"
        case inspect.StructType():
            return f"an object with {', '.join(each.encode_name for each in kind.fields)}"
        case _:
            raise AssertionError(f"no words for {kind}")


def _range(least: int | None, most: int | None, unit: str = "") -> str:
    if least is None and most is None:
        return ""
    if not unit:
        return f" from {least} to {most}" if most is not None else f" of {least} or more"
    if most is None:
        return f" of at least {least} {unit}"
    return f" of {least} to {most} {unit}" if least else f" of at most {most} {unit}"
