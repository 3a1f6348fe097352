"""Arguments that a program passes by mistake are rejected in words, before anything is sent."""

import asyncio
import copy
import gc
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pytest

from clob.client import (
    AsyncClient,
    BlockingFeed,
    Client,
    Feed,
    InvalidCallError,
    LimitOrder,
    LocalBook,
    RequestRejectedError,
    ResponseError,
)
from clob.signing import InvalidAddressError

KEY = f"0x{0xA46:064x}"


@pytest.fixture
def client(live):
    with Client(live.url, signer=KEY) as made:
        yield made


@pytest.mark.parametrize("price", [45.0, 45.5, "45", Decimal(45), True, None, float("nan")])
def test_price_that_is_not_an_int(client, market, price):
    with pytest.raises(InvalidCallError, match="price must be an int, cents from 1 to 99; got "):
        client.buy(market.id, market.yes, price=price, size="1")


@pytest.mark.parametrize("size", [1.5, Decimal("1.5"), "1.", "", " 1", "1_0", None, True, [1]])
def test_size_that_is_neither_wei_nor_tokens(client, market, size):
    for call in (
        lambda: client.buy(market.id, market.yes, price=45, size=size),
        lambda: client.reduce("order", size),
        lambda: client.split(market.id, size),
        lambda: client.sign_permit(size),
    ):
        with pytest.raises(InvalidCallError, match="must be an int in wei or a decimal str"):
            call()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"expires_in_s": 1.5}, "expires_in_s must be an int, seconds; got 1.5"),
        ({"expiration_s": datetime(2030, 1, 1)}, "a datetime with a time zone has timestamp"),  # noqa: DTZ001
        ({"deadline_ms": datetime.now(UTC)}, "deadline_ms must be an int, Unix milliseconds"),
        ({"nonce": "1"}, "nonce must be an int, 0 or more; got '1'"),
        ({"fee_rate_bps": 1.5}, "fee_rate_bps must be an int, basis points; got 1.5"),
        ({"client_order_id": "\ud800"}, "the body cannot become JSON"),
    ],
)
def test_option_of_another_type(client, market, options, text):
    with pytest.raises(InvalidCallError, match=text):
        client.buy(market.id, market.yes, price=45, size="1", **options)


@pytest.mark.parametrize("token", [None, 1.5, True, "maybe"])
def test_token_that_names_none(client, market, token):
    with pytest.raises(InvalidCallError, match="token must be YES, NO or a token id; got"):
        client.buy(market.id, token, price=45, size="1")


@pytest.mark.parametrize("name", ["", ".", "..", None, 5])
def test_name_that_would_reach_another_path(client, name):
    for call in (client.market, client.order, client.admin_resolve_market, client.operation):
        with pytest.raises(InvalidCallError, match="Id must be a str that names one thing"):
            call(name, "yes") if call == client.admin_resolve_market else call(name)


def test_other_mistakes(client, market):
    client.buy(market.id, market.yes, price=45, size="1")
    for call, text in (
        (lambda: client.place({"market": market.id}), "an order must be a LimitOrder"),
        (lambda: client.cancel_all(token="YES"), "token YES needs its market"),
        (lambda: client.redeem(market.id), "has no condition on a chain"),
        (lambda: client.create_order({"maker": object()}), "the body cannot become JSON"),
        (lambda: client.sign_permit("1"), "this server has no chain"),
    ):
        with pytest.raises(InvalidCallError, match=text):
            call()
    assert client.buy(market.id, "YES", price=45, size="1").status == "open"


def test_permit_needs_the_key_of_the_maker(live):
    for options in ({}, {"signer": KEY, "maker": f"0x{1:040x}"}, {"maker": f"0x{1:040x}"}):
        with Client(live.url, **options) as client:
            text = "a permit needs the key of the maker itself"
            with pytest.raises(InvalidCallError, match=text):
                client.sign_permit("1")


