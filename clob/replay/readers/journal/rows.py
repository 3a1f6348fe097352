"""Converts events of a matcher to events of books, with each fill after its command.

An incoming order becomes one command, whatever else the matcher did. Orders that left the book
without trading with it (own orders of the maker, expired or no longer funded ones) are cancelled
before it; orders that left because of its trades are cancelled after it. In any book with the same
queues the command then produces the same fills in the same order.
"""

import dataclasses
import math
import struct
from typing import NamedTuple

import numpy as np

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import SelfTrade, TimeInForce
from clob.records import EVENT, LOTS_MAX, SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, plain_name
from clob.replay.io.recording import Records
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers import MS_NS
from clob.status import OrderRecord

INSTRUMENTS_MAX = 2**16
"""Maximum number of books of a stream."""

EVENT_STRUCT = struct.Struct("<qqQQqIiHBBH2x")
"""The layout of an ``EVENT``."""

ROWS = 8_192
"""Approximate number of events per array."""

LIMIT, CANCEL, REDUCE, IOC, REPLACE, SEED, FILL = map(
    int,
    (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE, Kind.SEED, Kind.FILL),
)


class OrderRequest(NamedTuple):
    """The request of an incoming order: 0 buy or 1 sell, the limit price, the size in wei."""

    order_id: str | int
    side: int
    price: int
    size: int
    maker: str
    time_in_force: TimeInForce
    post_only: bool
    self_trade: SelfTrade


@dataclasses.dataclass(slots=True)
class IncomingOrder:
    """An incoming order and its effects so far; sizes in wei."""

    order_id: str | int
    token: tuple[str, str]
    """Its market and token."""
    request: OrderRequest | None = None
    """Its request, if known."""
    before: list[OrderReduced | OrderRemoved] = dataclasses.field(default_factory=list)
    """Orders that left the book without trading with it."""
    after: list[OrderReduced | OrderRemoved] = dataclasses.field(default_factory=list)
    """Orders that left the book after trading with it."""
    fills: list[Trade] = dataclasses.field(default_factory=list)
    traded: set[str | int] = dataclasses.field(default_factory=set)
    """The orders that it traded with."""
    total: int = 0
    """The size traded."""
    added: int = 0
    """The size that rests."""
    replaced: bool = False
    """Whether it rested before and lost its place."""
    met_own: bool = False
    """Whether own orders of its maker were removed."""
    side: int = 0
    price: int = 0
    """The limit price, or the price of the last trade if the limit is unknown."""


