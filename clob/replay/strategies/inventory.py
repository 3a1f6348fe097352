"""A market maker that does not like to hold anything: the more it has, the lower it quotes."""

from clob.order import Side
from clob.replay.seats import Seat
from clob.replay.strategies.market_maker import MarketMaker


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

    def prices(self, market: Seat) -> tuple[int, int] | None:
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
