"""A simple reference for the shadow mode: one list of recorded and own orders by arrival.

An order's priority is its place in the list. No Book is used.
"""

from types import SimpleNamespace

from clob import SelfTrade, Side
from clob.errors import FokNotFillableError, PostOnlyWouldCrossError
from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.chunk import recorded_fills_after
from clob.replay.sim.driver import Stop
from clob.replay.sim.orders import OwnFill


class Entry:
    """An order in the list."""

    def __init__(self, order_id, side, price, left, own=False):
        self.order_id, self.side, self.price, self.left, self.own = order_id, side, price, left, own
        self.taken = 0

    @property
    def had(self):
        """Its size that is available to own orders."""
        return self.left if self.own else max(self.left - self.taken, 0)


class PlainBook:
    """The list, with the reading methods of a book."""

    def __init__(self, lo=1, hi=99, lot_wei=1):
        self.lo, self.hi, self.lot_wei = lo, hi, lot_wei
        self.entries = []

    def ranked(self, side, own=None):
        """Return one side by price, then by place; ``own`` selects own or recorded orders."""
        some = [e for e in self.entries if e.side == side and own in (None, e.own)]
        return sorted(some, key=lambda e: -e.price if side == Side.BUY else e.price)

    def find(self, order_id):
        return next((e for e in self.entries if e.order_id == order_id), None)

    def drop(self, entry):
        self.entries.remove(entry)

    def crossed(self, side, price, own=None):
        """Return the orders that an order of that side and limit trades with."""
        return [
            e
            for e in self.ranked(1 - side, own)
            if (e.price <= price if side == Side.BUY else e.price >= price)
        ]

    def history(self):
        """Return the resting recorded orders."""
        found = [e for side in Side for e in self.ranked(side, own=False)]
        return [(e.order_id, e.price, e.left) for e in found]

    # Methods for strategies.

    def __contains__(self, order_id):
        return self.find(order_id) is not None

    def levels(self, side):
        totals = {}
        for entry in self.ranked(side):
            if entry.had:
                totals[entry.price] = totals.get(entry.price, 0) + entry.had * self.lot_wei
        return [SimpleNamespace(price=price, size=size) for price, size in totals.items()]

    def depth(self, limit=None):
        return SimpleNamespace(bids=self.levels(0)[:limit], asks=self.levels(1)[:limit])

    @property
    def best_bid(self):
        return next((level.price for level in self.levels(0)), None)

    @property
    def best_ask(self):
        return next((level.price for level in self.levels(1)), None)

    def _best_of_others(self, owner):
        recorded = ([e.price for e in self.ranked(side, own=False) if e.had] for side in Side)
        return tuple(next(iter(prices), None) for prices in recorded)

    def order(self, order_id):
        return SimpleNamespace(remaining=self.find(order_id).left * self.lot_wei)

    def ahead(self, order_id):
        mine = self.find(order_id)
        before = self.entries[: self.entries.index(mine)]
        same = [e.left for e in before if (e.side, e.price) == (mine.side, mine.price)]
        return SimpleNamespace(size=sum(same) * self.lot_wei)

    # Recorded events.

    def apply(self, row, recorded):
        """Execute a recorded command; return its side, fills, untraded size, and the list before
        it.

        Args:
            row: the event.
            recorded: its recorded fills, or None if nothing was recorded.
        """
        before = list(self.entries)
        order_id, side, price, size = (
            int(row[name]) for name in ("order_id", "side", "price", "size")
        )
        kind, flags = int(row["kind"]), int(row["flags"])
        standing = next((e for e in self.entries if e.order_id == order_id and not e.own), None)
        match kind:
            case Kind.CLEAR:
                self.entries.clear()
            case Kind.CANCEL if standing:
                self.drop(standing)
            case Kind.REDUCE if standing and 0 < size < standing.left:
                standing.left = size
            case Kind.SEED if not standing and not self.crossed(side, price, own=False):
                self.entries.append(Entry(order_id, side, price, size))
            case Kind.LIMIT | Kind.IOC | Kind.REPLACE:
                return self.come(kind, standing, order_id, side, price, size, flags, recorded)
        return None, [], 0, before

    def come(self, kind, standing, order_id, side, price, size, flags, recorded):
        """Execute a recorded incoming order."""
        before = list(self.entries)
        if kind == Kind.REPLACE and standing:
            side = standing.side
        rests = kind != Kind.IOC and not flags & Flag.FOK
        facing = self.crossed(side, price, own=False)
        done = not (
            (kind == Kind.REPLACE and not standing)
            or (kind == Kind.LIMIT and rests and standing)
            or (flags & Flag.POST_ONLY and facing)
            or (flags & Flag.FOK and sum(e.left for e in facing) < size)
        )
        if done and kind == Kind.REPLACE and price == standing.price and size < standing.left:
            if not recorded:
                standing.left = size
                return None, [], 0, before
            facing = []
        fills = recorded
        if fills is None:
            fills, left = [], size
            for entry in facing if done else ():
                if left:
                    fills.append((entry.order_id, min(left, entry.left), entry.price))
                    left -= fills[-1][1]
        if done and kind == Kind.REPLACE:
            self.drop(standing)
        for one, filled, _ in fills:
            entry = next((e for e in self.entries if e.order_id == one and not e.own), None)
            if entry:
                entry.left -= filled
                if entry.left <= 0:
                    self.drop(entry)
        left = size - sum(filled for _, filled, _ in fills)
        spare = 0
        if done and left > 0 and kind == Kind.IOC:
            spare = left
        elif done and left > 0 and rests:
            for ghost in self.crossed(side, price, own=False):
                self.drop(ghost)
            self.entries.append(Entry(order_id, side, price, left))
            spare = 0 if flags & Flag.POST_ONLY else left
        return side, fills, spare, before


