"""The strategy's account at the exchange: executes its orders and sends the replies.

There are two portfolios: the exchange's, and the strategy's, which sees the same changes later,
when the replies arrive.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from clob.book import Book
from clob.errors import (
    REJECTIONS,
    AmountTooLargeError,
    InsufficientBalanceError,
    InvalidAmountError,
    PriceOutOfRangeError,
)
from clob.order import TimeInForce
from clob.records import Flag, Kind
from clob.replay.errors import PortfolioError
from clob.replay.io.streams import OWN, OWN_ID
from clob.replay.sim.driver import Driver
from clob.replay.sim.fees import Charge
from clob.replay.sim.latency import Connection
from clob.replay.sim.market_view import Fill, MarketView, OwnOrder
from clob.replay.sim.markouts import Markouts
from clob.replay.sim.marks import DEFAULT_MARK, MARKS, check_mark
from clob.replay.sim.messages import (
    CANCEL,
    EXCHANGE,
    ON_EXCHANGE,
    ON_FILL,
    ON_ORDER,
    SUBMIT,
    Message,
)
from clob.replay.sim.orders import OrderState, OwnFill
from clob.replay.sim.portfolio import Portfolio
from clob.units import SIZE_MAX

# Plain integers: an operation on a Flag takes 1 us, looking up a member 0.1 us.
POST_ONLY, FOK = int(Flag.POST_ONLY), int(Flag.FOK)
LIMIT, IOC = int(Kind.LIMIT), int(Kind.IOC)
GTC, FILL_OR_KILL = TimeInForce.GTC, TimeInForce.FOK
RESTING, FILLED, CANCELLED = OrderState.RESTING, OrderState.FILLED, OrderState.CANCELLED
SENT = OrderState.SENT
# Places of the rules of valuation.
OTHERS_MID, MID, BID, LAST = range(len(MARKS))


class ExchangeAccount:
    """Own orders at the exchange, and the replies to them.

    ``flags`` are bits of ``Flag`` for every own order; ``mark`` is a name of ``MARKS``.
    """

    def __init__(
        self,
        driver: Driver,
        portfolio: Portfolio,
        reply_connection: Connection,
        flags: int,
        mark: str = DEFAULT_MARK,
    ) -> None:
        self.portfolio: Portfolio = portfolio
        """The portfolio as the exchange knows it."""
        self.known: Portfolio = portfolio.fork()
        """The portfolio as the strategy knows it."""
        self.orders: list[OwnOrder] = []
        """Own orders in order of sending; an order's index is its id minus ``OWN_ID``."""
        self.fills: list[OwnFill] = []
        """Fills of own orders, in order."""
        self.charges: list[Charge] = []
        """The fee of each fill."""
        self.realised: list[int] = []
        """The profit that each fill has realised after its fee, in wei."""
        self.markouts: Markouts | None = None
        """Records the middle of others at fills and after them, or None."""
        self.equity: list[int] = []
        """For each change: time, wealth, collateral, realised profit and fees, in wei. A flat list,
        because a tuple per row would trigger garbage collections."""
        self.positions: list[int] = []
        """For each change, one after another: time, instrument, tokens and cost, in wei."""
        self.replies: deque[Message] = deque()
        """Replies in transit, in order of arrival."""
        self.on_fill: Callable[[MarketView, Fill], None] | None = None
        """Called with each fill that reaches the strategy, or None."""
        self.on_order: Callable[[MarketView, OwnOrder], None] | None = None
        """Called with each order update that reaches the strategy, or None."""
        self._driver = driver
        self._lot_wei = driver.lot_wei
        self._reply_connection = reply_connection
        self._flags = flags
        self._rule = check_mark(mark)
        # Rules but mid leave out own orders, and so do the books of history in shadow mode.
        self._books = driver.books if self._rule == MID else driver.history
        self._marks: dict[int, int] = {}
        self._last_row: tuple[int, int, int, int] | None = None
        self._changed = True
        self._at_once = False

    def reply_at_once(self) -> None:
        """Apply replies when they are sent, if they are instant.

        Valid only if every reply arrives before the strategy is called next. Then one portfolio
        serves both sides, unless orders reserve balances: the strategy's has no reservations.
        """
        self._at_once = self._reply_connection.instant
        if self._at_once and not self.portfolio.covered:
            self.known = self.portfolio

    # ----- requests from the strategy ----------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """Apply a message that has arrived, at either end."""
        ts_ns, kind, target, data = message
        if kind == SUBMIT:
            self.submit(ts_ns, target)
        elif kind == CANCEL:
            self.cancel(ts_ns, target)
        elif kind == EXCHANGE:
            self.exchange(ts_ns, target, data)
        else:
            self._handle_reply(kind, target, data)

    def submit(self, ts_ns: int, order: OwnOrder) -> None:
        """Execute an order that has arrived."""
        outcome = order.outcome
        order.arrived_ns = ts_ns
        code = self._validate(order)
        if code:
            self._reject(ts_ns, order, code)
            return
        order._left = order.size
        flags = self._flags
        kind = LIMIT
        if order.post_only:
            flags |= POST_ONLY
        if order.time_in_force is not GTC:
            if order.time_in_force is FILL_OR_KILL:
                flags |= FOK
            else:
                kind = IOC
        number, ahead, fills = self._driver.submit(
            ts_ns, outcome.instrument, order.id, kind, order.side, order.price, order.size, flags
        )
        if number:
            self._set_left(ts_ns, order, 0)
            self._reject(ts_ns, order, REJECTIONS[number].code)
            return
        if fills:
            self.apply_fills(ts_ns, fills)
        if ahead >= 0:
            order.ahead = ahead
            self._reply(ts_ns, ON_ORDER, order, (RESTING, ""))
        elif order._left:
            self._set_left(ts_ns, order, 0)
            self._reply(ts_ns, ON_ORDER, order, (CANCELLED, ""))

    def _validate(self, order: OwnOrder) -> str:
        """Reserve the order's balance; return the code of a rejection, or an empty string."""
        outcome, size_wei = order.outcome, order.size * self._lot_wei
        market = outcome.market
        if not market.lo <= order.price <= market.hi:
            return PriceOutOfRangeError.code
        if order.size < 1:
            return InvalidAmountError.code
        if size_wei > SIZE_MAX:
            return AmountTooLargeError.code
        if not self.portfolio.reserve(outcome.instrument, order.side, order.price, size_wei):
            return InsufficientBalanceError.code
        return ""

    def _reject(self, ts_ns: int, order: OwnOrder, code: str) -> None:
        order.done_ns = ts_ns
        self._reply(ts_ns, ON_ORDER, order, (OrderState.REJECTED, code))

    def cancel(self, ts_ns: int, order: OwnOrder) -> None:
        """Cancel an order if a part of it still rests."""
        if order.arrived_ns < 0:
            # It overtook its order, which the exchange does not know.
            order.cancelling = False
        elif order._left and self._driver.cancel(ts_ns, order.outcome.instrument, order.id):
            self._set_left(ts_ns, order, 0)
            self._reply(ts_ns, ON_ORDER, order, (CANCELLED, ""))

    def exchange(self, ts_ns: int, market: MarketView, data: tuple[int, bool]) -> None:
        """Split collateral or merge tokens if the portfolio covers it.

        The data are the lots of each token, and whether to merge.
        """
        size, merges = data[0] * self._lot_wei, data[1]
        try:
            _exchange(self.portfolio, market.number, size, merges)
        except PortfolioError:
            self._reply(ts_ns, ON_EXCHANGE, market, None)
            return
        for instrument in (2 * market.number, 2 * market.number + 1):
            self._record_position(ts_ns, instrument)
        self._reply(ts_ns, ON_EXCHANGE, market, (size, merges))

    # ----- fills and settlement ----------------------------------------------------------------

    def apply_fills(self, now_ns: int, fills: list[OwnFill]) -> None:
        """Apply fills to the portfolio and reply to the strategy.

        ``now_ns`` is when the exchange knows of them.
        """
        portfolio = self.portfolio
        for fill in fills:
            ts_ns, instrument, size = fill.ts_ns, fill.instrument, fill.size
            order = self.orders[fill.order_id - OWN_ID]
            if not size:
                self._set_left(ts_ns, order, 0)
                self._reply(ts_ns, ON_ORDER, order, (CANCELLED, ""))
                continue
            self._set_left(ts_ns, order, order._left - size)
            realised = portfolio.realised
            charge = portfolio.trade(
                instrument, order.side, fill.price, size * self._lot_wei, fill.resting, order.id
            )
            self.fills.append(fill)
            self.charges.append(charge)
            self.realised.append(portfolio.realised - realised)
            self._record_position(ts_ns, instrument)
            self._reply(ts_ns, ON_FILL, order, (fill, charge))
        if self.markouts is not None:
            self.markouts.add(now_ns, fills)
        self.record_equity(now_ns)

    def _set_left(self, ts_ns: int, order: OwnOrder, left: int) -> None:
        """Set the unfilled size of an order, and release the balance it no longer needs."""
        if self.portfolio.covered:
            outcome, lot_wei = order.outcome, self._lot_wei
            self.portfolio.release(
                outcome.instrument, order.side, order.price, order._left * lot_wei, left * lot_wei
            )
        order._left = left
        if not left:
            order.done_ns = ts_ns

    def settle(self, ts_ns: int, market: int, price: int) -> None:
        """Pay out all tokens of a market; the strategy knows at once.

        The price is the value of a YES token in ticks; ``PortfolioError`` if it is out of range.
        """
        self.portfolio.settle(market, price)
        if self.known is not self.portfolio:
            self.known.settle(market, price)
        for instrument in (2 * market, 2 * market + 1):
            if instrument in self.portfolio.holdings:
                self._record_position(ts_ns, instrument)
        self.record_equity(ts_ns)

    # ----- history -----------------------------------------------------------------------------

    def record_equity(self, now_ns: int) -> None:
        """Add a row of equity if it has changed; ``MARKS`` has the rules of valuation."""
        portfolio, marks, changed = self.portfolio, self._marks, self._changed
        # Sold tokens keep a mark: bought back from an empty side, they have no other value.
        for instrument in portfolio.holdings:
            book = self._books.get(instrument) if self._rule == OTHERS_MID else None
            if book is None:
                mark = self._mark_of(instrument)
            else:
                # The default rule is read without further calls, since makers fill often.
                bid, ask = book._best_of_others(OWN)
                mark = None if bid is None or ask is None else bid + ask
            if mark is not None and mark != marks.get(instrument):
                marks[instrument] = mark
                changed = True
        if not changed:
            return
        self._changed = False
        wealth = portfolio.wealth(marks)
        row = (wealth, portfolio.collateral, portfolio.realised, portfolio.fees_paid)
        if row != self._last_row:
            self._last_row = row
            self.equity.append(now_ns)
            self.equity.extend(row)

    def _mark_of(self, instrument: int) -> int | None:
        """Return the value of a held token in half ticks; None without a price."""
        owed = self._rule == BID and self.portfolio.holdings[instrument].size < 0
        book = self._books.get(instrument)
        if book is not None:
            return self._price_of(instrument, book, owed)
        book = self._books.get(instrument ^ 1)
        if book is None:
            return None
        price = self._price_of(instrument ^ 1, book, not owed)
        return None if price is None else 2 * self.portfolio.scale - price

    def _price_of(self, instrument: int, book: Book, owed: bool) -> int | None:
        """Return the price of a book in half ticks, ``owed`` if the position is negative."""
        rule = self._rule
        if rule == LAST:
            last = self._driver.last_price(instrument)
            return None if last is None else 2 * last
        bid, ask = (book.best_bid, book.best_ask) if rule == MID else book._best_of_others(OWN)
        if rule == BID:
            price = ask if owed else bid
            return None if price is None else 2 * price
        return None if bid is None or ask is None else bid + ask

    def _record_position(self, ts_ns: int, instrument: int) -> None:
        """Add a row for a token whose holding has changed."""
        self._changed = True
        holding = self.portfolio.holdings[instrument]
        positions = self.positions
        positions.append(ts_ns)
        positions.append(instrument)
        positions.append(holding.size)
        positions.append(holding.cost)

    # ----- replies to the strategy -------------------------------------------------------------

    def _reply(self, ts_ns: int, kind: int, target: Any, data: Any) -> None:
        """Send a reply."""
        if self._at_once:
            self._handle_reply(kind, target, data)
        else:
            self._reply_connection.send(self.replies, ts_ns, kind, target, data)

    def deliver_replies(self, now_ns: int) -> None:
        """Deliver the replies that have arrived by now."""
        replies = self.replies
        while replies and replies[0][0] <= now_ns:
            self.deliver(replies.popleft())

    def _handle_reply(self, kind: int, target: Any, data: Any) -> None:
        """Apply a reply at the strategy's end."""
        if kind == ON_FILL:
            self._handle_fill(target, data)
        elif kind == ON_ORDER:
            self._handle_order(target, data)
        else:
            self._handle_exchange(target, data)

    def _handle_fill(self, order: OwnOrder, data: tuple[OwnFill, Charge]) -> None:
        """Apply a fill and its fee to the strategy's portfolio and order."""
        fill, charge = data
        outcome, size = order.outcome, fill.size
        if self.known is not self.portfolio:
            self.known.enter(fill.instrument, order.side, fill.price, size * self._lot_wei, charge)
        order.filled += size
        if order.filled == order.size:
            order.state, order.is_open = FILLED, False
            outcome._open.pop(order.id, None)
        if self.on_fill:
            notice = Fill(order, fill.price, fill.size, fill.ts_ns, fill.resting)
            self.on_fill(outcome.market, notice)

    def _handle_order(self, order: OwnOrder, data: tuple[OrderState, str]) -> None:
        """Apply an order's new state."""
        outcome = order.outcome
        if data[0] is RESTING and order.state is not SENT:
            # A later reply overtook this one.
            return
        order.state, order.code = data
        if order.state is not RESTING:
            order.is_open = False
            outcome._open.pop(order.id, None)
        if self.on_order:
            self.on_order(outcome.market, order)

    def _handle_exchange(self, market: MarketView, data: tuple[int, bool] | None) -> None:
        """Apply the result of a split or a merge; None if it was not covered."""
        market.exchanging -= 1
        if data and self.known is not self.portfolio:
            _exchange(self.known, market.number, *data)


def _exchange(portfolio: Portfolio, market: int, size: int, merges: bool) -> None:
    if merges:
        portfolio.merge(market, size)
    else:
        portfolio.split(market, size)
