"""The canonical bytes in plain Python: what :mod:`clob.codec.layout` says, and nothing faster.

The compiled codec does the same. What it cannot write or read it passes on to this one, which
says why.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from clob.codec.layout import INTEGER_BYTES_MAX, KINDS, NUMBERS, Form, What, layout_of
from clob.errors import InvalidBytesError

# ----- what is public ------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Write a command or an event, the number of its kind first.

    Args:
        value: a command or an event.

    Returns:
        Its canonical bytes.

    Raises:
        TypeError: it is neither, or a field is not of the type the Struct states: a subclass, a
            ``bool`` for an integer or a number for a side will not do.
        ValueError: an integer is negative or has more than 256 bits.
    """
    out = bytearray()
    _put_numbered(tuple(KINDS), value, out, "a command or an event")
    return bytes(out)


def encode_all(values: Sequence[Any]) -> bytes:
    """Write commands or events one after the other, and how many they are in front.

    Args:
        values: a list or a tuple of commands and events.

    Returns:
        The count as an integer, and then what :func:`encode` makes of each.

    Raises:
        TypeError: as :func:`encode`.
        ValueError: as :func:`encode`.
    """
    out = bytearray()
    _put_integer(len(values), out, "a count")
    return bytes(out) + b"".join(map(encode, values))


def decode(data: bytes) -> Any:
    """Read a command or an event.

    Args:
        data: all of its canonical bytes and no more.

    Returns:
        The command or the event, of which :func:`encode` makes these very bytes.

    Raises:
        TypeError: ``data`` is not ``bytes``.
        InvalidBytesError: the bytes are not canonical ones; says where, and what was wrong.
    """
    _check_bytes(data)
    value, offset = _get_numbered(tuple(KINDS), data, 0)
    if offset != len(data):
        _refuse(f"{len(data) - offset} bytes too many", offset)
    return value


def write(value: Any) -> bytes:
    """Write any frozen Struct of this package, without the number of a kind.

    Args:
        value: an instance.

    Returns:
        Its canonical bytes.

    Raises:
        TypeError: it is no frozen Struct, a type of one of its fields has no bytes, or a field is
            not of the type the Struct states.
        ValueError: an integer is negative or has more than 256 bits.
    """
    out = bytearray()
    _put_fields(type(value), value, out)
    return bytes(out)


