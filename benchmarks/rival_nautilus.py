"""The backtests with nautilus_trader: the engine without a strategy, and with a market maker.

The engine gets the order-by-order book changes of the feed without its trades, which is less work
for it.
"""

from datetime import timedelta
from decimal import Decimal

import numpy as np
from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
from nautilus_trader.config import LoggingConfig, RiskEngineConfig
from nautilus_trader.model.currencies import USDC
from nautilus_trader.model.data import BookOrder, OrderBookDelta
from nautilus_trader.model.enums import (
    AccountType,
    AssetClass,
    BookAction,
    BookType,
    OmsType,
    OrderSide,
    TimeInForce,
)
from nautilus_trader.model.identifiers import InstrumentId, Symbol, Venue
from nautilus_trader.model.instruments import BinaryOption
from nautilus_trader.model.objects import Money, Price
from nautilus_trader.test_kit.providers import TestInstrumentProvider
from nautilus_trader.trading.strategy import Strategy

from benchmarks import agreement, history

Size = type(TestInstrumentProvider.binary_option().size_increment)
"""Its size type, imported through an instrument since its public name is banned in this project."""

VENUE = Venue("HISTORY")
MONEY = 10**9
ACTIONS = {
    history.ADD: BookAction.ADD,
    history.MODIFY: BookAction.UPDATE,
    history.DELETE: BookAction.DELETE,
}
SIDES = (OrderSide.BUY, OrderSide.SELL)
F_LAST = 128
"""Flag of the last change of an event; every event here has one change."""


def instrument() -> BinaryOption:
    """Return the token as an instrument: prices in cents, sizes in lots."""
    symbol = Symbol("YES")
    return BinaryOption(
        instrument_id=InstrumentId(symbol, VENUE),
        raw_symbol=symbol,
        asset_class=AssetClass.ALTERNATIVE,
        currency=USDC,
        price_precision=2,
        size_precision=0,
        price_increment=Price.from_str("0.01"),
        size_increment=Size.from_int(1),
        activation_ns=0,
        expiration_ns=2**62,
        ts_event=0,
        ts_init=0,
        maker_fee=Decimal(0),
        taker_fee=Decimal(0),
    )


def deltas_of(feed: np.ndarray) -> list[OrderBookDelta]:
    """Convert a feed to nautilus_trader book changes."""
    token = instrument().id
    prices = [Price(cents / 100, 2) for cents in range(101)]
    deltas = []
    for number, (ts_ns, order_id, size, price, action, side) in enumerate(feed.tolist()):
        if action in ACTIONS:
            order = BookOrder(SIDES[side], prices[price], Size.from_int(size), order_id)
            deltas.append(
                OrderBookDelta(token, ACTIONS[action], order, F_LAST, number, ts_ns, ts_ns)
            )
    return deltas


def prepared(deltas: list[OrderBookDelta], strategy: Strategy | None = None) -> BacktestEngine:
    """Return an engine without logging."""
    engine = BacktestEngine(
        BacktestEngineConfig(
            logging=LoggingConfig(bypass_logging=True),
            risk_engine=RiskEngineConfig(bypass=True),
            run_analysis=False,
        )
    )
    engine.add_venue(
        venue=VENUE,
        oms_type=OmsType.NETTING,
        account_type=AccountType.MARGIN,
        base_currency=USDC,
        starting_balances=[Money(MONEY, USDC)],
        book_type=BookType.L3_MBO,
    )
    engine.add_instrument(instrument())
    engine.add_data(deltas)
    if strategy is not None:
        engine.add_strategy(strategy)
    return engine


def best_of(engine: BacktestEngine) -> tuple[int, int]:
    """Return the final best prices in cents."""
    book = engine.cache.order_book(instrument().id)
    return round(float(book.best_bid_price()) * 100), round(float(book.best_ask_price()) * 100)


class Maker(Strategy):
    """Quotes like ``clob.replay.strategies.MarketMaker``.

    Args:
        every_ns: interval between wake-ups.
        size: size of each quote.
        limit: largest position, long or short.
    """

    def __init__(self, every_ns: int, size: int, limit: int) -> None:
        super().__init__()
        self.every = timedelta(microseconds=every_ns // 1_000)
        self.size, self.limit = size, limit
        self.token = instrument().id
        self.quotes = {}
        self.wakes = self.sent = 0

    def on_start(self) -> None:
        """Subscribe to the book and start the timer."""
        self.subscribe_order_book_deltas(self.token, BookType.L3_MBO)
        self.clock.set_timer("wake", self.every, callback=self.wake)

    def wake(self, _: object) -> None:
        """Move the quotes if the book has moved."""
        self.wakes += 1
        book = self.cache.order_book(self.token)
        bid, ask = book.best_bid_price(), book.best_ask_price()
        if bid is None or ask is None:
            return
        middle = round(float(bid) * 100) + round(float(ask) * 100)
        position = int(self.portfolio.net_position(self.token))
        self.quote(OrderSide.BUY, middle // 2 - 1, position + self.size <= self.limit)
        self.quote(OrderSide.SELL, -(-middle // 2) + 1, position - self.size >= -self.limit)

    def quote(self, side: OrderSide, cents: int, is_allowed: bool) -> None:
        """Place, move or cancel the quote of one side."""
        is_allowed = is_allowed and history.LO <= cents <= history.HI
        order, at = self.quotes.get(side, (None, 0))
        if order is not None and not order.is_closed:
            if is_allowed and at == cents:
                return
            self.cancel_order(order)
        if is_allowed:
            self.sent += 1
            order = self.order_factory.limit(
                self.token,
                side,
                Size.from_int(self.size),
                Price(cents / 100, 2),
                post_only=True,
            )
            self.quotes[side] = (order, cents)
            self.submit_order(order)


class Taker(Strategy):
    """Takes like ``agreement.Taker`` at given times."""

    def __init__(self, times: list[int]) -> None:
        super().__init__()
        self.times = iter(times)
        self.token = instrument().id
        self.position = self.cash = self.fills = 0

    def on_start(self) -> None:
        """Subscribe to the book and set the first alert."""
        self.subscribe_order_book_deltas(self.token, BookType.L3_MBO)
        self.await_next()

    def await_next(self) -> None:
        """Set the alert for the next time."""
        time = next(self.times, None)
        if time is not None:
            self.clock.set_time_alert_ns(str(time), time, self.wake)

    def wake(self, _: object) -> None:
        """Take a lot, or wait."""
        self.await_next()
        book = self.cache.order_book(self.token)
        if book.best_bid_price() is None or book.best_ask_price() is None:
            return
        # The size of a level; `best_bid_size` is that of its first order.
        sizes = int(book.bids()[0].size()), int(book.asks()[0].size())
        way = agreement.decision(*sizes, self.position)
        if way:
            order = self.order_factory.limit(
                self.token,
                OrderSide.BUY if way > 0 else OrderSide.SELL,
                Size.from_int(1),
                book.best_ask_price() if way > 0 else book.best_bid_price(),
                time_in_force=TimeInForce.IOC,
            )
            self.submit_order(order)

    def on_order_filled(self, event: object) -> None:
        """Count a fill."""
        signed = 1 if event.order_side == OrderSide.BUY else -1  # an order has one lot
        self.position += signed
        self.cash -= signed * round(float(event.last_px) * 100)
        self.fills += 1

    def taken(self) -> agreement.Taken:
        """Return the end of the run."""
        return agreement.Taken(self.position, self.cash, self.fills)
