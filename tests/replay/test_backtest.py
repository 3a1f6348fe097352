"""Backtests: recorded fills are reproduced, and results do not depend on the chunk size."""

import dataclasses
import gc
import os
import pickle
import subprocess
import sys
import weakref
from collections import Counter, defaultdict

import numpy as np
import pytest

from clob import SelfTrade, Side
from clob.records import SELF_TRADE_SHIFT, Kind
from clob.replay.backtest import backtest
from clob.replay.errors import PortfolioError, ReplayFormatError
from clob.replay.io.npz import read_npz
from clob.replay.io.recording import join
from clob.replay.io.streams import OWN_ID, Instrument, Stream, merge
from clob.replay.results import TABLES
from clob.replay.samples.synthetic import synthetic_day
from clob.replay.sim.delays import between, lognormal
from clob.replay.sim.fees import Commission
from clob.replay.sim.latency import Latency
from clob.replay.sim.orders import OrderState
from clob.replay.sim.strategy import Strategy
from clob.replay.strategies.market_maker import MarketMaker
from tests.books import ask, batch, bid, load, row
from tests.replay.streams import TWO, best, filled, stream_of, taker

MAKER = {"every_ns": 600 * 10**9, "latency": Latency(10**6, 2 * 10**6)}


def test_golden_hour_is_reproduced(book_class, golden_path):
    result = backtest(Stream.of(read_npz(golden_path)), book_class=book_class)
    check = result.check
    assert (check.takers, check.exact) == (2_914, 2_914)
    assert (check.recorded, check.produced, check.matched) == (5_862, 5_862, 5_862)
    assert check.ok
    assert result.divergence.counts == {}
    assert (len(result.fills), result.events) == (5_862, 1_295 + 49_785 + 5_862)


@pytest.mark.parametrize("chunk", [1, 7, 4_096, 10**6])
def test_the_recorded_fills_and_the_final_book_are_reproduced(book_class, day, chunk):
    direct = book_class(lo=day.lo, hi=day.hi, lot_wei=day.lot_wei)
    direct.seed(day.seed)
    expected = direct.run(day.events, status=np.zeros(len(day.events), np.uint8))
    result = backtest(Stream.of(day), chunk=chunk, book_class=book_class)
    fields = ["resting_id", "incoming_id", "size", "price", "ts_ns"]
    assert np.array_equal(result.fills[fields], day.fills[fields])
    assert np.array_equal(expected[fields], day.fills[fields])
    assert result.books[0].state_hash() == direct.state_hash()
    assert result.divergence.counts == {}


def test_the_recording_is_not_changed(book_class, day):
    before = [array.tobytes() for array in (day.events, day.seed, day.fills)]
    backtest(Stream.of(day), book_class=book_class)
    assert [array.tobytes() for array in (day.events, day.seed, day.fills)] == before


def test_books_have_the_grid_of_the_stream(day):
    book = backtest(Stream.of(day)).books[0]
    assert (book.lo, book.hi, book.lot_wei) == (day.lo, day.hi, day.lot_wei)


def test_owners_and_self_trade_policies_of_events_reach_the_book(book_class):
    policy = SelfTrade.CANCEL_RESTING << SELF_TRADE_SHIFT
    rows = (ask(1, 50, 5, owner=4), bid(2, 50, 5, owner=4, flags=policy))
    result = backtest(stream_of(*rows, has_fills=False), book_class=book_class)
    assert len(result.fills) == 0
    assert 2 in result.books[0]


def test_too_wide_grid_is_rejected(book_class):
    stream = Stream(lambda: (), lo=1, hi=2**18 + 1, lot_wei=1, name="far")
    with pytest.raises(ReplayFormatError, match="far: prices from 1 to 262145 ticks, but"):
        backtest(stream, book_class=book_class)


def test_stream_without_instruments(book_class):
    stream = Stream(lambda: (), lo=1, hi=99, lot_wei=1, instruments=())
    for mode in ("rematch", "shadow"):
        assert backtest(stream, mode=mode, book_class=book_class).events == 0


@pytest.mark.long
def test_golden_hour_does_not_depend_on_the_chunk_size(golden_path):
    stream = Stream.of(read_npz(golden_path))
    whole = backtest(stream).digest
    for chunk in (1, 7, 4_096, 10**6):
        assert backtest(stream, chunk=chunk).digest == whole
    assert backtest(stream, book_class=load("python")).digest == whole


