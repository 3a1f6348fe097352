"""Reads the signatures of functions and events, as Solidity writes them."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from eth_abi.grammar import normalize

SIGNATURE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_$][\w$]*)\s*\((?P<parameters>.*)\)\s*", re.DOTALL
)
"""A name, and in brackets what it takes."""
PARAMETER: Final = re.compile(
    r"\s*(?P<type>\([^ ]*\)[\[\]\d]*|[a-z]+[\[\]\w]*)"
    r"(?P<indexed>\s+indexed)?(?:\s+(?P<name>[A-Za-z_$][\w$]*))?\s*"
)
"""A type, which may be a tuple in brackets without blanks; and what may follow it."""


class Parameter(NamedTuple):
    """One parameter of a function, an event or an error."""

    type: str
    """Its type, in the canonical spelling."""
    name: str = ""
    """Its name; may be empty."""
    is_indexed: bool = False
    """If it is a topic of an event."""


def parse(signature: str) -> tuple[str, tuple[Parameter, ...]]:
    """Read the name and the parameters of a signature.

    Raises:
        ValueError: it is none.

    >>> parse("transfer(address to, uint amount)")
    ('transfer', (Parameter(type='address', name='to', is_indexed=False), ...))
    """
    found = SIGNATURE.fullmatch(signature)
    if found is None:
        raise ValueError(f"not a signature: {signature!r}")
    return found["name"], parameters(found["parameters"])


def parameters(text: str) -> tuple[Parameter, ...]:
    """Read a list of parameters, with commas between.

    Raises:
        ValueError: one of them is none.
    """
    return tuple(parameter(part) for part in split(text)) if text.strip() else ()


def parameter(text: str) -> Parameter:
    """Read one parameter."""
    found = PARAMETER.fullmatch(text)
    if found is None:
        raise ValueError(f"not a parameter: {text!r}")
    kind: str = normalize(found["type"])  # type: ignore[no-untyped-call]
    return Parameter(kind, found["name"] or "", bool(found["indexed"]))


def split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    depth, begin, parts = 0, 0, []
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def canonical(name: str, parts: Iterable[Parameter]) -> str:
    """Spell a function, an event or an error as it is hashed."""
    return f"{name}({','.join(part.type for part in parts)})"
