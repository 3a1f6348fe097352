"""Money of a backtest: rules of valuation, rows of equity, metrics; computed by hand or afresh."""

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clob import Side
from clob.records import Kind
from clob.replay import Latency, Strategy, Stream, backtest, synthetic_day
from clob.replay.metrics import HORIZONS_NS, sharpe, sortino
from clob.replay.sim.marks import MARKS
from clob.replay.strategies import MarketMaker
from tests.books import ask, bid, row
from tests.replay.streams import TWO, filled, stream_of, taker

LOT = 100
"""Wei of a lot, so that a lot costs as many wei as its price has ticks."""

YEAR_NS = 365 * 24 * 3_600 * 10**9


class Opening(Strategy):
    """Sends scripted orders at the start, and is never called again."""

    def __init__(self, *orders):
        self.orders = orders

    def on_start(self, market):
        for outcome, side, price, size in self.orders:
            token = market.no if outcome else market.yes
            (token.sell if side else token.buy)(price, size)


BOOK = (bid(1, 48, 10, ts_ns=10), ask(2, 52, 10, ts_ns=10))
END = (row(Kind.CANCEL, 99, ts_ns=100),)


def played(*events, orders=((0, 0, 52, 3),), instruments=None, **arguments):
    more = {} if instruments is None else {"instruments": instruments}
    stream = stream_of(*BOOK, *events, *END, lot_wei=LOT, **more)
    return backtest(stream, strategy=Opening(*orders), **arguments)


def rows(result):
    """Return time and wealth of each row of equity."""
    return list(zip(result.equity["ts_ns"].tolist(), result.equity["wealth"].tolist(), strict=True))


# ----- rules of valuation --------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["rematch", "shadow"])
@pytest.mark.parametrize(
    ("mark", "ticks"), [("others-mid", 50), ("mid", 51), ("bid", 48), ("last", 52)]
)
def test_three_lots_bought_at_52_are_worth_the_price_of_the_rule(mode, mark, ticks):
    # The own bid at 50 is the best one, and so half of a middle that includes own orders.
    # In shadow, the trade is not part of history: a recorded trade at 52 follows.
    trade = (taker(3, 0, 52, 1, ts_ns=20), filled(2, 1, 52, ts_ns=20))
    orders = ((0, 0, 52, 3), (0, 0, 50, 1))
    result = played(*trade, orders=orders, mark=mark, mode=mode)
    assert result.setting.mark == mark
    assert result.equity["collateral"][-1] == -3 * 52
    assert result.equity["wealth"][-1] == 3 * ticks - 3 * 52


def test_tokens_owed_close_at_the_ask():
    result = played(orders=((0, 1, 48, 2),), mark="bid")
    assert result.equity["wealth"][-1] == 2 * 48 - 2 * 52


def test_token_without_a_book_is_worth_the_rest_of_the_other_one():
    class Splitter(Strategy):
        def on_start(self, market):
            market.split(4)

    for mark, no in (("others-mid", 50), ("bid", 100 - 52)):
        stream = stream_of(*BOOK, *END, lot_wei=LOT)
        result = backtest(stream, strategy=Splitter(), mark=mark)
        yes = 50 if mark == "others-mid" else 48
        assert result.equity["wealth"][-1] == 4 * (yes + no) - 4 * 100


def test_position_is_worth_its_cost_until_there_is_a_price():
    result = played(row(Kind.CANCEL, 1, ts_ns=10), mark="last", mode="shadow")
    assert rows(result)[-1] == (10, 0)


def test_unknown_rule_is_rejected_with_the_names():
    with pytest.raises(ValueError, match="mark must be one of others-mid, mid, bid, last; got 'x'"):
        played(mark="x")
    for step in (0, -1, 1.5):
        with pytest.raises(ValueError, match="equity_every_ns must be None or an integer of 1"):
            played(equity_every_ns=step)
    with pytest.raises(ValueError, match="horizons_ns must be integers of 1 or more; got 0"):
        played(horizons_ns=(0,))


# ----- rows of equity ------------------------------------------------------------------------

