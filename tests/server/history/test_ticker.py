"""Tickers equal the books and the trades in the events, at every command and after restarts."""

import asyncio
import random  # noqa: TID251 - seeded
from collections import Counter
from contextlib import closing, suppress

import apsw
import msgspec
import pytest

from clob import AddMarket, Mode, RejectedError, RemoveMarket, ResetClock, SetMode, Trade
from clob_server.history import thread_writer
from clob_server.history.market_data import MARKETS_STEP
from clob_server.history.store import FILE
from tests.matchers import buy, market, sell
from tests.server.history.logs import write_log
from tests.server.history.test_positions import BEGIN_MS as SETTLING_MS
from tests.server.history.test_positions import SETTLING, Settling
from tests.server.history.test_settlements import running_service

BEGIN_MS = 1_700_000_000_000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
X = market("x", complementary=True, lot_wei=100)
SIZE = 10**18


def open_interest(trades):
    """Return the open interest of trades, each with the YES token: half of all amounts held."""
    held = Counter()
    for trade, yes in trades:
        for maker, sign in ((trade.buyer, 1), (trade.seller, -1)):
            held[maker] += sign * (1 if trade.token == yes else -1) * trade.size
    held.pop("", None)
    assert sum(held.values()) == 0
    return sum(map(abs, held.values())) // 2


class Exchange:
    """A service with the market ``x``, a clock that tests set, and the trades in its events."""

    def __init__(self):
        self.now_ms, self.trades, self.server = BEGIN_MS, [], None

    def running(self, folder, **settings):
        """Run the service on a folder."""
        return running_service(folder, clock_ms=lambda: self.now_ms, **settings)

    async def apply(self, *commands):
        """Submit commands at the time of the clock; keep their trades."""
        for command in commands:
            done = await self.server.service.sequencer.submit(
                lambda now_ms, each=command: msgspec.structs.replace(each, now_ms=now_ms)
            )
            assert not isinstance(done.outcome, RejectedError)
            self.trades += [(each, done.now_ms) for each in done.outcome if isinstance(each, Trade)]

    async def trade(self, number, price=50, token=X.yes):
        """Make a trade."""
        await self.apply(
            sell(f"s{number}", price, SIZE, token=token, market="x"),
            buy(f"b{number}", price, SIZE, token=token, market="x"),
        )

    async def ticker(self, **query):
        """Request the ticker."""
        return (await self.server.get("/api/markets/x/ticker", **query)).json()

    async def check(self):
        """Compare the ticker with the book and the trades."""
        assert await self.ticker() == {
            "marketId": "x",
            "yes": self.expected(X.yes),
            "no": self.expected(X.no),
            "openInterest": str(open_interest([(each, X.yes) for each, _ in self.trades])),
            "seq": self.server.service.state.matcher.seq("x"),
            "timestamp": self.now_ms,
        }

    def expected(self, token):
        """Return the ticker of a token from the whole book and from all trades."""
        depth = self.server.service.state.matcher.depth("x", token)
        best = [
            {"price": side[0].price, "size": str(side[0].size)} if side else None
            for side in (depth.bids, depth.asks)
        ]
        bid, ask = (each and each["price"] for each in best)
        sums = None not in (bid, ask)
        of_token = [(trade, now_ms) for trade, now_ms in self.trades if trade.token == token]
        first = self.now_ms // MINUTE_MS - 1_439
        counted = [trade for trade, now_ms in of_token if now_ms // MINUTE_MS >= first]
        return {
            "tokenId": token,
            "bestBid": best[0],
            "bestAsk": best[1],
            "middle": f"{(bid + ask) / 2:g}" if sums else None,
            "spread": ask - bid if sums else None,
            "lastPrice": of_token[-1][0].price if of_token else None,
            "volume24h": str(sum(each.size for each in counted)),
            "high24h": max((each.price for each in counted), default=None),
            "low24h": min((each.price for each in counted), default=None),
        }


@pytest.fixture(params=["thread", "process"])
def mode(request):
    return request.param


async def test_ticker_equals_book_and_trades_at_every_command_and_after_restarts(tmp_path, mode):
    exchange, rng = Exchange(), random.Random(7)
    for part in range(3):
        async with exchange.running(tmp_path, history=mode) as exchange.server:
            if not part:
                await exchange.apply(AddMarket(market=X, now_ms=0))
            await exchange.check()
            for number in range(80):
                exchange.now_ms += int(10 ** rng.uniform(0, 7.2))
                make, size = rng.choice((buy, sell)), SIZE + 100 * rng.randint(1, 9)
                price, token = rng.randint(40, 60), rng.choice((X.yes, X.no))
                name = f"o{part}-{number}"
                await exchange.apply(make(name, price, size, token=token, market="x"))
                await exchange.check()
    assert len({trade.match_type for trade, _ in exchange.trades}) == 3
    assert exchange.trades[-1][1] - exchange.trades[0][1] > 2 * DAY_MS


async def test_trade_counts_for_1440_minutes(tmp_path):
    exchange = Exchange()
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        await exchange.trade(1, price=40)
        exchange.now_ms += MINUTE_MS
        await exchange.trade(2, price=45)
        minute_ms = BEGIN_MS - BEGIN_MS % MINUTE_MS
        for late_ms, volume in ((-1, 2), (0, 1), (MINUTE_MS - 1, 1), (MINUTE_MS, 0)):
            exchange.now_ms = minute_ms + DAY_MS + late_ms
            found = (await exchange.ticker())["yes"]
            assert (found["volume24h"], found["lastPrice"]) == (str(volume * SIZE), 45)
            await exchange.check()
    async with exchange.running(tmp_path) as exchange.server:
        assert (await exchange.ticker())["yes"]["low24h"] is None
        await exchange.trade(3, price=50)
        await exchange.check()


async def test_trades_that_follow_while_history_is_read_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_writer, "WRITE_AFTER_S", 3_600)
    exchange = Exchange()
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        await exchange.trade(1)
    async with exchange.running(tmp_path) as exchange.server:
        history, numbers = exchange.server.service.history, iter((2, 3))
        await exchange.trade(0, price=41)
        read, written = history.read, []

        async def slow_read(query, seq=0):
            found = await read(query, seq)
            for number in numbers:
                await exchange.trade(number, price=42 + number)
                await history.wait_for(exchange.server.service.sequencer.seq)
                written.append(number)
            return found

        await history.tape("x")
        monkeypatch.setattr(history, "read", slow_read)
        await exchange.check()
        assert written == [2, 3]
        assert (await exchange.ticker())["yes"]["volume24h"] == str(4 * SIZE)


