"""Converts market-by-order records to events, with a book of the orders that rest."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from clob.records import EVENT, Flag, Kind
from clob.replay.io.files import FilePath
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import INVENTED_ID
from clob.replay.io.text import TIME_NS_MAX

LAST, SNAPSHOT = 128, 32
"""Flags: the last record of an exchange event, and a record of a snapshot."""

BUYS, SELLS, NOBODY = b"B", b"A", b"N"
"""The sides; an auction trade has no side."""

BLOCK_ROWS = 1 << 14
"""Approximate number of records processed per block."""


class MboRow(NamedTuple):
    """One record: the price in ticks, the size in lots."""

    recv_ns: int
    ts_ns: int
    action: bytes
    """One letter."""
    side: bytes
    price: int
    size: int
    order_id: int
    flags: int
    """``LAST``, ``SNAPSHOT`` and others."""
    number: int
    """Position in the file, from 1."""


class MboOrder(NamedTuple):
    """An order in the book: 0 buy or 1 sell, the price in ticks, the remaining size in lots."""

    side: int
    price: int
    size: int


def _groups(rows: Iterable[MboRow]) -> Iterator[list[MboRow]]:
    """Group the records of one exchange event."""
    group: list[MboRow] = []
    for row in rows:
        if group and row.ts_ns != group[-1].ts_ns:
            yield group
            group = []
        group.append(row)
        if row.flags & LAST:
            yield group
            group = []
    if group:
        yield group


class MboReader:
    """Converts records with prices from ``lo`` to ``hi`` (ticks) and keeps the resting orders."""

    def __init__(self, lo: int, hi: int, path: FilePath, problems: Problems) -> None:
        self.lo: int = lo
        self.hi: int = hi
        self.resting: dict[int, MboOrder] = {}
        """The resting orders by id, in queue order."""
        self._file, self._problems = path, problems
        self._out: list[tuple[int, ...]] = []
        # The first record of the current group; its time and number are those of the events.
        self._at: MboRow

    def events(self, rows: Iterator[MboRow], opening: int) -> Iterator[Records]:
        """Convert all records; ``opening`` of them precede continuous trading."""
        opened = False
        latest = latest_recv = 0
        for group in _groups(rows):
            self._at = group[0]
            if self._at.ts_ns > TIME_NS_MAX:
                text = f"time must be at most {TIME_NS_MAX} ns, got {self._at.ts_ns}"
                self._report("time out of range", text, self._at)
                continue
            if group[-1].number <= opening:
                self._apply_before_open(group)
                continue
            if not opened:
                opened = True
                self._seed()
            if self._at.ts_ns < latest and self._at.recv_ns >= latest_recv > 0:
                # Some venues state when an order was entered, not when it reached the feed.
                self._problems.remark("event time before that of the record ahead")
                self._at = self._at._replace(ts_ns=latest)
            if self._at.ts_ns < latest:
                text = f"time must not be before {latest} ns, got {self._at.ts_ns}"
                self._report("clock backwards", text, self._at)
                continue
            latest, latest_recv = self._at.ts_ns, self._at.recv_ns
            self._convert(group)
            if len(self._out) >= BLOCK_ROWS:
                yield self._flush()
        if not opened and self.resting:
            self._seed()
        yield self._flush()

    def _flush(self) -> Records:
        events = np.array(self._out, EVENT)
        self._out = []
        return events

    def _report(self, kind: str, text: str, row: MboRow) -> None:
        self._problems.report(kind, text, self._file, row.number)

    def _emit(
        self, kind: Kind, order_id: int, order: MboOrder, *, size: int | None = None, flags: int = 0
    ) -> None:
        """Append an event of an order, unless its price is off the grid."""
        side, price, lots = order
        if self.lo <= price <= self.hi:
            at, lots = self._at, lots if size is None else size
            row = (at.ts_ns, at.recv_ns, at.number, order_id, lots, 0, price, 0, kind, side, flags)
            self._out.append(row)

    # ----- before continuous trading -----------------------------------------------------------

    def _apply_before_open(self, group: list[MboRow]) -> None:
        """Update the book without matching, since orders may cross before the opening."""
        for row in group:
            if row.action == b"R":
                self.resting.clear()
            elif row.action == b"A":
                self._rest(row.order_id, _order(row))
            elif row.action == b"C":
                self.resting.pop(row.order_id, None)
            elif row.action == b"M":
                self._change(row.order_id, _order(row))
            elif row.action == b"T":
                self._problems.remark("trade before continuous trading")

    def _rest(self, order_id: int, order: MboOrder) -> None:
        self.resting.pop(order_id, None)
        self.resting[order_id] = order

    def _change(self, order_id: int, order: MboOrder) -> None:
        """Replace an order; a lower size at the same price keeps the place in the queue."""
        before = self.resting.get(order_id)
        if before is not None and _keeps(before, order):
            self.resting[order_id] = order
        else:
            self._rest(order_id, order)

    def _seed(self) -> None:
        for order_id, order in self.resting.items():
            self._emit(Kind.SEED, order_id, order, flags=Flag.SNAPSHOT)

    # ----- continuous trading ------------------------------------------------------------------

    def _convert(self, group: list[MboRow]) -> None:
        start = 0
        while start < len(group):
            end = start
            while end < len(group) and group[end].action in (b"T", b"F"):
                end += 1
            trades = group[start:end]
            start = end
            while end < len(group) and group[end].action not in (b"T", b"F"):
                end += 1
            effects = self._cancel_prevented(trades, group[start:end])
            start = end
            if trades:
                self._apply_effects(effects, self._convert_trades(trades))
            else:
                for row in effects:
                    self._convert_order(row)

    def _convert_order(self, row: MboRow) -> None:
        """Convert a record that does not follow a trade."""
        order_id, order = row.order_id, _order(row)
        before = self.resting.get(order_id)
        if row.action == b"R":
            self.resting.clear()
            self._emit(Kind.CLEAR, 0, MboOrder(0, self.lo, 0))
        elif row.action == b"A":
            if before is not None:
                self._report("order twice", f"order {order_id} is already in the book", row)
                return
            self._rest(order_id, order)
            self._emit(Kind.LIMIT, order_id, order)
        elif before is None:
            self._report("order unknown", f"order {order_id} is not in the book", row)
        elif row.action == b"C":
            del self.resting[order_id]
            self._emit(Kind.CANCEL, order_id, before, size=0)
        elif row.action == b"M":
            self._convert_change(order_id, before, order)
        else:
            self._report("action unknown", f"expected A, C, M, R, T or F, got {row.action!r}", row)

    def _convert_change(self, order_id: int, before: MboOrder, order: MboOrder) -> None:
        """Convert a modification; one across the edge of the grid is a new order or a cancel."""
        self._change(order_id, order)
        was, now = (self.lo <= each.price <= self.hi for each in (before, order))
        if _keeps(before, order):
            self._emit(Kind.REDUCE, order_id, order)
        elif was and now and before.side == order.side:
            self._emit(Kind.REPLACE, order_id, order)
        else:
            self._emit(Kind.CANCEL, order_id, before, size=0)
            self._emit(Kind.LIMIT, order_id, order)

    def _cancel_prevented(self, trades: list[MboRow], effects: list[MboRow]) -> list[MboRow]:
        """Cancel orders deleted by self-trade prevention; return the other records."""
        if len(effects) < 2 and not trades:
            return effects
        filled = {row.order_id for row in trades}
        takers = [row for row in trades if row.action == b"T"]
        takers += [row for row in effects if row.action in (b"A", b"M")]
        reach = (
            min((row.price for row in takers if row.side == SELLS), default=None),
            max((row.price for row in takers if row.side == BUYS), default=None),
        )
        rest = []
        for row in effects:
            order = self.resting.get(row.order_id)
            if row.action != b"C" or order is None or row.order_id in filled:
                rest.append(row)
                continue
            limit = reach[order.side]
            if limit is None or (order.price < limit if order.side == 0 else order.price > limit):
                rest.append(row)
                continue
            del self.resting[row.order_id]
            self._problems.remark("order cancelled by self-trade prevention")
            self._emit(Kind.CANCEL, row.order_id, order, size=0)
        return rest

    def _convert_trades(self, trades: list[MboRow]) -> dict[int, int]:
        """Convert trades and fills; return the remaining size of each filled order."""
        left: dict[int, int] = {}
        incoming: MboRow | None = None
        for row, following in zip(trades, [*trades[1:], None], strict=True):
            if row.action == b"T":
                incoming = _with_side(row, following)
                if incoming is None:
                    self._problems.remark("trade without a side")
                    self._emit(Kind.TRADE, 0, _order(row))
                    continue
                self._add_incoming(incoming, left)
            elif incoming is None:
                text = f"a fill must follow its trade, got order {row.order_id}"
                self._report("fill without a trade", text, row)
            elif row.order_id != incoming.order_id and row.side != incoming.side:
                self._add_fill(row, left)
        return left

    def _add_incoming(self, row: MboRow, left: dict[int, int]) -> None:
        order_id = row.order_id or INVENTED_ID + row.number
        order = _order(row)
        resting = self.resting.get(order_id)
        if resting is not None and order_id not in left:
            left[order_id] = 0
            self._emit(Kind.CANCEL, order_id, resting, size=0)
        self._emit(Kind.IOC, order_id, order)

    def _add_fill(self, row: MboRow, left: dict[int, int]) -> None:
        order = self.resting.get(row.order_id)
        if order is None:
            self._report("order unknown", f"order {row.order_id} is not in the book", row)
            return
        before = left.get(row.order_id, order.size)
        if row.size > before:
            self._problems.remark("fill larger than the displayed size")
        left[row.order_id] = max(before - row.size, 0)
        self._emit(Kind.FILL, row.order_id, order._replace(price=row.price), size=row.size)

    def _apply_effects(self, effects: list[MboRow], left: dict[int, int]) -> None:
        """Apply the fills to the book, then the records that follow them."""
        for order_id, size in left.items():
            order = self.resting[order_id]
            if size:
                self.resting[order_id] = order._replace(size=size)
            else:
                del self.resting[order_id]
        for row in effects:
            if row.order_id in left and row.action in (b"C", b"M"):
                self._convert_after_fill(row)
            else:
                self._convert_order(row)

    def _convert_after_fill(self, row: MboRow) -> None:
        order_id, order = row.order_id, _order(row)
        before = self.resting.get(order_id)
        if row.action == b"C":
            if before is not None:
                del self.resting[order_id]
                self._emit(Kind.CANCEL, order_id, before, size=0, flags=Flag.SYNTHETIC)
        elif before is None:
            self._rest(order_id, order)
            self._emit(Kind.LIMIT, order_id, order, flags=Flag.SYNTHETIC)
        elif before != order:
            self._convert_change(order_id, before, order)


def _with_side(row: MboRow, following: MboRow | None) -> MboRow | None:
    """Return a trade with the side of its incoming order; None if neither it nor a fill has one.

    The trades of hidden orders and of auctions have no side.
    """
    if row.side in (BUYS, SELLS):
        return row
    if following is None or following.action != b"F" or following.side not in (BUYS, SELLS):
        return None
    return row._replace(side=SELLS if following.side == BUYS else BUYS)


def _order(row: MboRow) -> MboOrder:
    return MboOrder(int(row.side != BUYS), row.price, row.size)


def _keeps(before: MboOrder, after: MboOrder) -> bool:
    """Return whether a modified order keeps its place in the queue."""
    return before[:2] == after[:2] and after.size <= before.size
