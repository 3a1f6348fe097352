"""A strategy's seat at a market and its legs, as :mod:`clob.replay.sim.market_view` says it.

Compiled as it stands, with the types of ``_seats_c.pxd``.
"""

from typing import NamedTuple

from clob.book import Book
from clob.order import Side, TimeInForce
from clob.replay.sim.orders import OwnOrder
from clob.replay.sim.portfolio import Portfolio
from clob.units import WEI_PER_TOKEN, tokens

# Looking a member of an enum up takes a tenth of a microsecond.
BUY, SELL, GTC = Side.BUY, Side.SELL, TimeInForce.GTC

OVER = "the run is over: nothing arrives any more"


class PriceLevel(NamedTuple):
    """One level of a book."""

    price: int
    """In ticks."""
    size: int
    """Of all its orders together, in lots."""


class OutcomeView:
    """One outcome token of a market: its book, and what the strategy has of it."""

    def __init__(self, seat: "MarketView", instrument: int, book: Book | None, name: str) -> None:
        """Bring them together; the scheduler does."""
        self.seat: MarketView = seat
        """The market it belongs to."""
        self.instrument: int = instrument
        """The number of the token: market * 2, and 1 more for NO."""
        self.name: str = name
        """What to call it."""
        self._book = book
        self._open: dict[int, OwnOrder] = {}

    @property
    def has_book(self) -> bool:
        """Whether there is recorded flow for it; else it can be held and not traded."""
        return self._book is not None

    @property
    def book(self) -> Book:
        """Its book, to be looked at only; sizes in it are wei.

        Raises:
            LookupError: there is no recorded flow for it.
        """
        if self._book is None:
            raise LookupError(f"there is no recorded flow for {self.name}")
        return self._book

    @property
    def best_bid(self) -> int | None:
        """The highest price of a resting buy order, own ones included, in ticks, or None."""
        return self.book.best_bid

    @property
    def best_ask(self) -> int | None:
        """The lowest price of a resting sell order, own ones included, in ticks, or None."""
        return self.book.best_ask

    def best_of_others(self, side: Side) -> int | None:
        """Find the best price at which somebody else has an order, or None.

        Quotes that follow ``best_bid`` and ``best_ask`` follow themselves once they are best.

        Args:
            side: of the order.

        O(own open orders).
        """
        book, buys = self.book, side is BUY
        best = book.best_bid if buys else book.best_ask
        for order in self._open.values():
            if order.price == best and order.side is side:
                break
        else:
            return best
        own: dict[int, int] = {}
        for order in self._open.values():
            if order.side is side and order._left:
                own[order.price] = own.get(order.price, 0) + order._left * self.seat.lot_wei
        if not own:
            return best
        depth = book.depth(len(own) + 1)
        for level in depth.bids if buys else depth.asks:
            if level.size > own.get(level.price, 0):
                return level.price
        return None

    def depth(self, limit: int | None = None) -> tuple[list[PriceLevel], list[PriceLevel]]:
        """Take a picture of the book.

        Args:
            limit: how many levels of each side at most; None is all.

        Returns:
            Bids and asks, best first, own orders included, sizes in lots.
        """
        depth, lot_wei = self.book.depth(limit), self.seat.lot_wei
        bids, asks = (
            [PriceLevel(level.price, level.size // lot_wei) for level in side]
            for side in (depth.bids, depth.asks)
        )
        return bids, asks

    def ahead(self, order: OwnOrder) -> int | None:
        """Give how many lots stand in front of an own order, or None if it does not rest."""
        if order.id not in self.book:
            return None
        return self.book.ahead(order.id).size // self.seat.lot_wei

    @property
    def position(self) -> int:
        """How many tokens the strategy has heard it has, in whole lots; below 0 it owes them."""
        return self.seat.portfolio.size(self.instrument) // self.seat.lot_wei

    @property
    def open_orders(self) -> tuple[OwnOrder, ...]:
        """The own orders that are under way or rest, as far as heard, in order of sending."""
        return tuple(self._open.values())

    def buy(
        self,
        price: int,
        size: int,
        *,
        time_in_force: TimeInForce = GTC,
        post_only: bool = False,
    ) -> OwnOrder:
        """Send an order to buy.

        Args:
            price: the highest to pay, in ticks.
            size: how much, in lots.
            time_in_force: GTC rests; IOC and FOK do not.
            post_only: to be refused where it would trade at once.

        Returns:
            The order. Whatever the exchange finds wrong with it makes it ``REFUSED`` later.

        Raises:
            TypeError: price or size is no integer.
            ValueError: GTD, which a backtest does not know; or a number that no record holds.
            LookupError: there is no recorded flow for this token.
            RuntimeError: the run is over, as for all that is sent.
        """
        return self.seat._act.send(self, BUY, price, size, time_in_force, post_only)

    def sell(
        self,
        price: int,
        size: int,
        *,
        time_in_force: TimeInForce = GTC,
        post_only: bool = False,
    ) -> OwnOrder:
        """Send an order to sell; see :meth:`buy`.

        Args:
            price: the lowest to take, in ticks.
            size: how much, in lots.
            time_in_force: as in :meth:`buy`.
            post_only: as in :meth:`buy`.

        Returns:
            The order.
        """
        return self.seat._act.send(self, SELL, price, size, time_in_force, post_only)


class Acts:
    """What the scheduler does for a seat. This one does nothing any more, its run being over."""

    def __init__(self) -> None:
        self.now_ns: int = 0
        """The time."""

    def send(
        self,
        leg: OutcomeView,
        side: Side,
        price: int,
        size: int,
        time_in_force: TimeInForce,
        post_only: bool,
    ) -> OwnOrder:
        """Send an order."""
        raise RuntimeError(OVER)

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel."""
        raise RuntimeError(OVER)

    def exchange(self, seat: "MarketView", size: int, merges: bool) -> None:
        """Send a split, or a merge, of so many lots."""
        raise RuntimeError(OVER)


class MarketView:
    """A strategy's place at one market. Prices and orders without a leg are those of ``first``."""

    def __init__(
        self,
        number: int,
        books: tuple[Book | None, Book | None],
        names: tuple[str, str, str],
        lot_wei: int,
        portfolio: Portfolio,
        acts: Acts,
    ) -> None:
        """Set it up; the scheduler does."""
        self.number: int = number
        """The number of the market."""
        self.name: str = names[0]
        """What to call it."""
        self.lot_wei: int = lot_wei
        """What a size of 1 stands for, in wei."""
        self.portfolio: Portfolio = portfolio
        """All that the strategy has heard it owns, in all markets; to be looked at only."""
        self.yes: OutcomeView = OutcomeView(self, 2 * number, books[0], names[1])
        """The YES token."""
        self.no: OutcomeView = OutcomeView(self, 2 * number + 1, books[1], names[2])
        """The NO token."""
        self.first: OutcomeView = self.yes if self.yes.has_book else self.no
        """YES, or NO where only that was recorded."""
        self.lo: int = self.first.book.lo
        """The lowest price there is, in ticks."""
        self.hi: int = self.first.book.hi
        """The highest price there is, in ticks."""
        self.exchanging: int = 0
        """How many splits and merges were sent and not heard of."""
        self.markets: tuple[MarketView, ...] = (self,)
        """The seats at all markets, by number."""
        self._act = acts

    @property
    def now_ns(self) -> int:
        """The time."""
        return self._act.now_ns

    @property
    def best_bid(self) -> int | None:
        """The highest price of a resting buy order, own ones included, in ticks, or None."""
        return self.first.book.best_bid

    @property
    def best_ask(self) -> int | None:
        """The lowest price of a resting sell order, own ones included, in ticks, or None."""
        return self.first.book.best_ask

    @property
    def position(self) -> int:
        """How many tokens of the first leg the strategy has heard it has, in whole lots."""
        return self.first.position

    @property
    def open_orders(self) -> tuple[OwnOrder, ...]:
        """The own orders of both legs that are under way or rest, as far as heard."""
        return self.yes.open_orders + self.no.open_orders

    def best_of_others(self, side: Side) -> int | None:
        """Find the best price of others on a side; see :meth:`OutcomeView.best_of_others`."""
        return self.first.best_of_others(side)

    def depth(self, limit: int | None = None) -> tuple[list[PriceLevel], list[PriceLevel]]:
        """Take a picture of the book; see :meth:`OutcomeView.depth`."""
        return self.first.depth(limit)

    def buy(
        self,
        price: int,
        size: int,
        *,
        time_in_force: TimeInForce = GTC,
        post_only: bool = False,
    ) -> OwnOrder:
        """Send an order to buy; see :meth:`OutcomeView.buy`."""
        return self._act.send(self.first, BUY, price, size, time_in_force, post_only)

    def sell(
        self,
        price: int,
        size: int,
        *,
        time_in_force: TimeInForce = GTC,
        post_only: bool = False,
    ) -> OwnOrder:
        """Send an order to sell; see :meth:`OutcomeView.buy`."""
        return self._act.send(self.first, SELL, price, size, time_in_force, post_only)

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel for an own order of any leg. One that comes too late does nothing.

        Args:
            order: what to cancel.
        """
        self._act.cancel(order)

    def ahead(self, order: OwnOrder) -> int | None:
        """Give how many lots stand in front of an own order of any leg, or None.

        Args:
            order: which order; None is given if it does not rest.
        """
        return order.leg.ahead(order)

    @property
    def collateral(self) -> int:
        """The collateral the strategy has heard it has in all, in wei."""
        return self.portfolio.collateral

    def lots(self, amount: int | str) -> int:
        """Turn an amount of tokens into lots.

        Args:
            amount: whole tokens, or a decimal text.

        Raises:
            ValueError: it is no amount, or no whole number of lots.

        """
        size, rest = divmod(tokens(amount), self.lot_wei)
        if rest:
            raise ValueError(
                f"{amount} tokens are no whole number of lots, of which a token has "
                f"{WEI_PER_TOKEN // self.lot_wei}"
            )
        return size

    def split(self, size: int) -> None:
        """Send for collateral to become as many YES and NO tokens.

        Args:
            size: how many of each, in lots. What is not covered then does nothing.

        Raises:
            TypeError: the size is no integer.
            RuntimeError: the run is over.
        """
        self._act.exchange(self, size, False)

    def merge(self, size: int) -> None:
        """Send for as many YES and NO tokens to become collateral.

        Args:
            size: how many of each, in lots. What is not there then does nothing.

        Raises:
            TypeError: the size is no integer.
            RuntimeError: the run is over.
        """
        self._act.exchange(self, size, True)

    def leave(self) -> None:
        """Part from the scheduler, whose run is over; it does. From then on nothing can be sent.

        So a strategy that keeps its seat does not keep all that was read, nor wait for the garbage
        collector to find that it goes in a circle.
        """
        over = Acts()
        over.now_ns = self._act.now_ns
        self._act = over


# MERGED clob.replay.sim.market_view: What a strategy holds in its hands: its seat at a market, and the two legs of that.
#
# What they say of the strategy's orders and tokens is what it has heard of by then. What they say of
# the book is what stands there now. Sizes are lots, prices ticks, times ns.
