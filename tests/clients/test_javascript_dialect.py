"""An unmodified @polymarket/clob-client trades on a server with the polymarket dialect."""

import re
import time
from pathlib import Path

import pytest

from tests.server.dialects.polymarket import CHAIN_ID, Market, dialect_server
from tests.signings import KEYS

WALLETS = ("viem", "ethers")
TYPES = Path(__file__).parent / "js/node_modules/@polymarket/clob-client/dist/client.d.ts"
"""The declarations of the client."""
LOCAL = {"calculateMarketPrice", "clearTickSizeCache", "createMarketOrder", "postOrder"}
"""Methods without a request of their own, or that others call."""
LISTS = {"getSimplifiedMarkets", "getSamplingMarkets", "getSamplingSimplifiedMarkets"}
"""Methods that list markets in other forms."""
ABSENT = {
    "createBuilderApiKey": [],
    "createReadonlyApiKey": [],
    "deleteReadonlyApiKey": ["key"],
    "getBuilderApiKeys": [],
    "getMarketTradesEvents": ["0x12"],
    "getPricesHistory": [{"market": "1", "interval": "1d"}],
    "getReadonlyApiKeys": [],
    "getRewardPercentages": [],
    "getTotalEarningsForUserForDay": ["2026-01-01"],
    "validateReadonlyApiKey": ["0x12", "key"],
}
"""Methods whose routes the dialect lacks, with arguments."""
PAGED = {
    "getCurrentRewards": [],
    "getEarningsForUserForDay": ["2026-01-01"],
    "getRawRewardsForMarket": ["0x12"],
    "getUserEarningsAndMarketsConfig": ["2026-01-01"],
}
"""Such methods that read pages, of which the client expects no error."""
BUILDERS = {"getBuilderTrades", "revokeBuilderApiKey"}
"""Methods that reject clients without the keys of a builder, before any request."""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with dialect_server(tmp_path_factory.mktemp("javascript")) as server:
        yield server


@pytest.fixture
def market(live):
    return Market(live)


@pytest.fixture
def client(run_jobs, live):
    """Return a function that calls a method of a client."""

    def call(method, *args, key=KEYS[0], wallet="viem"):
        job = {"url": live.url, "chain": CHAIN_ID, "key": key, "wallet": wallet}
        [result] = run_jobs("trade.mjs", [{**job, "method": method, "args": args}])
        return result

    return call


def order(token, side, price, size, **more):
    return {"tokenID": token, "side": side, "price": price, "size": size, **more}


def test_reads_of_markets_books_and_prices(client, market):
    market.place(0, 40, 10)
    market.place(1, 60, 3)
    assert client("getOk")["name"] == "clob"
    assert abs(client("getServerTime") - time.time()) < 60  # noqa: TID251 - the server's clock
    [found] = [
        each for each in client("getMarkets")["data"] if each["market_slug"] == market.name
    ]  # fmt: skip
    assert client("getMarket", found["condition_id"]) == found
    for method in LISTS:
        listed = client(method)["data"]
        assert found["condition_id"] in {each["condition_id"] for each in listed}
    book = client("getOrderBook", market.yes)
    assert book["bids"] == [{"price": "0.4", "size": "10"}]
    assert client("getOrderBookHash", book | {}) == book["hash"]
    asked = [{"token_id": market.yes, "side": "BUY"}]
    assert client("getOrderBooks", asked) == [book]
    assert client("getTickSize", market.yes) == "0.01"
    assert client("getNegRisk", market.yes) is False
    assert client("getFeeRateBps", market.yes) == 0
    assert client("getPrice", market.yes, "SELL") == {"price": "0.6"}
    assert client("getPrices", asked) == {market.yes: {"BUY": "0.4"}}
    assert client("getMidpoint", market.yes) == {"mid": "0.5"}
    assert client("getMidpoints", asked) == {market.yes: "0.5"}
    assert client("getSpread", market.yes) == {"spread": "0.2"}
    assert client("getSpreads", asked) == {market.yes: "0.2"}
    assert client("getLastTradePrice", market.yes) == {"price": "0.5", "side": ""}
    assert client("getLastTradesPrices", asked)[0]["token_id"] == market.yes


def test_errors_have_the_shape_that_the_client_shows(client):
    answer = client("getOrderBook", "1")
    assert (answer["error"], answer["status"]) == ('there is no order book of token "1"', 404)


def test_every_method_is_tested_or_absent():
    declared = {
        name
        for name in re.findall(r"^    (\w+)[<(]", TYPES.read_text(), re.MULTILINE)
        if name != "constructor"
    }
    tested = set(re.findall(r'client\(\s*"(\w+)"', Path(__file__).read_text()))
    assert declared == {*tested, *LISTS, *ABSENT, *PAGED, *LOCAL, *BUILDERS}


@pytest.mark.parametrize("method", ABSENT)
def test_method_whose_route_is_absent_says_so(client, method):
    text = str(client(method, *ABSENT[method]))
    assert "is not served: the polymarket dialect has no rfq, rewards, builder" in text


