"""The account: rejections, reservations and valuation, in one market or several."""

import pytest

from clob import SelfTrade, TimeInForce
from clob.records import Kind
from clob.replay.io.streams import Instrument
from clob.replay.sim.fees import RateFees
from clob.replay.sim.latency import Latency
from clob.replay.sim.orders import OrderState
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy
from tests.books import ask, bid, row
from tests.replay.sim.sessions import (
    BOOK,
    END,
    Diary,
    Silent,
    at,
    equity_of,
    play,
    positions_of,
    seed,
    take,
)

# ----- rejections --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (lambda market: market.buy(0, 1), "PRICE_OUT_OF_RANGE"),
        (lambda market: market.buy(100, 1), "PRICE_OUT_OF_RANGE"),
        (lambda market: market.buy(50, 0), "INVALID_AMOUNT"),
        (lambda market: market.sell(50, -3), "INVALID_AMOUNT"),
        (lambda market: market.buy(50, 2**60), "AMOUNT_TOO_LARGE"),
        (lambda market: market.buy(52, 1, post_only=True), "POST_ONLY_WOULD_CROSS"),
        (lambda market: market.buy(52, 11, time_in_force=TimeInForce.FOK), "FOK_NOT_FILLABLE"),
        (lambda market: market.sell(50, 1), "INSUFFICIENT_BALANCE"),
        (lambda market: market.buy(51, 2_000), "INSUFFICIENT_BALANCE"),
    ],
)
def test_invalid_orders_are_rejected_with_a_code(send, code):
    strategy = Diary(at_100=send)
    session = play(
        strategy, *BOOK, at(0, bid(3, 1, 1)), END, portfolio=Portfolio(10**15), lot_wei=10**12
    )
    (order,) = session.account.orders
    assert (order.state, order.code, order.is_open) == (OrderState.REJECTED, code, False)
    assert strategy.lines == [(100, "REJECTED", order.price)]
    assert (session.account.portfolio.reserved, session.markets[0].open_orders) == (0, ())


@pytest.mark.parametrize(
    ("send", "error", "words"),
    [
        (
            lambda market: market.buy(50.0, 1),
            TypeError,
            r"price \(ticks\) and size \(lots\) must be integers",
        ),
        (
            lambda market: market.sell(50, True),
            TypeError,
            r"price \(ticks\) and size \(lots\) must be integers",
        ),
        (lambda market: market.split(1.5), TypeError, "size must be an integer"),
        (
            lambda market: market.buy(50, 1, time_in_force=TimeInForce.GTD),
            ValueError,
            "does not support GTD",
        ),
        (
            lambda market: market.buy(50, 2**63),
            ValueError,
            r"and size from -.* \(lots\); got 50 and 9223372036854775808",
        ),
        (
            lambda market: market.sell(-(2**31), 1),
            ValueError,
            r"price must be from -2147483647 to 2147483647 \(ticks\)",
        ),
        (lambda market: market.no.buy(50, 1), LookupError, "no flow was recorded for market 0 NO"),
        (lambda market: market.no.best_bid, LookupError, "no flow was recorded for market 0 NO"),
        (lambda market: market.lots("0.05"), ValueError, "must be a whole number of lots"),
        (
            lambda market: market.buy(50, 1, time_in_force="GTC"),
            TypeError,
            "time_in_force must be a TimeInForce; got 'GTC'",
        ),
        (
            lambda market: market.buy(50, 1, post_only="no"),
            TypeError,
            "post_only must be True or False; got 'no'",
        ),
        (lambda market: market.cancel(None), TypeError, "order must be one that .*; got None"),
        (lambda market: market.best_of_others("buy"), TypeError, "side must be .*; got 'buy'"),
    ],
)
def test_wrong_arguments_raise_in_the_strategy(send, error, words):
    with pytest.raises(error, match=words):
        play(Diary(at_100=send), *BOOK, at(0, bid(3, 1, 1)), END, lot_wei=10**17)


@pytest.mark.parametrize("every_ns", [0, -1, 1.5, True])
def test_invalid_interval_is_rejected(every_ns):
    with pytest.raises(ValueError, match="every_ns must be None or an integer of 1 or more"):
        play(Strategy(), *BOOK, every_ns=every_ns)


# ----- money and tokens --------------------------------------------------------------------------


def test_resting_orders_reserve_balances():
    mine = Portfolio(100)

    def send(market):
        market.split(20)
        market.buy(50, 100)
        market.sell(60, 15)
        market.sell(61, 6)
        market.buy(51, 80)

    session = play(
        Diary(at_100=send),
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(150, take(4, 1, 50, 30)),
        at(151, take(5, 0, 60, 12)),
        END,
        portfolio=mine,
    )
    assert [order.state.name for order in session.account.orders] == [
        "RESTING",
        "RESTING",
        "REJECTED",
        "REJECTED",
    ]
    # Of the 12 lots bought, the first 10 came from order 2 at 52.
    assert mine.collateral == 100 - 20 - 15 + 2 * 60 // 100
    assert (mine.size(0), mine.size(1), mine.reserved) == (20 + 30 - 2, 20, 35)
    assert mine.free(0) == 48 - 13