SWING = (
    row(Kind.CANCEL, 1, ts_ns=25),
    bid(11, 50, 10, ts_ns=25),  # the middle rises to 51
    row(Kind.CANCEL, 11, ts_ns=45),
    bid(12, 40, 10, ts_ns=45),  # and falls to 46
    bid(13, 48, 10, ts_ns=65),  # and returns to 50
)


def test_drawdown_needs_no_wake():
    result = played(*SWING, equity_every_ns=10)
    assert rows(result) == [
        (10, 0),
        (10, 3 * 50 - 3 * 52),
        (30, 3 * 51 - 3 * 52),
        (50, 3 * 46 - 3 * 52),
        (70, 3 * 50 - 3 * 52),
    ]
    assert result.metrics.drawdown == 3 * 52 - 3 * 46
    assert played(*SWING, equity_every_ns=None).metrics.drawdown == 3 * 52 - 3 * 50


def test_each_own_fill_has_a_row_at_its_time():
    sold = (taker(3, 0, 60, 4, ts_ns=33), taker(4, 0, 60, 2, ts_ns=44))
    # Bought 7 of the 10 lots at 52; the own ask at 53 is met when the rest is gone.
    result = played(*sold, orders=((0, 0, 52, 7), (0, 1, 53, 3)), equity_every_ns=None)
    assert result.own_fills[["ts_ns", "side", "price", "size"]].tolist() == [
        (10, 0, 52, 7),
        (33, 1, 53, 1),
        (44, 1, 53, 2),
    ]
    # A middle needs both sides: after the last ask of others it keeps its value of 50.
    assert rows(result)[1:] == [
        (10, 7 * 50 - 7 * 52),
        (33, 6 * 50 - 7 * 52 + 53),
        (44, 4 * 50 - 7 * 52 + 3 * 53),
    ]


def test_fills_state_their_profit():
    orders = ((0, 0, 52, 3), (0, 1, 48, 2), (0, 1, 48, 4))
    result = played(orders=orders)
    assert result.own_fills["realised"].tolist() == [0, 2 * 48 - 2 * 52, 48 - 52]
    assert sum(result.own_fills["realised"]) == result.portfolio.realised


def test_fills_name_their_book():
    other = (bid(21, 30, 5, instrument=1, ts_ns=11), taker(22, 1, 30, 2, instrument=1, ts_ns=12))
    result = played(*other, orders=((1, 1, 30, 1), (0, 0, 52, 3)), instruments=TWO)
    assert result.fills[["instrument", "size"]].tolist() == [(0, 3), (1, 1), (1, 2)]


def test_steps_and_rules_do_not_change_the_run():
    day = Stream.of(synthetic_day(2, 400))
    options = {"strategy": MarketMaker(size=50), "every_ns": 600 * 10**9, "fees": "kalshi-2026"}
    base = backtest(day, **options)
    for more in ({"mark": "last"}, {"equity_every_ns": 7 * 10**9}, {"horizons_ns": HORIZONS_NS}):
        other = backtest(day, **options, **more)
        assert other.digest == base.digest
        assert other.own_fills.tolist() == base.own_fills.tolist()
    assert backtest(day, **options, mark="last").equity.tolist() != base.equity.tolist()
    assert backtest(day, **options | {"fees": "kalshi-2026-maker"}).digest != base.digest


# ----- an independent ledger -----------------------------------------------------------------


