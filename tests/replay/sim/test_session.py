"""Sessions: when the strategy is called, when messages arrive, and the state each side knows."""

import numpy as np
import pytest

from clob import Side, TimeInForce
from clob.replay.io.streams import OWN_ID
from clob.replay.sim.delays import between
from clob.replay.sim.latency import Latency
from clob.replay.sim.orders import OrderState
from clob.replay.sim.session import Session
from clob.replay.sim.strategy import Strategy
from tests.books import bid
from tests.replay.sim.sessions import (
    BOOK,
    END,
    Diary,
    Silent,
    at,
    equity_of,
    play,
    positions_of,
    take,
)
from tests.replay.sim.slow_driver import SlowDriver

# ----- timing ------------------------------------------------------------------------------------


def test_wakes_run_from_the_first_to_the_last_event():
    strategy = Silent()
    play(strategy, *BOOK, at(7, bid(3, 1, 1)), at(150, bid(4, 1, 1)), at(307, bid(5, 1, 1)))
    assert [line[0] for line in strategy.lines] == [107, 207, 307]


def test_without_events_there_is_no_wake():
    strategy = Silent()
    session = play(strategy)
    assert (strategy.lines, session.account.fills, len(equity_of(session))) == ([], [], 1)


def test_wake_sees_events_of_the_same_time():
    seen = []

    class Looks(Strategy):
        def on_wake(self, market):
            seen.append((market.now_ns, market.best_bid))

    play(Looks(), *BOOK, at(0, bid(3, 1, 1)), at(100, bid(4, 49, 1)), at(201, bid(5, 50, 1)), END)
    assert seen[:3] == [(100, 49), (200, 49), (300, 50)]


def test_order_arrives_after_events_of_the_same_time():
    strategy = Diary(at_100=lambda market: market.buy(49, 5))
    session = play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(102, bid(4, 49, 3)),
        at(103, take(5, 1, 49, 4)),
        END,
        latency=Latency(order_ns=2, reply_ns=30),
    )
    # Order 4 arrived at the same time and is in front.
    assert session.account.orders[0].ahead == 3
    assert strategy.lines == [(132, "RESTING", 49), (133, "fill", "BUY", 49, 1)]
    assert [tuple(fill) for fill in session.account.fills] == [(103, 0, OWN_ID, 1, 49, True, 5)]


def test_late_order_misses_the_trade():
    session = play(
        Diary(at_100=lambda market: market.buy(49, 5)),
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(103, take(5, 1, 48, 4)),
        END,
        latency=Latency(order_ns=4),
    )
    assert session.account.fills == []


def test_orders_sent_together_arrive_in_order_of_sending():
    def both(market):
        market.buy(52, 6)
        market.buy(52, 6, time_in_force=TimeInForce.IOC)

    session = play(Diary(at_100=both), *BOOK, at(0, bid(3, 1, 1)), END)
    assert [(fill.order_id - OWN_ID, fill.size) for fill in session.account.fills] == [
        (0, 6),
        (1, 4),
    ]
    assert [order.state for order in session.account.orders] == [
        OrderState.FILLED,
        OrderState.CANCELLED,
    ]


def test_equal_times_are_ordered_events_orders_replies_wake():
    lines = []

    class Both(Diary):
        def on_wake(self, market):
            super().on_wake(market)
            lines.append((market.now_ns, "wake", market.position))

        def on_fill(self, market, fill):
            lines.append((market.now_ns, "fill", fill.size))

        def on_order(self, market, order):
            lines.append((market.now_ns, order.state.name))

    strategy = Both(
        at_100=lambda market: market.buy(49, 5),
        at_200=lambda market: market.buy(52, 3, time_in_force=TimeInForce.IOC),
    )
    play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(300, take(5, 1, 49, 2)),
        END,
        latency=Latency(order_ns=100, reply_ns=0),
    )
    assert lines[:7] == [
        (100, "wake", 0),
        (200, "RESTING"),
        (200, "wake", 0),
        # The event of that time filled the resting order before the other order arrived.
        (300, "fill", 2),
        (300, "fill", 3),
        (300, "wake", 5),
        (400, "wake", 5),
    ]


