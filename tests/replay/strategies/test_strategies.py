"""The example strategies: small cases, and a whole day."""

import dataclasses

import numpy as np
import pytest

from clob import Side
from clob.records import Kind
from clob.replay import read_npz, sample_path
from clob.replay.backtest import backtest
from clob.replay.io.streams import Instrument, Stream, merge
from clob.replay.modes.rematch import StreamDriver
from clob.replay.sim.delays import between
from clob.replay.sim.fees import RateFees
from clob.replay.sim.latency import Latency
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.session import Session
from clob.replay.strategies import Arbitrage, InventoryAverse, MarketMaker
from tests.books import ask, batch, bid, row
from tests.replay.sim.sessions import equity_of, positions_of
from tests.replay.sim.slow_driver import SlowDriver

MINUTE_NS = 60 * 10**9
MS = 10**6


@pytest.fixture(scope="module")
def sample():
    """The packaged day."""
    return read_npz(sample_path())


def mirrored(recording, delay_ns):
    """Add the NO side to YES flow, with a delay: a sell at p becomes a buy at 100 - p."""
    events, seed = recording.events.copy(), recording.seed.copy()
    for array in (events, seed):
        array["side"] = 1 - array["side"]
        array["price"] = 100 - array["price"]
        array["instrument"] = 1
    events["ts_ns"] += delay_ns
    other = Stream.of(dataclasses.replace(recording, events=events, seed=seed, fills=None))
    other.instruments = (Instrument(1, "rain", "NO"),)
    one = Stream.of(dataclasses.replace(recording, fills=None))
    one.instruments = (Instrument(0, "rain"),)
    return merge([one, other])


def play(strategy, events, lot_wei=1, **options):
    return run(strategy, SlowDriver(events, lot_wei=lot_wei), **options)


def run(strategy, driver, **options):
    session = Session(strategy, driver, **options)
    session.run()
    mine = session.account.portfolio
    assert mine.collateral == mine.initial + mine.realised - mine.cost
    # Every fill was reported by the end, or is still in transit.
    assert sum(order.filled for order in session.account.orders) <= sum(
        fill.size for fill in session.account.fills
    )
    return session


def quotes(session):
    return sorted((order.side.name, order.price) for order in session.markets[0].open_orders)


# ----- examples ----------------------------------------------------------------------------------


def still(*rows):
    """Make events one second apart; the first two rest before the start."""
    events = batch(*rows, bid(99, 1, 1), bid(98, 1, 1))
    events["kind"][:2] = Kind.SEED
    events["ts_ns"] = np.maximum(np.arange(len(events)) - 1, 0) * 10**9
    return events


def test_maker_quotes_around_the_middle_and_keeps_its_place():
    flow = still(bid(1, 45, 10), ask(2, 52, 10), bid(3, 44, 1), bid(4, 43, 1), bid(5, 42, 1))
    session = play(MarketMaker(half_spread=1, size=5), flow, every_ns=100 * MS)
    # The middle is 48.5, so the quotes are 47 and 50; they do not follow themselves inwards.
    assert quotes(session) == [("BUY", 47), ("SELL", 50)]
    assert len(session.account.orders) == 2


def test_maker_follows_other_orders():
    flow = still(bid(1, 45, 10), ask(2, 52, 10), bid(3, 44, 1), bid(4, 43, 1), bid(5, 49, 1))
    session = play(MarketMaker(half_spread=1, size=5), flow, every_ns=10**9)
    assert [(order.side, order.price) for order in session.account.orders] == [
        (Side.BUY, 47),
        (Side.SELL, 50),
        (Side.BUY, 49),
        (Side.SELL, 52),
    ]
    assert quotes(session) == [("BUY", 49), ("SELL", 52)]


def test_maker_stops_at_its_position_limit():
    sells = [row(Kind.IOC, 10 + count, 1, 47, 5) for count in range(4)]
    flow = still(bid(1, 45, 10), ask(2, 52, 10), bid(3, 44, 1), *sells)
    session = play(MarketMaker(half_spread=1, size=5, limit=12), flow, every_ns=300 * MS)
    assert session.markets[0].position == 10
    assert quotes(session) == [("SELL", 50)]


