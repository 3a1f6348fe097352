"""Markets that orders opened are limited per client, removed when unused, or by an operator."""

import asyncio
import json

import pytest
import websockets.sync.client

from clob import AddMarket, Market, Mode, SetMode
from clob.errors import OrderAlreadyUsedError
from clob_server.core.commands import RecordOpener
from clob_server.core.ids import KEY_BYTES, Ids
from clob_server.core.rejections import MarketInUseError
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import MemoryLog
from clob_server.orders import retire
from clob_server.orders.retire import MarketRemoval
from tests.matchers import buy, sell
from tests.server.api.makers import (
    BUY,
    ONE,
    SELL,
    ApiClient,
    Maker,
    MarketIds,
    good,
    operator_token,
    problem,
)
from tests.server.live import live_server

SECRET = "a secret for tests, of more than 32 bytes"
UNUSED_S = 100


# ----- expiry, with a clock of the test --------------------------------------------------------


class Removal:
    """A sequencer on a log in memory, and the removal of markets over it."""

    def __init__(self):
        self.now_ms, self.state = 1_000, ServerState()
        self.sequencer = Sequencer(
            MemoryLog(), self.state, lambda: self.now_ms, ids=Ids(bytes(KEY_BYTES))
        )
        self.removal = MarketRemoval(self.sequencer, lambda: self.now_ms, UNUSED_S, asyncio.Lock())

    async def __aenter__(self):
        self.task = asyncio.create_task(self.sequencer.run())
        return self

    async def __aexit__(self, *_):
        self.sequencer.stop()
        await self.task

    async def open(self, name):
        """Open a market as an order does."""
        market = Market(id=name, yes=f"{name}-yes", no="")
        await self.sequencer.submit(
            (RecordOpener(market=name, payer=b"p"), AddMarket(market=market))
        )

    @property
    def names(self):
        return list(self.state.markets)


async def test_unused_market_is_removed_with_its_orders():
    async with Removal() as it:
        for name in ("empty", "quoted", "late", "traded"):
            await it.open(name)
        await it.sequencer.submit(AddMarket(market=Market(id="own", yes="1", no="2")))
        signed = buy("a", 50, 5, token="quoted-yes", market="quoted", order_hash=b"7" * 32)
        await it.sequencer.submit(signed)
        await it.sequencer.submit(sell("b", 50, 5, token="traded-yes", market="traded"))
        await it.sequencer.submit(buy("c", 50, 5, token="traded-yes", market="traded"))
        it.now_ms += UNUSED_S * 1000
        await it.sequencer.submit(buy("d", 50, 5, token="late-yes", market="late"))
        await it.removal.sweep()
        assert it.names == ["empty", "quoted", "late", "traded", "own"]  # one millisecond early
        it.now_ms += 1
        await it.removal.sweep()
        assert it.names == ["late", "traded", "own"]
        assert list(it.state.registry.opened) == ["late", "traded"]
        assert "a" not in it.state.matcher
        assert (
            it.state.matcher.check(
                buy("e", 50, 5, token="1", market="own", order_hash=b"7" * 32, now_ms=it.now_ms)
            ).code
            == OrderAlreadyUsedError.code
        )
        restored = ServerState.restore(it.state.snapshot())
        assert restored.snapshot() == it.state.snapshot()
        assert restored.traded == {"traded"}
        await it.open("quoted")
        assert it.state.matcher.seq("quoted") > 2  # numbers of the removed market are not reused


async def test_unused_markets_are_found_in_parts(monkeypatch):
    monkeypatch.setattr(retire, "SWEEP_MARKETS", 2)
    async with Removal() as it:
        for name in "abcde":
            await it.open(name)
        it.now_ms += UNUSED_S * 1000 + 1
        left = []
        for _ in range(3):
            await it.removal.sweep()
            left.append("".join(it.names))
        assert left == ["cde", "e", ""]


async def test_market_with_a_trade_keeps_its_mode():
    async with Removal() as it:
        await it.open("m")
        await it.sequencer.submit(SetMode(market="m", mode=Mode.CANCEL_ONLY))
        removal = it.removal
        first = removal.check
        removal.check = lambda name: first(name) or it.state.traded.add(name)  # between the checks
        with pytest.raises(MarketInUseError, match="no trades"):
            await removal.remove("m")
        assert it.state.markets["m"].mode is Mode.CANCEL_ONLY


# ----- over HTTP -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retire") / "data"
    options = {"jwt_secret": SECRET, "auto_markets_per_address": 3, "markets_max": 5}
    with live_server(folder, rate_limits=False, **options) as server:
        yield server


@pytest.fixture
def operator():
    return {"Authorization": f"Bearer {operator_token(SECRET)}"}


