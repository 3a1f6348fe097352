"""The feed of the client on a running server."""

import asyncio
import random  # noqa: TID251 - seeded
from collections import Counter

import pytest

from clob.client.connection import Backoff
from clob.client.errors import (
    ConnectionFailedError,
    InvalidCallError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    RequestRejectedError,
)
from clob.client.feed import Feed
from clob.client.message_stream import FeedState
from clob.wire.messages import (
    BookTradeMessage,
    OrderAddedMessage,
    TickerMessage,
    Unsubscribed,
    UserFill,
)
from tests.client.chaos_proxy import ChaosProxy
from tests.client.conftest import SECRET
from tests.client.traders import list_of
from tests.server.api.makers import operator_token
from tests.server.feed.book_reader import book_in, book_of
from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Market
from tests.server.live import live_server, started

TOKEN = 10**18
QUICK = Backoff(first_s=0.05, max_s=0.2, steady_s=1)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("feed")
    with live_server(folder, rate_limits=False, ws_heartbeat_s=1, jwt_secret=SECRET) as server:
        yield server


@pytest.fixture
def market(live):
    return Market(live, TOKEN)


def feed_of(server, **options):
    return Feed(server.url, **({"backoff": QUICK} | options))


async def assert_equal_book(feed, market, book):
    """Wait for all events of a server at rest; compare the local books with the server's."""
    seq = market.book()["seq"]
    await feed.until(lambda: book.seq == seq)
    for token in book.books:
        body = market.book(token)
        assert book.seq == body["seq"]
        assert book_of(book.token(token).depth()) == book_in(body)
        assert book.token(token).checksum() == body["checksum"]


async def test_book_follows_the_server(live, market):
    market.order(SELL, 60, 5)
    async with feed_of(live) as feed:
        book = await feed.orderbook(market.id)
        assert feed.state is FeedState.LIVE
        yes = book.token(market.yes)
        assert (yes.best_bid, yes.best_ask.price, yes.best_ask.size) == (None, 60, 5 * TOKEN)
        stream = feed.messages()
        market.order(BUY, 60, 2, maker=OTHER)
        added = market.order(BUY, 40, 7, maker=OTHER)["orderId"]
        later = market.order(BUY, 40, 1)["orderId"]
        await assert_equal_book(feed, market, book)
        assert yes.ahead(added, BUY, 40).num_orders == 0
        assert yes.ahead(later, BUY, 40).size == 7 * TOKEN
        kinds = [type(await anext(stream)) for _ in range(3)]
    assert kinds == [BookTradeMessage, OrderAddedMessage, OrderAddedMessage]
    assert feed.state is FeedState.CLOSED
    assert [message async for message in stream] == []


async def test_requests_place_and_cancel_orders(live, market):
    async with feed_of(live) as feed:
        body = {"maker": MAKER, "marketId": market.id, "tokenId": market.yes, "side": 0}
        body |= {"price": 30, "size": str(TOKEN)}
        placed = await feed.request("create_gasless_order", body=body)
        assert placed.status == "open"
        cancelled = await feed.request(
            "cancel_order", params={"orderId": placed.order_id}, body={"maker": MAKER}
        )
        assert (cancelled.id, cancelled.status) == (placed.order_id, "cancelled")
        with pytest.raises(RequestRejectedError) as error:
            await feed.request("create_gasless_order", body={**body, "price": 120})
        assert (error.value.code, error.value.field) == ("PRICE_OUT_OF_RANGE", "price")
        assert (await feed.request("get_time")).now_s > 0


async def test_own_orders_and_fills_are_kept(live, market):
    market.order(SELL, 90, 1, maker=OTHER)
    async with feed_of(live) as feed:
        mine = await feed.own_orders(MAKER, market_id=market.id)
        order_id = market.order(SELL, 60, 5)["orderId"]
        market.order(BUY, 60, 2, maker=OTHER)
        await feed.until(lambda: len(mine.fills) == 1 and order_id in mine.open)
        assert mine.open[order_id].remaining == str(3 * TOKEN)
        assert mine.fills[0].order_id == order_id
        position = mine.position
        market.cancel(order_id)
        await feed.until(lambda: not mine.open)
        with pytest.raises(InvalidCallError, match="with another scope"):
            await feed.own_orders(MAKER)
    market.order(SELL, 60, 5)
    market.order(BUY, 60, 2, maker=OTHER)
    async with feed_of(live) as feed:
        again = await feed.own_orders(MAKER, market_id=market.id, position=position)
        assert [each.size for each in again.fills] == [str(2 * TOKEN)]
        assert len(again.open) == 1