class EventRows:
    """Builds the events of books.

    Orders with an integer id from 1 below ``INVENTED_ID`` keep it; all others are numbered from
    ``INVENTED_ID`` on. Makers are numbered from 1 in the order of their first order.

    Args:
        path: the file, for errors.
        numbers: the instrument by market and token; other tokens are skipped.
        lot_wei: the size of one lot, in wei.
    """

    def __init__(self, path: FilePath, numbers: dict[tuple[str, str], int], lot_wei: int) -> None:
        self._name, self._lot_wei = plain_name(path), lot_wei
        self.numbers: dict[tuple[str, str], int] = numbers
        """The instrument by market and token."""
        self._rows: list[bytes] = []
        self._invented = INVENTED_ID
        self._named: dict[str | int, int] = {}
        self._sides: dict[str | int, tuple[int, int]] = {}
        self._owners: dict[str, int] = {}
        self._seq = self._ts_ns = 0

    def __len__(self) -> int:
        return len(self._rows)

    def take(self) -> Records:
        """Return the pending events and start a new array; the caller may modify it."""
        events = np.frombuffer(bytearray(b"".join(self._rows)), EVENT)
        self._rows.clear()
        return events

    # ----- commands ----------------------------------------------------------------------------

    def add_seed(self, now_ms: int, record: OrderRecord) -> None:
        """Add an order that rests at the start.

        Raises:
            ReplayFormatError: the size is not a valid number of lots.
        """
        self._seq, self._ts_ns, order = 0, now_ms * MS_NS, record.order
        number, side = self.numbers[record.market, order.token], int(order.side)
        self._sides[order.id] = (number, side)
        owner = self._owner(order.maker)
        self._write(SEED, number, order.id, side, record.price, record.remaining, owner)

    def add_command(
        self,
        seq: int,
        now_ms: int,
        events: list[Event],
        request: OrderRequest | None = None,
        token: tuple[str, str] = ("", ""),
    ) -> None:
        """Add the events of a command.

        Args:
            seq: the number of the command.
            now_ms: its time, Unix milliseconds.
            events: its events, in order.
            request: the request of its incoming order, if there is one and it is known.
            token: market and token of that order.

        Raises:
            ReplayFormatError: a size is not a valid number of lots.
        """
        self._seq, self._ts_ns = seq, now_ms * MS_NS
        incoming = None
        if request:
            incoming = IncomingOrder(
                request.order_id, token, request, side=request.side, price=request.price
            )
        for event in events:
            incoming = self._add_event(event, incoming)
        if incoming:
            self._write_incoming(incoming)

    def _add_event(self, event: Event, incoming: IncomingOrder | None) -> IncomingOrder | None:
        """Process one event; return the incoming order after it."""
        if isinstance(event, Trade):
            return self._trade(event, incoming)
        order_id, token = event.order_id, (event.market, event.token)
        if isinstance(event, OrderAdded):
            incoming = self._current(incoming, order_id, token)
            incoming.side, incoming.price = int(event.side), event.price
            incoming.added = event.remaining
            self._write_incoming(incoming)
            return None
        reason = event.reason if isinstance(event, OrderRemoved) else None
        if reason is RemovalReason.FILLED:
            return incoming
        if reason is RemovalReason.REPLACED:
            incoming = self._current(incoming, order_id, token)
            incoming.replaced = True
            return incoming
        if incoming is None or incoming.order_id == order_id:
            # An order amended in place does not become an incoming order, despite its request.
            for earlier in incoming.before if incoming else ():
                self._write_leave(earlier)
            self._write_leave(event)
            return None
        incoming.met_own |= reason in (RemovalReason.SELF_TRADE, None)
        (incoming.after if order_id in incoming.traded else incoming.before).append(event)
        return incoming

    def _current(
        self, incoming: IncomingOrder | None, order_id: str | int, token: tuple[str, str]
    ) -> IncomingOrder:
        """Return the incoming order with an id; finish another one first."""
        if incoming is None or incoming.order_id != order_id:
            if incoming:
                self._write_incoming(incoming)
            incoming = IncomingOrder(order_id, token)
        return incoming

    def _trade(self, trade: Trade, incoming: IncomingOrder | None) -> IncomingOrder:
        token = (trade.market, trade.token)
        incoming = self._current(incoming, trade.incoming_order_id, token)
        incoming.fills.append(trade)
        incoming.traded.add(trade.resting_order_id)
        incoming.total += trade.size
        incoming.side = int(trade.incoming_side)
        if incoming.request is None:
            incoming.price = trade.price
        return incoming

    def _write_leave(self, event: OrderReduced | OrderRemoved) -> None:
        order_id = event.order_id
        if order_id not in self._sides:
            return
        number, side = self._sides[order_id]
        if isinstance(event, OrderReduced):
            self._write(REDUCE, number, order_id, side, 0, event.remaining)
            return
        self._write(CANCEL, number, order_id, side, 0, 0)
        self._forget(order_id)

    def _write_incoming(self, incoming: IncomingOrder) -> None:
        """Write an incoming order with all of its effects."""
        for event in incoming.before:
            self._write_leave(event)
        number = self.numbers.get(incoming.token)
        if number is not None:
            self._command(incoming, number)
            for trade in incoming.fills:
                self._fill(trade, number, 1 - incoming.side)
            if incoming.added:
                self._sides[incoming.order_id] = (number, incoming.side)
            else:
                self._forget(incoming.order_id)
        for event in incoming.after:
            self._write_leave(event)

    def _command(self, incoming: IncomingOrder, number: int) -> None:
        """Write an incoming order as one command."""
        request, size = incoming.request, incoming.total + incoming.added
        owner = self._owner(request.maker) if request else 0
        flags = int(request.self_trade) << SELF_TRADE_SHIFT if request else 0
        kind = LIMIT if incoming.added else IOC
        filled = request is not None and incoming.total == request.size
        if incoming.replaced:
            kind = REPLACE
            if not incoming.added and not filled:
                self._write(CANCEL, number, incoming.order_id, incoming.side, 0, 0)
                kind = IOC
        elif request is not None and request.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
            if not incoming.met_own:
                size = request.size
            if request.time_in_force is TimeInForce.FOK and not incoming.met_own:
                flags |= Flag.FOK
        elif filled:
            kind = LIMIT
        if request is not None and request.post_only and kind in (LIMIT, REPLACE):
            flags |= Flag.POST_ONLY
        if size:
            price = incoming.price
            self._write(kind, number, incoming.order_id, incoming.side, price, size, owner, flags)

    def _fill(self, trade: Trade, number: int, side: int) -> None:
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
        """Write an event; ``size`` is in wei."""
        lots, rest = divmod(size, self._lot_wei)
        if rest or lots > LOTS_MAX:
            raise ReplayFormatError(
                f"{self._name}: order {order_id}: size must be 0 to {LOTS_MAX} lots of "
                f"{self._lot_wei} wei; got {size} wei"
            )
        ts_ns, event_id = self._ts_ns, self._id(order_id)
        row = (ts_ns, ts_ns, self._seq, event_id, lots, owner, price, number, kind, side, flags)
        self._rows.append(EVENT_STRUCT.pack(*row))

    def _id(self, order_id: str | int) -> int:
        if isinstance(order_id, int) and 0 < order_id < INVENTED_ID:
            return order_id
        number = self._named.get(order_id)
        if number is None:
            number = self._named[order_id] = self._invented
            self._invented += 1
        return number

    def _forget(self, order_id: str | int) -> None:
        """Drop an order that has left the book, so that memory does not grow with the log."""
        self._sides.pop(order_id, None)
        self._named.pop(order_id, None)

    def _owner(self, maker: str) -> int:
        """Return the number of a maker, 0 for an empty name."""
        return self._owners.setdefault(maker, len(self._owners) + 1) if maker else 0


class CommonLot:
    """The largest lot that divides every size."""

    def __init__(self) -> None:
        self.lot_wei: int = 0
        """The largest lot so far, in wei; 0 before the first size."""

    def add_events(self, events: list[Event]) -> None:
        """Add the sizes of events."""
        for event in events:
            self.add(event.size if isinstance(event, Trade) else event.remaining)

    def add(self, size: int) -> None:
        """Add a size in wei."""
        if size != self.lot_wei:
            self.lot_wei = math.gcd(self.lot_wei, size)
