"""The rematch driver against the slow reference driver, for random strategies."""

import numpy as np
import pytest

from clob import SelfTrade, TimeInForce
from clob.records import EVENT, Kind
from clob.replay import synthetic_day
from clob.replay.io.streams import Instrument, Stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.samples.synthetic import Draws
from clob.replay.sim.delays import between
from clob.replay.sim.fees import RateFees
from clob.replay.sim.latency import Latency
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.session import Session
from clob.replay.sim.strategy import Strategy
from tests import books
from tests.replay.sim.sessions import equity_of, positions_of
from tests.replay.sim.slow_driver import SlowDriver

INSTRUMENTS = (Instrument(0, "rain"), Instrument(1, "rain", "NO"), Instrument(4, "snow"))
LOT_WEI = 10**16
COARSE_NS = 50 * 10**9
"""Times are rounded to this, so that many events share a time."""


class Fickle(Strategy):
    """Acts randomly, from a seed."""

    def __init__(self, seed, pace):
        self.draws, self.pace = Draws(seed), pace
        self.received = []

    def on_wake(self, market):
        self.act(market, 60)

    def act(self, market, percent):
        draws = self.draws
        if not draws.chance(percent):
            return
        view = market.yes if draws.chance(60) or not market.no.has_book else market.no
        mine = market.open_orders
        if mine and draws.chance(40):
            market.cancel(mine[draws.between(0, len(mine) - 1)])
        if draws.chance(10):
            market.split(draws.between(1, 200))
        if draws.chance(10):
            market.merge(draws.between(1, 200))
        middle = view.best_bid or view.best_ask or 50
        send = view.buy if draws.chance(50) else view.sell
        if len(mine) < 12:
            send(
                middle + draws.between(-4, 4),
                draws.between(1, 3_000),
                time_in_force=list(TimeInForce)[(0, 0, 0, 2, 3)[draws.between(0, 4)]],
                post_only=False,
            )


class Listening(Fickle):
    """Also acts on replies."""

    def on_fill(self, market, fill):
        self.received.append((market.now_ns, str(fill)))
        self.act(market, self.pace)

    def on_order(self, market, order):
        self.received.append((market.now_ns, str(order)))
        self.act(market, self.pace)


class Watching(Listening):
    """Also acts on book changes."""

    def on_book(self, market):
        self.received.append((market.now_ns, market.depth(1)))
        self.act(market, self.pace // 4)


def flow(seed, numbers):
    """Make a day for each instrument, and merge them by time."""
    days = []
    for number in numbers:
        day = synthetic_day(seed=seed + number, orders=250)
        events = np.concatenate([day.seed, day.events])
        events["instrument"] = number
        events["ts_ns"] -= events["ts_ns"] % COARSE_NS
        days.append(events)
    merged = np.concatenate([np.zeros(0, EVENT), *days])
    order = np.lexsort((merged["ts_ns"], merged["kind"] != Kind.SEED))
    merged = merged[order]
    # A gap in the recording: nothing rests after it.
    place = len(merged) * 3 // 4
    gap = merged[place : place + 1].copy()
    gap["kind"] = Kind.CLEAR
    return np.concatenate([merged[:place], gap, merged[place:]])


def outcome(strategy, driver, **options):
    """Run; return all results."""
    session = Session(strategy, driver, INSTRUMENTS, **options)
    session.run()
    for book in driver.books.values():
        book.check()
    return {
        "orders": [
            (str(order), order.sent_ns, order.arrived_ns, order.done_ns, order.ahead, order.code)
            for order in session.account.orders
        ],
        "fills": session.account.fills,
        "equity": equity_of(session),
        "positions": positions_of(session),
        "received": strategy.received,
        "end": session.now_ns,
        "books": {number: book.state_hash() for number, book in driver.books.items()},
    }


def check(kind, numbers, seed, names):
    """Compare the drivers over the named books, on a day and a strategy from a seed."""
    draws = Draws(seed)
    events = flow(seed, numbers)
    stream = Stream(
        lambda: [events.copy()],
        lo=1,
        hi=99,
        lot_wei=LOT_WEI,
        instruments=[one for one in INSTRUMENTS if one.number in numbers],
        has_fills=False,
    )
    policy, low_ns = draws.between(0, 3), draws.between(0, 1) * draws.between(0, COARSE_NS)
    delay = between(low_ns, low_ns + draws.between(0, 1) * COARSE_NS)
    collateral = 50 * 10**18 if draws.chance(50) else None

    def run(driver):
        return outcome(
            kind(seed, 30),
            driver,
            every_ns=200 * 10**9,
            latency=Latency(delay, delay, seed),
            self_trade=SelfTrade(policy),
            portfolio=Portfolio(collateral, fees=RateFees(100, 50)),
        )

    expected = run(SlowDriver(events, lot_wei=LOT_WEI))
    for name in names:
        for chunk in (1, 7, 4_096):
            result = run(StreamDriver(stream, chunk=chunk, book_class=books.load(name)))
            for key, value in result.items():
                assert value == expected[key], (key, name, chunk)


@pytest.mark.parametrize("kind", [Fickle, Listening, Watching])
@pytest.mark.parametrize("numbers", [(0,), (0, 1, 4)])
@pytest.mark.parametrize("seed", [1, 2])
def test_driver_equals_the_slow_driver(kind, numbers, seed):
    check(kind, numbers, seed, ["compiled"])


@pytest.mark.long
@pytest.mark.parametrize("kind", [Fickle, Listening, Watching])
@pytest.mark.parametrize("numbers", [(0,), (0, 1, 4)])
@pytest.mark.parametrize("seed", range(100, 108))
def test_driver_equals_the_slow_driver_over_both_books(kind, numbers, seed):
    check(kind, numbers, seed, books.BOOKS)