async def test_trades_after_a_repaired_clock_count_with_those_before(tmp_path):
    def traded(number, price, now_ms):
        for make, name in ((sell, "s"), (buy, "b")):
            yield make(f"{name}{number}", price, SIZE, token=X.yes, market="x", now_ms=now_ms)

    exchange = Exchange()
    exchange.now_ms += DAY_MS // 2
    write_log(
        tmp_path,
        [
            AddMarket(market=X, now_ms=BEGIN_MS),
            *traded(1, 40, BEGIN_MS),
            *traded(2, 60, BEGIN_MS + 2 * DAY_MS),
            ResetClock(now_ms=exchange.now_ms),
            *traded(3, 50, exchange.now_ms),
        ],
    )
    async with exchange.running(tmp_path) as exchange.server:
        for price in (50, 45):
            found = (await exchange.ticker())["yes"]
            assert (found["low24h"], found["high24h"], found["lastPrice"]) == (40, 60, price)
            await exchange.trade(price, price=45)
        assert (await exchange.ticker())["yes"]["volume24h"] == str(5 * SIZE)


async def test_answer_waits_for_a_command_and_names_the_last_one(tmp_path):
    exchange = Exchange()
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        seq = exchange.server.service.sequencer.seq
        answer = await exchange.server.get("/api/markets/x/ticker", minSeq=seq)
        assert answer.headers["x-applied-seq"] == str(seq)
        get = exchange.server.http.get
        for path, query, code in (
            ("/api/markets/x/ticker", {"minSeq": "x"}, "INVALID_FIELD"),
            ("/api/markets/x/ticker", {"interval": "1m"}, "INVALID_FIELD"),
            ("/api/markets/none/ticker", {}, "UNKNOWN_MARKET"),
        ):
            assert (await get(path, params=query)).json()["code"] == code


# ----- open interest ---------------------------------------------------------------------------


class Ledger:
    """A service that executes random commands of markets whose trades settle, fail and return."""

    def __init__(self, seed, parts):
        self.flow, self.now_ms, self.parts = Settling(seed), SETTLING_MS, parts
        self.commands, self.seen = self.flow.commands(60 * parts), set()

    def expected(self, name):
        """Return the open interest of a market, from the trades that have not failed."""
        ended = self.flow.state.registry.settling.ended
        failed = {number for number, each in ended.items() if each.reason}
        yes = self.flow.state.markets[name].yes
        counted = [
            (trade, yes)
            for trade, number in self.flow.trades
            if trade.market == name and number not in failed
        ]
        self.seen.add((name, bool(failed)))
        return str(open_interest(counted))

    async def run(self, folder, check, **settings):
        """Execute the commands; restart between the parts."""
        for part in range(self.parts):
            settings |= {"markets": (SETTLING,), "clock_ms": lambda: self.now_ms}
            async with running_service(folder, **settings) as server:
                for number, command in enumerate(self.commands):
                    self.now_ms = command.now_ms
                    self.flow.apply(command)
                    with suppress(RejectedError):
                        await server.service.sequencer.submit(lambda _, each=command: each)
                    if {"m", "free"} <= self.flow.state.markets.keys():
                        await check(self, server, number + part)
                    if number >= 60 and part + 1 < self.parts:
                        break
        assert self.seen == {("m", False), ("m", True), ("free", False), ("free", True)}


