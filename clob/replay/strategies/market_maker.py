"""A market maker: one bid below the middle of the book, one ask above it."""

from clob.order import Side
from clob.replay.sim.market_view import MarketView
from clob.replay.sim.orders import OwnOrder
from clob.replay.sim.strategy import Strategy

# Looking a member of an enum up takes a tenth of a microsecond.
BUY, SELL = Side.BUY, Side.SELL


class MarketMaker(Strategy):
    """Quotes both sides around the middle of what others quote, at each wake.

    A quote that is where it should be stays, for its place in the queue is worth something; any
    other is cancelled and sent anew. Quotes are post-only: they never take. A side is not quoted
    where one more fill would take the position past the limit.

    Args:
        half_spread: how far each quote is from the middle, in ticks, 0 or more.
        size: how much each quote is for, in lots.
        limit: how much to have or owe at most, in lots.
        split: how much collateral to split when it begins, in lots, so that there is something to
            sell where tokens must be covered.
    """

    def __init__(
        self, half_spread: int = 1, size: int = 100, limit: int = 1_000, split: int = 0
    ) -> None:
        self.half_spread: int = half_spread
        """How far each quote is from the middle, in ticks."""
        self.size: int = size
        """How much each quote is for, in lots."""
        self.limit: int = limit
        """How much to have or owe at most, in lots, what was split not counted."""
        self.opening: int = split
        """How much collateral to split when it begins, in lots."""
        self._quotes: dict[tuple[int, Side], OwnOrder] = {}

    def on_start(self, market: MarketView) -> None:
        """Get tokens to sell.

        Args:
            market: the seat at it.
        """
        if self.opening:
            market.split(self.opening)

    def on_wake(self, market: MarketView) -> None:
        """Quote anew where the book has moved.

        Args:
            market: the seat at it.
        """
        prices = self.prices(market)
        if prices is None:
            return
        position = market.position - self.opening
        bid, ask = prices
        self._quote(market, BUY, bid, position + self.size <= self.limit)
        self._quote(market, SELL, ask, position - self.size >= -self.limit)

    def prices(self, market: MarketView) -> tuple[int, int] | None:
        """Say where to quote.

        Args:
            market: the seat at it.

        Returns:
            The prices of bid and ask, in ticks; None leaves everything as it is.
        """
        bid, ask = market.best_of_others(BUY), market.best_of_others(SELL)
        if bid is None or ask is None:
            return None
        # Both round away from the middle, which may lie between two ticks.
        middle = bid + ask
        return middle // 2 - self.half_spread, -(-middle // 2) + self.half_spread

    def _quote(self, market: MarketView, side: Side, price: int, wanted: bool) -> None:
        """See to it that one quote is at its price, or that there is none."""
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

    At the limit the quotes stand ``aversion`` ticks lower than the book's middle says, if it has
    tokens, or higher, if it owes some; in between they move in proportion, by half ticks. So the
    side that would reduce the position is filled first.

    Args:
        aversion: how far the quotes move at the limit, in ticks.
        half_spread: as for :class:`~clob.replay.strategies.MarketMaker`.
        size: as there.
        limit: as there, 1 or more.
        split: as there.

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
            raise ValueError(f"limit must be 1 or more, not {limit}")
        self.aversion: int = aversion
        """How far the quotes move at the limit, in ticks."""

    def prices(self, market: MarketView) -> tuple[int, int] | None:
        """Say where to quote.

        Args:
            market: the seat at it.

        Returns:
            The prices of bid and ask, in ticks; None leaves everything as it is.
        """
        bid, ask = market.best_of_others(Side.BUY), market.best_of_others(Side.SELL)
        if bid is None or ask is None:
            return None
        position = market.position - self.opening
        moved = 2 * self.aversion * abs(position) // self.limit
        middle = bid + ask - (moved if position > 0 else -moved)
        return middle // 2 - self.half_spread, -(-middle // 2) + self.half_spread


# MERGED clob.replay.strategies.market_maker: A market maker that does not like to hold anything: the more it has, the lower it quotes.