def test_maker_does_not_count_on_a_quote_it_cancels():
    flow = batch(
        bid(1, 45, 10),
        ask(2, 52, 10),
        bid(3, 44, 1),
        row(Kind.IOC, 4, 1, 47, 3),
        row(Kind.IOC, 5, 0, 50, 3),
        bid(6, 44, 1),
    )
    flow["kind"][:2] = Kind.SEED
    flow["ts_ns"] = [0, 0, 0, 260 * MS, 350 * MS, 10**9]
    strategy = MarketMaker(half_spread=1, size=5, limit=5)
    latency = Latency(order_ns=150 * MS)
    session = play(strategy, flow, every_ns=100 * MS, latency=latency)
    # After 3 of 5 the bid would exceed the limit and is cancelled; the ask then sells 3.
    assert [order.filled for order in session.account.orders[:2]] == [3, 3]
    assert (session.account.orders[2].side, session.account.orders[2].sent_ns) == (
        Side.BUY,
        400 * MS,
    )


def test_averse_maker_moves_quotes_against_its_position():
    flow = still(
        bid(1, 45, 10),
        ask(2, 53, 10),
        bid(3, 44, 1),
        row(Kind.IOC, 4, 1, 47, 5),
        bid(5, 42, 1),
        bid(6, 42, 1),
    )
    strategy = InventoryAverse(aversion=4, half_spread=2, size=5, limit=10)
    session = play(strategy, flow, every_ns=300 * MS)
    assert session.markets[0].position == 5
    # Half of the limit shifts the middle by half of four ticks, from 49 to 47.
    assert quotes(session) == [("BUY", 45), ("SELL", 49)]


def test_averse_maker_requires_a_limit():
    with pytest.raises(ValueError, match="limit must be 1 or more; got 0"):
        InventoryAverse(limit=0)


def test_one_sided_books_are_not_traded():
    flow = still(bid(1, 45, 10), bid(2, 44, 10), bid(3, 44, 1))
    for strategy in (MarketMaker(), InventoryAverse(), Arbitrage()):
        assert play(strategy, flow, every_ns=300 * MS).account.orders == []


def pairs(*rows):
    events = batch(*rows, bid(99, 1, 1), bid(98, 1, 1))
    events["ts_ns"][-1] = 10**9
    events["kind"][:-2] = Kind.SEED
    return events


def on_no(event):
    return event | {"instrument": 1}


def test_arbitrage_buys_pairs_below_one_and_merges():
    flow = pairs(ask(1, 44, 300), on_no(ask(2, 53, 200)))
    session = play(Arbitrage(edge=3, size=1_000), flow, 100, every_ns=100 * MS)
    assert [(fill.instrument, fill.price, fill.size) for fill in session.account.fills] == [
        (0, 44, 200),
        (1, 53, 200),
    ]
    assert (session.account.portfolio.collateral, session.account.portfolio.cost) == (200 * 3, 0)


def test_arbitrage_waits_for_replies_before_acting_again():
    sent = []
    latency = Latency(order_ns=lambda _: sent.append(1) or 250 * MS)
    flow = pairs(ask(1, 44, 300), on_no(ask(2, 53, 300)))
    session = play(Arbitrage(), flow, 100, every_ns=100 * MS, latency=latency)
    assert len(sent) == 3
    assert (session.account.portfolio.collateral, session.account.portfolio.cost) == (900, 0)


def test_arbitrage_splits_and_sells_pairs_above_one():
    flow = pairs(bid(1, 44, 300), on_no(bid(2, 59, 200)))
    mine = Portfolio(30_000)
    session = play(Arbitrage(edge=1), flow, 100, every_ns=100 * MS, portfolio=mine)
    assert (mine.collateral, mine.size(0), mine.size(1)) == (30_000 + 200 * 3, 0, 0)
    assert len(session.account.fills) == 2