class PlainDriver:
    """Executes events one by one over plain books; see ``Driver``."""

    def __init__(self, events, *, lo=1, hi=99, lot_wei=1, instruments=(0,), has_fills=True):
        self.books = {number: PlainBook(lo, hi, lot_wei) for number in instruments}
        self.lot_wei, self.changed = lot_wei, -1
        self.fills = []
        self._events, self._has_fills = events, has_fills
        self._place = self.last_ns = 0
        while not self.ended and events["kind"][self._place] == Kind.SEED:
            self._step()
        self.start_ns = 0 if self.ended else int(events["ts_ns"][self._place])
        self.last_ns = self.start_ns

    @property
    def ended(self):
        return self._place == len(self._events)

    def _step(self):
        """Execute the next event; return the own fills."""
        row = self._events[self._place]
        instrument, ts_ns = int(row["instrument"]), int(row["ts_ns"])
        book = self.books[instrument]
        tops = [self._top(book, side) for side in Side]
        own = [e for e in book.entries if e.own]
        recorded = recorded_fills_after(self._events, self._place) if self._has_fills else None
        side, fills, spare, before = book.apply(row, recorded)
        self._place += 1
        self.last_ns = max(self.last_ns, ts_ns)
        self.changed = instrument if [self._top(book, one) for one in Side] != tops else -1
        self.fills += [(ts_ns, instrument, one, size, price) for one, size, price in fills]
        if row["kind"] == Kind.CLEAR:
            return [OwnFill(self.last_ns, instrument, e.order_id, 0, 0, True, 0) for e in own]
        own_fills = []
        if side is not None:
            met = self._meet(book, before, side, int(row["price"]), fills, spare)
            for entry, size in met:
                own_fills.append(
                    OwnFill(
                        ts_ns, instrument, entry.order_id, size, entry.price, True,
                        int(row["order_id"]),
                    )
                )  # fmt: skip
            came = book.find(int(row["order_id"]))
            if came and spare and row["kind"] != Kind.IOC:
                came.taken = min(spare, sum(size for _, size in met))
        return own_fills

    def _top(self, book, side):
        """Return the best price of the recorded orders and the size there."""
        side = book.ranked(side, own=False)
        return side and (side[0].price, sum(e.left for e in side if e.price == side[0].price))

    def _meet(self, book, before, side, limit, fills, spare):
        """Match own orders against a recorded order."""
        met, given = [], 0
        for mine in book.ranked(1 - side, own=True):
            place, room = before.index(mine), 0
            for one, size, price in fills:
                stood = [i for i, e in enumerate(before) if (e.order_id, e.price) == (one, price)]
                worse = price < mine.price if side == Side.SELL else price > mine.price
                if worse or (price == mine.price and stood and stood[0] > place):
                    room += size
            if mine.price >= limit if side == Side.SELL else mine.price <= limit:
                room += spare
            size = min(mine.left, room - given)
            if size > 0:
                given += size
                mine.left -= size
                met.append((mine, size))
                if not mine.left:
                    book.drop(mine)
        return met

    def advance(self, until_ns, stop):
        own_fills = []
        self.changed = -1
        while not self.ended and self._events["ts_ns"][self._place] <= until_ns:
            own_fills += self._step()
            if (stop and own_fills) or (stop == Stop.BOOK and self.changed >= 0):
                break
        if stop != Stop.BOOK:
            self.changed = -1
        return own_fills

    def submit(self, ts_ns, instrument, order_id, kind, side, price, size, flags):
        book, left, trades, cancels = self.books[instrument], size, [], []
        facing = [e for e in book.crossed(side, price) if e.had]
        if flags & Flag.POST_ONLY and facing:
            return PostOnlyWouldCrossError.number, -1, []
        policy = SelfTrade((flags & Flag.SELF_TRADE) >> SELF_TRADE_SHIFT)
        for entry in facing:
            if not left:
                break
            if entry.own and policy:
                if policy in (SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH):
                    cancels.append(entry)
                if policy in (SelfTrade.CANCEL_INCOMING, SelfTrade.CANCEL_BOTH):
                    if flags & Flag.FOK:
                        return FokNotFillableError.number, -1, []
                    left = 0
                continue
            trades.append((entry, min(left, entry.had)))
            left -= trades[-1][1]
        if flags & Flag.FOK and left:
            return FokNotFillableError.number, -1, []
        own_fills = []
        for entry, part in trades:
            if entry.own:
                entry.left -= part
                own_fills.append(
                    OwnFill(ts_ns, instrument, entry.order_id, part, entry.price, True, order_id)
                )
                if not entry.left:
                    book.drop(entry)
            else:
                entry.taken += part
            own_fills.append(
                OwnFill(ts_ns, instrument, order_id, part, entry.price, False, entry.order_id)
            )
        for entry in [e for e in book.entries if e in cancels]:
            book.drop(entry)
            own_fills.append(OwnFill(ts_ns, instrument, entry.order_id, 0, 0, True, 0))
        if left and kind != Kind.IOC:
            book.entries.append(Entry(order_id, side, price, left, own=True))
            return 0, book.ahead(order_id).size // book.lot_wei, own_fills
        return 0, -1, own_fills

    def cancel(self, ts_ns, instrument, order_id):
        entry = self.books[instrument].find(order_id)
        if entry is None:
            return False
        self.books[instrument].drop(entry)
        return True