@pytest.mark.parametrize("method", PAGED)
def test_method_that_reads_pages_of_an_absent_route_fails_in_the_client(client, method):
    with pytest.raises(AssertionError, match=r"data is not iterable"):
        client(method, *PAGED[method])


@pytest.mark.parametrize("wallet", WALLETS)
def test_credentials_of_a_wallet(client, wallet):
    first = client("createApiKey", wallet=wallet)
    assert client("deriveApiKey", wallet=wallet) == first
    assert client("createOrDeriveApiKey", 3, wallet=wallet) != first
    assert client("getApiKeys", wallet=wallet) == {"apiKeys": [first["key"]]}
    assert client("getClosedOnlyMode", wallet=wallet) == {"closed_only": False}


def test_deleted_credentials_stop_working(client):
    assert client("deleteApiKey", key=KEYS[3]) == "OK"
    assert client("getApiKeys", key=KEYS[3])["status"] == 401
    assert client("deriveApiKey", key=KEYS[3]) == {}


@pytest.mark.parametrize("wallet", WALLETS)
def test_orders_are_posted_read_and_cancelled(client, market, wallet):
    answers = [
        client("createAndPostOrder", order(market.yes, "BUY", 0.3, size), {}, wallet=wallet)
        for size in (5, 6, 7, 8)
    ]
    assert {each["status"] for each in answers} == {"live"}
    ids = [each["orderID"] for each in answers]
    assert client("getOrder", ids[0], wallet=wallet)["original_size"] == "5"
    listed = client("getOpenOrders", {"asset_id": market.yes}, wallet=wallet)
    assert [each["id"] for each in listed] == ids
    done = client("cancelOrder", {"orderID": ids[0]}, wallet=wallet)
    assert done == {"canceled": ids[:1], "not_canceled": {}}
    assert client("cancelOrders", ids[1:2], wallet=wallet)["canceled"] == ids[1:2]
    by_token = client("cancelMarketOrders", {"asset_id": market.no}, wallet=wallet)
    assert by_token["canceled"] == []
    assert client("cancelAll", wallet=wallet)["canceled"] == ids[2:]
    assert market.orders() == []


def test_order_types_and_trades(client, market):
    expiration = int(time.time()) + 600  # noqa: TID251 - the server uses this clock
    good = order(market.yes, "SELL", 0.5, 10, expiration=expiration)
    resting = client("createAndPostOrder", good, {}, "GTD", key=KEYS[1])
    assert resting["status"] == "live"
    bought = client(
        "createAndPostMarketOrder", {"tokenID": market.yes, "side": "BUY", "amount": 2}, {}, "FOK"
    )
    assert (bought["status"], bought["makingAmount"], bought["takingAmount"]) == (
        "matched", "2", "4"
    )  # fmt: skip
    rest = {"tokenID": market.yes, "side": "BUY", "amount": 30, "price": 0.5}
    assert "error" in client("createAndPostMarketOrder", rest, {}, "FOK")
    taken = client("createAndPostMarketOrder", rest, {}, "FAK")
    assert taken["takingAmount"] == "6"
    trades = client("getTrades", {"asset_id": market.yes})
    assert [each["size"] for each in trades] == ["6", "4"]
    assert [each["taker_order_id"] for each in trades] == [taken["orderID"], bought["orderID"]]
    assert trades[0]["maker_orders"][0]["order_id"] == resting["orderID"]
    page = client("getTradesPaginated", {"asset_id": market.yes})
    assert (page["trades"], page["next_cursor"]) == (trades, "LTE=")


def test_several_signed_orders_are_posted_at_once(client, market):
    signed = [
        client("createOrder", order(market.no, side, price, 5), {})
        for side, price in (("BUY", 0.2), ("SELL", 0.7))
    ]
    answers = client("postOrders", [{"order": each, "orderType": "GTC"} for each in signed])
    assert [each["status"] for each in answers] == ["live", "live"]
    assert {each["orderHash"] for each in market.orders()} == {each["orderID"] for each in answers}


def test_heartbeats_name_the_id_before(client):
    first = client("postHeartbeat")["heartbeat_id"]
    second = client("postHeartbeat", first)["heartbeat_id"]
    answer = client("postHeartbeat", first)
    assert (answer["status"], answer["error"]) == (400, "Invalid Heartbeat ID")
    assert client("postHeartbeat", second)["heartbeat_id"] not in (first, second)


def test_neutral_answers(client):
    assert client("getBalanceAllowance", {"asset_type": "COLLATERAL"})["balance"] == str(10**15)
    assert client("updateBalanceAllowance", {"asset_type": "COLLATERAL"}) is not None
    assert client("isOrderScoring", {"order_id": "0x12"}) == {"scoring": False}
    assert client("areOrdersScoring", {"orderIds": ["0x12"]}) == {"0x12": False}
    assert client("getNotifications") == []
    assert client("dropNotifications", {"ids": ["1"]}) == "OK"
