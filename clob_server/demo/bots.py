"""Two bots to copy: one quotes around a drifting price, the other one trades with it.

They use :mod:`clob.client` and nothing of the server, which is at an address as for every user. The
quoting bot follows the books of both tokens and its own orders over a WebSocket; both send signed
orders over HTTP. Together they send one request at a time and at most two per second. Decisions
depend only on the seed, the books and the open orders.
"""

import asyncio
import random  # noqa: TID251 - seeded, and outside the engine
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import httpx

from clob import Depth, Level, Side, tokens
from clob.client import (
    AsyncClient,
    ConnectionFailedError,
    Feed,
    FeedState,
    LimitOrder,
    OutcomeUnknownError,
    RateLimitedError,
    RequestRejectedError,
    UnavailableError,
)
from clob.wire.orders import OrderBody

PAUSE_S: Final = 0.51
"""Shortest time between two requests; timers may fire slightly early."""
RETRY_S: Final = 2.0
"""Time to wait after an error, in seconds."""
TRADE_PROBABILITY: Final = 0.35
"""Probability that the taking bot acts."""
DRIFT_PROBABILITY: Final = 0.15
"""Probability that the fair price moves by a cent."""
FAIR_MIN, FAIR_MAX = 30, 70
"""Range of the fair price."""
DISTANCE_MAX: Final = 10
"""Largest distance of an order from the fair price before it is cancelled."""
DEPTH: Final = 8
"""Price levels quoted per side."""
LEVELS_MIN: Final = 3
"""Price levels that always remain per side."""
ORDERS_MAX: Final = 20
"""Orders per side before the oldest is cancelled."""
TEMPORARY: Final = (
    ConnectionFailedError, OutcomeUnknownError, RateLimitedError, UnavailableError,
)  # fmt: skip
"""Errors after which the bots connect again."""

DepthOf: TypeAlias = Callable[[str], Depth]
"""Returns the book of a token."""
BotKeys: TypeAlias = tuple[str, str | None]
"""Private key that signs, and API key that requests are charged to; None charges the address."""


class Quoter:
    """Decides the orders of the quoting bot.

    Args:
        market: market id.
        fair: fair price of each token, in cents; the two tokens are worth 100 together.
        draw: source of its randomness.
    """

    def __init__(self, market: str, fair: dict[str, int], draw: random.Random) -> None:
        self.market: Final = market
        self.fair: Final = fair
        self._draw: Final = draw

    def drift(self) -> None:
        """Move the fair price by a cent, up or down."""
        first, second = self.fair
        moved = self.fair[first] + self._draw.choice((-1, 1))
        self.fair[first] = min(max(moved, FAIR_MIN), FAIR_MAX)
        self.fair[second] = 100 - self.fair[first]

    def next_request(self, depth_of: DepthOf, own: Iterable[OrderBody]) -> LimitOrder | str:
        """Return the next order, or the id of an order to cancel.

        Args:
            depth_of: returns the book of a token.
            own: its open orders, oldest first.
        """
        token = self._draw.choice(tuple(self.fair))
        side = self._draw.choice((Side.BUY, Side.SELL))
        if self._draw.random() < DRIFT_PROBABILITY:
            self.drift()
        depth, mine = depth_of(token), [each for each in own if is_of(each, token, side)]
        return self._cancel(token, side, depth, mine) or self._quote(token, side, depth)

    def _cancel(self, token: str, side: Side, depth: Depth, own: list[OrderBody]) -> str | None:
        """Cancel an order that is out of range, or the oldest of too many."""
        if len(levels_of(depth, side)) <= LEVELS_MIN:
            return None
        sign, fair = (1, self.fair[token]) if side is Side.SELL else (-1, self.fair[token])
        misplaced = [each for each in own if not 0 < (each.price - fair) * sign <= DISTANCE_MAX]
        if not misplaced and len(own) < ORDERS_MAX:
            return None
        return (misplaced or own)[0].id

    def _quote(self, token: str, side: Side, depth: Depth) -> LimitOrder:
        """Rest an order at the thinnest level that does not cross."""
        sizes = {level.price: level.size for level in levels_of(depth, side)}
        opposite = levels_of(depth, other(side))
        sign = -1 if side is Side.BUY else 1
        prices = [self.fair[token] + sign * step for step in range(1, DEPTH + 1)]
        if opposite:
            edge = opposite[0].price
            prices = [price for price in prices if (price - edge) * sign > 0] or [edge + sign]
        price = min(prices, key=lambda each: sizes.get(each, 0))
        size = tokens(self._draw.randint(5, 30))
        return LimitOrder(self.market, token, side, price, size, {"post_only": True})


