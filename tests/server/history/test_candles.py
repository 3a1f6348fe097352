"""Candles equal those computed from the trades, at every command, and after a rebuild."""

import random  # noqa: TID251 - seeded
from contextlib import closing

import msgspec
import pytest

from clob import AddMarket, RejectedError, ResetClock, Trade
from clob_server.core.sequencer import Committed
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.candles import (
    INTERVALS_MS,
    UNWRITTEN_MAX,
    Candle,
    CandleRange,
    UnwrittenTrades,
    with_trades,
)
from clob_server.history.rows import HistoryRows
from clob_server.history.store import Applied, HistoryStore, StoreReader
from tests.matchers import buy, market, sell
from tests.server.api.makers import good, problem
from tests.server.history.logs import dump, follow_log, write_log
from tests.server.history.test_history import BUYER, SELLER, SETTINGS, gasless, token_of, trades
from tests.server.live import live_server

BEGIN_MS = 1_700_000_000_000
DAY_MS = INTERVALS_MS["1d"]
TOKENS = ("m-yes", "m-no")
FOREVER = 2**53


def commands(seed, count=200):
    """Yield commands that trade both tokens, also by mints and merges, over some days."""
    rng, now_ms = random.Random(seed), BEGIN_MS
    yield AddMarket(market=market(complementary=True, lot_wei=100), now_ms=now_ms)
    for number in range(count):
        now_ms += int(10 ** rng.uniform(0, 7.5))
        if number == count // 2:
            now_ms -= DAY_MS // 2
            yield ResetClock(now_ms=now_ms)
        make, size = rng.choice((buy, sell)), 100 * rng.randint(1, 9) + 10**20
        price, token = rng.randint(40, 60), rng.choice(TOKENS)
        yield make(f"o{number}", price, size, token=token, now_ms=now_ms)


