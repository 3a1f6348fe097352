"""Canonical bytes: the number of every kind, and the encoding of each field type.

The layout of a Struct is derived from its type hints: its fields in declaration order, with nothing
between them. A command or an event starts with the number of its kind.

====================  =========================================================================
type of the field     bytes
====================  =========================================================================
``int``               n from 0 to 32, then n bytes, little-endian; the last of them is not 0
``bool``              0 or 1; consecutive flags share a byte, starting at the lowest bit
enumeration           one byte: the value of an integer member, else the member's position
``str``               length of the UTF-8 as an ``int``, then the UTF-8; may have lone surrogates
``bytes``             length as an ``int``, then the bytes
``str | int``         0 and the ``int``, or 1 and the ``str``
``X | None``          0, or 1 and the X
Struct                its fields
``tuple[X, ...]``     number of items as an ``int``, then the items
union of commands     number of the kind, then its fields
====================  =========================================================================

Each value has exactly one encoding, so equal bytes mean equal values and vice versa. New kinds,
fields and members are appended; any other change of a layout needs a new ``LAYOUT_VERSION``.
"""

import enum
import types
import typing
from typing import Any, Final, NamedTuple

import msgspec

from clob import commands, events

LAYOUT_VERSION: Final = 2
"""Version of the kinds and encodings in this module."""

INTEGER_BYTES_MAX: Final = 32
"""Longest integer: 256 bits."""

FLAGS_MAX: Final = 8
"""Most flags that share a byte."""

KINDS: Final[dict[int, type[msgspec.Struct]]] = {
    1: commands.Submit,
    2: commands.Cancel,
    3: commands.CancelAll,
    4: commands.Reduce,
    5: commands.Replace,
    6: commands.SetNonce,
    7: commands.Expire,
    8: commands.AddMarket,
    9: commands.SetMarket,
    10: commands.SetMode,
    11: commands.SetLimits,
    12: commands.SetBalance,
    13: commands.Settled,
    14: commands.SettleFailed,
    15: commands.Batch,
    16: commands.ResetClock,
    17: commands.Reopen,
    18: commands.RemoveMarket,
    19: commands.CancelSome,
    64: events.OrderAdded,
    65: events.Trade,
    66: events.OrderReduced,
    67: events.OrderRemoved,
    68: events.Rejected,
    69: events.PairedTrade,
}
"""Kinds by number: commands from 1, events from 64. Numbers never change."""

FIRST_EVENT_KIND: Final = 64
"""First number of an event; commands are below it."""

FIRST_FOREIGN_KIND: Final = 128
"""Numbers from here to 255 are reserved for the embedder's own commands."""

NUMBERS: Final[dict[type[msgspec.Struct], int]] = {kind: number for number, kind in KINDS.items()}
"""Number of each kind."""


class Encoding(enum.IntEnum):
    """Encoding of a field. The compiled codec uses the same numbers."""

    INTEGER = 0
    FLAG = 1
    MEMBER = 2
    TEXT = 3
    BYTES = 4
    ORDER_ID = 5
    STRUCT = 6
    TUPLE = 7
    UNION = 8


class Form(NamedTuple):
    """Encoding of a field type with its parameters."""

    encoding: Encoding
    optional: bool = False
    """Whether None is allowed; a byte in front is 0 for None."""
    kind: type | None = None
    """MEMBER: the enumeration. STRUCT: the Struct."""
    members: "tuple[Any, ...]" = ()
    """MEMBER: the members by number, None for unused numbers."""
    kinds: "tuple[int, ...]" = ()
    """UNION: the numbers of its kinds."""
    item: "Form | None" = None
    """TUPLE: the form of its items."""
    bit: int = 0
    """FLAG: its bit. Above 0, the flag is stored in the byte of the field before."""
    bits: int = 1
    """FLAG with bit 0: the number of flags in the byte."""


