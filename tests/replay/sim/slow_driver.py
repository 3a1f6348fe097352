"""A simple reference driver: one event at a time through ``Book.run``."""

import numpy as np

from clob import Book
from clob.records import EVENT, Kind
from clob.replay.io.streams import OWN, OWN_ID
from clob.replay.sim.driver import Stop
from clob.replay.sim.orders import OwnFill


class SlowDriver:
    """Executes events in the given order as commands; see ``Driver``."""

    def __init__(self, events, *, lo=1, hi=99, lot_wei=1, book_class=Book, instruments=()):
        numbers = sorted({*np.unique(events["instrument"]).tolist(), *instruments})
        self.books = {number: book_class(lo=lo, hi=hi, lot_wei=lot_wei) for number in numbers}
        self.history = self.books
        self.lot_wei = lot_wei
        self.changed = -1
        self.last_prices = {}
        self.history_fills = []
        self._events = events
        self._place = self.last_ns = 0
        self._own = {}
        while not self.ended and events["kind"][self._place] == Kind.SEED:
            self._step()
        self.start_ns = 0 if self.ended else int(events["ts_ns"][self._place])
        self.last_ns = self.start_ns

    @property
    def ended(self):
        return self._place == len(self._events)

    def _run(self, row, instrument):
        """Execute one row; return the number of the rejection, and the own fills."""
        book, status = self.books[instrument], np.zeros(1, np.uint8)
        fills, ts_ns = book.run(row, status=status), int(row["ts_ns"][0])
        own_fills = []
        for fill in fills.tolist():
            _, resting_id, incoming_id, size, price, _ = fill
            self.last_prices[instrument] = price
            self.history_fills.append((ts_ns, instrument, resting_id, incoming_id, size, price))
            for own, other, resting in (
                (resting_id, incoming_id, True),
                (incoming_id, resting_id, False),
            ):
                if own >= OWN_ID:
                    own_fills.append(OwnFill(ts_ns, instrument, own, size, price, resting, other))
                    if (own, instrument) in self._own:
                        self._own[own, instrument] -= size
        for (own, where), left in list(self._own.items()):
            if where == instrument and own not in book:
                del self._own[own, where]
                if left:
                    own_fills.append(OwnFill(ts_ns, instrument, own, 0, 0, True, 0))
        return int(status[0]), own_fills

    def _step(self):
        """Execute the next event."""
        row = self._events[self._place : self._place + 1]
        instrument = int(row["instrument"][0])
        before = self._best(instrument)
        _, own_fills = self._run(row, instrument)
        self._place += 1
        self.last_ns = max(self.last_ns, int(row["ts_ns"][0]))
        self.changed = instrument if self._best(instrument) != before else -1
        return own_fills

    def _best(self, instrument):
        depth = self.books[instrument].depth(1)
        return [(level.price, level.size) for side in (depth.bids, depth.asks) for level in side]

    def advance(self, until_ns, stop):
        own_fills = []
        self.changed = -1
        while not self.ended and self._events["ts_ns"][self._place] <= until_ns:
            own_fills += self._step()
            if stop >= Stop.FILL and own_fills:
                break
            if stop == Stop.BOOK and self.changed >= 0:
                return own_fills
        if stop != Stop.BOOK:
            self.changed = -1
        return own_fills

    def last_price(self, instrument):
        return self.last_prices.get(instrument)

    def submit(self, ts_ns, instrument, order_id, kind, side, price, size, flags):
        row = np.zeros(1, EVENT)
        names = ("ts_ns", "instrument", "order_id", "kind", "side", "price", "size", "flags")
        row[[*names, "owner"]] = (
            ts_ns, instrument, order_id, kind, side, price, size, flags, OWN,
        )  # fmt: skip
        rejection, own_fills = self._run(row, instrument)
        book = self.books[instrument]
        if order_id not in book:
            return rejection, -1, own_fills
        self._own[order_id, instrument] = book.order(order_id).remaining // self.lot_wei
        return rejection, book.ahead(order_id).size // self.lot_wei, own_fills

    def cancel(self, ts_ns, instrument, order_id):
        book = self.books[instrument]
        if order_id not in book:
            return False
        book.cancel(order_id)
        del self._own[order_id, instrument]
        return True
