"""Writes what came of the commands of a matcher as events of books, fills behind their command.

An order that came in becomes one command, whatever the matcher did besides. What left the book on
the way (the own orders of its maker, expired ones, those no longer covered) is taken out in front
of it, since it took no part; what left because of its trades, behind it. The fills of that command
are then those of the matcher, in their sequence, in any book with the same queues.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import SelfTrade, TimeInForce
from clob.records import EVENT, LOTS_MAX, SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.recording import Records
from clob.replay.io.streams import INVENTED_ID
from clob.replay.modes.rows import ONE_EVENT
from clob.status import OrderRecord
from clob.units import PRICE_MAX, PRICE_MIN

GRID = (PRICE_MIN, PRICE_MAX)
"""The lowest and the highest price of a market."""

OUTCOMES = ("YES", "NO")

INSTRUMENTS_MAX = 2**16
"""How many books a stream can have."""

ROWS = 8_192
"""How many events are put together into an array, about."""

NS_PER_MS = 1_000_000

LIMIT, CANCEL, REDUCE, IOC, REPLACE, SEED, FILL = map(
    int,
    (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE, Kind.SEED, Kind.FILL),
)


class OrderRequest(NamedTuple):
    """What an order that comes in asks for."""

    order_id: str | int
    """The order, as its maker named it."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """Its limit, in ticks."""
    size: int
    """Its size, in wei."""
    maker: str
    """Who owns it."""
    time_in_force: TimeInForce
    """What becomes of the part that does not trade at once."""
    post_only: bool
    """Whether it is refused if it would trade at once."""
    self_trade: SelfTrade
    """What happens where it meets its maker's own orders."""


class SizeError(ValueError):
    """A size cannot be told in lots."""


@dataclasses.dataclass(slots=True)
class Coming:
    """An order that comes in, and what has come of it so far."""

    order_id: str | int
    """The order."""
    token: tuple[str, str]
    """The market and the token that it trades."""
    asked: OrderRequest | None = None
    """What it asks for, where that is known."""
    before: list[OrderReduced | OrderRemoved] = dataclasses.field(default_factory=list)
    """What left the book without a part in it."""
    after: list[OrderReduced | OrderRemoved] = dataclasses.field(default_factory=list)
    """What left the book after trading with it."""
    fills: list[Trade] = dataclasses.field(default_factory=list)
    """Its trades."""
    traded: set[str | int] = dataclasses.field(default_factory=set)
    """With which orders."""
    total: int = 0
    """How much it traded, in wei."""
    added: int = 0
    """How much of it rests, in wei."""
    replaced: bool = False
    """Whether it rested already, and gave up its place."""
    met_own: bool = False
    """Whether it met orders of its own maker that had to make way."""
    side: int = 0
    """0 buys, 1 sells."""
    price: int = 0
    """Its limit; where that is not known the last price it paid."""


