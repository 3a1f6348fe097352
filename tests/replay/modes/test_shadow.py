"""The shadow mode by examples: history does not change, and digests are reproducible."""

import os
import subprocess
import sys

import numpy as np
import pytest

from clob import SelfTrade, Side
from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.backtest import backtest
from clob.replay.io.streams import OWN_ID, Stream
from clob.replay.modes.shadow import ShadowDriver
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.sim.orders import OwnFill
from clob.replay.sim.strategy import Strategy
from clob.replay.strategies.market_maker import MarketMaker
from tests.books import ask, bid, load, row
from tests.replay.streams import filled, stream_of, taker

MAKER = {"every_ns": 600 * 10**9}
ASKS = (ask(1, 50, 5, ts_ns=1), ask(2, 50, 5, ts_ns=3))


def sold(*rows, size=3, at_ns=2, price=50, book_class=None, **fields):
    """Send an own sell order after order 1 and before order 2; return its fills."""
    options = {"book_class": book_class} if book_class else {}
    driver = ShadowDriver(stream_of(*ASKS, *rows, **fields), **options)
    driver.advance(at_ns, Stop.NO)
    driver.submit(at_ns, 0, OWN_ID, Kind.LIMIT, Side.SELL, price, size, 0)
    own = driver.advance(NEVER, Stop.NO)
    driver.books[0].check()
    return [(fill.size, fill.price, fill.other_id) for fill in own]


@pytest.mark.parametrize(
    ("rows", "own"),
    [
        # History fills only the order in front.
        ([taker(8, 0, 50, 5, ts_ns=4), filled(1, 5, 50)], []),
        # It fills two lots of the order behind, so the own order gets two.
        ([taker(8, 0, 50, 7, ts_ns=4), filled(1, 5, 50), filled(2, 2, 50)], [(2, 50, 8)]),
        # The available volume exceeds the own order.
        ([taker(8, 0, 50, 10, ts_ns=4), filled(1, 5, 50), filled(2, 5, 50)], [(3, 50, 8)]),
        # The own order gets volume that did not trade in history.
        ([taker(8, 0, 50, 11, ts_ns=4), filled(1, 5, 50), filled(2, 5, 50)], [(3, 50, 8)]),
        # The order in front is cancelled; the own order is first.
        (
            [row(Kind.CANCEL, 1, ts_ns=4), taker(8, 0, 50, 2, ts_ns=5), filled(2, 2, 50)],
            [(2, 50, 8)],
        ),
        # The replaced order goes to the end of the queue.
        (
            [
                row(Kind.REPLACE, 1, 1, 50, 6, ts_ns=4),
                taker(8, 0, 50, 6, ts_ns=5),
                filled(2, 5, 50),
                filled(1, 1, 50),
            ],
            [(3, 50, 8)],
        ),
        # A reduced order keeps its place.
        ([row(Kind.REPLACE, 1, 1, 50, 4, ts_ns=4), taker(8, 0, 50, 4), filled(1, 4, 50)], []),
        # A fill at a worse price counts fully.
        ([ask(3, 51, 5, ts_ns=4), taker(8, 0, 51, 2, ts_ns=5), filled(3, 2, 51)], [(2, 50, 8)]),
        # An order unknown to the book counts as in front.
        ([taker(8, 0, 50, 4, ts_ns=4), filled(77, 4, 50)], []),
        # A post-only order does not trade on arrival.
        ([bid(8, 49, 5, ts_ns=4, flags=int(Flag.POST_ONLY))], []),
    ],
)
def test_fills_of_a_resting_own_order(book_class, rows, own):
    assert sold(*rows, book_class=book_class) == own


def test_own_orders_share_the_available_volume():
    driver = ShadowDriver(
        stream_of(*ASKS, taker(8, 0, 50, 9, ts_ns=4), filled(1, 5, 50), filled(2, 4, 50))
    )
    driver.advance(2, Stop.NO)
    for number in range(3):
        driver.submit(2, 0, OWN_ID + number, Kind.LIMIT, Side.SELL, 50, 3, 0)
    own = driver.advance(NEVER, Stop.NO)
    assert [(fill.order_id - OWN_ID, fill.size) for fill in own] == [(0, 3), (1, 1)]


def test_recorded_order_crosses_an_own_order(book_class):
    # The own offer is the best; the recorded bid rests completely in history.
    rows = [
        ask(1, 50, 5, ts_ns=1),
        bid(2, 48, 4, ts_ns=3),
        ask(3, 48, 9, ts_ns=5),
        filled(2, 4, 48),
    ]
    driver = ShadowDriver(stream_of(*rows), book_class=book_class)
    driver.advance(2, Stop.NO)
    driver.submit(2, 0, OWN_ID, Kind.LIMIT, Side.SELL, 47, 10, 0)
    assert driver.advance(4, Stop.NO) == [OwnFill(3, 0, OWN_ID, 4, 47, True, 2)]
    seen, history = driver.books[0], driver.history[0]
    # The own order took all four lots of the bid, so they are not available again.
    assert (seen.best_bid, seen.best_ask, history.best_bid) == (None, 47, 48)
    assert driver.submit(4, 0, OWN_ID + 1, Kind.IOC, Side.SELL, 48, 2, 0) == (0, -1, [])
    assert driver.advance(NEVER, Stop.NO) == []
    assert history.orders()[0].remaining == 5