async def test_feed_follows_several_makers(live, market):
    third = f"0x{'3' * 40}"
    market.order(SELL, 90, 1, maker=OTHER)
    async with feed_of(live) as feed:
        first = await feed.own_orders(MAKER, market_id=market.id)
        second = await feed.own_orders(OTHER.lower(), market_id=market.id)
        empty = await feed.own_orders(third)
        assert await feed.own_orders(OTHER, market_id=market.id) is second
        market.order(SELL, 60, 5)
        market.order(BUY, 60, 2, maker=OTHER)
        await feed.until(lambda: len(first.fills) == len(second.fills) == 1)
        await feed.until(lambda: [each.price for each in first.open.values()] == [60])
        assert (first.fills[0].side, second.fills[0].side) == (SELL, BUY)
        assert [each.price for each in second.open.values()] == [90]
        feed.cut()
        await feed.until(lambda: feed.state is FeedState.RECONNECTING)
        market.order(BUY, 60, 1, maker=OTHER)
        await feed.until(lambda: feed.state is FeedState.LIVE)
        await feed.until(lambda: len(first.fills) == len(second.fills) == 2)
        assert not empty.open
        followed = (first, second, empty)
        before = [each.position for each in followed]
        placed = market.order(SELL, 70, 1, maker=third)
        await feed.until(lambda: list(empty.open) == [placed["orderId"]])
        await feed.until(  # by heartbeats
            lambda: all(each.position > old for each, old in zip(followed, before, strict=True))
        )
        feed.unfollow("user", market.id, OTHER.lower())
        other = await feed.own_orders(OTHER)
        assert other is not second
        assert placed["orderId"] not in other.open
    assert feed.num_gaps == 0


async def test_ticker_is_followed(live, market):
    market.order(SELL, 60, 5)
    async with feed_of(live) as feed:
        ticker = await feed.follow("ticker", market.id)
        await feed.until(lambda: ticker.last is not None)
        assert isinstance(ticker.last, TickerMessage)
        assert ticker.last.data.yes.best_ask.price == 60


async def test_candles_are_followed_until_they_are_unfollowed(live, market):
    market.order(SELL, 60, 5)
    async with feed_of(live) as feed:
        candles = await feed.follow("candles", market.id, interval="1m")
        market.order(BUY, 60, 2, maker=OTHER)
        await feed.until(lambda: candles.last is not None and candles.last.data.candles)
        assert candles.last.data.candles[0].close == 60
        feed.unfollow("candles", market.id)
        again = await feed.follow("candles", market.id, interval="1h")
        assert again is not candles


async def test_unknown_market_is_rejected(live):
    async with feed_of(live) as feed:
        with pytest.raises(NotFoundError) as error:
            await feed.orderbook("unknown")
        assert error.value.code == "UNKNOWN_MARKET"
        assert feed.state is FeedState.LIVE


async def test_cut_connection_resumes(live, market):
    market.order(SELL, 60, 5)
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            book = await feed.orderbook(market.id)
            mine = await feed.own_orders(MAKER)
            market.order(SELL, 61, 5)
            await feed.until(lambda: book.token(market.yes).level(SELL, 61).size == 5 * TOKEN)
            stream = feed.messages()
            proxy.cut()
            await feed.until(lambda: feed.state is FeedState.RECONNECTING)
            market.order(SELL, 62, 5)
            market.order(BUY, 61, 7, maker=OTHER)
            await feed.until(lambda: feed.state is FeedState.LIVE)
            await assert_equal_book(feed, market, book)
            await feed.until(lambda: len(mine.fills) == 2)
            assert feed.num_connections == 2
            assert type(await anext(stream)) is OrderAddedMessage  # no snapshot: it resumed