def candles_from(timed, interval_ms, token):
    """Return the candles of trades, each with its time, in the order of the trades."""
    groups = {}
    for trade, now_ms in timed:
        if trade.token == token:
            groups.setdefault(now_ms // interval_ms * interval_ms, []).append(trade)
    return [
        Candle(
            start_ms,
            found[0].price,
            max(each.price for each in found),
            min(each.price for each in found),
            found[-1].price,
            sum(each.size for each in found),
            len(found),
        )
        for start_ms, found in sorted(groups.items())
    ]


def wanted(token, interval, limit=10_000, **bounds):
    """Return a query of candles."""
    bounds = {"from_ms": 0, "to_ms": FOREVER} | bounds
    return CandleRange("m", token, INTERVALS_MS[interval], limit=limit, **bounds)


@pytest.mark.parametrize("written", [1, 7, 10**9], ids=["each", "some", "none"])
def test_candles_equal_those_of_the_trades_at_every_command(tmp_path, written):
    state, timed, unwritten = ServerState(), [], UnwrittenTrades(0)
    rows, kinds = HistoryRows(state), set()
    with closing(HistoryStore(tmp_path)) as store, closing(StoreReader(tmp_path)) as reader:
        for seq, command in enumerate(commands(written), 1):
            num_trades = state.num_trades
            outcome = outcome_of(state, command)
            assert not isinstance(outcome, RejectedError)
            new = [each for each in outcome if isinstance(each, Trade)]
            timed += [(each, command.now_ms) for each in new]
            kinds |= {each.match_type for each in new}
            rows.add(seq, command, outcome, num_trades)
            unwritten.on_batch([Committed(seq, command, outcome, num_trades)])
            if seq % written == 0:
                store.write(rows.take(), Applied(seq), command.now_ms)
                if seq % 2:  # the report of the writer may be late
                    unwritten.on_written(seq)
            for token in TOKENS:
                later = unwritten.of_token("m", token)
                for interval, interval_ms in INTERVALS_MS.items():
                    query = wanted(token, interval)
                    applied, (stored,) = reader.candles([query])
                    recent = [each for each in later if each.command_seq > applied]
                    expected = candles_from(timed, interval_ms, token)
                    assert with_trades(stored, recent, query) == expected
    assert len(kinds) == 3


@pytest.mark.parametrize("limit", [1, 2, 5, 1_000])
def test_range_is_cut_at_its_end_or_at_its_begin(tmp_path, limit):
    write_log(tmp_path, commands(5))
    follow_log(tmp_path)
    with closing(StoreReader(tmp_path)) as reader:
        _, (every,) = reader.candles([wanted("m-yes", "1h")])
        assert len(every) > 12
        low, high = every[2].start_ms, every[-2].start_ms
        query = wanted("m-yes", "1h", limit, from_ms=low, to_ms=high)
        assert with_trades(reader.candles([query])[1][0], (), query) == every[2:-2][:limit]
        query = query._replace(newest=True)
        assert with_trades(reader.candles([query])[1][0], (), query) == every[2:-2][-limit:]
        assert reader.candles([query._replace(market="n")]) == (202, [[]])


def test_candles_outlast_their_trades_and_are_rebuilt_identically(tmp_path):
    whole, pruned = tmp_path / "whole", tmp_path / "pruned"
    for folder, days in ((whole, 0), (pruned, 1)):
        folder.mkdir()
        write_log(folder, commands(3), per_frame=5)
        follow_log(folder, days=days, stop=90)
        follow_log(folder, days=days)
    kept = dump(pruned)
    assert len(kept["trades"]) < len(dump(whole)["trades"])
    assert kept["candles"] == dump(whole)["candles"]
    (pruned / "history.db").unlink()
    follow_log(pruned, days=1)
    assert dump(pruned) == kept


def test_trades_beyond_the_limit_are_dropped_with_their_whole_command():
    unwritten, state = UnwrittenTrades(3), ServerState()
    trade = Trade(1, "m", "m-yes", "a", "b", 50, 1, "B", "S", 0, 0, 0)
    command = next(commands(1))
    for seq in range(4, 4 + UNWRITTEN_MAX // 4 + 1):
        unwritten.on_batch([Committed(seq, command, [trade] * 4, state.num_trades)])
    assert unwritten.after == 4
    kept = unwritten.of_token("m", "m-yes")
    assert (len(kept), kept[0].command_seq) == (UNWRITTEN_MAX, 5)


# ----- over HTTP -------------------------------------------------------------------------------


def candles(live, market, **query):
    """Request candles."""
    return live.http.get(f"/api/markets/{market}/candles", params=query)


def from_listed(live, market, interval_ms):
    """Return the candles of the trades that the server lists."""
    groups = {}
    for each in reversed(good(trades(live, market, limit=100))):
        start_ms = each["timestamp"] // interval_ms * interval_ms
        groups.setdefault(start_ms, []).append(each)
    return [
        {
            "timestamp": start_ms,
            "open": found[0]["price"],
            "high": max(each["price"] for each in found),
            "low": min(each["price"] for each in found),
            "close": found[-1]["price"],
            "volume": str(sum(int(each["size"]) for each in found)),
            "numTrades": len(found),
        }
        for start_ms, found in sorted(groups.items())
    ]


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_candles_over_http_equal_the_listed_trades_after_a_restart(tmp_path, mode):
    settings = SETTINGS | {"history": mode}

    def check(live):
        for interval, interval_ms in INTERVALS_MS.items():
            body = good(candles(live, "m", interval=interval))
            assert body["candles"] == from_listed(live, "m", interval_ms)
        assert (body["marketId"], body["tokenId"]) == ("m", token_of("m"))
        assert body["interval"] == "1d"

    with live_server(tmp_path, **settings) as live:
        for price in (50, 55, 48, 52):
            gasless(live, "m", SELLER, 1, price=price)
            gasless(live, "m", BUYER, 0, price=price)
            check(live)
        live.kill()
    with live_server(tmp_path, **settings) as live:
        check(live)
        gasless(live, "m", SELLER, 1, price=51)
        gasless(live, "m", BUYER, 0, price=51)
        check(live)
        assert sum(each["numTrades"] for each in good(candles(live, "m"))["candles"]) == 5
        pages(live)
        rejections(live)


def pages(live):
    """Check that pages join to the whole range."""
    whole = good(candles(live, "m", **{"from": 0}))["candles"]
    first = candles(live, "m", **{"from": 0, "limit": 1})
    if len(whole) > 1:
        assert good(live.http.get(first.links["next"]["url"]))["candles"] == whole[1:2]
    assert good(first)["candles"] == whole[:1]
    assert good(candles(live, "m", limit=1))["candles"] == whole[-1:]
    start_ms = whole[-1]["timestamp"]
    assert good(candles(live, "m", **{"from": start_ms, "to": start_ms}))["candles"] == []
    found = good(candles(live, "m", **{"from": start_ms, "to": start_ms + 1}))["candles"]
    assert found == whole[-1:]
    assert good(candles(live, "m", **{"from": start_ms + 1}))["candles"] == []


def rejections(live):
    """Check that wrong parameters are rejected."""
    for name, value in (("interval", "2m"), ("from", "x"), ("to", "-1"), ("limit", "1001")):
        problem(candles(live, "m", **{name: value}), "INVALID_FIELD", name)
    problem(candles(live, "m", tokenId="1"), "TOKEN_NOT_IN_MARKET")
    problem(candles(live, "none"), "UNKNOWN_MARKET")


def test_candle_of_one_trade_is_extended_by_a_later_one():
    candle = Candle(0, 50, 51, 49, 50, 7, 2)
    candle.extend(Candle(0, 40, 60, 40, 55, 3, 1))
    assert msgspec.structs.astuple(candle) == (0, 50, 60, 40, 55, 10, 3)
