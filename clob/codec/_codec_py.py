"""Codec of canonical bytes in pure Python: the reference for the compiled codec.

The compiled codec calls these functions for values and bytes that it cannot handle, so all error
texts are here.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from clob.codec.layout import (
    INTEGER_BYTES_MAX,
    KINDS,
    NUMBERS,
    PLAIN,
    Encoding,
    Form,
    is_view,
    layout_of,
)
from clob.errors import InvalidBytesError

# ----- public functions ----------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """Encode a command or an event, starting with the number of its kind.

    Args:
        value: a command or an event.

    Returns:
        Its canonical bytes.

    Raises:
        TypeError: ``value`` is not a command or an event, or the type of a field is not exactly
            the declared one: subclasses, ``bool`` for an integer and a number for a side fail.
        ValueError: an integer is negative or has more than 256 bits.
    """
    out = bytearray()
    _put_numbered(tuple(KINDS), value, out, "value")
    return bytes(out)


def encode_all(values: Sequence[Any]) -> bytes:
    """Encode a sequence of commands and events, starting with its length.

    Args:
        values: a list or a tuple of commands and events.

    Returns:
        The number of values as an integer, then each value as encoded by :func:`encode`.

    Raises:
        TypeError: as in :func:`encode`.
        ValueError: as in :func:`encode`.
    """
    out = bytearray()
    _put_integer(len(values), out, "number of values")
    return bytes(out) + b"".join(map(encode, values))


def decode(data: bytes) -> Any:
    """Decode a command or an event.

    Args:
        data: the canonical bytes of exactly one value.

    Returns:
        The command or event; :func:`encode` returns the same bytes for it.

    Raises:
        TypeError: ``data`` is not ``bytes``.
        InvalidBytesError: the bytes are not canonical; has the position and the reason.
    """
    _check_bytes(data)
    value, offset = _get_numbered(tuple(KINDS), data, 0)
    if offset != len(data):
        _fail(f"bytes left after the value: {len(data) - offset}", offset)
    return value


def write(value: Any) -> bytes:
    """Encode any frozen Struct, without the number of a kind.

    Args:
        value: an instance.

    Returns:
        Its canonical bytes.

    Raises:
        TypeError: ``value`` is not a frozen Struct, the declared type of a field is not supported,
            or the type of a field is not exactly the declared one.
        ValueError: an integer is negative or has more than 256 bits.
    """
    out = bytearray()
    _put_fields(type(value), value, out)
    return bytes(out)


def read(kind: type[Any], data: bytes | memoryview, offset: int = 0) -> tuple[Any, int]:
    """Decode a Struct at a position in the data.

    Args:
        kind: the Struct class.
        data: the bytes, or a view of them: read-only, contiguous, one byte per item.
        offset: position of its first byte.

    Returns:
        The instance, and the position after its last byte.

    Raises:
        TypeError: ``data`` is neither, or ``kind`` has no layout.
        ValueError: ``offset`` is negative or beyond the end of the data.
        InvalidBytesError: the bytes are not canonical; has the position and the reason.
    """
    if not is_view(data):
        _check_bytes(data)
    layout_of(kind)
    if not 0 <= offset <= len(data):
        raise ValueError(f"offset must be from 0 to {len(data)}; got {offset}")
    return _get_fields(kind, data, offset)


def split(data: bytes, offset: int, end: int, count: int) -> tuple[bytes, ...] | None:
    """Split bytes into pieces, each preceded by its length in 4 bytes, little-endian.

    Args:
        data: the bytes.
        offset: position of the first length.
        end: position after the last piece.
        count: expected number of pieces.

    Returns:
        The pieces, or None unless exactly ``count`` pieces fill the range.

    Raises:
        TypeError: ``data`` is not ``bytes``.
        ValueError: ``offset`` or ``end`` is negative or beyond the end of the data.
    """
    _check_bytes(data)
    if not (0 <= offset <= len(data) and 0 <= end <= len(data)):
        raise ValueError(f"offset and end must be from 0 to {len(data)}; got {offset} and {end}")
    pieces: list[bytes] = []
    while offset + 4 <= end and len(pieces) < count:
        start = offset + 4
        offset = start + int.from_bytes(data[offset:start], "little")
        if offset > end:
            return None
        pieces.append(data[start:offset])
    return tuple(pieces) if offset == end and len(pieces) == count else None


# ----- encoding ------------------------------------------------------------------------------


def _put_numbered(numbers: tuple[int, ...], value: Any, out: bytearray, where: str) -> None:
    number = NUMBERS.get(type(value))
    if number is None or number not in numbers:
        raise TypeError(f"{where} must be {_kind_names(numbers)}; got {type(value).__name__}")
    out.append(number)
    _put_fields(type(value), value, out)


def _put_fields(kind: type[Any], value: Any, out: bytearray) -> None:
    for name, form in layout_of(kind):
        _put(form, getattr(value, name), out, f"{kind.__name__}.{name}")


def _put(form: Form, value: Any, out: bytearray, where: str) -> None:
    """Write a value; ``where`` is its name in errors."""
    if form.optional:
        out.append(value is not None)
        if value is None:
            return
    match form.encoding:
        case Encoding.INTEGER if type(value) is int:
            _put_integer(value, out, where)
        case Encoding.FLAG if type(value) is bool and form.bit:
            out[-1] |= value << form.bit
        case Encoding.FLAG if type(value) is bool:
            out.append(value)
        case Encoding.MEMBER if type(value) is form.kind:
            out.append(form.members.index(value))
        case Encoding.TEXT if type(value) is str:
            _put_raw(value.encode("utf-8", "surrogatepass"), out)
        case Encoding.BYTES if type(value) is bytes:
            _put_raw(value, out)
        case Encoding.ORDER_ID if type(value) in (str, int):
            is_text = type(value) is str
            out.append(is_text)
            _put(Form(Encoding.TEXT if is_text else Encoding.INTEGER), value, out, where)
        case Encoding.STRUCT if type(value) is form.kind:
            _put_fields(type(value), value, out)
        case Encoding.TUPLE if type(value) is tuple and form.item:
            _put_integer(len(value), out, where)
            for item in value:
                _put(form.item, item, out, where)
        case Encoding.UNION:
            _put_numbered(form.kinds, value, out, where)
        case _:
            raise TypeError(f"{where} must be {_type_names(form)}; got {type(value).__name__}")


def _put_integer(value: int, out: bytearray, where: str) -> None:
    """Write an integer in as few bytes as possible."""
    if value < 0 or value.bit_length() > 8 * INTEGER_BYTES_MAX:
        raise ValueError(f"{where} must be an integer from 0 to 2**256 - 1; got {_shown(value)}")
    length = (value.bit_length() + 7) // 8
    out.append(length)
    out += value.to_bytes(length, "little")


def _put_raw(raw: bytes, out: bytearray) -> None:
    _put_integer(len(raw), out, "length")
    out += raw


def _kind_names(numbers: tuple[int, ...]) -> str:
    if len(numbers) == len(KINDS):
        return "a command or an event"
    return "one of " + ", ".join(KINDS[number].__name__ for number in numbers)


def _type_names(form: Form) -> str:
    """Return the expected types for an error."""
    names = _TYPE_NAMES.get(form.encoding) or (form.kind.__name__ if form.kind else "a Struct")
    return f"{names} or None" if form.optional else names


_TYPE_NAMES = {encoding: kind.__name__ for kind, encoding in PLAIN.items()}
_TYPE_NAMES |= {Encoding.ORDER_ID: "str or int", Encoding.TUPLE: "tuple"}


def _shown(value: int) -> str:
    """Format an integer, a very long one by its number of bits."""
    return str(value) if value.bit_length() <= 512 else f"an integer of {value.bit_length()} bits"


# ----- decoding ------------------------------------------------------------------------------


def _fail(reason: str, offset: int) -> NoReturn:
    raise InvalidBytesError(reason, offset)


def _check_bytes(data: bytes | memoryview) -> None:
    """Reject every type but bytes, bytearray and memoryview included."""
    if type(data) is not bytes:
        raise TypeError(f"data must be bytes; got {type(data).__name__}")


def _get_byte(data: bytes | memoryview, offset: int) -> int:
    if offset == len(data):
        _fail("unexpected end of the data", offset)
    return data[offset]


def _get_flag(data: bytes | memoryview, offset: int) -> tuple[bool, int]:
    byte = _get_byte(data, offset)
    if byte > 1:
        _fail(f"a flag must be 0 or 1; got {byte}", offset)
    return byte == 1, offset + 1


def _get_flags(bits: int, data: bytes | memoryview, offset: int) -> tuple[bool, int]:
    """Read the first of several flags that share a byte."""
    if bits == 1:
        return _get_flag(data, offset)
    byte = _get_byte(data, offset)
    if byte >> bits:
        _fail(f"a byte of {bits} flags must be below {1 << bits}; got {byte}", offset)
    return byte & 1 == 1, offset + 1


def _get_integer(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    length = _get_byte(data, offset)
    if length > INTEGER_BYTES_MAX:
        _fail(f"an integer must have at most {INTEGER_BYTES_MAX} bytes; got {length}", offset)
    end = offset + 1 + length
    if end > len(data):
        _fail("unexpected end of the data inside an integer", offset)
    if length and not data[end - 1]:
        _fail("the last byte of an integer must not be 0", offset)
    return int.from_bytes(data[offset + 1 : end], "little"), end


def _get_raw(data: bytes | memoryview, offset: int) -> tuple[bytes, int]:
    length, start = _get_integer(data, offset)
    if length > len(data) - start:
        _fail(f"length {length} exceeds the remaining {len(data) - start} bytes", offset)
    return bytes(data[start : start + length]), start + length


def _get_text(data: bytes | memoryview, offset: int) -> tuple[str, int]:
    raw, end = _get_raw(data, offset)
    try:
        return raw.decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        _fail(f"a text must be valid UTF-8: {error.reason}", end - len(raw) + error.start)


def _get_numbered(
    numbers: tuple[int, ...], data: bytes | memoryview, offset: int
) -> tuple[Any, int]:
    number = _get_byte(data, offset)
    if number not in numbers:
        _fail(f"unexpected kind {number}", offset)
    return _get_fields(KINDS[number], data, offset + 1)


def _get_fields(kind: type[Any], data: bytes | memoryview, offset: int) -> tuple[Any, int]:
    fields = {}
    for name, form in layout_of(kind):
        fields[name], offset = _get(form, data, offset)
    return kind(**fields), offset


def _get(form: Form, data: bytes | memoryview, offset: int) -> tuple[Any, int]:
    if form.optional:
        present, offset = _get_flag(data, offset)
        if not present:
            return None, offset
    match form.encoding:
        case Encoding.INTEGER:
            return _get_integer(data, offset)
        case Encoding.FLAG if form.bit:
            return data[offset - 1] >> form.bit & 1 == 1, offset
        case Encoding.FLAG:
            return _get_flags(form.bits, data, offset)
        case Encoding.MEMBER:
            return _get_member(form, data, offset)
        case Encoding.TEXT:
            return _get_text(data, offset)
        case Encoding.BYTES:
            return _get_raw(data, offset)
        case Encoding.ORDER_ID:
            is_text, offset = _get_flag(data, offset)
            return _get_text(data, offset) if is_text else _get_integer(data, offset)
        case Encoding.STRUCT if form.kind:
            return _get_fields(form.kind, data, offset)
        case Encoding.TUPLE if form.item:
            return _get_tuple(form.item, data, offset)
        case _:
            return _get_numbered(form.kinds, data, offset)


def _get_member(form: Form, data: bytes | memoryview, offset: int) -> tuple[Any, int]:
    number = _get_byte(data, offset)
    member = form.members[number] if number < len(form.members) else None
    if member is None and form.kind:
        _fail(f"{form.kind.__name__} has no member number {number}", offset)
    return member, offset + 1


def _get_tuple(item: Form, data: bytes | memoryview, offset: int) -> tuple[tuple[Any, ...], int]:
    """Read a tuple. An item has at least one byte, which bounds the count."""
    count, start = _get_integer(data, offset)
    if count > len(data) - start:
        _fail(f"{count} items exceed the remaining {len(data) - start} bytes", offset)
    items = []
    for _ in range(count):
        value, start = _get(item, data, start)
        items.append(value)
    return tuple(items), start
