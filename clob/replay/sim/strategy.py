"""The base class of strategies."""

import inspect

from clob.replay.sim.market_view import Fill, MarketView, OwnOrder

CALLBACKS = ("on_start", "on_wake", "on_fill", "on_order", "on_book")
"""The methods of a strategy that a run calls."""


class Strategy:
    """Base class of a strategy. Override the methods you need; the others cost nothing.

    Orders take time to arrive, and so do replies (:class:`~clob.replay.sim.latency.Latency`). Any
    method may send orders. It sees the current books, and its own orders as far as replies have
    arrived. At equal times the order is: recorded events, arriving own orders, replies,
    ``on_wake``; messages of one kind arrive in the order they were sent.

    >>> class Buyer(Strategy):
    ...     def on_wake(self, market):
    ...         if market.best_ask is not None and market.position < 10:
    ...             market.buy(market.best_ask, 1)
    """

    def __init_subclass__(cls) -> None:
        """Reject methods whose call would run none of their code."""
        super().__init_subclass__()
        for name in CALLBACKS:
            method = vars(cls).get(name)
            if inspect.isgeneratorfunction(method) or inspect.iscoroutinefunction(method):
                reason = "without yield, async and await; orders are sent as market.buy is called"
                raise TypeError(f"{cls.__name__}.{name} must be a function {reason}")

    def on_start(self, market: MarketView) -> None:
        """Start: called once per market, before the first event that is not a seed.

        Args:
            market: the strategy's view of the market.
        """

    def on_wake(self, market: MarketView) -> None:
        """Act on a timer: called for each market every ``every_ns``, in order of market number.

        Args:
            market: the strategy's view of the market.
        """

    def on_fill(self, market: MarketView, fill: Fill) -> None:
        """Handle a fill, when the reply arrives. Positions include it already.

        Args:
            market: the strategy's view of the market.
            fill: the fill.
        """

    def on_order(self, market: MarketView, order: OwnOrder) -> None:
        """Handle the reply that an order rests, was rejected, or left the book without a fill.

        Args:
            market: the strategy's view of the market.
            order: the order, with its new ``state``.
        """

    def on_book(self, market: MarketView) -> None:
        """Handle a recorded event that changed a best price or the size at one.

        Args:
            market: the strategy's view of the market. Events of the same time are reported one by
                one.
        """
