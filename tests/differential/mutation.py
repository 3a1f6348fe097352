"""Random values of every Struct, and random damage to canonical bytes, from one seeded source."""

import enum
import functools
import types
import typing

import msgspec

INTERESTING = bytes((0, 1, 2, 3, 4, 8, 9, 16, 17, 31, 32, 33, 64, 127, 128, 192, 255))
"""Bytes at the limits of lengths, flags, kinds and UTF-8."""

EDGES = tuple(
    2**bits + more
    for bits in (0, 7, 8, 15, 30, 31, 32, 60, 62, 63, 64, 90, 96, 120, 127, 128, 255)
    for more in (-1, 0, 1)
)
"""Integers around the limits of bytes, digits, words and 256 bits."""

TEXTS = ("", "a", "101", "m", "0x" + "aB" * 20, "é", "🦊", "\ud800", "7" * 78, "x" * 130)
BROKEN_UTF8 = (b"\xff", b"\xc0\x80", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80")


# ----- values --------------------------------------------------------------------------------


def value_of(rng, hint):
    """Draw a value of a type hint."""
    draw = PLAIN.get(hint)
    if draw:
        return draw(rng)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return rng.choice(list(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint(**{name: value_of(rng, each) for name, each in hints_of(hint)})
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return tuple(value_of(rng, arguments[0]) for _ in range(rng.randrange(4)))
    return value_of(rng, rng.choice(arguments))


@functools.cache
def hints_of(kind):
    """Return the fields of a Struct with their type hints."""
    hints = typing.get_type_hints(kind)
    return [(name, hints[name]) for name in kind.__struct_fields__]


def integer(rng):
    """Draw an integer of at most 256 bits."""
    return rng.choice((rng.randrange(100), rng.choice(EDGES), rng.getrandbits(rng.randrange(257))))


PLAIN = {
    int: integer,
    bool: lambda rng: rng.random() < 0.5,
    str: lambda rng: rng.choice(TEXTS),
    bytes: lambda rng: rng.randbytes(rng.choice((0, 1, 32, 40))),
    types.NoneType: lambda rng: None,
}


# ----- damage --------------------------------------------------------------------------------


def mutant(rng, raw, others):
    """Return damaged bytes; ``others`` are bytes to take pieces from."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        place = rng.randrange(len(raw) + 1)
        raw = rng.choice(DAMAGES)(rng, raw, place, others)
    return raw


def flip(rng, raw, place, _):
    """Flip a bit."""
    byte = raw[place : place + 1]
    return raw[:place] + bytes(b ^ 1 << rng.randrange(8) for b in byte) + raw[place + 1 :]


def set_byte(rng, raw, place, _):
    """Set a byte to one at a limit."""
    return raw[:place] + bytes((rng.choice(INTERESTING),)) + raw[place + 1 :]


def step(rng, raw, place, _):
    """Add or subtract 1, for example of a length."""
    byte = raw[place : place + 1]
    return raw[:place] + bytes((b + rng.choice((-1, 1))) % 256 for b in byte) + raw[place + 1 :]


def truncate(rng, raw, place, _):
    """Cut the end off, or only the last bytes."""
    return raw[: rng.choice((place, max(0, len(raw) - rng.randrange(1, 9))))]


def extend(rng, raw, _place, _others):
    """Append bytes."""
    return raw + rng.choice((bytes(rng.randrange(1, 9)), rng.randbytes(rng.randrange(1, 9))))


def remove(rng, raw, place, _):
    """Remove a range."""
    return raw[:place] + raw[place + rng.randrange(1, 9) :]


def repeat(rng, raw, place, _):
    """Repeat a range."""
    end = place + rng.randrange(1, 40)
    return raw[:end] + raw[place:]


def splice(rng, raw, place, others):
    """Replace a range by one of other bytes."""
    other = rng.choice(others)
    start = rng.randrange(len(other) + 1)
    count = rng.randrange(1, 40)
    skipped = rng.choice((0, count, rng.randrange(40)))
    return raw[:place] + other[start : start + count] + raw[place + skipped :]


def put_integer(rng, raw, place, _):
    """Replace a byte, or nothing, by an encoded integer, often a non-canonical one."""
    value = rng.choice(EDGES)
    length = (value.bit_length() + 7) // 8
    length = min(33, max(0, length + rng.choice((0, 0, 1, 1, 2, -1))))
    digits = (value % 256**length).to_bytes(length, "little")
    return raw[:place] + bytes((length,)) + digits + raw[place + rng.randrange(2) :]


def pad_integer(rng, raw, place, _):
    """Insert an integer with a last byte of 0: its value with more bytes than necessary."""
    length = rng.choice((1, 1, 2, 7, 8, 9, 16, 17, 32))
    return raw[:place] + bytes((length,)) + rng.randbytes(length - 1) + b"\0" + raw[place:]


def break_text(rng, raw, place, _):
    """Replace bytes by invalid UTF-8, or by a lone surrogate."""
    broken = rng.choice(BROKEN_UTF8)
    return raw[:place] + broken + raw[place + len(broken) * rng.randrange(2) :]


DAMAGES = (
    flip,
    flip,
    set_byte,
    step,
    truncate,
    extend,
    remove,
    repeat,
    splice,
    put_integer,
    pad_integer,
    break_text,
)
