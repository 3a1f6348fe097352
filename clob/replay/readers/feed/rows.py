"""Converts the messages of a feed to events of books, one message at a time.

The rows depend on the order of the lines alone, so a run over a live feed and a replay of its
recording have the same events. A snapshot has levels and no orders: those of a level are one order,
first in its queue, until later messages have reduced it to nothing.
"""

from typing import Final, NamedTuple, TypeAlias

from msgspec import structs

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import Side
from clob.records import Flag, Kind
from clob.replay.io.files import FilePath
from clob.replay.io.problems import Problems
from clob.replay.readers import MS_NS, OUTCOMES
from clob.replay.readers.feed.lines import BookEvent, ClockMark, RecordingHeader
from clob.replay.readers.journal.rows import EVENT_STRUCT, SEED, EventRows, IncomingOrder
from clob.units import PRICE_MAX, PRICE_MIN
from clob.wire.messages import (
    BookTradeMessage,
    OrderAddedMessage,
    Orderbook,
    OrderReducedMessage,
    OrderRemovedMessage,
)

OrderMessage: TypeAlias = OrderAddedMessage | OrderRemovedMessage | OrderReducedMessage
"""A message about an order without a trade."""

BBO, CLEAR, TRADE = int(Kind.BBO), int(Kind.CLEAR), int(Kind.TRADE)

GAP: Final = "gap, after which a snapshot replaced the book"
"""Remark about messages that are missing."""

PRICES: Final = PRICE_MIN + PRICE_MAX
"""Sum of the prices of both tokens in a complementary market, in cents."""


class MarketSequence:
    """The last number of a market, to find messages that are old and snapshots after a gap."""

    def __init__(self) -> None:
        self.num_gaps: int = 0
        """Times that messages were missing before a snapshot."""
        self._last: int | None = None
        self._snapshots: set[str] = set()

    def is_new(self, message: BookEvent) -> bool:
        """Note an event; return whether it is new: a complementary market sends each one twice."""
        if self._last is not None and message.seq <= self._last:
            return False
        self._last = message.seq
        self._snapshots.clear()
        return True

    def is_replaced(self, message: Orderbook) -> bool:
        """Note a snapshot; return whether it replaces the book of its token."""
        last, tokens = self._last, self._snapshots
        if last is not None and message.seq <= last:
            if message.seq < last or not tokens or message.token_id in tokens:
                return False
        else:
            tokens.clear()
            is_empty = not (message.data.bids or message.data.asks)
            is_opening = is_empty and last is not None and message.seq == last + 1
            self.num_gaps += last is not None and not is_opening
        self._last = message.seq
        tokens.add(message.token_id)
        return True


class LevelOrder(NamedTuple):
    """The orders of a level of a snapshot, as one order."""

    order_id: str
    left: int
    """Its size in wei."""