def test_wake_knows_replies_of_the_same_time():
    strategy = Silent(at_100=lambda market: market.buy(52, 4))
    latency = Latency(order_ns=40, reply_ns=60)
    play(strategy, *BOOK, at(0, bid(3, 1, 1)), END, latency=latency)
    assert strategy.lines[:2] == [(100, 0, 0), (200, 4, 0)]


def test_late_cancel_has_no_effect():
    orders = []
    strategy = Diary(
        at_100=lambda market: orders.append(market.buy(49, 5)),
        at_200=lambda market: market.cancel(orders[0]),
    )
    play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(205, take(5, 1, 49, 2)),
        at(206, take(6, 1, 49, 9)),
        END,
        latency=Latency(order_ns=7, reply_ns=1),
    )
    assert strategy.lines == [
        (108, "RESTING", 49),
        (206, "fill", "BUY", 49, 2),
        (207, "fill", "BUY", 49, 3),
    ]
    assert orders[0].state is OrderState.FILLED
    assert (orders[0].arrived_ns, orders[0].done_ns) == (107, 206)


def test_cancel_before_the_trade():
    def send(market):
        market.cancel(market.buy(49, 5))

    strategy = Diary(at_100=send)
    session = play(strategy, *BOOK, at(0, bid(3, 1, 1)), at(150, take(5, 1, 49, 2)), END)
    assert strategy.lines == [(100, "RESTING", 49), (100, "CANCELLED", 49)]
    assert session.account.fills == []
    assert session.markets[0].open_orders == ()


def test_cancel_is_sent_once():
    sent = []

    def send(market):
        order = market.buy(49, 5)
        market.cancel(order)
        market.cancel(order)

    latency = Latency(order_ns=lambda _: sent.append(1) or 5)
    session = play(Diary(at_100=send), *BOOK, at(0, bid(3, 1, 1)), END, latency=latency)
    session.markets[0].cancel(session.account.orders[0])
    assert len(sent) == 2


def test_replies_keep_their_order():
    delays = iter([50, 1, 1])
    strategy = Diary(at_100=lambda market: (market.buy(40, 1), market.buy(41, 1)))
    play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        latency=Latency(reply_ns=lambda _: next(delays)),
    )
    assert strategy.lines == [(150, "RESTING", 40), (150, "RESTING", 41)]


def test_cancel_that_overtakes_its_order_has_no_effect_and_may_be_sent_again():
    orders = []
    strategy = Diary(
        at_100=lambda market: orders.append(market.buy(49, 5)) or market.cancel(orders[0]),
        at_200=lambda market: market.cancel(orders[0]),
    )
    play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        latency=Latency(order_ns=50, cancel_ns=20, overtaking=True),
    )
    assert strategy.lines == [(150, "RESTING", 49), (220, "CANCELLED", 49)]
    assert (orders[0].arrived_ns, orders[0].done_ns) == (150, 220)


@pytest.mark.parametrize(
    ("latency", "lines"),
    [
        # A fill that overtakes the acknowledgement; the late acknowledgement is dropped.
        (
            Latency(reply_ns=90, fill_ns=5, overtaking=True),
            [(155, "fill", "BUY", 49, 5)],
        ),
        (
            Latency(reply_ns=90, fill_ns=5),
            [(190, "RESTING", 49), (190, "fill", "BUY", 49, 5)],
        ),
    ],
)
def test_fill_that_overtakes_the_acknowledgement(latency, lines):
    strategy = Diary(at_100=lambda market: market.buy(49, 5))
    session = play(
        strategy, *BOOK, at(0, bid(3, 1, 1)), at(150, take(5, 1, 49, 5)), END, latency=latency
    )
    assert strategy.lines == lines
    assert session.account.orders[0].state is OrderState.FILLED
    assert session.markets[0].open_orders == ()