def test_ioc_order_releases_its_reservation():
    def send(market):
        market.buy(52, 15, time_in_force=TimeInForce.IOC)

    mine = Portfolio(1_000)
    session = play(Diary(at_100=send), *BOOK, at(0, bid(3, 1, 1)), END, portfolio=mine)
    assert (session.account.orders[0].filled, session.account.orders[0].done_ns) == (10, 100)
    assert (mine.collateral, mine.reserved) == (995, 0)


def test_split_and_merge_are_delayed_by_latency():
    strategy = Silent(
        at_100=lambda market: market.split(50), at_400=lambda market: market.merge(20)
    )
    mine = Portfolio(100)
    session = play(
        strategy,
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        portfolio=mine,
        latency=Latency(order_ns=150, reply_ns=40),
    )
    assert [line[1] for line in strategy.lines[:6]] == [0, 0, 50, 50, 50, 30]
    assert [row[:3] for row in positions_of(session)] == [
        (250, 0, 50),
        (250, 1, 50),
        (550, 0, 30),
        (550, 1, 30),
    ]
    assert (mine.collateral, session.markets[0].collateral) == (70, 70)


def test_uncovered_split_and_merge_have_no_effect():
    def send(market):
        market.split(101)
        market.merge(1)
        market.split(0)

        assert market.exchanging == 3

    session = play(Silent(at_100=send), *BOOK, at(0, bid(3, 1, 1)), END, portfolio=Portfolio(100))
    assert (session.account.portfolio.collateral, positions_of(session)) == (100, [])
    assert session.markets[0].exchanging == 0


def test_equity_follows_the_middle_of_the_book():
    session = play(
        Silent(at_100=lambda market: market.buy(52, 10)),
        *BOOK,
        at(0, bid(3, 1, 1)),
        at(250, ask(4, 56, 10)),
        at(350, bid(5, 52, 10)),
        at(450, take(6, 0, 56, 10)),
        END,
        lot_wei=100,
    )
    # At cost without an ask; at 52, equal to the cost; at 54; and at 54 after the ask is gone.
    assert [(row.ts_ns, row.wealth) for row in equity_of(session)] == [(0, 0), (100, 0), (400, 20)]
    assert {row.collateral for row in equity_of(session)} == {0, -520}


def test_settlement_pays_out_in_both_portfolios():
    session = play(
        Silent(at_100=lambda market: market.buy(52, 10)),
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        lot_wei=100,
        portfolio=Portfolio(1_000, fees=RateFees(incoming_bps=1_000)),
    )
    # The fee is 10 % of 48/52 of the tokens.
    assert session.account.portfolio.size(0) == 1_000 - 92
    session.account.settle(session.now_ns, 0, 100)
    assert session.account.portfolio.collateral == session.account.known.collateral == 480 + 908
    assert equity_of(session)[-1].realised == 388
    assert positions_of(session)[-1] == (1_000, 0, 0, 0)


@pytest.mark.parametrize(
    "policy",
    [SelfTrade.CANCEL_INCOMING, SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH, SelfTrade.NONE],
)
def test_self_trade_policies(policy):
    def send(market):
        market.buy(50, 4)
        market.sell(50, 6)

    session = play(
        Diary(at_100=send),
        *BOOK,
        at(0, bid(3, 1, 1)),
        END,
        self_trade=policy,
        portfolio=None,
    )
    states = [order.state.name for order in session.account.orders]
    assert (
        states
        == {
            SelfTrade.CANCEL_INCOMING: ["RESTING", "CANCELLED"],
            SelfTrade.CANCEL_RESTING: ["CANCELLED", "RESTING"],
            SelfTrade.CANCEL_BOTH: ["CANCELLED", "CANCELLED"],
            SelfTrade.NONE: ["FILLED", "RESTING"],
        }[policy]
    )
    assert len(session.account.fills) == 2 * (policy is SelfTrade.NONE)
    assert session.account.portfolio.size(0) == 0


def test_decrement_policy_is_rejected():
    with pytest.raises(ValueError, match="does not support SelfTrade"):
        play(Strategy(), *BOOK, self_trade=SelfTrade.DECREMENT)


def test_clear_event_cancels_own_orders():
    strategy = Diary(at_100=lambda market: market.buy(40, 7))
    session = play(
        strategy, *BOOK, at(0, bid(3, 1, 1)), at(130, row(Kind.CLEAR)), END,
        portfolio=Portfolio(1_000),
    )  # fmt: skip
    assert strategy.lines == [(100, "RESTING", 40), (130, "CANCELLED", 40)]
    assert session.account.portfolio.reserved == 0