class FeedRows(EventRows):
    """Builds the events of books from the lines of a recording.

    Args:
        path: the file, for errors.
        header: its first line.
        lot_wei: the size of one lot, in wei.
        problems: receives remarks.
    """

    def __init__(
        self, path: FilePath, header: RecordingHeader, lot_wei: int, problems: Problems
    ) -> None:
        super().__init__(path, {}, lot_wei)
        self._problems = problems
        self._markets = {each.market_id: each for each in header.markets}
        self._places = {each.market_id: 2 * place for place, each in enumerate(header.markets)}
        self._sequences = {each.market_id: MarketSequence() for each in header.markets}
        self._incoming: IncomingOrder | None = None
        self._unchecked: set[int] = set()
        self._levels: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
        self._bests: dict[tuple[int, int], tuple[int, int]] = {}
        self._level_orders: dict[tuple[int, int, int], LevelOrder] = {}
        self._num_snapshots = 0
        self._ts_ns = header.timestamp * MS_NS

    @property
    def is_pending(self) -> bool:
        """Whether an order that traded may still trade further, so that it was not written."""
        return self._incoming is not None

    @property
    def last_ns(self) -> int:
        """Time of the last event."""
        return self._ts_ns

    def add(self, line: Orderbook | BookEvent | ClockMark) -> None:
        """Add the events of a line.

        Raises:
            ReplayFormatError: a size is not a valid number of lots.
        """
        if type(line) is ClockMark:
            self._add_clock(line)
        elif line.market_id not in self._markets:  # type: ignore[union-attr]
            self._problems.remark("message about another market")
        elif type(line) is Orderbook:
            sequence = self._sequences[line.market_id]
            num_gaps = sequence.num_gaps
            if sequence.is_replaced(line):
                self._problems.remark(GAP, sequence.num_gaps - num_gaps)
                self._add_snapshot(line)
        elif self._sequences[line.market_id].is_new(line):  # type: ignore[union-attr,arg-type]
            self._add_message(line)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Write the order that may still trade, after the last line."""
        self._flush()
        self._check_bests()

    # ----- time and snapshots ------------------------------------------------------------------

    def _add_clock(self, mark: ClockMark) -> None:
        """Write a trade of no size, which changes nothing, at the time of the mark."""
        self.finish()
        self._ts_ns = max(self._ts_ns, mark.timestamp_ns)
        self._problems.remark("mark of the clock")
        self._write_row(TRADE, 0, flags=int(Flag.SYNTHETIC))

    def _add_snapshot(self, message: Orderbook) -> None:
        """Replace a book by the levels of a snapshot."""
        market = self._markets[message.market_id]
        number = self._number(message.market_id, message.token_id)
        if market.complementary and number % 2:
            return  # the mirror image of the YES book
        self._flush()
        self._begin(message.seq, message.timestamp)
        if number in self._levels:
            if not any(self._levels[number]) and not (message.data.bids or message.data.asks):
                return
            self._clear(number)
        levels: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._levels[number] = levels
        self._num_snapshots += 1
        for side, stated in enumerate((message.data.bids, message.data.asks)):
            for level in stated:
                order_id = f"level {self._num_snapshots} {number} {side} {level.price}"
                size = levels[side][level.price] = int(level.size)
                self._level_orders[number, side, level.price] = LevelOrder(order_id, size)
                self._sides[order_id] = (number, side)
                self._write(SEED, number, order_id, side, level.price, size)
        self._unchecked.add(number)

    def _clear(self, number: int) -> None:
        """Remove every order of a book, whose state is unknown after a gap."""
        self._write_row(CLEAR, number)
        for order_id in [one for one, (where, _) in self._sides.items() if where == number]:
            self._forget(order_id)
        for key in [one for one in self._level_orders if one[0] == number]:
            del self._level_orders[key]

    # ----- events ------------------------------------------------------------------------------

    def _add_message(self, message: BookEvent) -> None:
        number, flips = self._target(message)
        if self._ends(message):
            self._flush()
        self._check_bests()
        self._begin(message.seq, message.timestamp)
        if number not in self._levels:  # a book that was opened after the start
            self._levels[number] = ({}, {})
        token = self._key(number, message)
        event: Event | None
        if isinstance(message, BookTradeMessage):
            event = self._trade_event(message, number, token, flips=flips)
        else:
            event = self._order_event(message, number, token, flips=flips)
        if event is None:
            return
        if isinstance(event, Trade) and self._joins_last(event):
            return
        self._unchecked.add(number)
        self._incoming = self._add_event(event, self._incoming)
        if isinstance(event, Trade) and not event.incoming_remaining:
            self._flush()
        self._check_bests()

    def _target(self, message: BookEvent) -> tuple[int, bool]:
        """Return the book of a message, and whether side and price are those of its other token."""
        number = self._number(message.market_id, message.token_id)
        if not self._markets[message.market_id].complementary:
            return number, False
        return number - number % 2, number % 2 == 1

    def _number(self, market_id: str, token_id: str) -> int:
        is_no = token_id != self._markets[market_id].yes_token_id
        return self._places[market_id] + is_no

    def _key(self, number: int, message: BookEvent) -> tuple[str, str]:
        """Return market and outcome of a book, and note its number."""
        key = (message.market_id, OUTCOMES[number % 2])
        self.numbers[key] = number
        return key

    def _begin(self, seq: int, time_ms: int) -> None:
        """Set number and time of the next rows; time does not go back."""
        self._seq, self._ts_ns = seq, max(self._ts_ns, time_ms * MS_NS)

    def _ends(self, message: BookEvent) -> bool:
        """Return whether a message is not about the command of the incoming order."""
        incoming = self._incoming
        if incoming is None:
            return False
        if incoming.token[0] != message.market_id or message.timestamp * MS_NS > self._ts_ns:
            return True
        if type(message) is BookTradeMessage:
            return message.data.incoming_order_id != incoming.order_id
        return type(message) is OrderAddedMessage and message.data.order_id != incoming.order_id

    def _flush(self) -> None:
        """Write the incoming order."""
        if self._incoming is not None:
            self._write_incoming(self._incoming)
            self._incoming = None
            self._check_bests()

    def _order_event(
        self, message: OrderMessage, number: int, token: tuple[str, str], *, flips: bool
    ) -> Event | None:
        """Return the event of an order and update its level; None if it changes nothing."""
        data = message.data
        side, price = (1 - data.side, PRICES - data.price) if flips else (data.side, data.price)
        order_id, size = data.order_id, int(data.size)
        if type(message) is OrderAddedMessage:
            level = self._levels[number][side]
            level[price] = level.get(price, 0) + size
            return OrderAdded(message.seq, *token, order_id, Side(side), price, size)
        left, gone, reason = 0, size, RemovalReason.CANCELLED
        if type(message) is OrderReducedMessage:
            left, gone = size, int(message.data.reduced_by)
        elif type(message) is OrderRemovedMessage:
            reason = RemovalReason(message.data.reason)
        self._reduce_level(number, side, price, gone)
        if order_id not in self._sides and reason is not RemovalReason.FILLED:
            found = self._level_order(number, side, price, gone)
            if found is None:
                return None
            order_id, left, reason = found.order_id, found.left, RemovalReason.CANCELLED
            if self._incoming is not None and order_id in self._incoming.traded:
                self._leave_level(self._incoming, OrderReduced(message.seq, *token, order_id, left))
                return None
        if left:
            return OrderReduced(message.seq, *token, order_id, left)
        return OrderRemoved(message.seq, *token, order_id, reason, 0)

    def _trade_event(
        self, message: BookTradeMessage, number: int, token: tuple[str, str], *, flips: bool
    ) -> Trade | None:
        """Return a trade; None for that of the resting order's token in a mint or merge."""
        data = message.data
        is_buy = data.incoming_side == Side.BUY
        if data.match_type != "direct" and is_buy != (data.match_type == "mint"):
            return None
        side, price = data.incoming_side, data.price
        if flips:
            side, price = 1 - side, PRICES - price
        size, order_id = int(data.size), data.resting_order_id
        left = int(data.resting_remaining)
        self._reduce_level(number, 1 - side, price, size)
        if order_id not in self._sides:
            found = self._level_order(number, 1 - side, price, size)
            if found is not None:
                order_id, left = found.order_id, found.left
        return Trade(
            message.seq,
            *token,
            order_id,
            data.incoming_order_id,
            price,
            size,
            data.buyer,
            data.seller,
            left,
            int(data.incoming_remaining),
            Side(side),
        )

    def _joins_last(self, trade: Trade) -> bool:
        """Add a trade to the one before it if both are with the same orders.

        They are with two orders of a snapshot, which are one order here.
        """
        incoming = self._incoming
        if incoming is None or incoming.order_id != trade.incoming_order_id or not incoming.fills:
            return False
        last = incoming.fills[-1]
        if last.resting_order_id != trade.resting_order_id:
            return False
        incoming.fills[-1] = structs.replace(trade, size=last.size + trade.size)
        incoming.total += trade.size
        if not trade.incoming_remaining:
            self._flush()
        return True

    # ----- levels ------------------------------------------------------------------------------

    def _level_order(self, number: int, side: int, price: int, size: int) -> LevelOrder | None:
        """Reduce the order of a level of a snapshot; return it, or None if there is none."""
        key = (number, side, price)
        order = self._level_orders.pop(key, None)
        if order is None:
            self._problems.remark("order never announced")
            return None
        order = LevelOrder(order.order_id, max(order.left - size, 0))
        if order.left:
            self._level_orders[key] = order
        return order

    def _leave_level(self, incoming: IncomingOrder, event: OrderReduced) -> None:
        """Reduce a level before the command that trades with its other orders.

        An order of the level left without trading with it, so that the command went on.
        """
        fills, order_id = incoming.fills, event.order_id
        traded = [place for place, one in enumerate(fills) if one.resting_order_id == order_id]
        size = sum(fills[place].size for place in traded)
        if not event.remaining:
            fills[traded[-1]] = structs.replace(fills[traded[-1]], resting_remaining=0)
        incoming.before.append(structs.replace(event, remaining=event.remaining + size))
        self._unchecked.add(self.numbers[event.market, event.token])

    def _reduce_level(self, number: int, side: int, price: int, size: int) -> None:
        level = self._levels[number][side]
        left = level.get(price, 0) - size
        if left > 0:
            level[price] = left
        else:
            level.pop(price, None)

    def _best(self, number: int, side: int) -> tuple[int, int]:
        """Return the best price of a side and its size in wei; of an empty side, a size of 0."""
        level = self._levels[number][side] if number in self._levels else {}
        if not level:
            return (PRICE_MAX + 1, 0) if side else (PRICE_MIN - 1, 0)
        price = min(level) if side else max(level)
        return price, level[price]

    def _check_bests(self) -> None:
        """Write the best prices of the changed books where they differ from the last rows."""
        if self._incoming is not None:
            return  # the levels include its trades already
        for number in sorted(self._unchecked):
            for side in (0, 1):
                best = self._best(number, side)
                if self._bests.get((number, side)) != best:
                    self._bests[number, side] = best
                    self._write_best(number, side, *best)
        self._unchecked.clear()

    def _write_best(self, number: int, side: int, price: int, size: int) -> None:
        self._write_row(BBO, number, side, price, size // self._lot_wei)

    def _write_row(
        self, kind: int, number: int, side: int = 0, price: int = 0, lots: int = 0, flags: int = 0
    ) -> None:
        """Write a row that names no order."""
        ts_ns = self._ts_ns
        row = (ts_ns, ts_ns, self._seq, 0, lots, 0, price, number, kind, side, flags)
        self._rows.append(EVENT_STRUCT.pack(*row))
