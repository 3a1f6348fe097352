"""Small recordings and scripted strategies, for tests of sessions."""

from collections import namedtuple

from clob.records import Kind
from clob.replay.sim.session import Session
from clob.replay.sim.strategy import Strategy
from tests.books import batch, bid, row
from tests.replay.sim.slow_driver import SlowDriver


def at(ts_ns, event, instrument=0):
    return event | {"ts_ns": ts_ns, "instrument": instrument}


def take(order_id, side, price, size):
    return row(Kind.IOC, order_id, side, price, size)


def seed(order_id, side, price, size, instrument=0):
    return row(Kind.SEED, order_id, side, price, size) | {"instrument": instrument}


BOOK = [seed(1, 0, 48, 10), seed(2, 1, 52, 10)]
"""One order on each side."""

END = at(1_000, bid(99, 1, 1))
"""A distant order that extends the recording."""


class Diary(Strategy):
    """Acts at scripted wakes, and records every reply."""

    def __init__(self, **deeds):
        self.deeds = {int(name.removeprefix("at_")): deed for name, deed in deeds.items()}
        self.lines = []

    def on_wake(self, market):
        if market.now_ns in self.deeds:
            self.deeds.pop(market.now_ns)(market)

    def on_fill(self, market, fill):
        self.lines.append((market.now_ns, "fill", fill.order.side.name, fill.price, fill.size))

    def on_order(self, market, order):
        self.lines.append((market.now_ns, order.state.name, order.price))


class Silent(Strategy):
    """Acts at scripted wakes, without callbacks for replies."""

    def __init__(self, **deeds):
        self.deeds = {int(name.removeprefix("at_")): deed for name, deed in deeds.items()}
        self.lines = []

    def on_wake(self, market):
        self.lines.append((market.now_ns, market.position, len(market.open_orders)))
        if market.now_ns in self.deeds:
            self.deeds.pop(market.now_ns)(market)


def play(strategy, *events, every_ns=100, lot_wei=1, instruments=(), books=(0,), **options):
    driver = SlowDriver(batch(*events), lot_wei=lot_wei, instruments=books)
    session = Session(strategy, driver, instruments, every_ns=every_ns, **options)
    session.run()
    for book in driver.books.values():
        book.check()
    return session


EquityRow = namedtuple("EquityRow", "ts_ns wealth collateral realised fees_paid")
PositionRow = namedtuple("PositionRow", "ts_ns instrument size cost")


def rows_of(kind, flat):
    count = len(kind._fields)
    return [kind(*flat[at : at + count]) for at in range(0, len(flat), count)]


def equity_of(session):
    return rows_of(EquityRow, session.account.equity)


def positions_of(session):
    return rows_of(PositionRow, session.account.positions)
