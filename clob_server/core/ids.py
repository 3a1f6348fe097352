"""Ids of orders and trades, a time and six unpredictable characters, and positions of fills.

The characters are a counter passed through a keyed permutation of 36**6 values: unique, with only
the counter to store (decision 22).
"""

import hashlib
import struct
from array import array
from itertools import product
from typing import Final, NamedTuple

DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Alphabet of the characters."""
HALF: Final = 36**3
"""Values of three characters."""
COUNT: Final = HALF * HALF
"""Values of six characters."""
ORDER_HASH_CHARACTERS: Final = 66
"""Length of an order hash as text."""
CURSOR_DIGITS: Final = 19
"""Digits that each number of a cursor has fewer of."""
KEY_BYTES: Final = 32
"""Length of a key."""

_ROUNDS: Final = 4
_TEXTS: Final = tuple(map("".join, product(DIGITS, repeat=3)))


class Permutation:
    """A permutation of the numbers below :data:`COUNT`, written in six characters.

    A Feistel network of four rounds on halves of three characters. Round functions are tables drawn
    from the key, so a number costs eight lookups and no hashing.

    Args:
        key: 32 secret bytes.
        purpose: each purpose has its own permutation.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of ids must have {KEY_BYTES} bytes; got {len(key)}")
        self._tables = [_table(key, f"{purpose} {turn}") for turn in range(_ROUNDS)]

    def text(self, number: int) -> str:
        """Return the six characters of a number, modulo :data:`COUNT`."""
        left, right = divmod(number % COUNT, HALF)
        for table in self._tables:
            left, right = right, (left + table[right]) % HALF
        return _TEXTS[left] + _TEXTS[right]


def _table(key: bytes, purpose: str) -> "array[int]":
    stream = hashlib.shake_256(key + purpose.encode()).digest(4 * HALF)
    drawn = struct.unpack(f"<{HALF}I", stream)  # little-endian on every machine: the log may move
    return array("H", [number % HALF for number in drawn])


class Ids:
    """Creates ids of orders and trades from a key of 32 secret bytes."""

    def __init__(self, key: bytes) -> None:
        self._orders = Permutation(key, "orders")
        self._trades = Permutation(key, "trades")
        self.exchange: Final = hashlib.blake2b(b"exchange", key=key, digest_size=4).hexdigest()
        """Eight hexadecimal digits that distinguish this exchange, in ETags and feeds."""

    def order(self, now_ms: int, number: int) -> str:
        """Return the id of an order by its number, counted from 1."""
        return f"ord_{now_ms // 1000}_{self._orders.text(number)}"

    def trade(self, now_ms: int, number: int) -> str:
        """Return the id of a trade by its number, counted from 1."""
        return f"trade_{now_ms}_{self._trades.text(number)}"


class Cursor(NamedTuple):
    """A position among the fills of all makers, written as ``{command}-{place}``."""

    command_seq: int
    """Number of the last command."""
    place: int
    """Place of the last fill, as from :func:`fill_place`."""

    def __str__(self) -> str:
        """Return the text."""
        return f"{self.command_seq}-{self.place}"


def fill_place(number: int, *, is_incoming: bool) -> int:
    """Return the place of a fill: twice the number of its trade, plus one for the incoming order.

    A trade between two orders of one maker is two fills. Places rise with time over all markets.
    """
    return 2 * number + is_incoming


def cursor_in(text: str) -> Cursor | None:
    """Return the position that a text shows; None if it shows none."""
    command, separator, place = text.partition("-")
    if separator and all(
        each.isascii() and each.isdigit() and len(each) < CURSOR_DIGITS for each in (command, place)
    ):
        return Cursor(int(command), int(place))
    return None


def order_hash_in(order_ref: str) -> bytes | None:
    """Return the order hash of a reference, an order id or hash; None if it is an id."""
    if len(order_ref) != ORDER_HASH_CHARACTERS or order_ref[:2].lower() != "0x":
        return None
    try:
        return bytes.fromhex(order_ref[2:])
    except ValueError:
        return None