class Erratic(Strategy):
    """Sends random orders, and keeps the best prices of others at each wake."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        self.seen = {}

    def on_wake(self, market):
        best = market.best_of_others(Side.BUY), market.best_of_others(Side.SELL)
        self.seen[market.now_ns] = best
        for order in market.open_orders:
            if self.draw.random() < 0.5:
                market.cancel(order)
        side, size = int(self.draw.integers(2)), int(self.draw.integers(1, 900))
        price = (best[side] or 50) + int(self.draw.integers(-2, 3))
        (market.sell if side else market.buy)(min(max(price, 1), 99), size)


def ledger(result, until_ns):
    """Return money and tokens after the fills up to a time."""
    money = tokens = 0
    for fill in result.own_fills:
        if fill["ts_ns"] <= until_ns:
            size = int(fill["size"]) * result.setting.lot_wei
            sign = -1 if fill["side"] else 1
            money -= sign * (size * int(fill["price"]) // 100) + fill["fee"]
            tokens += sign * size - fill["fee_tokens"]
    return money, tokens


def towards_zero(number, divisor):
    return number // divisor if number >= 0 else -(-number // divisor)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["rematch", "shadow"]),
    st.sampled_from(["kalshi-2026", "polymarket-2026-03-crypto"]),
)
def test_equity_of_a_random_strategy_equals_a_ledger_of_its_fills(seed, mode, fees):
    strategy = Erratic(seed)
    result = backtest(
        Stream.of(synthetic_day(seed % 5, 300)),
        mode=mode,
        strategy=strategy,
        every_ns=300 * 10**9,
        latency=Latency(order_ns=1, reply_ns=1),
        fees=fees,
    )
    last = dict(rows(result))
    times = np.array(sorted(last))
    known = None
    for ts_ns, (best_bid, best_ask) in strategy.seen.items():
        money, tokens = ledger(result, ts_ns)
        if mode == "shadow":
            # The book of history, from a run without a strategy.
            continue
        known = best_bid + best_ask if None not in (best_bid, best_ask) else known
        at = last[int(times[times <= ts_ns][-1])]
        assert at == money + towards_zero((known or 0) * tokens, 200)
    for one in result.equity:
        money, tokens = ledger(result, int(one["ts_ns"]))
        if one["ts_ns"] not in result.own_fills["ts_ns"]:
            assert one["collateral"] == money
            assert one["fees_paid"] == sum(
                result.own_fills["fee"][result.own_fills["ts_ns"] <= one["ts_ns"]]
            )
    assert (result.equity["collateral"][-1], result.portfolio.size(0)) == ledger(result, 2**62)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_equity_in_shadow_is_marked_by_the_book_of_history(seed):
    day = synthetic_day(seed % 5, 300)
    bests = backtest(Stream.of(day)).bests
    both = bests[(bests["bid_size"] > 0) & (bests["ask_size"] > 0)]
    result = backtest(Stream.of(day), mode="shadow", strategy=Erratic(seed), every_ns=300 * 10**9)
    for one in result.equity[result.equity["ts_ns"] > result.setting.start_ns]:
        ts_ns = int(one["ts_ns"])
        money, tokens = ledger(result, ts_ns)
        until = both[both["ts_ns"] <= ts_ns]
        # Events of the time of a fill may follow it.
        mids = until[until["ts_ns"] == ts_ns].tolist() + until[until["ts_ns"] < ts_ns][-1:].tolist()
        wealths = {money + towards_zero((row[4] + row[5]) * tokens, 200) for row in mids}
        if one["collateral"] == money:
            assert one["wealth"] in wealths


SCRIPT = """
import hashlib
from clob.replay import Stream, backtest, synthetic_day
from clob.replay.strategies import MarketMaker
for mark in ("others-mid", "mid", "bid", "last"):
    for mode in ("rematch", "shadow"):
        run = backtest(Stream.of(synthetic_day(4, 300)), mode=mode, mark=mark, fees="kalshi-2026",
                       strategy=MarketMaker(size=70), every_ns=300 * 10**9, horizons_ns=(10**9,))
        rows = repr((run.equity.tolist(), run.own_fills.tolist(), run.metrics, run.fills.tolist()))
        print(mark, mode, run.digest, hashlib.sha256(rows.encode()).hexdigest())