@pytest.mark.parametrize("strategy", [False, True])
def test_digest_does_not_depend_on_chunks_books_and_kept_tables(day, strategy):
    def run(**arguments):
        mine = {"strategy": MarketMaker(size=50), **MAKER} if strategy else {}
        return backtest(Stream.of(day), **arguments, **mine)

    whole = run()
    assert bool(len(whole.own_fills)) is strategy
    for arguments in (
        {"chunk": 1},
        {"chunk": 7},
        {"chunk": 4_096},
        {"keep": ()},
        {"keep": ("bests",)},
        {"check": ()},
        {"book_class": load("python")},
        {"book_class": load("python"), "chunk": 50},
    ):
        other = run(**arguments)
        assert other.digest == whole.digest
        assert other.divergence == whole.divergence
        assert other.counts == whole.counts
    assert run(chunk=7).check == whole.check


PROGRAM = """
from clob.replay import synthetic_day
from clob.replay.backtest import backtest
from clob.replay.strategies.market_maker import MarketMaker
from clob.replay.io.streams import Stream
stream = Stream.of(synthetic_day(seed=3, orders=300))
print(backtest(stream, strategy=MarketMaker(size=50), every_ns=600 * 10**9).digest)
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


def test_different_results_have_different_digests(day):
    stream = Stream.of(day)
    one = backtest(stream, strategy=MarketMaker(size=50), **MAKER)
    other = backtest(stream, strategy=MarketMaker(size=51), **MAKER)
    none = backtest(stream)
    assert len({one.digest, other.digest, none.digest}) == 3


def test_idle_strategy_changes_nothing(day):
    class Idle(Strategy):
        """Does nothing."""

    idle, none = backtest(Stream.of(day), strategy=Idle(), **MAKER), backtest(Stream.of(day))
    assert np.array_equal(idle.fills, none.fills)
    assert np.array_equal(idle.bests, none.bests)
    assert idle.check.exact == none.check.exact == none.check.takers


class Once(Strategy):
    """Sends one order at the start."""

    def __init__(self, side, price, size):
        self.order = (side, price, size)

    def on_start(self, market):
        side, price, size = self.order
        (market.buy if side is Side.BUY else market.sell)(price, size)


FLOW = (
    ask(1, 50, 5, ts_ns=1),
    ask(2, 50, 5, ts_ns=2),
    taker(8, 0, 50, 5, ts_ns=3),
    filled(1, 5, 50, ts_ns=3),
    taker(9, 0, 50, 5, ts_ns=4),
    filled(2, 5, 50, ts_ns=4),
    row(Kind.CANCEL, 2, ts_ns=5),
)


def test_own_order_joins_the_queue(book_class):
    # It arrives after the first recorded order and before the second one.
    stream = stream_of(*FLOW)
    result = backtest(stream, strategy=Once(Side.SELL, 50, 3), book_class=book_class)
    assert result.own_fills.tolist() == [(4, OWN_ID, 9, 3, 50, 0, 1, 1, 0, 0, 0)]
    assert result.fills[["event", "resting_id", "size"]].tolist() == [
        (2, 1, 5),
        (4, OWN_ID, 3),
        (4, 2, 2),
    ]
    assert result.divergence.counts == {"own_orders": 1}
    assert result.check.exact == 1
    # The second order is filled less than in history, so its recorded cancel succeeds.
    assert len(result.books[0]) == 0
    assert result.portfolio.size(0) == -3


def test_own_order_takes_resting_orders(book_class):
    result = backtest(stream_of(*FLOW), strategy=Once(Side.BUY, 50, 3), book_class=book_class)
    assert result.own_fills.tolist() == [(1, OWN_ID, 1, 3, 50, 0, 0, 0, 0, 0, 0)]
    assert result.divergence.counts == {"cancel_gone": 1, "own_orders": 2}


def test_kept_strategy_frees_the_run_and_cannot_send():
    class Keeper(Once):
        def on_start(self, market):
            super().on_start(market)
            self.market = market

    def blocks():
        rows = batch(*FLOW)
        read.append(weakref.ref(rows))
        yield rows

    read = []
    keeper = Keeper(Side.SELL, 50, 3)
    gc.collect()
    gc.disable()
    try:
        backtest(Stream(blocks, lo=1, hi=99, lot_wei=1), strategy=keeper)
        assert [one() for one in read] == [None]
    finally:
        gc.enable()
    assert (keeper.market.now_ns, keeper.market.position) == (5, -3)
    for send in (keeper.market.buy, keeper.market.yes.sell):
        with pytest.raises(RuntimeError, match="the run has ended"):
            send(50, 1)
    for exchange in (keeper.market.split, keeper.market.merge):
        with pytest.raises(RuntimeError, match="the run has ended"):
            exchange(1)


def by_command(result, stream):
    """Yield the place of each command, its recorded fills and its produced fills."""
    events = join(list(stream.chunks()))
    kinds = events["kind"]
    rows = events[["order_id", "size", "price"]].tolist()
    produced = defaultdict(list)
    for event, resting_id, incoming_id, size, price, *_ in result.fills.tolist():
        if incoming_id < OWN_ID:
            produced[event].append((resting_id, size, price))
    for place in np.flatnonzero(kinds < Kind.TRADE).tolist():
        behind = place + 1
        while behind < len(kinds) and kinds[behind] == Kind.FILL:
            behind += 1
        yield place, rows[place + 1 : behind], produced[place]


@pytest.mark.parametrize("chunk", [64, 10**6])
def test_own_order_divergences_equal_a_comparison_of_every_command(day, chunk):
    rain, snow = Stream.of(day), Stream.of(synthetic_day(seed=8, orders=300))
    snow.instruments = (Instrument(0, "snow"),)
    stream = merge([rain, snow])
    result = backtest(stream, strategy=MarketMaker(size=300), chunk=chunk, **MAKER)
    assert len(set(result.own_fills["instrument"].tolist())) == 2
    wrong = [
        difference for difference in by_command(result, stream) if difference[1] != difference[2]
    ]
    assert result.divergence.counts["own_orders"] == len(wrong) > 50
    kept = [one for one in result.divergence.kept if one.kind == "own_orders"]
    assert [(one.event, list(one.recorded), list(one.produced)) for one in kept] == wrong[:5]
    check = result.check
    assert check.first_difference == wrong[0][0]
    assert check.takers - check.exact == sum(bool(recorded) for _, recorded, _ in wrong)
    common = sum((Counter(one) & Counter(other)).total() for _, one, other in wrong)
    recorded, produced = (sum(len(each[side]) for each in wrong) for side in (1, 2))
    assert check.recorded - check.matched == recorded - common
    assert check.produced - check.recorded == produced - recorded


def test_outcome_is_paid_out():
    stream = stream_of(*FLOW, lot_wei=100)
    result = backtest(stream, strategy=Once(Side.SELL, 50, 3), outcome={0: 100}, collateral=None)
    assert result.portfolio.collateral == 3 * 50 - 3 * 100
    assert result.equity["wealth"][-1] == -150
    assert result.positions["size"].tolist() == [-300, 0]


def test_invalid_outcome_is_rejected_before_reading():
    opened = []

    def chunks():
        opened.append(1)
        return iter(())

    stream = Stream(chunks, lo=1, hi=99, lot_wei=100, instruments=TWO)
    with pytest.raises(ValueError, match=r"outcome has market 7, but the stream has \[0\]"):
        backtest(stream, outcome={7: 100})
    with pytest.raises(PortfolioError, match=r"from 0 to 100 \(ticks\); got 101"):
        backtest(stream, outcome={0: 101})
    for worth in (50.5, True, "yes"):
        with pytest.raises(ValueError, match=rf"must be an integer \(ticks\); got {worth!r}"):
            backtest(stream, outcome={0: worth})
    assert not opened


def test_amounts_use_the_scale_of_the_stream():
    stream = stream_of(*FLOW, lot_wei=100)
    stream.scale = 200
    once = backtest(stream, strategy=Once(Side.SELL, 50, 3), outcome={0: 200})
    assert once.portfolio.collateral == (3 * 50 - 3 * 200) // 2
    other = backtest(stream, strategy=Once(Side.SELL, 50, 3), scale=100)
    assert other.portfolio.collateral == 3 * 50
    finer = stream_of(*FLOW, lot_wei=100)
    with pytest.raises(ValueError, match=r"must have the same scale; got \[100, 200\] ticks"):
        merge([stream, finer])
    assert merge([stream, stream]).scale == 200


def test_books_of_two_instruments_are_independent(book_class):
    other = {"instrument": 1}
    rows = (
        ask(1, 50, 5, ts_ns=1),
        bid(1, 60, 5, ts_ns=1, **other),
        taker(2, 0, 50, 4, ts_ns=2),
        filled(1, 4, 50, ts_ns=2),
        taker(2, 1, 60, 3, ts_ns=2, **other),
        filled(1, 3, 60, ts_ns=2, **other),
        best(0, 60, 2, ts_ns=2, **other),
        best(1, 50, 1, ts_ns=2),
    )
    stream = stream_of(*rows, instruments=TWO)
    for chunk in (1, 3, 100):
        result = backtest(stream, book_class=book_class, chunk=chunk)
        assert (result.check.takers, result.check.exact) == (2, 2)
        assert (result.check.bests, result.check.bests_equal) == (2, 2)
        assert result.bests["instrument"].tolist() == [0, 1, 0, 1]


def test_different_best_prices_are_counted(book_class):
    rows = (bid(1, 40, 5), best(0, 40, 5), best(1, 0, 0), best(0, 40, 4), best(0, 41, 5))
    for chunk in (1, 100):
        check = backtest(stream_of(*rows), book_class=book_class, chunk=chunk).check
        assert (check.bests, check.bests_equal, check.first_best_difference) == (4, 2, 3)
        assert not check.ok


def test_without_recorded_fills_there_is_no_check():
    result = backtest(stream_of(bid(1, 40, 5), ask(2, 40, 5), has_fills=False))
    assert result.check is None
    assert result.divergence.counts == {}
    assert len(result.fills) == 1


def test_empty_stream():
    result = backtest(stream_of(), strategy=MarketMaker(), every_ns=1)
    assert (result.events, len(result.fills)) == (0, 0)


def test_progress_is_reported(day):
    progress = []
    result = backtest(Stream.of(day), chunk=500, on_progress=progress.append)
    assert progress == sorted(progress)
    assert progress[-1] == result.events


@pytest.mark.parametrize(
    "wrong", [{"mode": "x"}, {"check": ("bbo",)}, {"keep": ("x",)}, {"chunk": 0}]
)
def test_invalid_arguments_are_rejected(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        backtest(stream_of(), **wrong)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"stream": "day.npz"}, r"stream must be a Stream, such as open_stream\(path\).*; got str"),
        ({"strategy": MarketMaker}, r"must be an object, such as MarketMaker\(\); got the class"),
        ({"strategy": object()}, "strategy must be a Strategy or None; got <object"),
        ({"latency": 5}, "latency must be a Latency or None; got 5"),
        ({"outcome": [100]}, r"outcome must be a Mapping or None; got \[100\]"),
        ({"check": "fills"}, r"check must be a collection of words, such as \('fills',\)"),
    ],
)
def test_arguments_of_another_type_are_named(wrong, text):
    with pytest.raises(TypeError, match=text):
        backtest(**{"stream": stream_of(), **wrong})


def test_callback_whose_call_would_not_run_it_is_rejected():
    def generator(self, market):
        yield market.buy(1, 1)

    async def coroutine(self, market):
        market.buy(1, 1)

    for method in (generator, coroutine):
        with pytest.raises(TypeError, match=r"Mine\.on_book must be a function without"):
            type("Mine", (Strategy,), {"on_book": method})


def test_event_of_an_unknown_instrument_is_rejected():
    with pytest.raises(
        ReplayFormatError, match=r"instrument of an event must be one of \[0\]; got 1"
    ):
        backtest(stream_of(bid(1, 40, 5, instrument=1)))


# ----- results -------------------------------------------------------------------------------


def test_summaries(day):
    result = backtest(Stream.of(day), strategy=MarketMaker(size=50), **MAKER)
    assert "own orders" in str(result)
    assert repr(result) == str(result)
    assert "<table>" in result._repr_html_()
    assert str(result.divergence).count("\n") == len(result.divergence.counts) - 1
    assert str(result.divergence.kept[0]).startswith("event ")


def test_arrow_tables(day):
    result = backtest(Stream.of(day), strategy=MarketMaker(size=50), **MAKER)
    with pytest.raises(ValueError, match="table must be one of"):
        result.to_arrow("nothing")
    pytest.importorskip("pyarrow")
    for name in ("fills", "bests", "orders", "own_fills", "equity", "positions"):
        table = result.to_arrow(name)
        assert table.num_rows == len(getattr(result, name))
    wealth = result.to_arrow("equity")["wealth"].to_pylist()
    assert [int(value) for value in wealth] == result.equity["wealth"].tolist()


def test_pandas_tables(day):
    pytest.importorskip("pandas")
    result = backtest(Stream.of(day))
    assert len(result.to_pandas("bests")) == len(result.bests)


def test_readable_tables_have_tokens_names_and_times(day):
    pandas = pytest.importorskip("pandas")
    result = backtest(Stream.of(day), strategy=MarketMaker(size=50), **MAKER)
    lot_tokens = result.setting.lot_wei / 10**18
    orders = result.to_pandas("orders", units="tokens", times=True)
    assert set(orders["side"]) == {"BUY", "SELL"}
    assert set(orders["state"]) <= {state.name for state in OrderState}
    assert orders["size"].tolist() == pytest.approx(result.orders["size"] * lot_tokens)
    never = result.orders["ahead"] == -1
    assert (orders["ahead"].isna() == never).all()
    assert orders.index.name == "sent"
    assert (orders["done"].isna() == (result.orders["done_ns"] == -1)).all()
    fills = result.to_pandas("own_fills", units="tokens", times=True)
    sides = dict(zip(result.orders["order_id"], orders["side"], strict=True))
    assert fills["side"].tolist() == [sides[each] for each in result.own_fills["order_id"]]
    assert fills["fee"].tolist() == [each / 10**18 for each in result.own_fills["fee"]]
    equity = result.to_pandas("equity", units="tokens", times=True)
    assert equity.index.name == "time"
    assert equity.index[0] == pandas.Timestamp(int(result.equity["ts_ns"][0]), tz="UTC")
    assert equity["wealth"].iloc[-1] == result.equity["wealth"][-1] / 10**18


def test_readable_tables_are_the_same_in_arrow(day):
    pytest.importorskip("pyarrow")
    result = backtest(Stream.of(day), strategy=MarketMaker(size=50), **MAKER)
    for name in TABLES:
        frame = result.to_pandas(name, units="tokens", times=True).reset_index()
        table = result.to_arrow(name, units="tokens", times=True)
        assert set(table.column_names) == set(frame.columns)
        for column in table.column_names:
            found = table[column].to_pandas()
            assert (found.eq(frame[column]) | (found.isna() & frame[column].isna())).all(), column


def test_unknown_units_of_a_table_are_rejected(day):
    pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="units must be stored or tokens; got 'wei'"):
        backtest(Stream.of(day)).to_pandas(units="wei")


def test_result_can_be_pickled():
    for keep in ((), ("fills", "bests")):
        result = backtest(Stream.of(synthetic_day(1, 400)), keep=keep)
        copy = pickle.loads(pickle.dumps(result))
        assert (copy.digest, str(copy)) == (result.digest, str(result))
        assert copy.books[0].state_hash() == result.books[0].state_hash()
    mine = backtest(Stream.of(synthetic_day(1, 400)), strategy=MarketMaker(), **MAKER)
    assert pickle.loads(pickle.dumps(mine)).digest == mine.digest


def test_strategy_that_would_never_wake_is_rejected():
    with pytest.raises(ValueError, match="MarketMaker overrides on_wake, which needs every_ns"):
        backtest(Stream.of(synthetic_day(1, 10)), strategy=MarketMaker())


@pytest.mark.parametrize("fees", ["betfair-5", Commission(500)])
def test_fees_of_a_venue_are_rejected_where_prices_are_odds(fees):
    labelled = Stream.of(dataclasses.replace(synthetic_day(3, 60), labels=("1.01",) * 99))
    with pytest.raises(PortfolioError, match="fees of a venue need prices in money"):
        backtest(labelled, strategy=MarketMaker(), every_ns=10**9, fees=fees)


def test_result_names_the_fee_schedule_and_proves_drawn_latency():
    options = {"strategy": MarketMaker(size=50), "every_ns": 60 * 10**9, "fees": "kalshi-2026"}
    runs = [
        backtest(
            Stream.of(synthetic_day(3, 2_000)),
            latency=Latency(lognormal(10**9, 10**10), between(0, 10**9), seed, cancel_ns=5),
            **options,
        )
        for seed in ("one", "one", "two")
    ]
    assert runs[0].fees.startswith("kalshi-2026 (2026-02-05, https://")
    assert runs[0].digest == runs[1].digest != runs[2].digest
    assert pickle.loads(pickle.dumps(runs[0])).fees == runs[0].fees
    # Stored, so that another version of Python or of a library shows.
    assert runs[0].digest[:16] == "fd58a2ad1d52acda"