# ----- several books -----------------------------------------------------------------------------


def test_both_outcomes_of_several_markets():
    woken = []

    class Everywhere(Strategy):
        def on_wake(self, market):
            woken.append((market.now_ns, market.name, market.best_bid))
            assert market.markets[0].name == "rain"
            if market.now_ns == 100:
                for view in (market.yes, market.no):
                    if view.has_book:
                        view.buy(60, 2)

    instruments = [
        Instrument(0, "rain"),
        Instrument(1, "rain", "NO"),
        Instrument(5, "snow", "NO"),
    ]
    session = play(
        Everywhere(),
        seed(1, 1, 55, 10, 0),
        seed(2, 1, 44, 10, 1),
        seed(3, 1, 30, 10, 5),
        seed(4, 0, 20, 10, 5),
        at(0, bid(5, 1, 1)),
        at(200, bid(6, 1, 1), 1),
        instruments=instruments,
        books=(0, 1, 5),
        lot_wei=100,
    )
    assert woken == [(100, "rain", 1), (100, "snow", 20), (200, "rain", 1), (200, "snow", 20)]
    assert [(fill.instrument, fill.price) for fill in session.account.fills] == [
        (0, 55),
        (1, 44),
        (5, 30),
    ]
    rain, snow = session.markets
    assert (rain.yes.name, rain.no.name, snow.no.name) == ("rain YES", "rain NO", "snow NO")
    assert (rain.first, snow.first) == (rain.yes, snow.no)
    assert [view.position for view in (rain.yes, rain.no, snow.yes, snow.no)] == [2, 2, 0, 2]
    assert session.account.portfolio.collateral == -2 * (55 + 44 + 30)


def test_token_without_a_book_is_valued_by_the_other_token():
    session = play(
        Silent(at_100=lambda market: market.split(10)),
        *BOOK,
        at(0, bid(3, 48, 1)),
        at(250, row(Kind.CANCEL, 2)),
        at(250, ask(4, 60, 1)),
        END,
        lot_wei=100,
    )
    assert session.markets[0].no.position == 10
    assert {row.wealth for row in equity_of(session)} == {0}


def test_token_bought_again_is_valued_at_the_latest_middle():
    soon = {"time_in_force": TimeInForce.IOC}
    session = play(
        Silent(
            at_100=lambda market: market.buy(52, 1, **soon),
            at_200=lambda market: market.sell(48, 1, **soon),
            at_400=lambda market: market.buy(90, 5, **soon),
        ),
        *BOOK,
        at(0, bid(5, 1, 1)),
        at(250, row(Kind.CANCEL, 2)),
        at(250, ask(3, 90, 5)),
        at(250, bid(4, 88, 1)),
        END,
        lot_wei=100,
    )
    assert session.markets[0].position == 5
    # The asks are empty; the last middle was 89.
    assert equity_of(session)[-1].wealth == 48 - 52 + 5 * (89 - 90)


def test_lots_and_order_repr():
    looked = []

    def look(market):
        order = market.buy(48, market.lots("0.3"))
        looked.append((market.ahead(order), market.yes.ahead(order), repr(order)))

    session = play(Silent(at_100=look), *BOOK, at(0, bid(3, 1, 1)), END, lot_wei=10**17)
    assert looked == [(None, None, "<BUY 3 at 48 in market 0 YES: sent, 0 filled>")]
    (order,) = session.account.orders
    assert (session.markets[0].ahead(order), order.remaining) == (10, 3)
    assert session.markets[0].yes.book is session.driver.books[0]


@pytest.mark.parametrize(
    ("strategy", "options", "shared"),
    [
        (Silent, {}, True),
        (Silent, {"latency": Latency(order_ns=20)}, True),
        (Silent, {"latency": Latency(reply_ns=20)}, False),
        (Silent, {"latency": Latency(reply_ns=lambda _: 0)}, False),
        (Silent, {"portfolio": Portfolio(10_000)}, False),
        (Diary, {}, False),
    ],
)
def test_portfolio_is_shared_only_if_replies_are_instant(strategy, options, shared):
    mine = strategy(at_100=lambda market: market.buy(52, 3), at_200=lambda market: market.split(2))
    session = play(mine, *BOOK, at(0, bid(3, 1, 1)), END, lot_wei=100, **options)
    known = session.account.known
    assert (known is session.account.portfolio) == shared
    assert (known.size(0), known.size(1)) == (500, 200)
    session.account.settle(1_000, 0, 100)
    assert known.collateral == session.account.portfolio.collateral == known.initial + 300 - 156
