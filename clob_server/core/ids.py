"""The ids of orders and trades: when it was, and six characters that nobody can guess.

The six are a number that counts up, put through a permutation of 36**6 that a key chooses: unique,
with nothing to remember but the count (decision 22).
"""

import hashlib
import struct
from array import array
from itertools import product
from typing import Final

DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
"""What the six characters are of."""
HALF: Final = 36**3
"""How many values three of them have."""
COUNT: Final = HALF * HALF
"""How many values all six have."""
ORDER_HASH_CHARACTERS: Final = 66
"""Length of an order hash as text."""
KEY_BYTES: Final = 32
"""How long a key is."""

_ROUNDS: Final = 4
_TEXTS: Final = tuple(map("".join, product(DIGITS, repeat=3)))


class Permutation:
    """A permutation of the numbers below :data:`COUNT`, written in six characters.

    Four rounds of Feistel, each half three characters. What a round adds stands in a table drawn
    from the key, so that a number costs eight look-ups and no hashing.

    Args:
        key: 32 bytes that nobody else knows.
        purpose: two purposes have two permutations.
    """

    def __init__(self, key: bytes, purpose: str) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of ids must have {KEY_BYTES} bytes, not {len(key)}")
        self._tables = [_table(key, f"{purpose} {turn}") for turn in range(_ROUNDS)]

    def text(self, number: int) -> str:
        """Give the six characters of a number; one beyond :data:`COUNT` begins anew."""
        left, right = divmod(number % COUNT, HALF)
        for table in self._tables:
            left, right = right, (left + table[right]) % HALF
        return _TEXTS[left] + _TEXTS[right]


def _table(key: bytes, purpose: str) -> "array[int]":
    """Draw a table of as many numbers as three characters have."""
    stream = hashlib.shake_256(key + purpose.encode()).digest(4 * HALF)
    drawn = struct.unpack(f"<{HALF}I", stream)  # alike on every machine: the log may move
    return array("H", [number % HALF for number in drawn])


class Ids:
    """Names orders and trades.

    Args:
        key: 32 bytes that nobody else knows.
    """

    def __init__(self, key: bytes) -> None:
        self._orders = Permutation(key, "orders")
        self._trades = Permutation(key, "trades")

    def order(self, now_ms: int, number: int) -> str:
        """Name the order of a number, counted from 1, that comes in now."""
        return f"ord_{now_ms // 1000}_{self._orders.text(number)}"

    def trade(self, now_ms: int, number: int) -> str:
        """Name the trade of a number, counted from 1, that is made now."""
        return f"trade_{now_ms}_{self._trades.text(number)}"


def order_hash_in(order_ref: str) -> bytes | None:
    """Return the order hash of a reference; None if it is an order id.

    Args:
        order_ref: order id, or order hash in hexadecimal.
    """
    if len(order_ref) != ORDER_HASH_CHARACTERS or order_ref[:2].lower() != "0x":
        return None
    try:
        return bytes.fromhex(order_ref[2:])
    except ValueError:
        return None
