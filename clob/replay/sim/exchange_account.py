"""The strategy's account at the exchange: what its orders come to, and what it is told of it.

Two portfolios stand side by side: what the strategy owns as the exchange knows it, and what the
strategy has heard of so far. The same things happen to both, to the second one later.

Compiled as it stands, with the types of ``_account_c.pxd``.
"""

from collections import deque
from collections.abc import Callable

from clob.errors import (
    REFUSALS,
    AmountTooLargeError,
    InsufficientBalanceError,
    InvalidAmountError,
    PriceOutOfRangeError,
)
from clob.order import TimeInForce
from clob.records import Flag, Kind
from clob.replay.errors import PortfolioError
from clob.replay.io.streams import OWN_ID
from clob.replay.sim.driver import Driver
from clob.replay.sim.fees import Charge
from clob.replay.sim.latency import Connection
from clob.replay.sim.market_view import MarketView
from clob.replay.sim.messages import (
    ENTER,
    EXCHANGE,
    HEAR_EXCHANGE,
    HEAR_FILL,
    HEAR_ORDER,
    TAKE_OUT,
    Message,
)
from clob.replay.sim.orders import Fill, OrderState, OwnFill, OwnOrder
from clob.replay.sim.portfolio import Portfolio
from clob.units import SIZE_MAX

# Plain integers: what is done with a Flag takes a microsecond, and looking a member up a tenth.
POST_ONLY, FOK = int(Flag.POST_ONLY), int(Flag.FOK)
LIMIT, IOC = int(Kind.LIMIT), int(Kind.IOC)
GTC, FILL_OR_KILL, RESTING, FILLED, CANCELLED = (
    TimeInForce.GTC,
    TimeInForce.FOK,
    OrderState.RESTING,
    OrderState.FILLED,
    OrderState.CANCELLED,
)


