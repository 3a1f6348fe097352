"""Market makers: one bid below the middle of the book, one ask above it."""

from clob.order import Side
from clob.replay.sim.market_view import MarketView, OwnOrder
from clob.replay.sim.strategy import Strategy

# Looking up an enum member takes 0.1 us.
BUY, SELL = Side.BUY, Side.SELL


class MarketMaker(Strategy):
    """Quotes both sides around the middle of the other orders, at each wake.

    A quote at the right price stays, to keep its place in the queue; any other is cancelled and
    replaced. Quotes are post-only. A side is not quoted if one more fill would exceed the position
    limit.

    Args:
        half_spread: distance of each quote from the middle, in ticks, 0 or more.
        size: size of each quote, in lots.
        limit: maximum long or short position, in lots, without the tokens of the initial split.
        split: collateral to split at the start, in lots, so that there are tokens to sell where
            short positions are not allowed.
    """

    def __init__(
        self, half_spread: int = 1, size: int = 100, limit: int = 1_000, split: int = 0
    ) -> None:
        self.half_spread: int = half_spread
        self.size: int = size
        self.limit: int = limit
        self.opening: int = split
        self._quotes: dict[tuple[int, Side], OwnOrder] = {}

    def on_start(self, market: MarketView) -> None:
        """Split collateral to have tokens to sell."""
        if self.opening:
            market.split(self.opening)

    def on_wake(self, market: MarketView) -> None:
        """Move the quotes to the current prices."""
        prices = self.prices(market)
        if prices is None:
            return
        position = market.position - self.opening
        bid, ask = prices
        self._quote(market, BUY, bid, position + self.size <= self.limit)
        self._quote(market, SELL, ask, position - self.size >= -self.limit)

    def prices(self, market: MarketView) -> tuple[int, int] | None:
        """Return the prices of bid and ask to quote, in ticks; None keeps the current quotes."""
        bid, ask = market.best_of_others(BUY), market.best_of_others(SELL)
        if bid is None or ask is None:
            return None
        # Both prices are rounded away from the middle, which may be between two ticks.
        middle = bid + ask
        return middle // 2 - self.half_spread, -(-middle // 2) + self.half_spread

    def _quote(self, market: MarketView, side: Side, price: int, wanted: bool) -> None:
        """Place, move or cancel one quote."""
        wanted = wanted and market.lo <= price <= market.hi
        quote = self._quotes.get((market.number, side))
        if quote is not None and quote.is_open:
            if wanted and quote.price == price and not quote.cancelling:
                return
            market.cancel(quote)
        if wanted:
            send = market.buy if side is BUY else market.sell
            self._quotes[market.number, side] = send(price, self.size, post_only=True)


class InventoryAverse(MarketMaker):
    """Quotes around a middle that moves against its own position.

    At the limit the quotes are ``aversion`` ticks lower if the position is long, or higher if it is
    short; in between the shift is proportional, in half ticks. So the side that reduces the
    position tends to be filled first.

    Args:
        aversion: shift of the quotes at the limit, in ticks.
        half_spread: as in :class:`~clob.replay.strategies.MarketMaker`.
        size: likewise.
        limit: likewise, 1 or more.
        split: likewise.

    Raises:
        ValueError: the limit is below 1.
    """

    def __init__(
        self,
        aversion: int = 3,
        half_spread: int = 1,
        size: int = 100,
        limit: int = 1_000,
        split: int = 0,
    ) -> None:
        super().__init__(half_spread, size, limit, split)
        if limit < 1:
            raise ValueError(f"limit must be 1 or more; got {limit}")
        self.aversion: int = aversion

    def prices(self, market: MarketView) -> tuple[int, int] | None:
        """Return the prices of bid and ask to quote, in ticks; None keeps the current quotes."""
        quotes = super().prices(market)
        if quotes is None:
            return None
        position = market.position - self.opening
        moved = 2 * self.aversion * abs(position) // self.limit
        # Without aversion, both quotes add up to twice the middle.
        middle = sum(quotes) - (moved if position > 0 else -moved)
        return middle // 2 - self.half_spread, -(-middle // 2) + self.half_spread