async def test_lost_answer_of_an_order_is_asked_again(live, market):
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            book = await feed_book(feed, market)
            proxy.lose_next_answer()
            body = {"maker": MAKER, "marketId": market.id, "tokenId": market.yes, "side": 0}
            body |= {"price": 30, "size": str(TOKEN), "clientOrderId": f"{market.id}-1"}
            placed = await feed.request("create_gasless_order", body=body)
            assert placed.success
            assert placed.duplicate
            await assert_equal_book(feed, market, book)
            assert book.token(market.yes).level(BUY, 30).size == TOKEN


async def test_outcome_of_an_order_without_a_name_is_unknown_after_a_cut(live, market):
    body = {"maker": MAKER, "marketId": market.id, "tokenId": market.yes, "side": 0}
    body |= {"price": 30, "size": str(TOKEN)}
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            await feed.request("get_time")
            proxy.lose_next_answer()
            with pytest.raises(OutcomeUnknownError, match="create_gasless_order has no answer"):
                await feed.request("create_gasless_order", body=body)
            (level,) = market.book()["bids"]
            assert level["numOrders"] == 1  # it was executed, and not sent again


async def test_time_out_states_whether_a_request_may_have_been_executed(live, market):
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            await feed.request("get_time")
            proxy.stall()
            with pytest.raises(ConnectionFailedError, match="get_time was not answered"):
                await feed.request("get_time", timeout_s=0.1)
            cancel = {"params": {"orderId": "x"}, "body": {"maker": MAKER}}
            with pytest.raises(OutcomeUnknownError, match="cancel_order has no answer"):
                await feed.request("cancel_order", timeout_s=0.1, **cancel)
            proxy.cut()
            await feed.until(lambda: feed.state is FeedState.RECONNECTING)
            with pytest.raises(ConnectionFailedError, match="cancel_order was not answered"):
                await feed.request("cancel_order", timeout_s=0.1, **cancel)
            proxy.flow()


async def test_cancel_whose_answer_was_lost_succeeds(live, market):
    order_id = market.order(SELL, 60, 5)["orderId"]
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            await feed.request("get_time")
            proxy.lose_next_answer()
            cancelled = await feed.request(
                "cancel_order", params={"orderId": order_id}, body={"maker": MAKER}
            )
    assert (cancelled.id, cancelled.status) == (order_id, "cancelled")


async def feed_book(feed, market):
    market.order(SELL, 60, 5)
    return await feed.orderbook(market.id)


async def test_silent_connection_is_stale_and_then_replaced(live, market):
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy, heartbeat_s=0.3, timeout_s=20) as feed:
            book = await feed_book(feed, market)
            proxy.stall()
            await feed.until(lambda: feed.state is FeedState.STALE)
            proxy.flow()
            await feed.until(lambda: feed.state is FeedState.LIVE)
            assert feed.num_connections == 1
            proxy.stall()
            await feed.until(lambda: feed.state is FeedState.RECONNECTING)
            market.order(SELL, 61, 1)
            proxy.flow()
            await feed.until(lambda: feed.state is FeedState.LIVE)
            await assert_equal_book(feed, market, book)


async def test_server_that_does_not_exist_is_an_error():
    with pytest.raises(ConnectionFailedError, match="no connection within 1 s"):
        async with Feed("http://127.0.0.1:9", timeout_s=1, backoff=QUICK):
            pass


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example", "ws://a.example/ws"),
        ("https://a.example/clob/", "wss://a.example/clob/ws"),
        ("wss://a.example/feed", "wss://a.example/feed"),
    ],
)
def test_url_of_the_websocket(url, expected):
    assert Feed(url).url == expected


def test_other_url_is_rejected():
    with pytest.raises(InvalidCallError, match="url must begin with http"):
        Feed("a.example")


async def test_idle_feed_ends_quietly(live):
    async with feed_of(live) as feed:
        await asyncio.sleep(0)
        assert feed.state is FeedState.LIVE
    with pytest.raises(ConnectionFailedError, match="closed"):
        await feed.request("get_time")