class ExchangeAccount:
    """Own orders at the exchange, and the answers to them.

    Args:
        driver: where orders are executed.
        portfolio: what the strategy owns.
        replies: the way of the answers.
        flags: bits of ``Flag`` that every own order bears.
    """

    def __init__(
        self, driver: Driver, portfolio: Portfolio, replies: Connection, flags: int
    ) -> None:
        self.portfolio: Portfolio = portfolio
        """What the strategy owns, as the exchange knows it."""
        self.known: Portfolio = portfolio.fork()
        """What the strategy owns, as far as it has heard."""
        self.orders: list[OwnOrder] = []
        """The own orders in order of sending; an order's place is its id less ``OWN_ID``."""
        self.fills: list[OwnFill] = []
        """The fills of own orders, in order."""
        self.charges: list[Charge] = []
        """The fee of each of them."""
        self.equity: list[int] = []
        """What it all was worth, an ``EquityRow`` where that differs from the row before. The
        rows' numbers stand behind one another: a tuple each would bring the collector on."""
        self.positions: list[int] = []
        """What it had of each token, a ``PositionRow`` for each change, in the same way."""
        self.news: deque[Message] = deque()
        """The answers under way, in order of arrival."""
        self.on_fill: Callable[[MarketView, Fill], None] | None = None
        """Who is called with each fill the strategy hears of."""
        self.on_order: Callable[[MarketView, OwnOrder], None] | None = None
        """Who is called with each change of an order the strategy hears of."""
        self._driver = driver
        self._lot_wei = driver.lot_wei
        self._replies = replies
        self._flags = flags
        self._marks: dict[int, int] = {}
        self._owned: tuple[int, int, int, int] | None = None
        self._moved = True

    def share(self) -> None:
        """Let the strategy know what the exchange knows, in one portfolio for both.

        That is right where all answers have come back whenever the strategy is called. Where
        orders hold something, the two differ: what is known does not say it.
        """
        if self._replies.instant and not self.portfolio.covered:
            self.known = self.portfolio

    # ----- what arrives ------------------------------------------------------------------------

    def deliver(self, message: Message) -> None:
        """Let a message do what it does.

        Args:
            message: one that has arrived, at either end.
        """
        ts_ns, what, whom, how = message
        if what == ENTER:
            self.enter(ts_ns, whom)
        elif what == TAKE_OUT:
            self.take_out(ts_ns, whom)
        elif what == HEAR_FILL:
            self._hear_fill(whom, how)
        elif what == HEAR_ORDER:
            self._hear_order(whom, how)
        elif what == EXCHANGE:
            self.exchange(ts_ns, whom, how)
        else:
            self._hear_exchange(whom, how)

    def enter(self, ts_ns: int, order: OwnOrder) -> None:
        """Let an order come in.

        Args:
            ts_ns: the time.
            order: the order.
        """
        leg = order.leg
        order.arrived_ns = ts_ns
        code = self._refusal(order)
        if code:
            self._refuse(ts_ns, order, code)
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
        number, rests, fills = self._driver.submit(
            ts_ns, leg.instrument, order.id, kind, order.side, order.price, order.size, flags
        )
        if number:
            self._leave(ts_ns, order, 0)
            self._refuse(ts_ns, order, REFUSALS[number].code)
            return
        if fills:
            self.fill(ts_ns, fills)
        if rests:
            order.ahead = leg.book.ahead(order.id).size // self._lot_wei
            self._tell(ts_ns, HEAR_ORDER, order, (RESTING, ""))
        elif order._left:
            self._leave(ts_ns, order, 0)
            self._tell(ts_ns, HEAR_ORDER, order, (CANCELLED, ""))

    def _refusal(self, order: OwnOrder) -> str:
        """Give the code of what is refused before any book is asked, or nothing."""
        leg, size_wei = order.leg, order.size * self._lot_wei
        seat = leg.seat
        if not seat.lo <= order.price <= seat.hi:
            return PriceOutOfRangeError.code
        if order.size < 1:
            return InvalidAmountError.code
        if size_wei > SIZE_MAX:
            return AmountTooLargeError.code
        if not self.portfolio.hold(leg.instrument, order.side, order.price, size_wei):
            return InsufficientBalanceError.code
        return ""

    def _refuse(self, ts_ns: int, order: OwnOrder, code: str) -> None:
        """Answer that an order is refused."""
        order.done_ns = ts_ns
        self._tell(ts_ns, HEAR_ORDER, order, (OrderState.REFUSED, code))

    def take_out(self, ts_ns: int, order: OwnOrder) -> None:
        """Cancel an order, if anything of it is left.

        Args:
            ts_ns: the time.
            order: the order.
        """
        if order._left and self._driver.cancel(ts_ns, order.leg.instrument, order.id):
            self._leave(ts_ns, order, 0)
            self._tell(ts_ns, HEAR_ORDER, order, (CANCELLED, ""))

    def exchange(self, ts_ns: int, seat: MarketView, how: tuple[int, bool]) -> None:
        """Split collateral or merge tokens, if they are there.

        Args:
            ts_ns: the time.
            seat: the market.
            how: how many lots of each token, and whether to merge.
        """
        size, merges = how[0] * self._lot_wei, how[1]
        try:
            _exchange(self.portfolio, seat.number, size, merges)
        except PortfolioError:
            self._tell(ts_ns, HEAR_EXCHANGE, seat, None)
            return
        for instrument in (2 * seat.number, 2 * seat.number + 1):
            self._take_down(ts_ns, instrument)
        self._tell(ts_ns, HEAR_EXCHANGE, seat, (size, merges))

    # ----- what comes of it --------------------------------------------------------------------

    def fill(self, now_ns: int, fills: list[OwnFill]) -> None:
        """Take fills in.

        Args:
            now_ns: the time by which they are known to the exchange.
            fills: what happened to own orders, in order.
        """
        for fill in fills:
            ts_ns, instrument, size = fill.ts_ns, fill.instrument, fill.size
            order = self.orders[fill.order_id - OWN_ID]
            if not size:
                self._leave(ts_ns, order, 0)
                self._tell(ts_ns, HEAR_ORDER, order, (CANCELLED, ""))
                continue
            self._leave(ts_ns, order, order._left - size)
            charge = self.portfolio.trade(
                instrument, order.side, fill.price, size * self._lot_wei, fill.resting
            )
            self.fills.append(fill)
            self.charges.append(charge)
            self._take_down(ts_ns, instrument)
            self._tell(ts_ns, HEAR_FILL, order, fill)
        self.note(now_ns)

    def _leave(self, ts_ns: int, order: OwnOrder, left: int) -> None:
        """Let go of what an order no longer needs."""
        if self.portfolio.covered:
            leg, lot_wei = order.leg, self._lot_wei
            self.portfolio.release(
                leg.instrument, order.side, order.price, order._left * lot_wei, left * lot_wei
            )
        order._left = left
        if not left:
            order.done_ns = ts_ns

    def settle(self, ts_ns: int, market: int, price: int) -> None:
        """Pay out all tokens of a market; the strategy knows at once.

        Args:
            ts_ns: the time.
            market: which market.
            price: what a YES token is worth, in ticks.

        Raises:
            PortfolioError: the price is out of range.
        """
        self.portfolio.settle(market, price)
        if self.known is not self.portfolio:
            self.known.settle(market, price)
        for instrument in (2 * market, 2 * market + 1):
            if instrument in self.portfolio.holdings:
                self._take_down(ts_ns, instrument)
        self.note(ts_ns)

    # ----- taking down -------------------------------------------------------------------------

    def note(self, now_ns: int) -> None:
        """Take down what it all is worth, if that is something else than before.

        A token is marked at the middle of its book, own orders included; where a side is empty,
        as it was marked last; without a book, at what the other token leaves of the whole.

        Args:
            now_ns: the time.
        """
        mine, books, marks, moved = self.portfolio, self._driver.books, self._marks, self._moved
        # Of tokens that were sold, too: what is bought back from an empty side has no other mark.
        for instrument in mine.holdings:
            mark = None
            if instrument in books:
                book = books[instrument]
                bid, ask = book.best_bid, book.best_ask
                if bid is not None and ask is not None:
                    mark = bid + ask
            elif instrument ^ 1 in marks:
                mark = 2 * mine.scale - marks[instrument ^ 1]
            if mark is not None and mark != marks.get(instrument):
                marks[instrument] = mark
                moved = True
        if not moved:
            return
        self._moved = False
        row = (mine.wealth(marks), mine.collateral, mine.realised, mine.fees_paid)
        if row != self._owned:
            self._owned = row
            self.equity.append(now_ns)
            self.equity.extend(row)

    def _take_down(self, ts_ns: int, instrument: int) -> None:
        """Take down what there is of a token, which has changed."""
        self._moved = True
        holding = self.portfolio.holdings[instrument]
        positions = self.positions
        positions.append(ts_ns)
        positions.append(instrument)
        positions.append(holding.size)
        positions.append(holding.cost)

    # ----- what the strategy hears -------------------------------------------------------------

    def _tell(self, ts_ns: int, what: int, whom: object, how: object) -> None:
        """Send an answer."""
        self.news.append((self._replies.arrival_ns(ts_ns), what, whom, how))

    def learn(self, now_ns: int) -> None:
        """Let the strategy hear all that has come back by now.

        Args:
            now_ns: the time.
        """
        news = self.news
        while news and news[0][0] <= now_ns:
            self.deliver(news.popleft())

    def _hear_fill(self, order: OwnOrder, fill: OwnFill) -> None:
        """Hear of a fill."""
        leg, size = order.leg, fill.size
        if self.known is not self.portfolio:
            self.known.trade(
                fill.instrument, order.side, fill.price, size * self._lot_wei, fill.resting
            )
        order.filled += size
        if order.filled == order.size:
            order.state, order.is_open = FILLED, False
            del leg._open[order.id]
        if self.on_fill:
            news = Fill(order, fill.price, fill.size, fill.ts_ns, fill.resting)
            self.on_fill(leg.seat, news)

    def _hear_order(self, order: OwnOrder, how: tuple[OrderState, str]) -> None:
        """Hear what has become of an order."""
        leg = order.leg
        order.state, order.code = how
        if order.state is not RESTING:
            order.is_open = False
            del leg._open[order.id]
        if self.on_order:
            self.on_order(leg.seat, order)

    def _hear_exchange(self, seat: MarketView, how: tuple[int, bool] | None) -> None:
        """Hear that a split or a merge was done, or was not."""
        seat.exchanging -= 1
        if how and self.known is not self.portfolio:
            _exchange(self.known, seat.number, *how)


def _exchange(portfolio: Portfolio, market: int, size: int, merges: bool) -> None:
    """Split or merge."""
    if merges:
        portfolio.merge(market, size)
    else:
        portfolio.split(market, size)
