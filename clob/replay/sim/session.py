"""Runs a strategy beside recorded flow: wakes it, and carries its orders and the answers to them.

Deterministic: equal flow, strategy, latency and seed give equal results. The order of things that
happen at one time is stated at :class:`~clob.replay.sim.strategy.Strategy`.

Compiled as it stands, with the types of ``_scheduling_c.pxd``.
"""

from collections import deque
from collections.abc import Iterable

from clob.order import SelfTrade, Side, TimeInForce
from clob.records import LOTS_MAX, SELF_TRADE_SHIFT
from clob.replay.io.streams import OWN_ID, Instrument
from clob.replay.sim.driver import NEVER, Driver, OwnFill, Stop
from clob.replay.sim.exchange_account import ExchangeAccount
from clob.replay.sim.fees import Charge
from clob.replay.sim.latency import Latency
from clob.replay.sim.market_view import Acts, MarketView, OutcomeView
from clob.replay.sim.messages import ENTER, EXCHANGE, TAKE_OUT, EquityRow, Message, PositionRow
from clob.replay.sim.orders import OwnOrder
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy
from clob.units import TICK_LIMIT

# Looking a member of an enum up takes a tenth of a microsecond.
GTD = TimeInForce.GTD


class Session(Acts):
    """One run of a strategy.

    Args:
        strategy: what trades.
        driver: what executes the recorded flow.
        instruments: what to call the markets and tokens.
        every_ns: how often the strategy is woken, counted from the start; None is never.
        latency: how long orders and answers take; None is no time.
        portfolio: what the strategy owns in the beginning; None is unlimited credit. It is the
            portfolio as the exchange knows it, and the run changes it.
        self_trade: what happens where an own order meets an own order.

    Raises:
        ValueError: ``every_ns`` is neither None nor a positive integer, or ``self_trade`` is
            ``DECREMENT``, which a backtest does not know.
    """

    def __init__(
        self,
        strategy: Strategy,
        driver: Driver,
        instruments: Iterable[Instrument] = (),
        *,
        every_ns: int | None = None,
        latency: Latency | None = None,
        portfolio: Portfolio | None = None,
        self_trade: SelfTrade = SelfTrade.CANCEL_INCOMING,
    ) -> None:
        if every_ns is not None and (type(every_ns) is not int or every_ns < 1):
            raise ValueError(f"every_ns must be None or an integer of 1 or more, not {every_ns!r}")
        if self_trade is SelfTrade.DECREMENT:
            raise ValueError("a backtest does not know SelfTrade.DECREMENT")
        super().__init__()
        self.strategy: Strategy = strategy
        """What trades."""
        self.driver: Driver = driver
        """What executes the recorded flow."""
        self.now_ns: int = driver.start_ns
        """The time."""
        self._every_ns = every_ns
        self._orders_way, replies_way = (latency or Latency()).connections()
        self._arrivals: deque[Message] = deque()
        if portfolio is None:
            portfolio = Portfolio()
        flags = int(self_trade) << SELF_TRADE_SHIFT
        self.account: ExchangeAccount = ExchangeAccount(driver, portfolio, replies_way, flags)
        """What the strategy's orders came to, and what it owns."""
        if _overrides(strategy, "on_fill"):
            self.account.on_fill = strategy.on_fill
        if _overrides(strategy, "on_order"):
            self.account.on_order = strategy.on_order
        self._hears = bool(self.account.on_fill or self.account.on_order)
        if not self._hears:
            self.account.share()
        self.seats: tuple[MarketView, ...] = self._take_seats(
            {one.number: one for one in instruments}
        )
        """The seats at all markets, by number."""
        for seat in self.seats:
            seat.markets = self.seats
        self._stop = Stop.FILL if self._hears else Stop.NO
        if _overrides(strategy, "on_book"):
            self._stop = Stop.BOOK

    def _take_seats(self, known: dict[int, Instrument]) -> tuple[MarketView, ...]:
        """Take a seat at each market that has a book."""
        driver, books = self.driver, self.driver.books
        seats = []
        for number in sorted({instrument // 2 for instrument in books}):
            yes = known.get(2 * number, Instrument(2 * number, ""))
            no = known.get(2 * number + 1, Instrument(2 * number + 1, "", "NO"))
            market = yes.market or no.market or f"market {number}"
            names = (market, f"{market} {yes.outcome}", f"{market} {no.outcome}")
            pair = (books.get(2 * number), books.get(2 * number + 1))
            seats.append(MarketView(number, pair, names, driver.lot_wei, self.account.known, self))
        return tuple(seats)

    # ----- what there is afterwards ------------------------------------------------------------

    @property
    def portfolio(self) -> Portfolio:
        """What the strategy owns, as the exchange knows it."""
        return self.account.portfolio

    @property
    def orders(self) -> list[OwnOrder]:
        """The own orders in order of sending."""
        return self.account.orders

    @property
    def own_fills(self) -> list[OwnFill]:
        """The fills of own orders, in order."""
        return self.account.fills

    @property
    def charges(self) -> list[Charge]:
        """The fee of each of the fills."""
        return self.account.charges

    @property
    def equity(self) -> list[EquityRow]:
        """What it all was worth: at wakes and fills, where that differs from the row before."""
        rows, count = self.account.equity, len(EquityRow._fields)
        return [EquityRow(*rows[at : at + count]) for at in range(0, len(rows), count)]

    @property
    def positions(self) -> list[PositionRow]:
        """What it had of each token, a row for each change."""
        rows, count = self.account.positions, len(PositionRow._fields)
        return [PositionRow(*rows[at : at + count]) for at in range(0, len(rows), count)]

    # ----- the clock ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the last recorded event. What would arrive later does not."""
        driver, account, stop = self.driver, self.account, self._stop
        self.now_ns = driver.start_ns
        for seat in self.seats:
            self.strategy.on_start(seat)
        account.note(self.now_ns)
        wake_ns = NEVER if self._every_ns is None else self.now_ns + self._every_ns
        done_ns = self.now_ns - 1
        while True:
            at_ns, messages = self._next(wake_ns)
            if at_ns > done_ns:
                fills = driver.advance(at_ns, stop)
                if fills:
                    account.fill(driver.last_ns, fills)
                if stop and (fills or driver.changed >= 0):
                    self._look()
                    # More events of that moment may follow, so that it is not done yet.
                    done_ns = driver.last_ns - 1
                    continue
                if driver.ended and at_ns > driver.last_ns:
                    break
                done_ns = at_ns
            self.now_ns = at_ns
            if messages:
                account.deliver(messages.popleft())
            else:
                wake_ns += self._every_ns or NEVER
                self._wake()
        self.now_ns = driver.last_ns
        account.learn(self.now_ns)
        account.note(self.now_ns)

    def _next(self, wake_ns: int) -> tuple[int, deque[Message] | None]:
        """Say when the next thing comes, and with which messages; None is a wake."""
        arrivals, news = self._arrivals, self.account.news
        at_ns, messages = wake_ns, None
        # Where the strategy is not called for news, it learns of them when it is called next.
        if self._hears and news and news[0][0] <= at_ns:
            at_ns, messages = news[0][0], news
        if arrivals and arrivals[0][0] <= at_ns:
            at_ns, messages = arrivals[0][0], arrivals
        return at_ns, messages

    def _wake(self) -> None:
        """Let the strategy act in each market."""
        account, on_wake = self.account, self.strategy.on_wake
        account.learn(self.now_ns)
        for seat in self.seats:
            on_wake(seat)
        account.note(self.now_ns)

    def _look(self) -> None:
        """Let the strategy look at the book that made the driver stop, if one did."""
        if self.driver.changed < 0:
            return
        self.now_ns = self.driver.last_ns
        self.account.learn(self.now_ns)
        number = self.driver.changed // 2
        self.strategy.on_book(next(seat for seat in self.seats if seat.number == number))

    # ----- what the strategy sends -------------------------------------------------------------

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
        if type(price) is not int or type(size) is not int:
            raise TypeError(f"price and size must be integers, not {price!r} and {size!r}")
        if not (-TICK_LIMIT <= price <= TICK_LIMIT and -LOTS_MAX <= size <= LOTS_MAX):
            raise ValueError(f"no record holds a price of {price} or a size of {size}")
        if time_in_force is GTD:
            raise ValueError("a backtest does not know GTD: cancel the order when its time comes")
        if leg._book is None:
            raise LookupError(f"there is no recorded flow for {leg.name}")
        orders, now_ns = self.account.orders, self.now_ns
        order_id = OWN_ID + len(orders)
        order = OwnOrder(order_id, leg, side, price, size, time_in_force, post_only, now_ns)
        orders.append(order)
        leg._open[order_id] = order
        arrival_ns = self._orders_way.arrival_ns(now_ns)
        self._arrivals.append((arrival_ns, ENTER, order, None))
        return order

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel, once for each order."""
        if order.is_open and not order.cancelling:
            order.cancelling = True
            arrival_ns = self._orders_way.arrival_ns(self.now_ns)
            self._arrivals.append((arrival_ns, TAKE_OUT, order, None))

    def exchange(self, seat: MarketView, size: int, merges: bool) -> None:
        """Send a split or a merge."""
        if type(size) is not int:
            raise TypeError(f"size must be an integer, not {size!r}")
        seat.exchanging += 1
        arrival_ns = self._orders_way.arrival_ns(self.now_ns)
        self._arrivals.append((arrival_ns, EXCHANGE, seat, (size, merges)))


def _overrides(strategy: Strategy, method: str) -> bool:
    """Tell whether a strategy has a method of its own for something."""
    return getattr(type(strategy), method) is not getattr(Strategy, method)


# MERGED clob.replay.sim.session: Chooses what runs a strategy: the compiled session, or the same lines as plain Python.
