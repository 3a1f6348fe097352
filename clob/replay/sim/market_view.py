"""A strategy's view of one market and its two outcomes, and the orders it sends there.

Books are seen as they are now; own orders and positions as far as replies have arrived. Sizes are
lots, prices ticks, times ns.
"""

from typing import NamedTuple

from clob.book import Book
from clob.order import Side, TimeInForce
from clob.replay.io.streams import OWN
from clob.replay.sim.orders import OrderState
from clob.replay.sim.portfolio import Portfolio
from clob.units import WEI_PER_TOKEN, tokens

# Looking up an enum member takes 0.1 us.
BUY, SELL, GTC = Side.BUY, Side.SELL, TimeInForce.GTC
SENT = OrderState.SENT

RUN_ENDED = "the run has ended; nothing can be sent"


class PriceLevel(NamedTuple):
    """One level of a book."""

    price: int
    """In ticks."""
    size: int
    """Total size of its orders, in lots."""


class OwnOrder:
    """An order of the strategy, from the moment it is sent."""

    __slots__ = (
        "_left",
        "ahead",
        "arrived_ns",
        "cancelling",
        "code",
        "done_ns",
        "filled",
        "id",
        "is_open",
        "outcome",
        "post_only",
        "price",
        "sent_ns",
        "side",
        "size",
        "state",
        "time_in_force",
    )

    def __init__(
        self,
        order_id: int,
        outcome: "OutcomeView",
        side: Side,
        price: int,
        size: int,
        time_in_force: TimeInForce,
        post_only: bool,
        sent_ns: int,
    ) -> None:
        self.id: int = order_id
        """Its id: ``OWN_ID`` plus its index among the sent orders."""
        self.outcome: OutcomeView = outcome
        """The outcome that it buys or sells."""
        self.side: Side = side
        """Buy or sell."""
        self.price: int = price
        """Its limit, in ticks."""
        self.size: int = size
        """Its size when sent, in lots."""
        self.time_in_force: TimeInForce = time_in_force
        """GTC, IOC or FOK."""
        self.post_only: bool = post_only
        """Whether it is rejected if it would trade at once."""
        self.sent_ns: int = sent_ns
        """When it was sent."""
        self.arrived_ns: int = -1
        """When it reached the exchange, or -1. The strategy learns this later."""
        self.done_ns: int = -1
        """When it left the book or was rejected, or -1. The strategy learns this later."""
        self.ahead: int = -1
        """Lots in front of it when it began to rest; -1 if it never rested."""
        self.state: OrderState = SENT
        """Its state, as far as replies have arrived."""
        self.is_open: bool = True
        """Whether it may still trade, as far as replies have arrived."""
        self.filled: int = 0
        """Filled lots, as far as replies have arrived."""
        self.cancelling: bool = False
        """Whether a cancel was sent."""
        self.code: str = ""
        """Code of the rejection, as in :mod:`clob.errors`, or an empty string."""
        self._left: int = 0

    @property
    def remaining(self) -> int:
        """Unfilled lots, as far as replies have arrived."""
        return self.size - self.filled

    def __repr__(self) -> str:
        return (
            f"<{self.side.name} {self.size} at {self.price} in {self.outcome.name}: "
            f"{self.state.name.lower()}, {self.filled} filled>"
        )


class Fill(NamedTuple):
    """A fill, as reported to the strategy."""

    order: OwnOrder
    """The own order."""
    price: int
    """Price of the trade, in ticks."""
    size: int
    """Size of the trade, in lots."""
    ts_ns: int
    """Time of the trade; the report arrives later."""
    resting: bool
    """Whether the own order was the resting one."""