def remove(live, name, operator):
    return live.http.delete(f"/api/admin/markets/{name}", headers=operator)


def test_operator_removes_and_takes_over_squatted_markets(live, operator):
    api, alice, bob = ApiClient(live.http), Maker(), Maker()
    ids = [MarketIds() for _ in range(4)]
    orders = [api.gasless(alice.gasless(each, BUY, 40))["orderId"] for each in ids[:3]]
    rejection = problem(
        live.http.post("/api/orders/gasless", json=alice.gasless(ids[3])), "TOO_MANY_MARKETS"
    )
    assert "this client has opened 3 markets" in rejection["detail"]
    rain, other = ids[0], ids[1]
    with websockets.sync.client.connect(live.ws_url) as extended:
        subscribe = {"type": "subscribe", "channel": "orderbook", "marketId": rain.id}
        extended.send(json.dumps({**subscribe, "extended": True}))
        with websockets.sync.client.connect(live.ws_url) as plain:
            plain.send(json.dumps(subscribe))
            assert json.loads(plain.recv(10))["type"] == "orderbook"
            api.gasless(bob.gasless(rain, BUY, 30, token=rain.no + 7))  # fixes the NO token
            etag = live.http.get(f"/api/markets/{rain.id}/orderbook").headers["etag"]
            body = {"marketId": rain.id, "yesTokenId": str(rain.yes), "noTokenId": str(rain.no)}
            made = good(live.http.post("/api/admin/markets", json=body, headers=operator))
            assert (made["yesTokenId"], made["noTokenId"]) == (str(rain.yes), str(rain.no))
            removed = api.order(orders[0])
            assert (removed["status"], removed["cancelReason"]) == ("cancelled", "market")
            reply = live.http.get(
                f"/api/markets/{rain.id}/orderbook", headers={"If-None-Match": etag}
            )
            assert reply.status_code == 200  # not the book of the removed market
            received = [json.loads(extended.recv(10)) for _ in range(7)]
            assert received[-1]["type"] == "unsubscribed", [each["type"] for each in received]
            assert received[-1]["reason"] == "market_removed"
            seen = [json.loads(plain.recv(10)) for _ in range(6)]
            assert [each["type"] for each in seen[-2:]] == ["orderbook"] * 2
            assert [each["tokenId"] for each in seen[-2:]] == [str(rain.yes), str(rain.no)]
            assert seen[-1]["seq"] > seen[-3]["seq"]
    again = live.http.post("/api/admin/markets", json=body, headers=operator)
    problem(again, "MARKET_EXISTS")  # an operator's market is not taken over
    assert good(remove(live, other.id, operator))["marketId"] == other.id
    for path in ("", "/orderbook", "/trades"):
        problem(live.http.get(f"/api/markets/{other.id}{path}"), "UNKNOWN_MARKET")
    problem(remove(live, other.id, operator), "UNKNOWN_MARKET")
    api.gasless(alice.gasless(ids[3], BUY))  # there is room again


def test_market_with_trades_stays(live, operator):
    api, alice, bob, ids = ApiClient(live.http), Maker(), Maker(), MarketIds()
    body = {"marketId": ids.id, "yesTokenId": str(ids.yes), "noTokenId": str(ids.no)}
    good(live.http.post("/api/admin/markets", json=body, headers=operator))
    api.gasless(alice.gasless(ids, SELL, 50, ONE))
    api.gasless(bob.gasless(ids, BUY, 50, ONE))
    problem(remove(live, ids.id, operator), "MARKET_IN_USE")
    assert good(live.http.get(f"/api/markets/{ids.id}"))["mode"] == "open"


def test_openers_survive_a_restart_and_opening_can_be_switched_off(tmp_path):
    alice, ids = Maker(), [MarketIds() for _ in range(3)]
    with live_server(tmp_path / "data", auto_markets_per_address=1) as live:
        ApiClient(live.http).gasless(alice.gasless(ids[0]))
    with live_server(tmp_path / "data", auto_markets_per_address=1) as live:
        path = "/api/orders/gasless"
        problem(live.http.post(path, json=alice.gasless(ids[1])), "TOO_MANY_MARKETS")
        reply = good(live.http.post("/api/orders/validate", json=alice.gasless(ids[1])))
        assert reply["refusal"]["code"] == "TOO_MANY_MARKETS"
    with live_server(tmp_path / "data", auto_markets=False) as live:
        problem(live.http.post(path, json=alice.gasless(ids[2])), "UNKNOWN_MARKET")
        ApiClient(live.http).gasless(alice.gasless(ids[0]))
        second = alice.gasless(ids[0], token=ids[0].no)
        problem(live.http.post(path, json=second), "TOKEN_NOT_IN_MARKET")
