"""Follows market-by-order records with the orders that rest by them, and turns them into events."""

import os
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
"""The flags of the last record of what happened at once, and of a snapshot."""

BUYS, SELLS, NOBODY = b"B", b"A", b"N"
"""The sides; a trade of nobody's is an auction."""

BLOCK_ROWS = 1 << 14
"""How many records are gone through at a time."""


class MboRow(NamedTuple):
    """One record."""

    recv_ns: int
    """When it was received, in ns."""
    ts_ns: int
    """When it happened, in ns."""
    action: bytes
    """What happened."""
    side: bytes
    """Whose order it is."""
    price: int
    """In ticks."""
    size: int
    """In lots."""
    order_id: int
    """The order."""
    flags: int
    """``LAST``, ``SNAPSHOT`` and others."""
    number: int
    """Which record of the file it is, from 1."""


class MboOrder(NamedTuple):
    """An order in the book."""

    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks."""
    size: int
    """What remains of it, in lots."""


def _happenings(rows: Iterable[MboRow]) -> Iterator[list[MboRow]]:
    """Give together what happened at once."""
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
    """Turns records into events, with what rests by them."""

    def __init__(self, lo: int, hi: int, path: FilePath, problems: Problems) -> None:
        self.lo: int = lo
        """The lowest price to read, in ticks."""
        self.hi: int = hi
        """The highest price to read, in ticks."""
        self.resting: dict[int, MboOrder] = {}
        """The orders in the book by id, in the order of their places in the queues."""
        self._file: str = os.fspath(path)
        self._problems: Problems = problems
        self._out: list[tuple[int, ...]] = []
        # The first record of what is being gone through: its time and number are the events'.
        self._at: MboRow

    def events(self, rows: Iterator[MboRow], opening: int) -> Iterator[Records]:
        """Go through all records.

        Args:
            rows: the records.
            opening: how many come before continuous trading.

        Yields:
            Arrays of ``EVENT``.
        """
        waiting = True
        latest = 0
        for group in _happenings(rows):
            self._at = group[0]
            if self._at.ts_ns > TIME_NS_MAX:
                self._report("time out of range", f"{self._at.ts_ns} ns", self._at)
                continue
            if group[-1].number <= opening:
                self._before(group)
                continue
            if waiting:
                waiting = False
                self._seed()
            if self._at.ts_ns < latest:
                self._report(
                    "clock backwards", f"{self._at.ts_ns} ns comes after {latest} ns", self._at
                )
                continue
            latest = self._at.ts_ns
            self._happened(group)
            if len(self._out) >= BLOCK_ROWS:
                yield self._taken()
        if waiting and self.resting:
            self._seed()
        yield self._taken()

    def _taken(self) -> Records:
        """Give the events there are and begin anew."""
        events = np.array(self._out, EVENT)
        self._out = []
        return events

    def _report(self, kind: str, text: str, row: MboRow) -> None:
        """Report a problem of a record."""
        self._problems.report(kind, text, self._file, row.number)

    def _emit(
        self,
        kind: Kind,
        order_id: int,
        order: MboOrder,
        *,
        size: int | None = None,
        flags: int = 0,
    ) -> None:
        """Give an event about an order, unless its price is off the grid."""
        if self.lo <= order.price <= self.hi:
            lots = order.size if size is None else size
            row = self._at
            self._out.append(
                (
                    row.ts_ns,
                    row.recv_ns,
                    row.number,
                    order_id,
                    lots,
                    0,
                    order.price,
                    0,
                    kind,
                    order.side,
                    flags,
                )
            )

    # ----- before continuous trading -----------------------------------------------------------

    def _before(self, group: list[MboRow]) -> None:
        """Keep the book while orders may cross and do not match."""
        for row in group:
            if row.action == b"R":
                self.resting.clear()
            elif row.action == b"A":
                self._rest(row.order_id, _order(row))
            elif row.action == b"C":
                self.resting.pop(row.order_id, None)
            elif row.action == b"M":
                self._change(row.order_id, _order(row))

    def _rest(self, order_id: int, order: MboOrder) -> None:
        """Put an order last in its queue."""
        self.resting.pop(order_id, None)
        self.resting[order_id] = order

    def _change(self, order_id: int, order: MboOrder) -> None:
        """Change an order; a smaller one at the same price keeps its place."""
        before = self.resting.get(order_id)
        if before is not None and _keeps(before, order):
            self.resting[order_id] = order
        else:
            self._rest(order_id, order)

    def _seed(self) -> None:
        """Give the orders that rest when continuous trading begins."""
        for order_id, order in self.resting.items():
            self._emit(Kind.SEED, order_id, order, flags=Flag.SNAPSHOT)

    # ----- continuous trading ------------------------------------------------------------------

    def _happened(self, group: list[MboRow]) -> None:
        """Turn what happened at once into events."""
        start = 0
        while start < len(group):
            end = start
            while end < len(group) and group[end].action in (b"T", b"F"):
                end += 1
            trades = group[start:end]
            start = end
            while end < len(group) and group[end].action not in (b"T", b"F"):
                end += 1
            effects = group[start:end]
            start = end
            effects = self._prevented(trades, effects)
            if trades:
                left = self._traded(trades)
                self._settled(effects, left)
            else:
                for row in effects:
                    self._plain(row)

    def _plain(self, row: MboRow) -> None:
        """Turn a record that is of no trade into events."""
        order_id, order = row.order_id, _order(row)
        before = self.resting.get(order_id)
        if row.action == b"R":
            self.resting.clear()
            self._emit(Kind.CLEAR, 0, MboOrder(0, self.lo, 0))
        elif row.action == b"A":
            if before is not None:
                self._report("order twice", f"order {order_id} is in the book already", row)
                return
            self._rest(order_id, order)
            self._emit(Kind.LIMIT, order_id, order)
        elif before is None:
            self._report("order unknown", f"order {order_id} is not in the book", row)
        elif row.action == b"C":
            del self.resting[order_id]
            self._emit(Kind.CANCEL, order_id, before, size=0)
        elif row.action == b"M":
            self._changed(order_id, before, order)
        else:
            self._report("action unknown", f"{row.action!r}", row)

    def _changed(self, order_id: int, before: MboOrder, order: MboOrder) -> None:
        """Turn a change of an order into events; one across the edge of the grid comes or goes."""
        self._change(order_id, order)
        was, now = (self.lo <= each.price <= self.hi for each in (before, order))
        if _keeps(before, order):
            self._emit(Kind.REDUCE, order_id, order)
        elif was and now and before.side == order.side:
            self._emit(Kind.REPLACE, order_id, order)
        else:
            self._emit(Kind.CANCEL, order_id, before, size=0)
            self._emit(Kind.LIMIT, order_id, order)

    def _prevented(self, trades: list[MboRow], effects: list[MboRow]) -> list[MboRow]:
        """Take out orders that the exchange took out so that nobody trades with himself."""
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
            self._problems.remark("order taken out by self-trade prevention")
            self._emit(Kind.CANCEL, row.order_id, order, size=0)
        return rest

    def _traded(self, trades: list[MboRow]) -> dict[int, int]:
        """Turn trades and fills into events; give what the fills leave of each order."""
        left: dict[int, int] = {}
        incoming: MboRow | None = None
        for row in trades:
            if row.action == b"T":
                incoming = row
                self._came_in(row, left)
            elif incoming is None:
                self._report("fill without a trade", f"of order {row.order_id}", row)
            elif row.order_id != incoming.order_id and row.side != incoming.side:
                self._filled(row, left)
        return left

    def _came_in(self, row: MboRow, left: dict[int, int]) -> None:
        """Turn a trade into an incoming order."""
        order_id = row.order_id or INVENTED_ID + row.number
        order = _order(row)
        resting = self.resting.get(order_id)
        if resting is not None and order_id not in left:
            left[order_id] = 0
            self._emit(Kind.CANCEL, order_id, resting, size=0)
        self._emit(Kind.IOC, order_id, order)

    def _filled(self, row: MboRow, left: dict[int, int]) -> None:
        """Turn a fill into a record of it."""
        order = self.resting.get(row.order_id)
        if order is None:
            self._report("order unknown", f"order {row.order_id} is not in the book", row)
            return
        before = left.get(row.order_id, order.size)
        if row.size > before:
            self._problems.remark("fill of more than the order showed")
        left[row.order_id] = max(before - row.size, 0)
        self._emit(Kind.FILL, row.order_id, order._replace(price=row.price), size=row.size)

    def _settled(self, effects: list[MboRow], left: dict[int, int]) -> None:
        """Bring the book from what the fills left of it to what the records say."""
        for order_id, size in left.items():
            order = self.resting[order_id]
            if size:
                self.resting[order_id] = order._replace(size=size)
            else:
                del self.resting[order_id]
        for row in effects:
            if row.order_id in left and row.action in (b"C", b"M"):
                self._restated(row, left[row.order_id])
            else:
                self._plain(row)

    def _restated(self, row: MboRow, left: int) -> None:
        """Follow a record about an order that was just filled."""
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
            self._changed(order_id, before, order)


def _order(row: MboRow) -> MboOrder:
    """Give the order a record is about."""
    return MboOrder(int(row.side != BUYS), row.price, row.size)


def _keeps(before: MboOrder, after: MboOrder) -> bool:
    """Tell whether a changed order keeps its place."""
    return before[:2] == after[:2] and after.size <= before.size