async def check_each(ledger, server, number):
    """Compare the open interest of both markets."""
    for name in ("m", "free"):
        found = (await server.get(f"/api/markets/{name}/ticker")).json()
        assert found["openInterest"] == ledger.expected(name)


@pytest.mark.parametrize("seed", range(3))
async def test_open_interest_equals_a_ledger_of_the_trades_that_count(tmp_path, mode, seed):
    ledger = Ledger(seed, parts=4)
    await ledger.run(tmp_path, check_each, history=mode, history_days=1)


async def test_open_interest_is_read_from_a_file_of_an_earlier_version(tmp_path):
    exchange = Exchange()
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        await exchange.trade(1)
    with closing(apsw.Connection(str(tmp_path / FILE))) as db:
        db.execute("DROP INDEX positions_market")
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.check()
        assert (await exchange.ticker())["openInterest"] == str(SIZE)


# ----- all markets -----------------------------------------------------------------------------


async def test_tickers_of_all_markets_equal_those_of_each(tmp_path, mode):
    exchange, names = Exchange(), [f"x{number}" for number in range(2 * MARKETS_STEP + 3)]
    async with exchange.running(tmp_path, history=mode) as exchange.server:
        for name in names:
            await exchange.apply(AddMarket(market=market(name), now_ms=0))
        for number, name in enumerate(names[::3]):
            fields = {"market": name, "token": f"{name}-yes"}
            await exchange.apply(sell(f"s{number}", 60, SIZE, **fields))
            await exchange.apply(buy(f"b{number}", 60, SIZE // 100 * number + 1, **fields))
    async with exchange.running(tmp_path, history=mode) as exchange.server:
        get, turns, found = exchange.server.get, [], []

        async def count():
            while True:
                turns.append(len(turns))
                await asyncio.sleep(0)

        for _ in range(2):  # from the file, then from memory
            counting = asyncio.create_task(count())
            answer = await get("/api/tickers")
            counting.cancel()
            assert len(turns) > len(names) // MARKETS_STEP
            turns.clear()
            found = answer.json()
            assert [each["marketId"] for each in found[1:]] == names
            for each in found:
                assert each == (await get(f"/api/markets/{each['marketId']}/ticker")).json()
        applied = answer.headers["x-applied-seq"]
        assert int(applied) == exchange.server.service.sequencer.seq
        pages, url = [], "/api/tickers?limit=9"
        while url:
            page = await exchange.server.http.get(url)
            pages.append(page.json())
            url = page.links.get("next", {}).get("url")
        assert [each for page in pages for each in page] == found
        assert [len(page) for page in pages[:-1]] == [9] * ((len(found) - 1) // 9)


async def test_tickers_leave_out_a_market_that_is_removed_meanwhile(tmp_path, monkeypatch):
    exchange = Exchange()
    async with exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        await exchange.trade(1)
        data = exchange.server.service.history.market_data
        read_days = data._read_days

        async def removing(names):
            await exchange.apply(
                SetMode(market="x", mode=Mode.RESOLVED, now_ms=0),
                RemoveMarket(market="x", now_ms=0),
            )
            await read_days(names)

        monkeypatch.setattr(data, "_read_days", removing)
        found = (await exchange.server.get("/api/tickers")).json()
        assert [each["marketId"] for each in found] == ["m"]
        monkeypatch.setattr(data, "_read_days", read_days)
        other = market("x", yes="other-yes", no="other-no")
        await exchange.apply(AddMarket(market=other, now_ms=0))
        found = await exchange.ticker()
        assert (found["openInterest"], found["yes"]["lastPrice"]) == ("0", None)


async def test_market_of_the_same_name_starts_with_its_own_trades(tmp_path, mode):
    exchange = Exchange()
    async with exchange.running(tmp_path, history=mode) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        await exchange.trade(1)
        assert (await exchange.ticker())["openInterest"] == str(SIZE)
        await exchange.apply(
            SetMode(market="x", mode=Mode.RESOLVED, now_ms=0),
            RemoveMarket(market="x", now_ms=0),
            AddMarket(market=market("x", yes="a", no="b"), now_ms=0),
        )
        assert (await exchange.ticker())["openInterest"] == "0"
        await exchange.trade(2, token="a")
        assert (await exchange.ticker())["openInterest"] == str(SIZE)