def test_cancelled_order_still_learns_of_its_late_fill():
    orders = []
    strategy = Diary(
        at_100=lambda market: orders.append(market.buy(49, 5)),
        at_200=lambda market: market.cancel(orders[0]),
    )
    session = play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(150, take(5, 1, 49, 2)),
        END,
        latency=Latency(reply_ns=5, fill_ns=200, overtaking=True),
    )
    assert strategy.lines == [
        (105, "RESTING", 49),
        (205, "CANCELLED", 49),
        (350, "fill", "BUY", 49, 2),
    ]
    assert (orders[0].state, orders[0].filled) == (OrderState.CANCELLED, 2)
    assert session.account.known.size(0) == session.account.portfolio.size(0) == 2


def test_messages_in_transit_at_the_end_are_dropped():
    strategy = Diary(at_900=lambda market: market.buy(52, 5))
    session = play(strategy, *BOOK, at(0, bid(3, 1, 1)), END, latency=Latency(order_ns=101))
    assert (strategy.lines, session.account.fills) == ([], [])
    assert session.account.orders[0].state is OrderState.SENT


# ----- knowledge of exchange and strategy --------------------------------------------------------


def test_strategy_learns_of_a_fill_after_the_reply_latency():
    strategy = Silent(at_100=lambda market: market.buy(52, 4))
    session = play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        latency=Latency(order_ns=50, reply_ns=200),
    )
    assert strategy.lines[:5] == [
        (100, 0, 0),
        (200, 0, 1),
        (300, 0, 1),
        (400, 4, 0),
        (500, 4, 0),
    ]
    assert positions_of(session) == [(150, 0, 4, 2)]


def test_callbacks_do_not_change_the_trades(day):
    runs = []
    for listens in (False, True):

        class Maker(Strategy):
            def on_start(self, market):
                self.mine = []

            def on_wake(self, market):
                for order in self.mine:
                    market.cancel(order)
                bid, ask = market.best_bid, market.best_ask
                if bid and ask and abs(market.position) < 10_000:
                    self.mine = [market.buy(bid, 100), market.sell(ask, 100)]

            if listens:

                def on_fill(self, market, fill):
                    assert fill.order.filled >= fill.size

                def on_order(self, market, order):
                    assert order.state is not OrderState.SENT

                def on_book(self, market):
                    pass

        driver = SlowDriver(np.concatenate([day.seed, day.events]), lot_wei=day.lot_wei)
        latency = Latency(between(0, 10**9), between(0, 10**10), seed=5)
        session = Session(Maker(), driver, every_ns=300 * 10**9, latency=latency)
        session.run()
        runs.append((session.account.fills, positions_of(session), str(session.account.orders)))
        assert len(session.account.fills) > 20
    assert runs[0] == runs[1]


def test_on_book_is_called_for_each_best_price_change():
    seen = []

    class Looks(Strategy):
        def on_book(self, market):
            seen.append((market.now_ns, market.depth(1)))

    play(
        Looks(),
        *BOOK,
        at(5, bid(3, 1, 1)),
        at(6, bid(4, 48, 2)),
        at(6, bid(5, 50, 1)),
        at(7, bid(6, 47, 1)),
        at(8, take(7, 0, 52, 10)),
        every_ns=None,
    )
    assert seen == [
        (6, ([(48, 12)], [(52, 10)])),
        (6, ([(50, 1)], [(52, 10)])),
        (8, ([(50, 1)], [])),
    ]


def test_order_from_on_book_queues_after_events_of_the_same_time():
    class Joins(Strategy):
        def on_book(self, market):
            if not market.open_orders:
                market.buy(50, 1)

    session = play(Joins(), *BOOK, at(6, bid(4, 50, 2)), at(6, bid(5, 50, 3)), END, every_ns=None)
    assert session.account.orders[0].ahead == 5


def test_order_from_on_fill_is_executed_at_once_without_latency():
    class Flips(Diary):
        def on_fill(self, market, fill):
            super().on_fill(market, fill)
            if fill.order.side is Side.BUY:
                market.sell(48, fill.size)

    strategy = Flips(at_100=lambda market: market.buy(52, 3))
    session = play(strategy, *BOOK, at(0, bid(3, 1, 1)), END)
    assert strategy.lines == [(100, "fill", "BUY", 52, 3), (100, "fill", "SELL", 48, 3)]
    assert session.account.portfolio.realised == 3 * 48 // 100 - 3 * 52 // 100