async def test_wrong_book_is_noticed_by_a_heartbeat_and_replaced(live, market):
    async with feed_of(live) as feed:
        book = await feed_book(feed, market)
        book.token(market.yes).queues[30].size += 1
        book.token(market.yes).queues[30].num_orders += 1
        await feed.until(lambda: feed.num_gaps == 1)
        await feed.until(lambda: feed.state is FeedState.LIVE)
        await assert_equal_book(feed, market, book)
        assert feed.num_connections == 1


async def test_missing_events_are_requested_again(live, market):
    lost = []
    with ChaosProxy(live.url) as proxy:
        async with feed_of(proxy) as feed:
            book, receive = await feed_book(feed, market), feed.on_data

            def lose_one(data):
                if b"order_added" in data and not lost:
                    lost.append(data)
                else:
                    receive(data)

            feed.on_data = lose_one  # from the next connection on
            proxy.cut()
            await feed.until(lambda: feed.num_connections == 2 and feed.state is FeedState.LIVE)
            for price in (61, 62, 63):
                market.order(SELL, price, 1)
            await feed.until(lambda: feed.num_gaps == 1)
            await assert_equal_book(feed, market, book)
            assert len(lost) == 1
            assert feed.num_connections == 2


class BadOrder:
    """Passes messages on; book messages are lost, repeated and swapped, and fills repeated."""

    def __init__(self, feed, seed):
        self.receive, self.rng = feed.on_data, random.Random(seed)
        self.held, self.is_bad = None, True
        self.counts = Counter()

    def __call__(self, data):
        fault = self.rng.choice(("lost", "repeated", "swapped", *[""] * 12)) if self.is_bad else ""
        if b'"channel":"orderbook"' not in data or b'"subscribed"' in data:
            fault = "repeated" if fault and b'"type":"fill"' in data else ""
        self.counts[fault] += 1
        if fault == "swapped" and self.held is None:
            self.held = data
            return
        for each in [data] * {"lost": 0, "repeated": 2}.get(fault, 1):
            self.receive(each)
        held, self.held = self.held, None
        if held is not None:
            self.receive(held)


@pytest.mark.parametrize("seed", range(3))
async def test_lost_repeated_and_swapped_messages_are_repaired(live, market, seed):
    rng, feed = random.Random(seed), feed_of(live)
    feed.on_data = bad = BadOrder(feed, seed)
    market.order(SELL, 90, 1)
    async with feed:
        mine = await feed.own_orders(MAKER, market_id=market.id)
        book = await feed.orderbook(market.id)
        for number in range(150):
            side = rng.randrange(2)
            body = {"maker": rng.choice((MAKER, OTHER)), "marketId": market.id, "side": side}
            body |= {"price": rng.randint(48, 52), "size": str(rng.randint(1, 9) * TOKEN)}
            await feed.request("create_gasless_order", body={**body, "tokenId": market.yes})
            if number % 10 == 0:
                await feed.until(lambda: feed.state is FeedState.LIVE)
        bad.is_bad = False
        market.order(SELL, 91, 1)
        await feed.until(lambda: feed.state is FeedState.LIVE)
        await assert_equal_book(feed, market, book)
        query = {"maker": MAKER, "marketId": market.id, "order": "asc", "after": "0-0"}
        fills = await list_of(live, "/api/fills", **query)
        await feed.until(lambda: len(mine.fills) >= len(fills))
        assert [each.cursor for each in mine.fills] == [each["cursor"] for each in fills]
        assert feed.num_connections == 1
    assert feed.num_gaps
    assert all(bad.counts[each] for each in ("lost", "repeated", "swapped"))


async def test_one_token_is_followed_alone(live):
    market = Market(live, TOKEN)
    terms = {"yesTokenId": market.yes, "noTokenId": market.no, "complementary": True}
    live.client(token=operator_token(SECRET)).admin_create_market(market.id, terms)
    async with feed_of(live) as feed:
        book = await feed.orderbook(market.id, market.no)
        market.order(SELL, 60, 5)
        market.order(BUY, 70, 2, maker=OTHER)
        seq = market.book()["seq"]
        no = book.token(market.no)
        await feed.until(lambda: book.seq == seq and no.level(BUY, 40).size == 3 * TOKEN)
        assert list(book.books) == [market.no]
        assert book_of(no.depth()) == book_in(market.book(market.no))


