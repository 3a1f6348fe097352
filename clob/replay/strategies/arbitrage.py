"""Arbitrage between the outcomes of one market: together YES and NO are worth exactly one."""

from clob.order import TimeInForce
from clob.replay.sim.market_view import MarketView, PriceLevel
from clob.replay.sim.strategy import Strategy


class Arbitrage(Strategy):
    """Buys YES and NO where both cost less than one and merges them; splits and sells where more.

    Both orders of a pair are sent at once, immediate or cancel. Where only one of them is filled,
    what was bought stays, and pairs with what is bought later; pairs that a split left unsold are
    merged again. It acts only when everything sent before was answered, so it never counts the
    same tokens twice.

    Args:
        edge: how much a pair must bring at least, in ticks. Fees must be covered by it.
        size: how many pairs to trade at once at most, in lots.
    """

    def __init__(self, edge: int = 1, size: int = 1_000) -> None:
        self.edge: int = edge
        """How much a pair must bring at least, in ticks."""
        self.size: int = size
        """How many pairs to trade at once at most, in lots."""

    def on_wake(self, market: MarketView) -> None:
        """Merge what pairs there are, and trade what pairs the books offer.

        Args:
            market: the seat at it; a market with one book only is left alone.
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
        """Buy a pair if it costs no more than that."""
        if not (yes_asks and no_asks) or yes_asks[0].price + no_asks[0].price > most:
            return False
        size = min(self.size, yes_asks[0].size, no_asks[0].size)
        market.yes.buy(yes_asks[0].price, size, time_in_force=TimeInForce.IOC)
        market.no.buy(no_asks[0].price, size, time_in_force=TimeInForce.IOC)
        return True

    def _sell(
        self, market: MarketView, yes_bids: list[PriceLevel], no_bids: list[PriceLevel], least: int
    ) -> None:
        """Split collateral and sell both halves if they bring at least that."""
        if not (yes_bids and no_bids) or yes_bids[0].price + no_bids[0].price < least:
            return
        size = min(self.size, yes_bids[0].size, no_bids[0].size)
        # Messages do not overtake, so that the tokens are there when the orders arrive.
        market.split(size)
        market.yes.sell(yes_bids[0].price, size, time_in_force=TimeInForce.IOC)
        market.no.sell(no_bids[0].price, size, time_in_force=TimeInForce.IOC)