def test_body_that_the_server_does_not_accept_is_sent_once(live, client, market):
    body = {"clientOrderId": "x" * 1_000_000}
    with pytest.raises(RequestRejectedError, match="BODY_TOO_LARGE"):
        client.create_gasless_order(body)
    with BlockingFeed(live.url) as feed:
        with pytest.raises(RequestRejectedError, match="accepts no message of 1000"):
            feed.request("create_gasless_order", body=body)
        assert feed.request("get_time").now_s > 0
        with pytest.raises(InvalidCallError, match="the body cannot become JSON"):
            feed.request("create_order", body={"maker": object()})


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout_s": -1}, "timeout_s must be a number of seconds above 0; got -1"),
        ({"timeout_s": None}, "timeout_s must be a number of seconds"),
        ({"deadline_s": float("nan")}, "deadline_s must be a number of seconds 0 or more; got nan"),
        ({"deadline_s": -0.1}, "deadline_s must be a number of seconds 0 or more; got -0.1"),
        ({"api_key": 5}, "api_key must be a str; got int"),
        ({"api_key": "schlüssel"}, "api_key has characters that HTTP does not allow"),
        ({"token": "secret\nkey"}, "token has characters"),
        ({"headers": {"a b": "c"}}, "headers has a name that HTTP does not allow: 'a b'"),
        ({"headers": {"x-name": 5}}, "header x-name must be a str; got int"),
        ({"rpc_url": "localhost:8545"}, "rpc_url must begin with http://"),
        ({"http": httpx}, "http must be an httpx"),
    ],
)
def test_options_of_a_client(kind, options, text):
    with pytest.raises(InvalidCallError, match=text) as caught:
        kind("http://127.0.0.1:1", **options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", [None, 5, "", "a.example", "http://", "http://[::1", b"http://a"])
@pytest.mark.parametrize("kind", [Client, AsyncClient, Feed, BlockingFeed])
def test_address_of_another_form(kind, url):
    with pytest.raises(InvalidCallError, match="url "):
        kind(url)


def test_address_with_a_query():
    with pytest.raises(InvalidCallError, match=r"without \? or #"):
        Client("http://a.example/?market=rain")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout_s": 0}, "timeout_s must be a number of seconds above 0; got 0"),
        ({"heartbeat_s": "5"}, "heartbeat_s must be a number of seconds"),
        ({"api_key": "secret\nkey"}, "api_key has characters that HTTP does not allow"),
        ({"headers": {"x-name": "ü"}}, "header x-name has characters"),
        ({"proxy": "proxy"}, "the address, the proxy or an option of the feed cannot be used"),
        ({"subprotocols": ["a b"]}, "invalid subprotocol"),
    ],
)
def test_options_of_a_feed(live, options, text):
    with (
        pytest.raises(InvalidCallError, match=text) as caught,
        BlockingFeed(live.url, **options),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_token_of_a_book_is_a_number(live):
    book = LocalBook("rain", 5)
    assert book.only_token == "5"
    assert book.token(5) is book.token("5")
    for token in ("YES", "", None, True, -1):
        with pytest.raises(InvalidCallError, match="token_id must be a number in decimal digits"):
            book.token(token)


async def test_maker_of_a_feed_is_an_address(live):
    async with Feed(live.url) as feed:
        for maker in ("0x12", None, 5):
            with pytest.raises(InvalidAddressError):
                await feed.own_orders(maker)
            with pytest.raises(InvalidAddressError):
                feed.unfollow("user", None, maker)


# ----- use after the end -------------------------------------------------------------------------


def test_closed_client(live):
    client = Client(live.url)
    with client:
        assert client.info().name
    with pytest.raises(InvalidCallError, match="the client is closed"):
        client.info()
    with client, pytest.raises(InvalidCallError, match="the client is closed"):
        client.info()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_asynchronous_client_belongs_to_an_event_loop(live):
    client = AsyncClient(live.url)

    async def info():
        return (await client.info()).name

    assert asyncio.run(info())
    with pytest.raises(InvalidCallError, match="works in one event loop"):
        asyncio.run(info())
    client = None
    gc.collect()  # its connection is not closed


def test_client_cannot_be_pickled_but_its_errors_can(client, market):
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            make(client)
    client.buy(market.id, market.yes, price=45, size="1")
    with pytest.raises(ResponseError) as caught:
        client.place(LimitOrder(market.id, "YES", "BUY", 45, 100))
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert again.body["code"] == error.code
    assert pickle.loads(pickle.dumps(client.market(market.id))) == client.market(market.id)