def read(kind: type[Any], data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Read a Struct that stands among other bytes.

    Args:
        kind: the type of the Struct.
        data: the bytes.
        offset: where it begins.

    Returns:
        The instance, and where the next thing begins.

    Raises:
        TypeError: ``data`` is not ``bytes``, or ``kind`` has no layout.
        ValueError: ``offset`` is negative or lies beyond the data.
        InvalidBytesError: the bytes are not canonical ones; says where, and what was wrong.
    """
    _check_bytes(data)
    layout_of(kind)
    if not 0 <= offset <= len(data):
        raise ValueError(f"offset must be 0 to {len(data)}, not {offset}")
    return _get_fields(kind, data, offset)


def split(data: bytes, offset: int, end: int, count: int) -> tuple[bytes, ...] | None:
    """Cut pieces out of bytes, each with its length in 4 bytes in front, lowest first.

    Args:
        data: the bytes.
        offset: where the first piece begins, from 0 on.
        end: where the last one must end, at most at the end of the data.
        count: how many there must be.

    Returns:
        The pieces; None where they are not just as many, up to just that end.

    Raises:
        TypeError: ``data`` is not ``bytes``.
        ValueError: ``offset`` or ``end`` is negative or lies beyond the data.
    """
    _check_bytes(data)
    if not (0 <= offset <= len(data) and 0 <= end <= len(data)):
        raise ValueError(f"offset and end must be 0 to {len(data)}, not {offset} and {end}")
    pieces: list[bytes] = []
    while offset + 4 <= end and len(pieces) < count:
        start = offset + 4
        offset = start + int.from_bytes(data[offset:start], "little")
        if offset > end:
            return None
        pieces.append(data[start:offset])
    return tuple(pieces) if offset == end and len(pieces) == count else None


# ----- writing -------------------------------------------------------------------------------


def _put_numbered(numbers: tuple[int, ...], value: Any, out: bytearray, where: str) -> None:
    """Write the number of a kind and what is of it."""
    number = NUMBERS.get(type(value))
    if number is None or number not in numbers:
        raise TypeError(f"{where} cannot be {_named(value)}")
    out.append(number)
    _put_fields(type(value), value, out)


def _put_fields(kind: type[Any], value: Any, out: bytearray) -> None:
    """Write the fields of a Struct."""
    for name, form in layout_of(kind):
        _put(form, getattr(value, name), out, f"{kind.__name__}.{name}")


def _put(form: Form, value: Any, out: bytearray, where: str) -> None:
    """Write a value; ``where`` names it should it not fit."""
    if form.optional:
        out.append(value is not None)
        if value is None:
            return
    match form.what:
        case What.INTEGER if type(value) is int:
            _put_integer(value, out, where)
        case What.FLAG if type(value) is bool and form.bit:
            out[-1] |= value << form.bit
        case What.FLAG if type(value) is bool:
            out.append(value)
        case What.WORD if type(value) is form.kind:
            out.append(form.members.index(value))
        case What.TEXT if type(value) is str:
            _put_raw(value.encode("utf-8", "surrogatepass"), out)
        case What.RAW if type(value) is bytes:
            _put_raw(value, out)
        case What.ORDER_ID if type(value) in (str, int):
            is_text = type(value) is str
            out.append(is_text)
            _put(Form(What.TEXT if is_text else What.INTEGER), value, out, where)
        case What.STRUCT if type(value) is form.kind:
            _put_fields(type(value), value, out)
        case What.MANY if type(value) is tuple and form.item:
            _put_integer(len(value), out, where)
            for item in value:
                _put(form.item, item, out, where)
        case What.ANY_OF:
            _put_numbered(form.kinds, value, out, where)
        case _:
            raise TypeError(f"{where} cannot be {_named(value)}")


def _put_integer(value: int, out: bytearray, where: str) -> None:
    """Write an integer in as few bytes as it takes."""
    if value < 0 or value.bit_length() > 8 * INTEGER_BYTES_MAX:
        raise ValueError(f"{where} must be an integer from 0 below 2**256, not {_shown(value)}")
    length = (value.bit_length() + 7) // 8
    out.append(length)
    out += value.to_bytes(length, "little")


def _put_raw(raw: bytes, out: bytearray) -> None:
    """Write bytes with their length in front."""
    _put_integer(len(raw), out, "a length")
    out += raw


def _named(value: Any) -> str:
    """Name the type of a value that will not do."""
    return f"of type {type(value).__name__}"


def _shown(value: int) -> str:
    """Show an integer unless it is endless."""
    return str(value) if value.bit_length() <= 512 else f"one of {value.bit_length()} bits"


# ----- reading -------------------------------------------------------------------------------


def _refuse(what: str, offset: int) -> NoReturn:
    """Say what is wrong with the bytes."""
    raise InvalidBytesError(what, offset)


def _check_bytes(data: bytes) -> None:
    """Take bytes and nothing that resembles them."""
    if type(data) is not bytes:
        raise TypeError(f"data must be bytes, not {_named(data)}")


def _get_byte(data: bytes, offset: int) -> int:
    """Read one byte."""
    if offset == len(data):
        _refuse("the bytes end too early", offset)
    return data[offset]


def _get_flag(data: bytes, offset: int) -> tuple[bool, int]:
    """Read a 0 or a 1."""
    byte = _get_byte(data, offset)
    if byte > 1:
        _refuse(f"a flag is 0 or 1, not {byte}", offset)
    return byte == 1, offset + 1


def _get_flags(bits: int, data: bytes, offset: int) -> tuple[bool, int]:
    """Read the first flag of a byte that holds so many."""
    if bits == 1:
        return _get_flag(data, offset)
    byte = _get_byte(data, offset)
    if byte >> bits:
        _refuse(f"{bits} flags are below {1 << bits}, not {byte}", offset)
    return byte & 1 == 1, offset + 1


def _get_integer(data: bytes, offset: int) -> tuple[int, int]:
    """Read an integer."""
    length = _get_byte(data, offset)
    if length > INTEGER_BYTES_MAX:
        _refuse(f"an integer has at most {INTEGER_BYTES_MAX} bytes, not {length}", offset)
    end = offset + 1 + length
    if end > len(data):
        _refuse("the bytes end inside an integer", offset)
    if length and not data[end - 1]:
        _refuse("an integer has a zero too many at its end", offset)
    return int.from_bytes(data[offset + 1 : end], "little"), end


def _get_raw(data: bytes, offset: int) -> tuple[bytes, int]:
    """Read bytes with their length in front."""
    length, start = _get_integer(data, offset)
    if length > len(data) - start:
        _refuse(f"{length} bytes are announced, and {len(data) - start} are left", offset)
    return data[start : start + length], start + length


def _get_text(data: bytes, offset: int) -> tuple[str, int]:
    """Read a text."""
    raw, end = _get_raw(data, offset)
    try:
        return raw.decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        _refuse(f"a text is not valid UTF-8: {error.reason}", end - len(raw) + error.start)


def _get_numbered(numbers: tuple[int, ...], data: bytes, offset: int) -> tuple[Any, int]:
    """Read the number of a kind and what is of it."""
    number = _get_byte(data, offset)
    if number not in numbers:
        _refuse(f"there is no kind {number} here", offset)
    return _get_fields(KINDS[number], data, offset + 1)


def _get_fields(kind: type[Any], data: bytes, offset: int) -> tuple[Any, int]:
    """Read the fields of a Struct, and make it."""
    fields = {}
    for name, form in layout_of(kind):
        fields[name], offset = _get(form, data, offset)
    return kind(**fields), offset


def _get(form: Form, data: bytes, offset: int) -> tuple[Any, int]:
    """Read a value."""
    if form.optional:
        given, offset = _get_flag(data, offset)
        if not given:
            return None, offset
    match form.what:
        case What.INTEGER:
            return _get_integer(data, offset)
        case What.FLAG if form.bit:
            return data[offset - 1] >> form.bit & 1 == 1, offset
        case What.FLAG:
            return _get_flags(form.bits, data, offset)
        case What.WORD:
            return _get_word(form, data, offset)
        case What.TEXT:
            return _get_text(data, offset)
        case What.RAW:
            return _get_raw(data, offset)
        case What.ORDER_ID:
            is_text, offset = _get_flag(data, offset)
            return _get_text(data, offset) if is_text else _get_integer(data, offset)
        case What.STRUCT if form.kind:
            return _get_fields(form.kind, data, offset)
        case What.MANY if form.item:
            return _get_many(form.item, data, offset)
        case _:
            return _get_numbered(form.kinds, data, offset)


def _get_word(form: Form, data: bytes, offset: int) -> tuple[Any, int]:
    """Read a member of an enumeration."""
    place = _get_byte(data, offset)
    member = form.members[place] if place < len(form.members) else None
    if member is None and form.kind:
        _refuse(f"{form.kind.__name__} has no member {place}", offset)
    return member, offset + 1


def _get_many(item: Form, data: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
    """Read a tuple; each of its items takes a byte at least."""
    count, start = _get_integer(data, offset)
    if count > len(data) - start:
        _refuse(f"{count} items are announced, and {len(data) - start} bytes are left", offset)
    items = []
    for _ in range(count):
        value, start = _get(item, data, start)
        items.append(value)
    return tuple(items), start