"""


def test_compiled_and_plain_python_agree():
    def printed(pure):
        environment = os.environ | {"CLOB_PURE_PYTHON": pure}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    plain = printed("1")
    assert plain == printed("0")
    assert len({line.split()[2] for line in plain.splitlines()}) == 2  # one digest for each mode


# ----- metrics -------------------------------------------------------------------------------


def test_metrics_of_a_run_computed_by_hand():
    # Steps of 20 end at 30, 50, 70 and 90: wealth 0 (start), -3, -18, -6, -6.
    result = played(*SWING, equity_every_ns=20, collateral=1_000)
    found = result.metrics
    profits = [-3, -15, 12, 0]
    assert (found.steps, found.step_ns, found.profit) == (4, 20, -6)
    assert found.total_return == -6 / 1_000
    mean = sum(profits) / 4
    spread = (sum((one - mean) ** 2 for one in profits) / 3) ** 0.5
    assert found.sharpe == pytest.approx(mean / spread * (YEAR_NS / 20) ** 0.5)
    losses = ((3**2 + 15**2) / 4) ** 0.5
    assert found.sortino == pytest.approx(mean / losses * (YEAR_NS / 20) ** 0.5)
    assert (found.drawdown, found.turnover) == (18, 3 * 52)
    assert (found.hit_rate, found.closing_fills, found.fill_ratio) == (None, 0, 1.0)
    assert found.queue_ns is None
    held = found.inventory[0]
    assert (held.instrument, held.mean, held.highest, held.last) == (0, 300, 300, 300)


def test_adverse_selection_is_the_move_of_others_against_the_fill():
    result = played(*SWING, horizons_ns=(20, 50, 85, 1_000))
    # Middle 50 at the fill at 10; 51 at 30, 46 at 60, 50 at 95; 1,010 is after the end.
    moves = [(one.mean_ticks, one.fills, one.lots) for one in result.metrics.adverse]
    assert moves == [(-1.0, 1, 3), (4.0, 1, 3), (0.0, 1, 3), (None, 0, 0)]
    assert result.mids.shape == (1, 5)
    sold = played(*SWING, orders=((0, 1, 48, 1),), horizons_ns=(50,)).metrics.adverse
    # Selling to the only bid of others leaves 9 lots there: the middle falls from 50 to 46.
    assert sold[0].mean_ticks == -4.0


def test_queue_hits_and_fill_ratio_by_hand():
    sold = (taker(3, 0, 60, 4, ts_ns=33), taker(4, 0, 60, 2, ts_ns=44))
    result = played(*sold, orders=((0, 0, 52, 7), (0, 1, 53, 6)))
    found = result.metrics
    assert found.queue_ns == 33 - 10
    assert (found.closing_fills, found.hit_rate) == (2, 1.0)
    assert found.fill_ratio == 10 / 13
    assert found.turnover == 7 * 52 + 3 * 53


@pytest.mark.parametrize("collateral", [None, 0, 1_000])
def test_run_without_trades_has_no_ratios(collateral):
    found = played(orders=(), equity_every_ns=10, collateral=collateral).metrics
    assert found.total_return == (0.0 if collateral else None)
    for name in ("sharpe", "sortino", "hit_rate", "fill_ratio", "queue_ns"):
        assert getattr(found, name) is None
    assert (found.profit, found.drawdown, found.turnover, found.inventory) == (0, 0, 0, ())


def test_empty_recording_has_metrics_and_a_replay_has_none():
    stream = stream_of(*BOOK, lot_wei=LOT)
    stream_empty = Stream(lambda: [], lo=1, hi=99, lot_wei=LOT, instruments=TWO)
    assert backtest(stream).metrics is None
    found = backtest(stream_empty, strategy=Opening(), horizons_ns=HORIZONS_NS).metrics
    assert (found.steps, found.sharpe, found.profit) == (0, None, 0)
    assert [one.mean_ticks for one in found.adverse] == [None] * 3


@given(st.lists(st.integers(-(10**22), 10**22), max_size=30))
def test_ratios_are_numbers_or_none(profits):
    for ratio in (sharpe(profits, 10**9), sortino(profits, 10**9)):
        assert ratio is None or math.isfinite(ratio)
    if len(set(profits)) < 2:
        assert sharpe(profits, 10**9) is None
    if not any(one < 0 for one in profits):
        assert sortino(profits, 10**9) is None


def test_pickled_run_has_equal_metrics_and_digest():
    result = played(*SWING, horizons_ns=HORIZONS_NS)
    again = pickle.loads(pickle.dumps(result))
    assert again.metrics == result.metrics
    assert (again.digest, again.setting) == (result.digest, result.setting)
    names = dict(result.metrics.rows())
    assert names["adverse_60s"] is None
    assert names["inventory_last"] == 300


def test_help_and_documents_name_every_rule():
    from clob.cli.replay import TRADING  # noqa: PLC0415 - the command line is not needed above

    text = next(text for flag, _, _, text in TRADING if flag == "--mark")
    assert all(name in text for name in MARKS)