class EventRows:
    """The events of books, as they are told.

    Orders named by an integer from 1 below ``INVENTED_ID`` keep it, all others get numbers from
    ``INVENTED_ID`` on. Makers are numbered from 1 in the sequence of their first order.

    Args:
        numbers: the instrument of each market and token; what is not in it is left out.
        lot_wei: what a size of 1 stands for, in wei.
    """

    def __init__(self, numbers: dict[tuple[str, str], int], lot_wei: int) -> None:
        self.numbers: dict[tuple[str, str], int] = numbers
        """The instrument of each market and token."""
        self._lot_wei = lot_wei
        self._rows: list[bytes] = []
        self._invented = INVENTED_ID
        self._named: dict[str | int, int] = {}
        self._sides: dict[str | int, tuple[int, int]] = {}
        self._owners: dict[str, int] = {}
        self._seq = self._ts_ns = 0

    def __len__(self) -> int:
        """Count the events that wait to be taken."""
        return len(self._rows)

    def take(self) -> Records:
        """Give the events told since the last time; the array is the caller's."""
        events = np.frombuffer(bytearray(b"".join(self._rows)), EVENT)
        self._rows.clear()
        return events

    # ----- what happened -----------------------------------------------------------------------

    def seed(self, now_ms: int, record: OrderRecord) -> None:
        """Tell of an order that rested beforehand.

        Args:
            now_ms: the time to give it, Unix milliseconds.
            record: the order.

        Raises:
            SizeError: the size is no multiple of the lot, or too large.
        """
        self._seq, self._ts_ns, order = 0, now_ms * NS_PER_MS, record.order
        number = self.numbers[record.market, order.token]
        self._sides[order.id] = (number, int(order.side))
        owner = self._owner(order.maker)
        self._write(SEED, number, order.id, int(order.side), record.price, record.remaining, owner)

    def happened(
        self,
        seq: int,
        now_ms: int,
        events: list[Event],
        asked: OrderRequest | None = None,
        token: tuple[str, str] = ("", ""),
    ) -> None:
        """Tell what came of a command.

        Args:
            seq: the number of the command.
            now_ms: its time, Unix milliseconds.
            events: its events, in their sequence.
            asked: what the order asks for that it brought in, if it did and that is known.
            token: the market and the token of that.

        Raises:
            SizeError: a size is no multiple of the lot, or too large.
        """
        self._seq, self._ts_ns = seq, now_ms * NS_PER_MS
        coming = None
        if asked:
            coming = Coming(asked.order_id, token, asked, side=asked.side, price=asked.price)
        for event in events:
            coming = self._one(event, coming)
        if coming:
            self._close(coming)

    def _one(self, event: Event, coming: Coming | None) -> Coming | None:
        """Tell of one event; give the order that is coming in after it."""
        if isinstance(event, Trade):
            return self._trade(event, coming)
        order_id, token = event.order_id, (event.market, event.token)
        if isinstance(event, OrderAdded):
            coming = self._follow(coming, order_id, token)
            coming.side, coming.price, coming.added = int(event.side), event.price, event.remaining
            self._close(coming)
            return None
        reason = event.reason if isinstance(event, OrderRemoved) else None
        if reason is RemovalReason.FILLED:
            return coming
        if reason is RemovalReason.REPLACED:
            coming = self._follow(coming, order_id, token)
            coming.replaced = True
            return coming
        if coming is None or coming.order_id == order_id:
            # An order that is changed where it stands does not come in, though it was asked for.
            for earlier in coming.before if coming else ():
                self._leave(earlier)
            self._leave(event)
            return None
        coming.met_own |= reason in (RemovalReason.SELF_TRADE, None)
        (coming.after if order_id in coming.traded else coming.before).append(event)
        return coming

    def _follow(self, coming: Coming | None, order_id: str | int, token: tuple[str, str]) -> Coming:
        """Stay with the order that is coming in, or go on to the next."""
        if coming is None or coming.order_id != order_id:
            if coming:
                self._close(coming)
            coming = Coming(order_id, token)
        return coming

    def _trade(self, trade: Trade, coming: Coming | None) -> Coming:
        """Tell of a trade."""
        token = (trade.market, trade.token)
        coming = self._follow(coming, trade.incoming_order_id, token)
        coming.fills.append(trade)
        coming.traded.add(trade.resting_order_id)
        coming.total += trade.size
        coming.side = int(trade.incoming_side)
        if coming.asked is None:
            coming.price = trade.price
        return coming

    def _leave(self, event: OrderReduced | OrderRemoved) -> None:
        """Tell that an order left the book, or became smaller."""
        order_id = event.order_id
        if order_id not in self._sides:
            return
        number, side = self._sides[order_id]
        if isinstance(event, OrderReduced):
            self._write(REDUCE, number, order_id, side, 0, event.remaining)
            return
        self._write(CANCEL, number, order_id, side, 0, 0)
        self._forget(order_id)

    def _close(self, coming: Coming) -> None:
        """Tell of an order that came in, with all that came of it."""
        for event in coming.before:
            self._leave(event)
        number = self.numbers.get(coming.token)
        if number is not None:
            self._command(coming, number)
            for trade in coming.fills:
                self._fill(trade, number, 1 - coming.side)
            if coming.added:
                self._sides[coming.order_id] = (number, coming.side)
            else:
                self._forget(coming.order_id)
        for event in coming.after:
            self._leave(event)

    def _command(self, coming: Coming, number: int) -> None:
        """Tell as one command what an order did that came in."""
        asked, size = coming.asked, coming.total + coming.added
        owner = self._owner(asked.maker) if asked else 0
        flags = int(asked.self_trade) << SELF_TRADE_SHIFT if asked else 0
        kind = LIMIT if coming.added else IOC
        whole = asked is not None and coming.total == asked.size
        if coming.replaced:
            kind = REPLACE
            if not coming.added and not whole:
                self._write(CANCEL, number, coming.order_id, coming.side, 0, 0)
                kind = IOC
        elif asked is not None and asked.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
            if not coming.met_own:
                size = asked.size
            if asked.time_in_force is TimeInForce.FOK and not coming.met_own:
                flags |= Flag.FOK
        elif whole:
            kind = LIMIT
        if asked is not None and asked.post_only and kind in (LIMIT, REPLACE):
            flags |= Flag.POST_ONLY
        if size:
            price = coming.price
            self._write(kind, number, coming.order_id, coming.side, price, size, owner, flags)

    def _fill(self, trade: Trade, number: int, side: int) -> None:
        """Tell of a fill of a resting order."""
        self._write(FILL, number, trade.resting_order_id, side, trade.price, trade.size)
        if not trade.resting_remaining:
            self._forget(trade.resting_order_id)

    # ----- rows --------------------------------------------------------------------------------

    def _write(
        self,
        kind: int,
        number: int,
        order_id: str | int,
        side: int,
        price: int,
        size: int,
        owner: int = 0,
        flags: int = 0,
    ) -> None:
        """Write an event down; the size is in wei."""
        lots, rest = divmod(size, self._lot_wei)
        if rest or lots > LOTS_MAX:
            raise SizeError(
                f"order {order_id}: {size} wei are not 0 to {LOTS_MAX} lots of {self._lot_wei} wei"
            )
        ts_ns, named = self._ts_ns, self._id(order_id)
        self._rows.append(
            ONE_EVENT.pack(
                ts_ns, ts_ns, self._seq, named, lots, owner, price, number, kind, side, flags
            )
        )

    def _id(self, order_id: str | int) -> int:
        """Give the number of an order."""
        if isinstance(order_id, int) and 0 < order_id < INVENTED_ID:
            return order_id
        number = self._named.get(order_id)
        if number is None:
            number = self._named[order_id] = self._invented
            self._invented += 1
        return number

    def _forget(self, order_id: str | int) -> None:
        """Forget an order that has left the book, so that memory does not grow with the log."""
        self._sides.pop(order_id, None)
        self._named.pop(order_id, None)

    def _owner(self, maker: str) -> int:
        """Give the number of a maker, 0 for nobody."""
        return self._owners.setdefault(maker, len(self._owners) + 1) if maker else 0


class CommonLot:
    """The largest lot that divides every size, found by going through all of them."""

    def __init__(self) -> None:
        self.lot_wei: int = 0
        """The largest lot so far, in wei; 0 where there was no size."""

    def take(self, events: list[Event]) -> None:
        """Hear of the events of a command.

        Args:
            events: the events.
        """
        for event in events:
            self.size(event.size if isinstance(event, Trade) else event.remaining)

    def size(self, size: int) -> None:
        """Hear of a size.

        Args:
            size: in wei.
        """
        if size != self.lot_wei:
            self.lot_wei = math.gcd(self.lot_wei, size)
