"""Arbitrage between the outcomes of one market: a YES and a NO token together are worth one."""

from clob.order import TimeInForce
from clob.replay.sim.market_view import MarketView, PriceLevel
from clob.replay.sim.strategy import Strategy


class Arbitrage(Strategy):
    """Buys YES and NO where both cost less than one and merges them; splits and sells where more.

    Both orders of a pair are sent at once, as IOC. If only one is filled, its tokens are kept and
    paired with later purchases; pairs left over from a split are merged again. It acts only when
    everything it sent was answered, so it never counts the same tokens twice.

    Args:
        edge: minimum profit of a pair, in ticks. It must cover the fees.
        size: maximum number of pairs to trade at once, in lots.
    """

    def __init__(self, edge: int = 1, size: int = 1_000) -> None:
        self.edge: int = edge
        self.size: int = size

    def on_wake(self, market: MarketView) -> None:
        """Merge available pairs, and trade pairs that the books offer.

        A market with one book only is skipped.
        """
        yes, no = market.yes, market.no
        if not (yes.has_book and no.has_book) or market.open_orders or market.exchanging:
            return
        pairs = min(yes.position, no.position)
        if pairs > 0:
            market.merge(pairs)
        whole = market.portfolio.scale
        (yes_bids, yes_asks), (no_bids, no_asks) = yes.depth(1), no.depth(1)
        if self._buy(market, yes_asks, no_asks, whole - self.edge):
            return
        self._sell(market, yes_bids, no_bids, whole + self.edge)

    def _buy(
        self, market: MarketView, yes_asks: list[PriceLevel], no_asks: list[PriceLevel], most: int
    ) -> bool:
        """Buy a pair if it costs at most ``most``."""
        if not (yes_asks and no_asks) or yes_asks[0].price + no_asks[0].price > most:
            return False
        size = min(self.size, yes_asks[0].size, no_asks[0].size)
        market.yes.buy(yes_asks[0].price, size, time_in_force=TimeInForce.IOC)
        market.no.buy(no_asks[0].price, size, time_in_force=TimeInForce.IOC)
        return True

    def _sell(
        self, market: MarketView, yes_bids: list[PriceLevel], no_bids: list[PriceLevel], least: int
    ) -> None:
        """Split collateral and sell both tokens if they bring at least ``least``."""
        if not (yes_bids and no_bids) or yes_bids[0].price + no_bids[0].price < least:
            return
        size = min(self.size, yes_bids[0].size, no_bids[0].size)
        # Messages keep their order, so the tokens exist when the orders arrive.
        market.split(size)
        market.yes.sell(yes_bids[0].price, size, time_in_force=TimeInForce.IOC)
        market.no.sell(no_bids[0].price, size, time_in_force=TimeInForce.IOC)
