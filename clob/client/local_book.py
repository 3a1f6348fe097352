"""The order books of a market, kept by the messages of the feed; no input and output.

Both tokens of a market share one sequence of numbers. In a complementary market an event changes
both books and is sent for each of them with the same number, so the last number is complete only
when a later message follows. A client that resumes continues from the last complete number, and
messages that it has are skipped.
"""

import zlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

from clob.client.errors import ClientError, InvalidCallError
from clob.depth import Ahead, Depth, Level
from clob.wire.messages import (
    BookTradeMessage,
    Heartbeat,
    OrderAddedMessage,
    Orderbook,
    OrderReducedMessage,
    OrderRemovedMessage,
)

BookUpdate: TypeAlias = (
    Orderbook | OrderAddedMessage | OrderRemovedMessage | OrderReducedMessage | BookTradeMessage
)
"""A message that changes a book."""

BookLock: TypeAlias = AbstractContextManager[Any]
"""A lock that a thread may take again while it has it."""
NO_LOCK: Final[BookLock] = nullcontext()
"""For books that one thread writes and reads."""
PRICES: Final = 100
"""Prices are whole cents below this."""
_NONE: Final = -(1 << 62)
"""``seq`` before the first snapshot; no number follows it."""


class BookGapError(ClientError, code="BOOK_GAP"):
    """Messages of a market are missing; the book is as after its ``seq``."""


class BookMismatchError(ClientError, code="BOOK_MISMATCH"):
    """A message does not fit the book, or its checksum differs; the book is wrong."""


class _Queue:
    """The orders at a price of a side."""

    __slots__ = ("num_orders", "orders", "size")

    def __init__(self, size: int = 0, num_orders: int = 0) -> None:
        self.size = size
        self.num_orders = num_orders
        self.orders: dict[str, int] = {}
        """Sizes of the orders added since the snapshot, oldest first; all others are older."""


class OutcomeBook:
    """The book of one token.

    Prices are cents, sizes wei. :class:`LocalBook` keeps it up to date.
    """

    __slots__ = ("_market", "queues", "token_id")

    def __init__(self, market: "LocalBook", token_id: str) -> None:
        self.token_id: Final = token_id
        """Outcome token, decimal digits."""
        self._market = market
        self.queues: list[_Queue] = [_Queue() for _ in range(2 * PRICES)]

    @property
    def best_bid(self) -> Level | None:
        """The highest price of a buy order; None without buy orders."""
        with self._market.lock:
            return next(iter(self._levels(0, 1)), None)

    @property
    def best_ask(self) -> Level | None:
        """The lowest price of a sell order; None without sell orders."""
        with self._market.lock:
            return next(iter(self._levels(1, 1)), None)

    def level(self, side: int, price: int) -> Level:
        """Return the level at a price; without orders, of size 0.

        Args:
            side: 0 buy, 1 sell.
            price: 1 to 99 cents.
        """
        with self._market.lock:
            queue = self.queues[side * PRICES + price]
            return Level(price, queue.size, queue.num_orders)

    def depth(self, levels: int = PRICES) -> Depth:
        """Return the best levels of each side, best price first."""
        with self._market.lock:
            bids, asks = (tuple(self._levels(side, levels)) for side in (0, 1))
            return Depth(self._market.market_id, self.token_id, self._market.seq or 0, bids, asks)

    def ahead(self, order_id: str, side: int, price: int) -> Ahead | None:
        """Return the orders that trade before an order at its price.

        Returns:
            None if the order is not in the book, or was in it before the last snapshot, which does
            not show the order of a queue.
        """
        with self._market.lock:
            queue = self.queues[side * PRICES + price]
            if order_id not in queue.orders:
                return None
            num_orders = queue.num_orders - len(queue.orders)
            size = queue.size - sum(queue.orders.values())
            for each, remaining in queue.orders.items():
                if each == order_id:
                    break
                num_orders += 1
                size += remaining
            return Ahead(num_orders, size)

    def checksum(self) -> int:
        """Return the CRC-32 of the book, as in ``GET /api/markets/{marketId}/orderbook``."""
        with self._market.lock:
            bids, asks = (
                ",".join([f"{each.price}:{each.size}" for each in self._levels(side, PRICES)])
                for side in (0, 1)
            )
        return zlib.crc32(f"{bids}|{asks}".encode())

    def _levels(self, side: int, count: int) -> list[Level]:
        """Return up to ``count`` levels of a side, best price first."""
        found: list[Level] = []
        for price in range(1, PRICES) if side else range(PRICES - 1, 0, -1):
            queue = self.queues[side * PRICES + price]
            if queue.num_orders:
                found.append(Level(price, queue.size, queue.num_orders))
                if len(found) == count:
                    break
        return found

    def replace(self, message: Orderbook) -> None:
        """Replace all levels by those of a snapshot.

        Raises:
            BookMismatchError: the checksum differs.
        """
        queues = [_Queue() for _ in range(2 * PRICES)]
        for side, levels in enumerate((message.data.bids, message.data.asks)):
            for each in levels:
                queues[side * PRICES + each.price] = _Queue(int(each.size), each.num_orders)
        self.queues = queues
        self.check(message.data.checksum, message.seq)

    def check(self, checksum: int, seq: int) -> None:
        """Compare the checksum.

        Raises:
            BookMismatchError: it differs.
        """
        own = self.checksum()
        if own != checksum:
            raise BookMismatchError(
                f"token {self.token_id} of market {self._market.market_id} after event {seq}: "
                f"the server's checksum is {checksum}; that of the local book is {own}"
            )


