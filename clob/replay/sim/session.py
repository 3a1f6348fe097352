"""One run of a strategy: calls it, and carries its orders and the replies.

Deterministic: equal flow, strategy, latency and seed give equal results. The order of events at
equal times is documented on :class:`~clob.replay.sim.strategy.Strategy`.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from clob.order import SelfTrade, Side, TimeInForce
from clob.records import LOTS_MAX, SELF_TRADE_SHIFT
from clob.replay.io.streams import OWN_ID, Instrument
from clob.replay.sim.driver import NEVER, Driver, Stop
from clob.replay.sim.exchange_account import ExchangeAccount
from clob.replay.sim.latency import Latency
from clob.replay.sim.market_view import MarketView, OrderGateway, OutcomeView, OwnOrder
from clob.replay.sim.markouts import Markouts
from clob.replay.sim.marks import DEFAULT_MARK, check_step
from clob.replay.sim.messages import CANCEL, EXCHANGE, SUBMIT, Message
from clob.replay.sim.portfolio import Portfolio
from clob.replay.sim.strategy import Strategy
from clob.units import TICK_LIMIT

# Looking up an enum member takes 0.1 us.
GTD = TimeInForce.GTD
STOP_AT_FILL = Stop.FILL


class Session(OrderGateway):
    """One run of a strategy.

    Args:
        strategy: the strategy.
        driver: executes the recorded flow.
        instruments: names of the markets and tokens.
        every_ns: interval of ``on_wake``, counted from the start; None for never.
        latency: latency of orders and replies; None for none.
        portfolio: the initial portfolio at the exchange, which the run changes; None for unlimited
            credit.
        self_trade: policy when two own orders meet.
        mark: the rule by which positions are valued, a name of ``MARKS``.
        equity_every_ns: step of rows of equity, counted from the start; None for no step.
        horizons_ns: times after own fills at which the middle of others is recorded.

    Raises:
        ValueError: ``every_ns`` or ``equity_every_ns`` is neither None nor a positive integer,
            ``mark`` is unknown, or ``self_trade`` is ``DECREMENT``, which a backtest does not
            support.
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
        mark: str = DEFAULT_MARK,
        equity_every_ns: int | None = None,
        horizons_ns: Sequence[int] = (),
    ) -> None:
        check_step(equity_every_ns)
        if every_ns is not None and (type(every_ns) is not int or every_ns < 1):
            raise ValueError(f"every_ns must be None or an integer of 1 or more; got {every_ns!r}")
        if self_trade is SelfTrade.DECREMENT:
            raise ValueError("a backtest does not support SelfTrade.DECREMENT")
        super().__init__()
        self.strategy: Strategy = strategy
        self.driver: Driver = driver
        self.now_ns: int = driver.start_ns
        self._every_ns = every_ns
        self._equity_every_ns = equity_every_ns
        self._order_connection, reply_connection = (latency or Latency()).connections()
        self._arrivals: deque[Message] = deque()
        flags = int(self_trade) << SELF_TRADE_SHIFT
        self.account: ExchangeAccount = ExchangeAccount(
            driver, portfolio or Portfolio(), reply_connection, flags, mark
        )
        if horizons_ns:
            self.account.markouts = Markouts(driver.history, horizons_ns)
        if _overrides(strategy, "on_fill"):
            self.account.on_fill = strategy.on_fill
        if _overrides(strategy, "on_order"):
            self.account.on_order = strategy.on_order
        self._has_callbacks = bool(self.account.on_fill or self.account.on_order)
        if not self._has_callbacks:
            self.account.reply_at_once()
        known = {one.number: one for one in instruments}
        self.markets: tuple[MarketView, ...] = self._make_views(known)
        """The views of all markets, by number."""
        for market in self.markets:
            market.markets = self.markets
        # A fill always stops the driver: its row of equity needs the book of its time.
        self._stop = STOP_AT_FILL
        if _overrides(strategy, "on_book"):
            self._stop = Stop.BOOK

    def _make_views(self, known: dict[int, Instrument]) -> tuple[MarketView, ...]:
        """Make a view of each market that has a book."""
        driver, books = self.driver, self.driver.books
        views = []
        for number in sorted({instrument // 2 for instrument in books}):
            yes = known.get(2 * number, Instrument(2 * number, ""))
            no = known.get(2 * number + 1, Instrument(2 * number + 1, "", "NO"))
            name = yes.market or no.market or f"market {number}"
            names = (name, f"{name} {yes.outcome}", f"{name} {no.outcome}")
            pair = (books.get(2 * number), books.get(2 * number + 1))
            views.append(MarketView(number, pair, names, driver.lot_wei, self.account.known, self))
        return tuple(views)

    # ----- the clock ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the last recorded event. Messages that would arrive later are dropped."""
        driver, account, stop = self.driver, self.account, self._stop
        self.now_ns = driver.start_ns
        for market in self.markets:
            self.strategy.on_start(market)
        account.record_equity(self.now_ns)
        start_ns, step_ns = self.now_ns, self._equity_every_ns
        wake_ns = NEVER if self._every_ns is None else start_ns + self._every_ns
        equity_ns = NEVER if step_ns is None else start_ns + step_ns
        done_ns, markouts = self.now_ns - 1, account.markouts
        # Then a fill changes nothing about the next event.
        is_quiet = stop is STOP_AT_FILL and not self._has_callbacks and markouts is None
        timer_ns = min(wake_ns, equity_ns)
        while True:
            due_ns = NEVER if markouts is None else markouts.due_ns
            at_ns, messages = self._next_event(min(timer_ns, due_ns))
            if at_ns > done_ns:
                fills = driver.advance(at_ns, stop)
                while fills and is_quiet:
                    account.apply_fills(driver.last_ns, fills)
                    fills = driver.advance(at_ns, stop)
                if fills:
                    account.apply_fills(driver.last_ns, fills)
                is_changed = driver.changed >= 0
                if fills or is_changed:
                    if is_changed:
                        self._call_on_book()
                    # Further events of the same time may follow, so this time is not finished.
                    done_ns = driver.last_ns - 1
                    continue
                if driver.ended and at_ns > driver.last_ns:
                    break
                done_ns = at_ns
            self.now_ns = at_ns
            if messages:
                account.deliver(messages.popleft())
            elif markouts is not None and at_ns == due_ns:
                markouts.record(at_ns)
            elif at_ns == equity_ns:
                account.record_equity(at_ns)
                equity_ns += step_ns or NEVER
                timer_ns = min(wake_ns, equity_ns)
            else:
                wake_ns += self._every_ns or NEVER
                timer_ns = min(wake_ns, equity_ns)
                self._call_on_wake()
        self.now_ns = driver.last_ns
        account.deliver_replies(self.now_ns)
        account.record_equity(self.now_ns)

    def _next_event(self, wake_ns: int) -> tuple[int, deque[Message] | None]:
        """Return the time of the next event, and the queue it is in; None for a wake."""
        arrivals, replies = self._arrivals, self.account.replies
        at_ns, messages = wake_ns, None
        # Without callbacks, replies are delivered at the next wake.
        if self._has_callbacks and replies and replies[0][0] <= at_ns:
            at_ns, messages = replies[0][0], replies
        if arrivals and arrivals[0][0] <= at_ns:
            at_ns, messages = arrivals[0][0], arrivals
        return at_ns, messages

    def _call_on_wake(self) -> None:
        """Call ``on_wake`` for each market."""
        account, on_wake = self.account, self.strategy.on_wake
        account.deliver_replies(self.now_ns)
        for market in self.markets:
            on_wake(market)
        account.record_equity(self.now_ns)

    def _call_on_book(self) -> None:
        """Call ``on_book`` after a book change stopped the driver."""
        self.now_ns = self.driver.last_ns
        self.account.deliver_replies(self.now_ns)
        number = self.driver.changed // 2
        self.strategy.on_book(next(market for market in self.markets if market.number == number))

    # ----- requests from the strategy ----------------------------------------------------------

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
        if type(price) is not int or type(size) is not int:
            raise TypeError(
                f"price (ticks) and size (lots) must be integers; got {price!r} and {size!r}"
            )
        if not (-TICK_LIMIT <= price <= TICK_LIMIT and -LOTS_MAX <= size <= LOTS_MAX):
            raise ValueError(
                f"price must be from -{TICK_LIMIT} to {TICK_LIMIT} (ticks), and size from "
                f"-{LOTS_MAX} to {LOTS_MAX} (lots); got {price} and {size}"
            )
        if type(time_in_force) is not TimeInForce:
            raise TypeError(f"time_in_force must be a TimeInForce; got {time_in_force!r}")
        if type(post_only) is not bool:
            raise TypeError(f"post_only must be True or False; got {post_only!r}")
        if time_in_force is GTD:
            raise ValueError("a backtest does not support GTD; cancel the order instead")
        if outcome._book is None:
            raise LookupError(f"no flow was recorded for {outcome.name}")
        orders, now_ns = self.account.orders, self.now_ns
        order_id = OWN_ID + len(orders)
        order = OwnOrder(order_id, outcome, side, price, size, time_in_force, post_only, now_ns)
        orders.append(order)
        outcome._open[order_id] = order
        self._order_connection.send(self._arrivals, now_ns, SUBMIT, order, None)
        return order

    def cancel(self, order: OwnOrder) -> None:
        """Send a cancel, once per order."""
        if order.is_open and not order.cancelling:
            order.cancelling = True
            self._order_connection.send(self._arrivals, self.now_ns, CANCEL, order, None)

    def exchange(self, market: MarketView, size: int, merges: bool) -> None:
        """Send a split or a merge."""
        if type(size) is not int:
            raise TypeError(f"size must be an integer; got {size!r}")
        market.exchanging += 1
        data = (size, merges)
        self._order_connection.send(self._arrivals, self.now_ns, EXCHANGE, market, data)


def _overrides(strategy: Strategy, method: str) -> bool:
    """Return whether the strategy's class overrides a method."""
    return getattr(type(strategy), method) is not getattr(Strategy, method)
