"""What the canonical bytes are: the number of every kind, and how a field of each type is written.

The Structs are the table: a layout is read off their type hints, once. A Struct is its fields in
the sequence of their declaration, with nothing between them. A command or an event has the number
of its kind in front, so that a stream of them can be read.

====================  =========================================================================
type of a field       bytes
====================  =========================================================================
``int``               n from 0 to 32, then n bytes, lowest first, of which the last is not 0
``bool``              0 or 1; those that follow one another share a byte, the first its lowest bit
an enumeration        a byte: the number of the member; of one made of texts, its place
``str``               the length of its UTF-8 as an ``int``, then that, lone surrogates let through
``bytes``             the length as an ``int``, then they
``str | int``         0 and the ``int``, or 1 and the ``str``
``X | None``          0, or 1 and the X
a Struct              its fields
``tuple[X, ...]``     how many as an ``int``, then they
a union of commands   the number of the kind, then its fields
====================  =========================================================================

A value has one spelling, so equal bytes mean equal values and the other way round. New kinds,
fields and members come at the end; a changed layout is a new ``LAYOUT_VERSION``.
"""

import enum
import types
import typing
from typing import Any, Final, NamedTuple

import msgspec

from clob import commands, events

LAYOUT_VERSION: Final = 2
"""The version of all that stands in this file."""

INTEGER_BYTES_MAX: Final = 32
"""The longest integer, 256 bits."""

FLAGS_MAX: Final = 8
"""The most flags that share a byte."""

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
    64: events.OrderAdded,
    65: events.Trade,
    66: events.OrderReduced,
    67: events.OrderRemoved,
    68: events.Rejected,
    69: events.PairedTrade,
}
"""The kinds by their number, for ever: commands from 1, events from 64."""

FIRST_EVENT_KIND: Final = 64
"""Below it are commands."""

FIRST_FOREIGN_KIND: Final = 128
"""From here to 255 the numbers are the embedder's, for commands of its own; never ours."""

NUMBERS: Final[dict[type[msgspec.Struct], int]] = {kind: number for number, kind in KINDS.items()}
"""The number of each kind."""


class What(enum.IntEnum):
    """How the values of a field are written."""

    INTEGER = 0
    FLAG = 1
    WORD = 2
    TEXT = 3
    RAW = 4
    ORDER_ID = 5
    STRUCT = 6
    MANY = 7
    ANY_OF = 8


class Form(NamedTuple):
    """The type of a field, as its bytes see it."""

    what: What
    """How it is written."""
    optional: bool = False
    """None is allowed, and a byte in front says whether it is."""
    kind: type | None = None
    """Of a word its enumeration, of a Struct its type."""
    members: "tuple[Any, ...]" = ()
    """Of a word: the member of each number, None where there is none."""
    kinds: "tuple[int, ...]" = ()
    """Of a union: the numbers of its kinds."""
    item: "Form | None" = None
    """Of a tuple: what it holds."""
    bit: int = 0
    """Of a flag: which bit of its byte it is; another than 0 is in the byte of the field before."""
    bits: int = 1
    """Of the first flag of a byte: how many it holds."""


class StructField(NamedTuple):
    """A field of a Struct."""

    name: str
    """Its name."""
    form: Form
    """How its values are written."""


PLAIN: Final[dict[Any, What]] = {
    int: What.INTEGER,
    bool: What.FLAG,
    str: What.TEXT,
    bytes: What.RAW,
}


_LAYOUTS: Final[dict[type, tuple[StructField, ...]]] = {}


def layout_of(kind: Any) -> tuple[StructField, ...]:
    """Give the fields of a Struct in the sequence of their bytes.

    Args:
        kind: a frozen Struct.

    Returns:
        Its fields; the same tuple each time.

    Raises:
        TypeError: it is no frozen Struct, or a field is of a type that has no bytes.
    """
    layout = _LAYOUTS.get(kind)
    if layout is None:
        layout = _LAYOUTS[kind] = _derived(kind)
    return layout


def _derived(kind: Any) -> tuple[StructField, ...]:
    """Read the layout of a Struct off its type hints."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise TypeError(f"only a Struct has a layout, not {kind!r}")
    if not kind.__struct_config__.frozen:
        raise TypeError(f"only a frozen Struct has a layout, and {kind.__name__} is not")
    hints = typing.get_type_hints(kind)
    return _shared([StructField(name, form_of(hints[name])) for name in kind.__struct_fields__])


def _shared(fields: list[StructField]) -> "tuple[StructField, ...]":
    """Let flags that follow one another share a byte."""
    first = 0
    for place, (name, form) in enumerate(fields):
        if form.what is not What.FLAG or form.optional:
            first = place + 1
            continue
        if place - first == FLAGS_MAX:
            first = place
        if place > first:
            head = fields[first]
            fields[place] = StructField(name, form._replace(bit=place - first))
            fields[first] = StructField(head.name, head.form._replace(bits=place - first + 1))
    return tuple(fields)


def form_of(hint: Any) -> Form:
    """Say how the values of a type are written.

    Args:
        hint: a type hint of the table above.

    Raises:
        TypeError: it is not in the table.
    """
    if hint in PLAIN:
        return Form(PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Form(What.WORD, kind=hint, members=_members(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        layout_of(hint)
        return Form(What.STRUCT, kind=hint)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and arguments[1:] == (...,):
        return Form(What.MANY, item=form_of(arguments[0]))
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _form_of_union(arguments)
    raise TypeError(f"values of {hint!r} have no bytes")


def _form_of_union(choices: "tuple[Any, ...]") -> Form:
    """Say how a union is written."""
    some = tuple(choice for choice in choices if choice is not types.NoneType)
    if len(some) == 1:
        form = form_of(some[0])
    elif set(some) == {str, int}:
        form = Form(What.ORDER_ID)
    elif all(choice in NUMBERS for choice in some):
        for choice in some:
            layout_of(choice)
        form = Form(What.ANY_OF, kinds=tuple(NUMBERS[choice] for choice in some))
    else:
        raise TypeError(f"values of one of {choices!r} have no bytes")
    return form._replace(optional=len(some) < len(choices))


def _members(words: type[enum.Enum]) -> "tuple[Any, ...]":
    """Put the members of an enumeration at their numbers."""
    places = {
        member.value if isinstance(member.value, int) else place: member
        for place, member in enumerate(words)
    }
    if not all(0 <= place < 256 for place in places):
        raise TypeError(f"{words.__name__} has a member whose number does not fit a byte")
    return tuple(places.get(place) for place in range(max(places) + 1))