class LocalBook:
    """The books of a market.

    Args:
        market_id: the market.
        token_id: the only token that is followed; None for both. With one token the numbers have
            gaps, so missing messages are noticed by the checksums of heartbeats alone.
        lock: held by the books while they are read; another thread holds it while it writes.
    """

    __slots__ = (
        "_complete",
        "_held",
        "_is_mirrored",
        "_knows_tokens",
        "_number",
        "_snapshot",
        "_token",
        "_with_snapshot",
        "books",
        "lock",
        "market_id",
        "only_token",
    )

    def __init__(
        self, market_id: str, token_id: str | int | None = None, lock: BookLock = NO_LOCK
    ) -> None:
        self.market_id: Final = market_id
        self.lock: Final = lock
        self.only_token: Final = None if token_id is None else token_name(token_id)
        """The only token that is followed; None for both."""
        self.books: Final[dict[str, OutcomeBook]] = {}
        """Books by token."""
        self._number = self._complete = self._snapshot = _NONE
        self._token, self._is_mirrored = "", False
        self._with_snapshot: set[str] = set()
        self._knows_tokens = False
        self._held: dict[str, Orderbook] = {}

    @property
    def seq(self) -> int | None:
        """Number of the last event; None before the first snapshot."""
        return None if self._number == _NONE else self._number

    @property
    def position(self) -> int | None:
        """The number to resume from, whose messages were all applied. None needs a snapshot."""
        with self.lock:
            number = self._number
            if self._complete == number or (self.only_token is not None and not self._held):
                return self.seq
            return None if self._held or number == self._snapshot else number - 1

    def token(self, token_id: str | int) -> OutcomeBook:
        """Return the book of a token; without a snapshot it is empty.

        Raises:
            InvalidCallError: the token is not a number in decimal digits.
        """
        book = self.books.get(token_id)  # type: ignore[arg-type]
        if book is None:
            name = token_name(token_id)
            book = self.books.get(name)
            if book is None:
                book = self.books[name] = OutcomeBook(self, name)
        return book

    def reset(self) -> None:
        """Expect a snapshot next, of any number; the books stay as they are until then."""
        self._number = self._complete = self._snapshot = _NONE
        self._held.clear()

    def confirm(self) -> None:
        """Note that a message arrived that the server sent after all messages so far."""
        self._apply_held()
        if self._number != _NONE:
            self._complete, self._knows_tokens = self._number, True

    def apply(self, message: BookUpdate) -> bool:
        """Apply a message; about 1 us for an event.

        Returns:
            False if the books include it already.

        Raises:
            BookGapError: messages before it are missing; nothing was changed.
            BookMismatchError: it does not fit the book.
        """
        if type(message) is Orderbook:
            return self._on_snapshot(message)
        seq, token = message.seq, message.token_id
        if seq == self._number + 1:
            self._number, self._token, self._is_mirrored = seq, token, False
        elif not self._follows(seq, token):
            return False
        book = self.books.get(token) or self.token(token)
        if type(message) is OrderAddedMessage:
            added = message.data
            queue = book.queues[added.side * PRICES + added.price]
            size = int(added.size)
            queue.size += size
            queue.num_orders += 1
            queue.orders[added.order_id] = size
        elif type(message) is OrderRemovedMessage:
            removed = message.data
            queue = book.queues[removed.side * PRICES + removed.price]
            queue.size -= int(removed.size)
            queue.num_orders -= 1
            queue.orders.pop(removed.order_id, None)
        elif type(message) is BookTradeMessage:
            trade = message.data
            queue = book.queues[(1 - trade.incoming_side) * PRICES + trade.price]
            _reduce(queue, trade.resting_order_id, int(trade.size))
        elif type(message) is OrderReducedMessage:
            reduced = message.data
            queue = book.queues[reduced.side * PRICES + reduced.price]
            _reduce(queue, reduced.order_id, int(reduced.reduced_by))
        else:
            raise TypeError(f"message must be about a book; got {type(message).__name__}")
        if queue.size < 0 or queue.num_orders < 0:
            raise BookMismatchError(
                f"event {seq} of market {self.market_id} removes more of token {token} than the "
                "local book has"
            )
        return True

    def check(self, heartbeat: Heartbeat) -> None:
        """Compare the number and the checksums of a heartbeat.

        Raises:
            BookGapError: events before it are missing.
            BookMismatchError: a checksum differs.
        """
        self._apply_held()
        seq = heartbeat.seq
        if seq is not None and seq != self._number:
            if self.only_token is None or self._number == _NONE or seq < self._number:
                raise self._gap(seq)
            self._number = seq
        for each in heartbeat.checksums or ():
            self.token(each.token_id).check(each.checksum, self._number)
        self._complete, self._knows_tokens = self._number, True

    def _follows(self, seq: int, token: str) -> bool:
        """Return whether an event that is not the next one is new.

        Raises:
            BookGapError: it is, but messages before it are missing.
        """
        if self._held and next(iter(self._held.values())).seq == seq - 1:
            self._apply_held()
        elif self._number == _NONE:
            raise self._gap(seq)
        elif seq <= self._number:
            return seq == self._number and self._is_other_half(token)
        elif self.only_token is None:
            raise self._gap(seq)
        self._number, self._token, self._is_mirrored = seq, token, False
        return True

    def _is_other_half(self, token: str) -> bool:
        """Return whether a message of the last event is new: the change of the other token."""
        if self._number in (self._snapshot, self._complete) or self._is_mirrored:
            return False
        self._is_mirrored = token != self._token
        return self._is_mirrored

    def _gap(self, seq: int) -> BookGapError:
        return BookGapError(
            f"market {self.market_id}: event {seq} was received after event {self.seq}"
        )

    def _on_snapshot(self, message: Orderbook) -> bool:
        """Replace a book; a snapshot of another number waits for those of all known tokens.

        Returns:
            False if it is older than the books.
        """
        token, seq = message.token_id, message.seq
        if seq < self._number:
            return False
        if seq == self._number:
            self._replace(message)
            return True
        if any(each.seq != seq for each in self._held.values()):
            self._held.clear()
        self._held[token] = message
        if not self._knows_tokens or self._with_snapshot <= self._held.keys():
            self._apply_held()
        return True

    def _apply_held(self) -> None:
        """Replace the books by the snapshots that wait."""
        held = list(self._held.values())
        self._held.clear()
        for each in held:
            self._number = self._snapshot = each.seq
            self._replace(each)
        if held and self._knows_tokens:
            self._complete = self._number

    def _replace(self, message: Orderbook) -> None:
        self.token(message.token_id).replace(message)
        self._with_snapshot.add(message.token_id)


def token_name(token_id: str | int) -> str:
    """Return a token id as text.

    Raises:
        InvalidCallError: it is not an id.
    """
    name = str(token_id)
    is_outcome = name.upper() in ("YES", "NO", "TRUE", "FALSE", "NONE")
    if is_outcome or not name or name.startswith("-"):
        raise InvalidCallError(
            f"token_id must be a number in decimal digits; got {token_id!r}: those of YES and NO "
            "are in market(market_id) of a client"
        )
    return name


def _reduce(queue: _Queue, order_id: str, size: int) -> None:
    """Subtract a size from an order."""
    queue.size -= size
    known = queue.orders.get(order_id)
    if known is not None:
        queue.orders[order_id] = known - size
