"""The class to write a strategy in: plain Python, called at the times it asks for."""

from clob.replay.sim.market_view import MarketView
from clob.replay.sim.orders import Fill, OwnOrder


class Strategy:
    """What trades in a backtest. Override what you need; what is not overridden costs nothing.

    Orders take time to arrive and answers to come back (:class:`~clob.replay.sim.latency.Latency`).
    Each call may send orders; it sees the books as they stand then, and of its own orders what it
    has heard by then. Where times are equal, the recorded events of that time come first, then
    own orders that arrive, then answers, then the wake; among equals, who was sent first.

    >>> class Buyer(Strategy):
    ...     def on_wake(self, market):
    ...         if market.best_ask is not None and market.position < 10:
    ...             market.buy(market.best_ask, 1)
    """

    def on_start(self, market: MarketView) -> None:
        """Begin: called once for each market, before the first event that is no seed.

        Args:
            market: the seat at it.
        """

    def on_wake(self, market: MarketView) -> None:
        """Act: called every ``every_ns`` for each market, by number.

        Args:
            market: the seat at it.
        """

    def on_fill(self, market: MarketView, fill: Fill) -> None:
        """Hear of a fill, when the answer has come back. Positions know of it already.

        Args:
            market: the seat at it.
            fill: what was filled.
        """

    def on_order(self, market: MarketView, order: OwnOrder) -> None:
        """Hear that an order rests, is refused, or has left the book other than by a fill.

        Args:
            market: the seat at it.
            order: its ``state`` says what has become of it.
        """

    def on_book(self, market: MarketView) -> None:
        """Look: called after each recorded event that changed a best price or its size.

        Args:
            market: the seat at it. What several events of one moment do is not seen as one.
        """