async def test_removed_market_ends_its_subscription(live):
    market = Market(live, TOKEN)
    operator = live.client(token=operator_token(SECRET))
    operator.admin_create_market(market.id, {"yesTokenId": market.yes})
    async with feed_of(live) as feed:
        await feed.orderbook(market.id)
        stream = feed.messages()
        operator.admin_remove_market(market.id)
        message = await anext(stream)
        assert isinstance(message, Unsubscribed)
        assert (message.market_id, message.reason) == (market.id, "market_removed")
        assert feed.state is FeedState.STALE  # its book is not kept any more
        with pytest.raises(NotFoundError):
            await feed.orderbook(market.id)
        assert feed.state is FeedState.LIVE


async def test_feed_that_is_not_open_sends_nothing(live):
    feed = feed_of(live)
    for call in (feed.request("get_time"), feed.orderbook("rain")):
        with pytest.raises(InvalidCallError, match="open the feed first"):
            await call
    await feed.close()


async def test_fills_that_the_server_cannot_resume_are_read(live, market):
    market.order(SELL, 60, 2_000)
    async with feed_of(live) as feed:
        mine = await feed.own_orders(MAKER, market_id=market.id)
        position = mine.position
    buy = {"maker": OTHER, "marketId": market.id, "tokenId": market.yes, "side": BUY}
    buy |= {"price": 60, "size": str(TOKEN)}
    for _ in range(55):
        body = {"orders": [buy] * 20}
        assert live.http.post("/api/orders/batch", json=body).status_code == 200
    async with feed_of(live) as feed:
        stream = feed.messages()
        mine = await feed.own_orders(MAKER, market_id=market.id, position=position)
        assert len(mine.fills) == 1_100
        places = [int(each.cursor.partition("-")[2]) for each in mine.fills]
        assert places == sorted(set(places))
        market.order(BUY, 60, 1, maker=OTHER)
        await feed.until(lambda: len(mine.fills) == 1_101)
    sent = [each.data async for each in stream if isinstance(each, UserFill)]
    assert sent == list(mine.fills)


async def test_server_that_restarts_in_order_is_awaited(tmp_path):
    server = await asyncio.to_thread(started, tmp_path, rate_limits=False)
    market = Market(server, TOKEN)
    with ChaosProxy(server.url) as proxy:
        async with feed_of(proxy) as feed:
            book = await feed_book(feed, market)
            mine = await feed.own_orders(MAKER)
            server.http.close()
            await asyncio.to_thread(server.stop)
            server.process.stdout.close()
            assert feed.state is FeedState.RECONNECTING
            with live_server(tmp_path, rate_limits=False) as again:
                proxy.connect_to(again.url)
                market.live = again
                await feed.until(lambda: feed.state is FeedState.LIVE)
                market.order(SELL, 61, 1)
                await assert_equal_book(feed, market, book)
                await feed.until(lambda: len(mine.open) == 2)


async def test_request_beyond_the_rate_limit_is_not_sent(tmp_path):
    with live_server(tmp_path, jwt_secret=SECRET) as server:
        headers = {"Authorization": f"Bearer {operator_token(SECRET)}"}
        path, market = "/api/admin/limits", Market(server, TOKEN)
        limits = server.http.get(path, headers=headers).json()
        limits["budgets"]["ordersPerMinute"] = 3
        assert server.http.put(path, json=limits, headers=headers).status_code == 200
        body = {"maker": MAKER, "marketId": market.id, "tokenId": market.yes, "side": 0}
        body |= {"price": 30, "size": str(TOKEN)}
        async with feed_of(server, timeout_s=5) as feed:
            for _ in range(3):
                await feed.request("create_gasless_order", body=body)
            with pytest.raises(RateLimitedError, match="nothing was sent"):
                await feed.request("create_gasless_order", body=body)
            (level,) = market.book()["bids"]
            assert level["numOrders"] == 3
        async with feed_of(server, timeout_s=5, respects_limits=False) as feed:
            with pytest.raises(RateLimitedError, match="3 orders"):
                await feed.request("create_gasless_order", body=body)
