"""Makers that trade over feeds while the network or the server fails, and the checks afterwards."""

import asyncio
import os
import random  # noqa: TID251 - seeded
from contextlib import AsyncExitStack

import msgspec

from clob import Side
from clob.client import Backoff, Feed, FeedState, RequestRejectedError
from clob.signing import SignedOrder, order_hash, sign
from clob.wire.messages import UserFill
from tests.server.feed.book_reader import book_in, book_of
from tests.signings import DOMAIN, KEYS, address_of

KILLS = int(os.environ.get("CLOB_CLIENT_KILLS", "20"))
"""Kills of the server in a long test."""
TOKEN = 10**18
MARKET, YES, NO = "rain", "101", "102"
PATIENCE_S = 120
BACKOFF = Backoff(first_s=0.05, max_s=0.5, steady_s=0.5)


class Trader:
    """A maker with a feed: it keeps the book, its own orders and its fills."""

    def __init__(self, url, key, seed):
        self.key, self.maker = key, address_of(key)
        self.rng = random.Random(f"{seed} {key}")
        self.feed = Feed(url, timeout_s=PATIENCE_S, heartbeat_s=1, backoff=BACKOFF)
        self.placed = {}
        """Ids of accepted orders by order hash."""
        self.fills = []
        """The fills in the stream of messages."""
        self.num_duplicates = 0
        self.is_trading = False

    async def open(self):
        """Follow the book, and the maker's orders from the beginning."""
        self.reading = asyncio.create_task(self.read(self.feed.messages()))
        self.mine = await self.feed.own_orders(self.maker, fills_kept=None)
        self.book = await self.feed.orderbook(MARKET)

    async def read(self, stream):
        """Keep the fills in the messages."""
        async for message in stream:
            if isinstance(message, UserFill):
                self.fills.append(message.data)

    async def place(self):
        """Place a signed order at a random price."""
        order = SignedOrder.from_price_size(
            side=Side(self.rng.randrange(2)),
            price=self.rng.randint(47, 53),
            size=self.rng.randint(1, 20) * TOKEN,
            maker=self.maker,
            token_id=int(self.rng.choice((YES, YES, NO))),
            salt=self.rng.getrandbits(128),
        )
        body = {**sign(order, DOMAIN, self.key).to_json(), "marketId": MARKET}
        placed = await self.feed.request("create_order", body=body)
        self.placed[f"0x{order_hash(order, DOMAIN).hex()}"] = placed.order_id
        self.num_duplicates += placed.duplicate

    async def cancel(self):
        """Cancel a random open order, which may have traded meanwhile."""
        order_id = self.rng.choice(list(self.mine.open))
        try:
            await self.feed.request(
                "cancel_order", params={"orderId": order_id}, body={"maker": self.maker}
            )
        except RequestRejectedError as error:
            if error.code != "ORDER_NOT_OPEN":
                raise

    async def trade(self):
        """Place and cancel orders until ``is_trading`` is False."""
        while self.is_trading:
            if self.mine.open and self.rng.random() < 0.3:
                await self.cancel()
            else:
                await self.place()


class Traders:
    """Traders at a proxy before a server."""

    def __init__(self, proxy, seed=0):
        self.proxy = proxy
        self.traders = [Trader(proxy.url, key, seed) for key in KEYS[:2]]

    async def __aenter__(self):
        self._stack = AsyncExitStack()
        for each in self.traders:
            await self._stack.enter_async_context(each.feed)
            if each is self.traders[0]:
                await each.place()  # opens the market
            await each.open()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()
        await asyncio.gather(*(each.reading for each in self.traders))

    @property
    def num_placed(self):
        """Accepted orders so far."""
        return sum(len(each.placed) for each in self.traders)

    def start(self):
        """Trade, with several requests at a time, until :meth:`stop`."""
        for each in self.traders:
            each.is_trading = True
        self._work = [asyncio.create_task(each.trade()) for each in self.traders * 3]

    async def until_placed(self, count, is_enough=lambda: True):
        """Wait until this many more orders were accepted, and a condition holds."""
        goal = self.num_placed + count
        async with asyncio.timeout(PATIENCE_S):
            while self.num_placed < goal or not is_enough():
                if any(each.done() for each in self._work):
                    return
                await asyncio.sleep(0.005)

    async def stop(self):
        """End trading; all requests must have succeeded."""
        for each in self.traders:
            each.is_trading = False
        await asyncio.gather(*self._work)

    async def check(self, live):
        """Compare everything that the feeds keep with a server at rest."""
        for each in self.traders:
            async with asyncio.timeout(PATIENCE_S):
                await check_book(live, each)
                await check_orders(live, each)


async def check_book(live, trader):
    """The local books are those of the server."""
    feed, book = trader.feed, trader.book
    await feed.until(lambda: feed.state is FeedState.LIVE)
    for token in (YES, NO):
        body = get(live, f"/api/markets/{MARKET}/orderbook", tokenId=token)
        await feed.until(lambda seq=body["seq"]: book.seq >= seq)
        assert book.seq == body["seq"]
        assert book_of(book.token(token).depth()) == book_in(body)


async def check_orders(live, trader):
    """Each order exists once; open orders and fills are those of the server."""
    orders = await list_of(live, "/api/orders", maker=trader.maker, status="all")
    assert {each["orderHash"]: each["id"] for each in orders} == trader.placed
    assert len(orders) == len(trader.placed)
    fills = await list_of(live, "/api/fills", maker=trader.maker, order="asc", after="0-0")
    await trader.feed.until(lambda: len(trader.mine.fills) >= len(fills))
    assert msgspec.to_builtins(list(trader.mine.fills)) == fills
    await trader.feed.until(lambda: len(trader.fills) >= len(fills))
    assert trader.fills == list(trader.mine.fills)
    still_open = {each["id"]: each for each in orders if each["status"] in ("open", "partial")}
    await trader.feed.until(lambda: trader.mine.open.keys() == still_open.keys())
    assert msgspec.to_builtins(trader.mine.open) == still_open


def get(live, path, **params):
    response = live.http.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def list_of(live, path, **params):
    """Return all pages of a list; wait while history is not complete."""
    found, params = [], {"limit": 500, **params}
    while True:
        response = live.http.get(path, params=params)
        if response.status_code == 503 and response.json()["code"] == "RECOVERING":
            await asyncio.sleep(0.2)
            continue
        assert response.status_code == 200, response.text
        found += response.json()
        if "x-next-cursor" not in response.headers:
            return found
        params["cursor"] = response.headers["x-next-cursor"]