class Taker:
    """Decides the orders of the taking bot; the arguments are those of :class:`Quoter`."""

    def __init__(self, market: str, outcomes: Sequence[str], draw: random.Random) -> None:
        self.market: Final = market
        self._outcomes: Final = outcomes
        self._draw: Final = draw

    def next_order(self, depth_of: DepthOf) -> LimitOrder | None:
        """Trade at the best price; None if too few levels would remain."""
        token = self._draw.choice(self._outcomes)
        side = self._draw.choice((Side.BUY, Side.SELL))
        levels = levels_of(depth_of(token), other(side))
        if len(levels) <= LEVELS_MIN:
            return None
        size = min(levels[0].size, tokens(self._draw.randint(1, 12)))
        return LimitOrder(self.market, token, side, levels[0].price, size, {"time_in_force": "IOC"})


class Bots:
    """Both bots in a market.

    Args:
        market: market id.
        yes: its YES token, decimal digits.
        no: its NO token.
        fair: initial fair price of YES, in cents.
        seed: determines their randomness.
    """

    def __init__(self, market: str, yes: str, no: str, *, fair: int, seed: int = 1) -> None:
        self._draw: Final = random.Random(seed)
        self.market: Final = market
        self.quoter: Final = Quoter(market, {yes: fair, no: 100 - fair}, self._draw)
        self.taker: Final = Taker(market, (yes, no), self._draw)

    def takes(self, depth_of: DepthOf) -> LimitOrder | None:
        """Return the next order of the taking bot; None if it is the turn of the quoting bot."""
        if self._draw.random() < TRADE_PROBABILITY:
            return self.taker.next_order(depth_of)
        return None

    async def run(self, url: str, quoter: BotKeys, taker: BotKeys) -> None:
        """Trade until cancelled; connect again while the server cannot be used.

        Raises:
            ClientError: a key or the market is not accepted.
        """
        while True:
            try:
                await self._trade(url, quoter, taker)
            except TEMPORARY as error:
                await asyncio.sleep(getattr(error, "retry_after_s", None) or RETRY_S)

    async def _trade(self, url: str, quoter: BotKeys, taker: BotKeys) -> None:
        """Connect and trade until an error."""
        async with (
            # The server is on the same machine: no proxies, and no certificates, which take 0.1 s.
            httpx.AsyncClient(trust_env=False, verify=url.startswith("https:")) as http,
            Feed(url, api_key=quoter[1], proxy=None) as feed,
        ):
            quoting, taking = (
                AsyncClient(url, signer=private_key, api_key=api_key, http=http)
                for private_key, api_key in (quoter, taker)
            )
            book = await feed.orderbook(self.market)
            own = await feed.own_orders(quoting.maker, market_id=self.market)

            def depth_of(token: str) -> Depth:
                return book.token(token).depth()

            while True:
                await asyncio.sleep(PAUSE_S * (1 + self._draw.random()))
                await feed.until(lambda: feed.state is FeedState.LIVE)
                try:
                    order = self.takes(depth_of)
                    if order is not None:
                        await taking.place(order)
                    else:
                        await send(quoting, self.quoter.next_request(depth_of, own.open.values()))
                except RequestRejectedError:  # another trader was faster, or the market is halted
                    await asyncio.sleep(RETRY_S)


async def send(client: AsyncClient, request: LimitOrder | str) -> Any:
    """Place an order, or cancel the one with an id."""
    if isinstance(request, LimitOrder):
        return await client.place(request)
    return await client.cancel(request)


def other(side: Side) -> Side:
    """Return the opposite side."""
    return Side.SELL if side is Side.BUY else Side.BUY


def levels_of(depth: Depth, side: Side) -> Sequence[Level]:
    """Return the levels of a side, best first."""
    return depth.bids if side is Side.BUY else depth.asks


def is_of(order: OrderBody, token: str, side: Side) -> bool:
    """Return whether an order is one of a token and side."""
    return order.token_id == token and order.side == side