def test_taken_volume_is_not_available_again(book_class):
    rows = (*ASKS, row(Kind.REDUCE, 1, 1, 50, 4, ts_ns=6), row(Kind.REPLACE, 1, 1, 50, 6, ts_ns=8))
    driver = ShadowDriver(stream_of(*rows, bid(9, 1, 1, ts_ns=10)), book_class=book_class)

    def buy(ts_ns, size):
        driver.advance(ts_ns, Stop.NO)
        buy.number += 1
        _, _, own = driver.submit(ts_ns, 0, OWN_ID + buy.number, Kind.IOC, Side.BUY, 50, size, 0)
        return [(fill.other_id, fill.size) for fill in own]

    buy.number = 0
    assert buy(4, 3) == [(1, 3)]
    assert driver.books[0].depth().asks[0].size == 7
    # Two lots of the first order are left, and one after history reduced it.
    assert buy(4, 1) == [(1, 1)]
    assert buy(6, 1) == [(2, 1)]
    assert buy(6, 9) == [(2, 4)]
    assert buy(7, 9) == []
    assert (driver.books[0].best_ask, driver.history[0].best_ask) == (None, 50)
    # The replaced order counts as a new order.
    assert buy(8, 9) == [(1, 6)]


def test_self_trade_policies():
    for policy, expected in {
        SelfTrade.NONE: [(1, 2, True), (2, 2, False)],
        SelfTrade.CANCEL_RESTING: [(1, 0, True)],
        SelfTrade.CANCEL_INCOMING: [],
        SelfTrade.CANCEL_BOTH: [(1, 0, True)],
    }.items():
        driver = ShadowDriver(stream_of(*ASKS, bid(9, 1, 1, ts_ns=10)))
        driver.advance(4, Stop.NO)
        flags = int(policy) << SELF_TRADE_SHIFT
        driver.submit(4, 0, OWN_ID + 1, Kind.LIMIT, Side.SELL, 49, 2, flags)
        _, ahead, own = driver.submit(4, 0, OWN_ID + 2, Kind.LIMIT, Side.BUY, 49, 3, flags)
        assert [(fill.order_id - OWN_ID, fill.size, fill.resting) for fill in own] == expected
        rests = policy in (SelfTrade.NONE, SelfTrade.CANCEL_RESTING)
        assert ahead == (0 if rests else -1)
        left = {SelfTrade.NONE: 1, SelfTrade.CANCEL_RESTING: 3}
        mine = driver.books[0].own.get(OWN_ID + 2)
        assert (mine.left if mine else 0) == left.get(policy, 0)


def test_order_with_a_self_trade_policy_has_no_untraded_size():
    flags = int(SelfTrade.CANCEL_INCOMING) << SELF_TRADE_SHIFT
    mine = ask(1, 50, 5, ts_ns=1, owner=7)
    own = [taker(8, 0, 51, 4, ts_ns=4, owner=7, flags=flags)]
    driver = ShadowDriver(stream_of(mine, *own, has_fills=False))
    driver.advance(2, Stop.NO)
    driver.submit(2, 0, OWN_ID, Kind.LIMIT, Side.SELL, 51, 3, 0)
    assert driver.advance(NEVER, Stop.NO) == []


def test_rejections_and_cancels():
    driver = ShadowDriver(stream_of(*ASKS, bid(9, 1, 1, ts_ns=10)))
    driver.advance(4, Stop.NO)
    send = (OWN_ID, Kind.LIMIT, Side.BUY, 50)
    assert driver.submit(4, 0, *send, 1, int(Flag.POST_ONLY)) == (15, -1, [])
    assert driver.submit(4, 0, *send, 11, int(Flag.FOK)) == (17, -1, [])
    assert driver.submit(4, 0, OWN_ID, Kind.LIMIT, Side.BUY, 49, 1, 0) == (0, 0, [])
    assert driver.cancel(4, 0, OWN_ID)
    assert not driver.cancel(4, 0, OWN_ID)
    assert len(driver.books[0]) == len(driver.history[0]) == 2


def test_clear_event_removes_own_orders():
    driver = ShadowDriver(stream_of(*ASKS, row(Kind.CLEAR, ts_ns=5), bid(9, 1, 1, ts_ns=10)))
    driver.advance(4, Stop.NO)
    driver.submit(4, 0, OWN_ID, Kind.LIMIT, Side.BUY, 49, 1, 0)
    assert driver.advance(NEVER, Stop.NO) == [OwnFill(5, 0, OWN_ID, 0, 0, True, 0)]
    assert OWN_ID not in driver.books[0]