class OutcomeView:
    """One outcome token of a market: its book, and the strategy's position and orders in it."""

    def __init__(self, market: "MarketView", instrument: int, book: Book | None, name: str) -> None:
        self.market: MarketView = market
        """The view of the market it belongs to."""
        self.instrument: int = instrument
        """Number of the token: twice the market number, plus 1 for NO."""
        self.name: str = name
        """Name of the market and the outcome."""
        self._book = book
        self._open: dict[int, OwnOrder] = {}

    @property
    def has_book(self) -> bool:
        """Whether its flow was recorded. Without a book the token can be held but not traded."""
        return self._book is not None

    @property
    def book(self) -> Book:
        """Its book, for reading only; sizes in it are wei.

        Raises:
            LookupError: no flow was recorded for this token.
        """
        if self._book is None:
            raise LookupError(f"no flow was recorded for {self.name}")
        return self._book

    @property
    def best_bid(self) -> int | None:
        """Highest price of a resting buy order, including own orders, in ticks, or None."""
        return self.book.best_bid

    @property
    def best_ask(self) -> int | None:
        """Lowest price of a resting sell order, including own orders, in ticks, or None."""
        return self.book.best_ask

    def best_of_others(self, side: Side) -> int | None:
        """Return the best price without own orders, or None. O(own orders at the best levels).

        Use it to quote relative to the market: quotes based on ``best_bid`` and ``best_ask`` would
        follow themselves once they are best.

        Args:
            side: which side of the book.

        Raises:
            TypeError: the side is not a ``Side``.
            LookupError: no flow was recorded for this token.
        """
        if side is not BUY and side is not SELL:
            raise TypeError(f"side must be Side.BUY or Side.SELL; got {side!r}")
        bid, ask = self.book._best_of_others(OWN)
        return bid if side is BUY else ask

    def depth(self, limit: int | None = None) -> tuple[list[PriceLevel], list[PriceLevel]]:
        """Return the levels of the book, including own orders.

        Args:
            limit: levels per side at most; None for all.

        Returns:
            Bids and asks, best first, sizes in lots.
        """
        depth, lot_wei = self.book.depth(limit), self.market.lot_wei
        bids, asks = (
            [PriceLevel(level.price, level.size // lot_wei) for level in side]
            for side in (depth.bids, depth.asks)
        )
        return bids, asks

    def ahead(self, order: OwnOrder) -> int | None:
        """Return the lots in front of an own order now, or None if it does not rest."""
        if order.id not in self.book:
            return None
        return self.book.ahead(order.id).size // self.market.lot_wei

    @property
    def position(self) -> int:
        """Whole lots held as far as replies have arrived; negative for a short position."""
        return self.market.portfolio.size(self.instrument) // self.market.lot_wei

    @property
    def open_orders(self) -> tuple[OwnOrder, ...]:
        """Own orders in transit or resting, as far as replies have arrived, by time of sending."""
        return tuple(self._open.values())

    def buy(
        self, price: int, size: int, *, time_in_force: TimeInForce = GTC, post_only: bool = False
    ) -> OwnOrder:
        """Send a buy order.

        Args:
            price: highest price to pay, in ticks.
            size: in lots.
            time_in_force: GTC rests; IOC and FOK do not.
            post_only: reject the order if it would trade at once.

        Returns:
            The order. If the exchange rejects it, its state becomes ``REJECTED`` later.

        Raises:
            TypeError: price or size is not an integer, ``time_in_force`` is not a ``TimeInForce``,
                or ``post_only`` is not a bool.
            ValueError: ``GTD`` (not supported in a backtest), or a number outside the record
                format.
            LookupError: no flow was recorded for this token.
            RuntimeError: the run has ended.
        """
        return self.market._gateway.send(self, BUY, price, size, time_in_force, post_only)

    def sell(
        self, price: int, size: int, *, time_in_force: TimeInForce = GTC, post_only: bool = False
    ) -> OwnOrder:
        """Send a sell order like :meth:`buy`; the price is the lowest to accept."""
        return self.market._gateway.send(self, SELL, price, size, time_in_force, post_only)


class OrderGateway:
    """Sends the orders of views. This base class is for a run that has ended: it raises."""

    def __init__(self) -> None:
        self.now_ns: int = 0

    def send(
        self,
        outcome: OutcomeView,
        side: Side,
        price: int,
        size: int,
        time_in_force: TimeInForce,
        post_only: bool,
    ) -> OwnOrder:
        """Send an order."""
        raise RuntimeError(RUN_ENDED)

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel."""
        raise RuntimeError(RUN_ENDED)

    def exchange(self, market: "MarketView", size: int, merges: bool) -> None:
        """Send a split or a merge of ``size`` lots."""
        raise RuntimeError(RUN_ENDED)


class MarketView:
    """A strategy's view of one market. Prices and orders without an outcome refer to ``first``."""

    def __init__(
        self,
        number: int,
        books: tuple[Book | None, Book | None],
        names: tuple[str, str, str],
        lot_wei: int,
        portfolio: Portfolio,
        gateway: OrderGateway,
    ) -> None:
        self.number: int = number
        """Number of the market."""
        self.name: str = names[0]
        """Name of the market."""
        self.lot_wei: int = lot_wei
        """Wei in one lot."""
        self.portfolio: Portfolio = portfolio
        """The portfolio over all markets, as far as replies have arrived; for reading only."""
        self.yes: OutcomeView = OutcomeView(self, 2 * number, books[0], names[1])
        """The YES token."""
        self.no: OutcomeView = OutcomeView(self, 2 * number + 1, books[1], names[2])
        """The NO token."""
        self.first: OutcomeView = self.yes if self.yes.has_book else self.no
        """YES, or NO if only NO was recorded."""
        self.lo: int = self.first.book.lo
        """Lowest price of the grid, in ticks."""
        self.hi: int = self.first.book.hi
        """Highest price of the grid, in ticks."""
        self.exchanging: int = 0
        """Splits and merges that were sent and not answered yet."""
        self.markets: tuple[MarketView, ...] = (self,)
        """The views of all markets, by number."""
        self._gateway = gateway

    @property
    def now_ns(self) -> int:
        """The current time."""
        return self._gateway.now_ns

    @property
    def best_bid(self) -> int | None:
        """Highest price of a resting buy order, including own orders, in ticks, or None."""
        return self.first.book.best_bid

    @property
    def best_ask(self) -> int | None:
        """Lowest price of a resting sell order, including own orders, in ticks, or None."""
        return self.first.book.best_ask

    @property
    def position(self) -> int:
        """Whole lots of ``first`` held, as far as replies have arrived."""
        return self.first.position

    @property
    def open_orders(self) -> tuple[OwnOrder, ...]:
        """Open own orders of both outcomes, as far as replies have arrived."""
        return self.yes.open_orders + self.no.open_orders

    def best_of_others(self, side: Side) -> int | None:
        """Return the best price without own orders; see :meth:`OutcomeView.best_of_others`."""
        return self.first.best_of_others(side)

    def depth(self, limit: int | None = None) -> tuple[list[PriceLevel], list[PriceLevel]]:
        """Return the levels of the book; see :meth:`OutcomeView.depth`."""
        return self.first.depth(limit)

    def buy(
        self, price: int, size: int, *, time_in_force: TimeInForce = GTC, post_only: bool = False
    ) -> OwnOrder:
        """Send a buy order; see :meth:`OutcomeView.buy`."""
        return self._gateway.send(self.first, BUY, price, size, time_in_force, post_only)

    def sell(
        self, price: int, size: int, *, time_in_force: TimeInForce = GTC, post_only: bool = False
    ) -> OwnOrder:
        """Send a sell order; see :meth:`OutcomeView.buy`."""
        return self._gateway.send(self.first, SELL, price, size, time_in_force, post_only)

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel for an own order of either outcome; it may arrive too late.

        Raises:
            TypeError: not an own order.
            RuntimeError: the run has ended.
        """
        if not isinstance(order, OwnOrder):
            raise TypeError(f"order must be one that buy or sell returned; got {order!r}")
        self._gateway.cancel(order)

    def ahead(self, order: OwnOrder) -> int | None:
        """Return the lots in front of an own order now, or None if it does not rest."""
        return order.outcome.ahead(order)

    @property
    def collateral(self) -> int:
        """Collateral over all markets, as far as replies have arrived, in wei."""
        return self.portfolio.collateral

    def lots(self, amount: int | str) -> int:
        """Convert an amount of tokens to lots.

        Args:
            amount: whole tokens, or a decimal string.

        Raises:
            ValueError: the amount is invalid, or not a whole number of lots.
        """
        size, rest = divmod(tokens(amount), self.lot_wei)
        if rest:
            raise ValueError(
                f"amount must be a whole number of lots; got {amount} tokens, and a token has "
                f"{WEI_PER_TOKEN // self.lot_wei} lots"
            )
        return size

    def split(self, size: int) -> None:
        """Send a request to split collateral into YES and NO tokens.

        Args:
            size: tokens of each outcome, in lots. Without enough collateral on arrival it has no
                effect.

        Raises:
            TypeError: the size is not an integer.
            RuntimeError: the run has ended.
        """
        self._gateway.exchange(self, size, False)

    def merge(self, size: int) -> None:
        """Send a request to merge YES and NO tokens into collateral; see :meth:`split`.

        Without enough tokens on arrival it has no effect.
        """
        self._gateway.exchange(self, size, True)

    def close(self) -> None:
        """Disconnect the view from the session after the run; sending raises from then on.

        Without this, a strategy that keeps its view would keep the whole run in memory, in a
        reference cycle.
        """
        closed = OrderGateway()
        closed.now_ns = self._gateway.now_ns
        self._gateway = closed
