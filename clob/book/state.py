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

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from clob.errors import ClobError, InvalidSnapshotError
from clob.order import Order, Side
from clob.units import ORDER_ID_MAX

B = TypeVar("B", bound="StoredBook")

ROW = struct.Struct("=QIiqII")
"""An order for ``rest_all``, except its id: size in wei (8 low bytes, 4 high bytes), price,
expiration in seconds, index of its maker, side."""

MAGIC = b"CLOBBOOK\x01"
"""First bytes of the canonical bytes: eight letters and the version."""


class StoredOrder(Protocol):
    """The fields of an order in the canonical bytes."""

    id: str | int
    number: int
    remaining: int
    maker: str
    expiration_s: int


class StoredBook(Protocol):
    """The parts of a book that restoring needs."""

    seq: int
    _next_number: int

    def rest(self, order: Order) -> Any:
        """Rest an order."""

    def state_bytes(self) -> bytes:
        """Return the canonical bytes."""


Levels = Sequence[tuple[int, Sequence[StoredOrder]]]
"""The levels of one side, best first: price and orders, oldest first."""


# ----- writing -------------------------------------------------------------------------------


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


def order_of(order_id: str | int, row: tuple[int, ...], token: str, makers: Sequence[str]) -> Order:
    """Return the order of the fields of a :data:`ROW`."""
    low, high, price, expiration_s, maker, side = row
    return Order(
        id=order_id,
        token=token,
        maker=makers[maker],
        side=Side(side),
        price=price,
        size=high << 64 | low,
        expiration_s=expiration_s,
    )


# ----- reading -------------------------------------------------------------------------------


def unpickle(state: bytes, departed: dict[int, str]) -> Any:
    """Return the book of a pickle: its canonical bytes, and the text ids of departed orders."""
    # By name: clob.book, which chooses the Book of the process, imports this module.
    book = restore(import_module("clob.book").Book, state)
    book._departed = departed
    return book


def restore(book_class: Callable[..., B], state: bytes) -> B:
    """Return a book with the state of canonical bytes.

    Raises:
        InvalidSnapshotError: the bytes are not those that ``state_bytes`` returns for the state.
    """
    if type(state) is not bytes or not state.startswith(MAGIC):
        raise InvalidSnapshotError("the state of a book must be bytes that begin with CLOBBOOK 1")
    try:
        book = _restored(book_class, _Reader(state))
        if book.state_bytes() == state:
            return book
    except (ClobError, OverflowError, ValueError) as error:
        raise InvalidSnapshotError(f"the state of the book is inconsistent: {error!r}") from error
    raise InvalidSnapshotError("the state of the book is inconsistent: it has another encoding")


class _Reader:
    """Reads canonical bytes from the start to the end."""

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.offset = len(MAGIC)

    def raw(self, length: int) -> bytes:
        """Read a number of bytes."""
        start, self.offset = self.offset, self.offset + length
        if self.offset > len(self.state):
            raise ValueError(f"unexpected end of the data at byte {len(self.state)}")
        return self.state[start : self.offset]

    def integer(self, length: int, signed: bool = False) -> int:
        """Read an integer of a number of bytes."""
        return int.from_bytes(self.raw(length), "little", signed=signed)

    def text(self) -> str:
        """Read a text."""
        return self.raw(self.integer(4)).decode("utf-8", "surrogatepass")

    def orders(self, token: str) -> Iterator[tuple[Order, int]]:
        """Read both sides; yield each order with its number."""
        for side in Side:
            for _ in range(self.integer(4)):
                price = self.integer(4, signed=True)
                for _ in range(self.integer(4)):
                    name = self.text() if self.integer(1) else None
                    number = self.integer(8)
                    size, maker, expiration_s = self.integer(16), self.text(), self.integer(8)
                    yield (
                        Order(
                            id=number if name is None else name,
                            token=token,
                            maker=maker,
                            side=side,
                            price=price,
                            size=size,
                            expiration_s=expiration_s,
                        ),
                        number,
                    )


def _restored(book_class: Callable[..., B], reader: _Reader) -> B:
    lo, hi = reader.integer(4, signed=True), reader.integer(4, signed=True)
    lot_wei = reader.integer(16)
    token, market = reader.text(), reader.text()
    seq, next_number = reader.integer(8), reader.integer(8)
    book = book_class(lo, hi, token, lot_wei, 0, market)
    if next_number <= ORDER_ID_MAX:
        raise ValueError(f"the next number must be above {ORDER_ID_MAX}; got {next_number}")
    numbers: set[int] = set()
    for order, number in reader.orders(token):
        if isinstance(order.id, str):
            if number in numbers or not ORDER_ID_MAX < number < next_number:
                raise ValueError(f"order {order.id!r} must not have the number {number}")
            numbers.add(number)
            book._next_number = number
        book.rest(order)
    book._next_number, book.seq = next_number, seq
    return book