def test_arbitrage_does_not_trade_in_a_fair_market():
    flow = pairs(bid(1, 44, 300), ask(2, 46, 300), on_no(bid(3, 54, 200)), on_no(ask(4, 56, 200)))
    assert play(Arbitrage(), flow, every_ns=100 * MS).account.orders == []


def test_arbitrage_keeps_unpaired_tokens_for_later():
    events = [ask(1, 44, 300), on_no(ask(2, 53, 200))]
    flow = batch(
        *events,
        on_no(bid(99, 1, 1)),
        on_no(row(Kind.CANCEL, 2)),
        on_no(ask(4, 54, 1_000)),
        bid(98, 1, 1),
    )
    flow["kind"][:2] = Kind.SEED
    flow["ts_ns"] = [0, 0, 0, 150 * MS, 160 * MS, 10**9]
    session = play(Arbitrage(), flow, 100, every_ns=100 * MS, latency=Latency(order_ns=55 * MS))
    assert session.account.orders[0].filled == 200
    assert session.account.orders[1].filled == 0
    # NO for the next 100 YES is bought later; 200 YES remain unpaired.
    assert (session.account.portfolio.size(0), session.account.portfolio.size(1)) == (200 * 100, 0)


# ----- a day -------------------------------------------------------------------------------------

LATENCY = Latency(between(10**6, 10**9), between(10**6, 10**9), seed=11)


@pytest.mark.parametrize(
    "strategy",
    [
        lambda: MarketMaker(half_spread=1, size=500, limit=5_000, split=5_000),
        lambda: InventoryAverse(aversion=4, half_spread=1, size=500, limit=5_000, split=5_000),
    ],
)
def test_maker_over_a_day(sample, strategy):
    mine = Portfolio(200 * 10**18, fees=RateFees(incoming_bps=100))
    driver = StreamDriver(Stream.of(sample))
    session = run(strategy(), driver, every_ns=MINUTE_NS, latency=LATENCY, portfolio=mine)
    assert len(session.account.fills) > 500
    assert all(fill.resting for fill in session.account.fills)
    assert mine.fees_paid == 0
    position = [row.size for row in positions_of(session) if row.instrument == 0]
    assert all(0 <= size <= 10_000 * sample.lot_wei for size in position)
    assert mine.collateral >= 0 <= mine.reserved
    assert [row.ts_ns for row in equity_of(session)] == sorted(
        row.ts_ns for row in equity_of(session)
    )


def test_averse_maker_holds_less(sample):
    held = []
    for strategy in (
        MarketMaker(half_spread=1, size=500, limit=5_000),
        InventoryAverse(aversion=6, half_spread=1, size=500, limit=5_000),
    ):
        driver = StreamDriver(Stream.of(sample))
        session = run(strategy, driver, every_ns=5 * MINUTE_NS, latency=LATENCY)
        sizes = [abs(row.size) for row in positions_of(session)]
        held.append(sum(sizes) // len(sizes))
    assert held[1] < held[0]


def test_arbitrage_over_a_day_earns_and_ends_flat(sample):
    driver = StreamDriver(mirrored(sample, 10 * MINUTE_NS))
    session = run(Arbitrage(edge=2), driver, every_ns=MINUTE_NS)
    assert len(session.account.fills) > 50
    assert session.account.portfolio.realised > 0
    # Without delay both orders of a pair are always filled, so no position remains.
    assert {session.account.portfolio.size(0), session.account.portfolio.size(1)} == {0}
    assert session.account.portfolio.collateral == session.account.portfolio.realised


@pytest.mark.parametrize("chunk", [97, 4_096])
def test_day_digest_does_not_depend_on_the_chunk_size(sample, chunk):
    digests = {
        backtest(
            mirrored(sample, 10 * MINUTE_NS),
            strategy=InventoryAverse(split=2_000),
            every_ns=5 * MINUTE_NS,
            latency=LATENCY,
            chunk=size,
        ).digest
        for size in (chunk, 65_536)
    }
    assert len(digests) == 1