def test_book_shows_own_and_recorded_orders():
    driver = ShadowDriver(stream_of(*ASKS, ask(3, 51, 4, ts_ns=3), bid(9, 1, 1, ts_ns=10)))
    driver.advance(2, Stop.NO)
    driver.submit(2, 0, OWN_ID, Kind.LIMIT, Side.SELL, 50, 3, 0)
    driver.advance(4, Stop.NO)
    book = driver.books[0]
    assert (book.lo, book.hi, book.lot_wei, len(book)) == (1, 99, 1, 4)
    assert OWN_ID in book
    assert 2 in book
    assert [(level.price, level.size, level.num_orders) for level in book.depth(1).asks] == [
        (50, 13, 3)
    ]
    assert (book.ahead(OWN_ID).size, book.ahead(OWN_ID).num_orders, book.ahead(2).size) == (5, 1, 5)
    assert (book.order(OWN_ID).remaining, book.order(OWN_ID).price, book.order(2).remaining) == (
        3,
        50,
        5,
    )


# ----- results -----------------------------------------------------------------------------------


def test_recorded_fills_replace_different_ones_without_a_divergence(book_class):
    rows = [taker(8, 0, 50, 7, ts_ns=4), filled(2, 5, 50), filled(1, 2, 50)]
    shadow = backtest(stream_of(*ASKS, *rows), mode="shadow", book_class=book_class)
    rematch = backtest(stream_of(*ASKS, *rows), book_class=book_class)
    assert shadow.fills[["resting_id", "size"]].tolist() == [(2, 5), (1, 2)]
    assert rematch.fills[["resting_id", "size"]].tolist() == [(1, 5), (2, 2)]
    assert (shadow.divergence.counts, rematch.divergence.counts) == ({}, {"sizes": 1})
    assert shadow.check.ok
    assert shadow.books[0].state_hash() == rematch.books[0].state_hash()


def test_recorded_fill_beyond_the_book_is_a_divergence():
    rows = [taker(8, 0, 50, 7, ts_ns=4), filled(1, 7, 50)]
    shadow = backtest(stream_of(*ASKS, *rows), mode="shadow")
    assert shadow.fills["size"].tolist() == [7]
    assert shadow.divergence.counts == {"hidden": 1}


@pytest.mark.parametrize("strategy", [False, True])
def test_digest_does_not_depend_on_chunks_books_and_kept_tables(day, strategy):
    def run(**arguments):
        mine = {"strategy": MarketMaker(size=50), **MAKER} if strategy else {}
        return backtest(Stream.of(day), mode="shadow", **arguments, **mine)

    whole = run()
    assert bool(len(whole.own_fills)) is strategy
    for arguments in (
        {"chunk": 1},
        {"chunk": 7},
        {"chunk": 4_096},
        {"keep": ()},
        {"check": ()},
        {"book_class": load("python")},
        {"book_class": load("python"), "chunk": 50},
    ):
        other = run(**arguments)
        assert other.digest == whole.digest
        assert other.divergence == whole.divergence
        assert other.counts == whole.counts
    assert run(chunk=7).check == whole.check


def test_without_a_strategy_both_modes_are_equal(day):
    rematch, shadow = (backtest(Stream.of(day), mode=mode) for mode in ("rematch", "shadow"))
    assert (rematch.digest, rematch.check) == (shadow.digest, shadow.check)
    assert rematch.books[0].state_hash() == shadow.books[0].state_hash()


class Everything(Strategy):
    """Takes both sides and quotes."""

    def on_wake(self, market):
        for order in market.open_orders:
            market.cancel(order)
        if market.best_bid and market.best_ask:
            market.buy(market.best_ask, 40)
            market.sell(market.best_bid - 1, 30)
            market.buy(market.best_bid, 500)


def test_strategy_does_not_change_history(day):
    alone = backtest(Stream.of(day), mode="shadow")
    busy = backtest(Stream.of(day), mode="shadow", strategy=Everything(), every_ns=60 * 10**9)
    assert len(busy.own_fills) > 500
    assert np.array_equal(alone.fills, busy.fills)
    assert np.array_equal(alone.bests, busy.bests)
    assert alone.check == busy.check
    assert busy.divergence.total == 0
    assert alone.books[0].state_hash() == busy.books[0].state_hash()


PROGRAM = """
from clob.replay import synthetic_day
from clob.replay.backtest import backtest
from clob.replay.strategies.market_maker import MarketMaker
from clob.replay.io.streams import Stream
stream = Stream.of(synthetic_day(seed=3, orders=300))
maker = MarketMaker(size=50)
print(backtest(stream, mode="shadow", strategy=maker, every_ns=600 * 10**9).digest)
"""


@pytest.mark.long
def test_digest_does_not_depend_on_the_process():
    digests = set()
    for hash_seed in ("0", "1", "2"):
        for pure in ("0", "1"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "CLOB_PURE_PYTHON": pure}
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            digests.add(done.stdout)
    assert len(digests) == 1