class StructField(NamedTuple):
    """Name and form of one field of a Struct."""

    name: str
    form: Form


PLAIN: Final[dict[Any, Encoding]] = {
    int: Encoding.INTEGER,
    bool: Encoding.FLAG,
    str: Encoding.TEXT,
    bytes: Encoding.BYTES,
}
"""Encodings of types without parameters."""


def is_view(data: object) -> bool:
    """Return whether data is a read-only, contiguous view of bytes."""
    return (
        type(data) is memoryview
        and data.readonly
        and data.c_contiguous
        and (data.format, data.ndim) == ("B", 1)
    )


_LAYOUTS: Final[dict[type, tuple[StructField, ...]]] = {}


def layout_of(kind: Any) -> tuple[StructField, ...]:
    """Return the fields of a Struct in encoding order.

    Args:
        kind: a frozen Struct class.

    Returns:
        The fields; the same tuple on every call.

    Raises:
        TypeError: ``kind`` is not a frozen Struct class, or the type of a field is not supported.
    """
    layout = _LAYOUTS.get(kind)
    if layout is None:
        layout = _LAYOUTS[kind] = _derive(kind)
    return layout


def _derive(kind: Any) -> tuple[StructField, ...]:
    """Compute the layout of a Struct from its type hints."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise TypeError(f"kind must be a Struct class; got {kind!r}")
    if not kind.__struct_config__.frozen:
        raise TypeError(f"kind must be a frozen Struct class; {kind.__name__} is not frozen")
    hints = typing.get_type_hints(kind)
    return _pack_flags([StructField(name, form_of(hints[name])) for name in kind.__struct_fields__])


def _pack_flags(fields: list[StructField]) -> "tuple[StructField, ...]":
    """Assign consecutive flags to the bits of shared bytes."""
    first = 0
    for index, (name, form) in enumerate(fields):
        if form.encoding is not Encoding.FLAG or form.optional:
            first = index + 1
            continue
        if index - first == FLAGS_MAX:
            first = index
        if index > first:
            head = fields[first]
            fields[index] = StructField(name, form._replace(bit=index - first))
            fields[first] = StructField(head.name, head.form._replace(bits=index - first + 1))
    return tuple(fields)


def form_of(hint: Any) -> Form:
    """Return the form of a type.

    Args:
        hint: a type hint of the table above.

    Raises:
        TypeError: the type is not in the table.
    """
    if hint in PLAIN:
        return Form(PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Form(Encoding.MEMBER, kind=hint, members=_members(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        layout_of(hint)
        return Form(Encoding.STRUCT, kind=hint)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and arguments[1:] == (...,):
        return Form(Encoding.TUPLE, item=form_of(arguments[0]))
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _form_of_union(arguments)
    raise TypeError(f"fields of type {hint!r} are not supported")


def _form_of_union(choices: "tuple[Any, ...]") -> Form:
    """Return the form of a union."""
    some = tuple(choice for choice in choices if choice is not types.NoneType)
    if len(some) == 1:
        form = form_of(some[0])
    elif set(some) == {str, int}:
        form = Form(Encoding.ORDER_ID)
    elif all(choice in NUMBERS for choice in some):
        for choice in some:
            layout_of(choice)
        form = Form(Encoding.UNION, kinds=tuple(NUMBERS[choice] for choice in some))
    else:
        raise TypeError(f"unions of {choices!r} are not supported")
    return form._replace(optional=len(some) < len(choices))


def _members(enumeration: type[enum.Enum]) -> "tuple[Any, ...]":
    """Return the members of an enumeration by number, None for unused numbers."""
    numbered = {
        member.value if isinstance(member.value, int) else position: member
        for position, member in enumerate(enumeration)
    }
    if not all(0 <= number < 256 for number in numbered):
        raise TypeError(f"the members of {enumeration.__name__} must be numbered from 0 to 255")
    return tuple(numbered.get(number) for number in range(max(numbered) + 1))
