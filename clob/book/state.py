"""The canonical bytes of a book, in one format for both books.

Books with equal bytes respond equally to all further commands.

Integers are little-endian, a text is its UTF-8 length in 4 bytes and its UTF-8 (lone surrogates
passed through).

====================  =========================================================================
bytes                 content
====================  =========================================================================
``CLOBBOOK`` 1        magic and version, 9 bytes
4, 4, 16              ``lo`` and ``hi`` (signed), ``lot_wei``
text, text            token, market
8, 8                  ``seq``, the number of the next text id
4                     number of buy levels, best price first; then of sell levels
. 4, 4                a level: price (signed), number of orders, oldest first
. . 1, 8 or text, 8   an order: 0 and its integer id, or 1, its text id and its number
. . 16, text, 8       remaining size in wei, maker, expiration in seconds
====================  =========================================================================
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

MAGIC = b"CLOBBOOK\x01"
"""First bytes of the canonical bytes: eight letters and the version."""


class StoredOrder(Protocol):
    """The fields of an order in the canonical bytes."""

    id: str | int
    number: int
    remaining: int
    maker: str
    expiration_s: int


Levels = Sequence[tuple[int, Sequence[StoredOrder]]]
"""The levels of one side, best first: price and orders, oldest first."""


def digest(state: bytes) -> bytes:
    """Return the 32-byte BLAKE2b hash of canonical bytes."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which `import clob` does not need

    return hashlib.blake2b(state, digest_size=32).digest()


def encode_text(text: str) -> bytes:
    """Encode a text as its length and its bytes."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(4, "little") + raw


def encode_head(
    lo: int, hi: int, lot_wei: int, token: str, market: str, seq: int, next_number: int
) -> bytes:
    """Encode the properties of a book, up to its levels."""
    grid = lo.to_bytes(4, "little", signed=True) + hi.to_bytes(4, "little", signed=True)
    counters = seq.to_bytes(8, "little") + next_number.to_bytes(8, "little")
    names = encode_text(token) + encode_text(market)
    return MAGIC + grid + lot_wei.to_bytes(16, "little") + names + counters


def encode_side(levels: Levels) -> Iterable[bytes]:
    """Encode one side, best price first, in pieces."""
    yield len(levels).to_bytes(4, "little")
    for price, orders in levels:
        yield price.to_bytes(4, "little", signed=True)
        yield len(orders).to_bytes(4, "little")
        for order in orders:
            yield _encode_order(order)


def _encode_order(order: StoredOrder) -> bytes:
    number = order.number.to_bytes(8, "little")
    name = b"\x00" if isinstance(order.id, int) else b"\x01" + encode_text(order.id)
    rest = encode_text(order.maker) + order.expiration_s.to_bytes(8, "little")
    return name + number + order.remaining.to_bytes(16, "little") + rest
