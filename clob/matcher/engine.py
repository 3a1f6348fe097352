"""Execution of submissions and cancels, the commands that every order passes.

All other commands are executed by the handlers that the engine gets as an argument
(:mod:`clob.matcher.handlers`). Compiled from this text, with the types of ``engine.pxd``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clob.book.validation import show
from clob.commands import Cancel, ResetClock, Submit
from clob.errors import InvalidCommandError, MatcherBusyError, RejectedError
from clob.events import (
    Event,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    PairedTrade,
    RemovalReason,
    Trade,
)
from clob.market import Market
from clob.matcher import complementary, entities, rejections, rollback, snapshot_orders
from clob.matcher.amounts import resized, with_fees, with_policy
from clob.matcher.entities import MarketState, OrderEntry
from clob.matcher.order_index import OrderIndex
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.units import TIME_MAX

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.snapshot_orders import OrderReader

BUY = Side.BUY
GTC = TimeInForce.GTC
GTD = TimeInForce.GTD
FILLED = RemovalReason.FILLED
REPLACED = RemovalReason.REPLACED
CANCELLED = RemovalReason.CANCELLED
ADMIN = RemovalReason.ADMIN


class Engine(OrderIndex):
    """The markets and orders of a :class:`clob.Matcher`.

    Args:
        book_class: the class of the books.
        handlers: a :class:`clob.matcher.handlers.Handler` for each type of command except
            ``Submit`` and ``Cancel``.
    """

    def __init__(self, book_class: "type[Book]", handlers: Mapping[type, Any]) -> None:
        super().__init__()
        self.book_class = book_class
        self.handlers = handlers
        self.busy: bool = False
        # Number of the last accepted order.
        self.number: int = 0
        # The result of each command of the last batch.
        self.results: list[Any] = []

    def __del__(self) -> None:
        """Break reference cycles: the garbage collector ignores the compiled entities."""
        for entry in self.entries.values():
            if type(entry) is not int:
                entry.detach()
        for market_state in self.markets.values():
            market_state.detach()
        self.makers.clear()
        for account in self.accounts.values():
            account.smart_wallet_orders.clear()

    # ----- commands ------------------------------------------------------------------------

    def apply(self, command: Any) -> Any:
        """Execute one command; see :meth:`clob.Matcher.apply`."""
        if self.busy:
            raise MatcherBusyError
        self.busy = True
        try:
            events = self.execute(command)
        except RejectedError:
            self.busy = False
            raise
        # Any other exception leaves the engine busy for good, since a change may be incomplete.
        while self.num_finished > self.finished_max:
            self.evict()
        self.busy = False
        return events

    def replay(self, commands: Iterable[Any]) -> tuple[int, dict[str, int], int]:
        """Execute a stream of commands; see :meth:`clob.Matcher.replay`."""
        rejected: dict[str, int] = {}
        applied = events = 0
        for command in commands:
            try:
                events += len(self.apply(command))
                applied += 1
            except RejectedError as error:
                rejected[error.code] = rejected.get(error.code, 0) + 1
        return applied, rejected, events

    def execute(self, command: Any) -> Any:
        """Check and execute one command, and advance the time."""
        if type(command) is Submit:
            submission = command
            now_ms = submission.now_ms
            self.check_time(now_ms)
            events = self.submit_order(submission, now_ms)
        elif type(command) is Cancel:
            cancel = command
            now_ms = cancel.now_ms
            self.check_time(now_ms)
            events = self.cancel_order(cancel, now_ms)
        else:
            handler = self.handler_of(command)
            now_ms = command.now_ms
            handler.check(self, command, now_ms)
            events = handler.execute(self, command, now_ms)
        self.now_ms = now_ms
        return events

    def execute_at(self, command: Any, now_ms: int) -> Any:
        """Check and execute one command of a batch, at the time of the batch."""
        if type(command) is Submit:
            return self.submit_order(command, now_ms)
        if type(command) is Cancel:
            return self.cancel_order(command, now_ms)
        handler = self.handlers[type(command)]
        handler.check(self, command, now_ms)
        return handler.execute(self, command, now_ms)

    def handler_of(self, command: Any) -> Any:
        """Return the handler of a command after checking the command's type and time."""
        handler = self.handlers.get(type(command))
        if handler is None:
            raise InvalidCommandError(f"command must be one of clob.commands; got {show(command)}")
        if type(command) is not ResetClock:  # its check covers its time, which may go back
            self.check_time(command.now_ms)
        return handler

    def check_time(self, now_ms: int) -> None:
        """Raise for an invalid time, or one before that of the last command."""
        if type(now_ms) is int:
            try:
                time: int = now_ms
                if self.now_ms <= time <= TIME_MAX:
                    return
            except OverflowError:  # compiled: beyond 64 bits
                pass
        raise rejections.time_rejection(now_ms, self.now_ms)

    # ----- markets and books ---------------------------------------------------------------

    def open_market(
        self, market: Market, yes_capacity: int = 0, no_capacity: int = 0
    ) -> MarketState:
        """Add a market with two empty books of the given capacities."""
        yes = self.make_book(market, market.yes, yes_capacity)
        no = self.make_book(market, market.no, no_capacity)
        market_state = self.markets[market.id] = MarketState(market, yes, no)
        self.tokens[market.yes] = market.id
        if market.no:
            self.tokens[market.no] = market.id
        collateral = market.collateral
        self.collaterals[collateral] = self.collaterals.get(collateral, 0) + 1
        return market_state

    def drop_market(self, market: str) -> MarketState:
        """Remove a market without orders, and return its state."""
        market_state = self.markets.pop(market)
        for token in (market_state.yes, market_state.no):
            self.tokens.pop(token, None)
        collateral = market_state.market.collateral
        self.collaterals[collateral] -= 1
        if not self.collaterals[collateral]:
            del self.collaterals[collateral]
        return market_state

    def make_book(self, market: Market, token: str, capacity: int = 0) -> "Book":
        """Return an empty book for a token of a market."""
        return self.book_class(
            token=token, lot_wei=market.lot_wei, capacity=capacity, market=market.id
        )

    def restore_orders(
        self, reader: "OrderReader", market_state: MarketState, count: int, is_yes: bool
    ) -> None:
        """Rest the orders of a book in a snapshot, see :mod:`clob.matcher.snapshot_orders`."""
        snapshot_orders.restore_orders(self, reader, market_state, count, is_yes)

    def order_pieces(
        self, ids: list[str | int], makers: dict[str, int], has_outcomes: bool
    ) -> "Iterator[bytes]":
        """Yield the bytes of orders in a snapshot, see :mod:`clob.matcher.snapshot_orders`."""
        return snapshot_orders.order_pieces(self, ids, makers, has_outcomes)

    def name_no(self, market: Market) -> None:
        """Set the NO token of a market that was added without one."""
        market_state = self.markets[market.id]
        # The replaced book has no orders, but may hold the sequence number.
        market_state.move_seq(market_state.yes_book)
        market_state.no_book = self.make_book(market, market.no)
        self.tokens[market.no] = market.id

    def book_of(self, entry: OrderEntry) -> "Book":
        """Return the book of an order, holding the market's sequence number."""
        market_state = entry.maker_state.market_state
        is_in_yes = entry.is_yes or market_state.complementary
        book = market_state.yes_book if is_in_yes else market_state.no_book
        if market_state.seq_book is not book:
            market_state.move_seq(book)
        return book

    # ----- submissions ---------------------------------------------------------------------

    def submit_order(self, command: Submit, now_ms: int) -> list[Event]:
        """Execute a submission."""
        order = command.order
        if type(order) is not Order:
            order = rejections.plain_order(command, now_ms)
        entry = self.admit(command, order, now_ms)
        market_state = entry.maker_state.market_state
        if market_state.self_trade and order.self_trade is None:
            order = with_policy(order, market_state.self_trade)
        book = self.book_of(entry)
        if self.undo is not None:
            rollback.before_submit(self.undo, market_state, book, entry)
        is_mirrored = market_state.complementary and not entry.is_yes
        if is_mirrored:
            events = complementary.submit(entry, order, now_ms, self.trades_max)
        else:
            events = book.submit(order, now_ms, self.trades_max)
        rested = len(events) == 1 and type(events[0]) is OrderAdded
        if is_mirrored or (market_state.complementary and not rested):
            complementary.convert_events(self.entry_of, market_state, events, entry.is_yes)
        self.number += 1
        entry.number, entry.accepted_ms = self.number, now_ms
        self.register(entry)
        if rested:
            self.rest(entry)
        else:
            self.apply_events(entry, events)
        return events

    def admit(self, command: Submit, order: Order, now_ms: int) -> OrderEntry:
        """Return the entry of a valid submission, or raise; changes nothing.

        The book checks its own rules later.
        """
        market_state, token = None, order.token
        if type(command.market) is str and type(token) is str:
            market_state = self.markets.get(command.market)
        if (
            market_state is None
            or (token != market_state.yes and token != market_state.no)
            or not self.fits_market(market_state, order)
            or not self.is_new_and_valid(command, order, now_ms)
        ):
            raise rejections.submit_rejection(self, command, order, now_ms)
        entry = self.entry_for(market_state, order)
        entry.client_id, entry.order_hash = command.client_id, command.order_hash
        maker_state, tif = entry.maker_state, order.time_in_force
        if maker_state.count >= self.orders_max and (tif is GTC or tif is GTD):
            raise rejections.submit_rejection(self, command, order, now_ms)
        if market_state.has_accounts and not self.is_covered(market_state, maker_state, order):
            raise rejections.submit_rejection(self, command, order, now_ms)
        return entry

    # ----- events of the book --------------------------------------------------------------

    def apply_events(self, entry: OrderEntry, events: list[Event]) -> None:
        """Apply the events of a submitted or replaced order, and set the fees of its trades."""
        market_state, rested, traded = entry.maker_state.market_state, None, 0
        for place in range(len(events)):
            event = events[place]
            if type(event) is Trade or type(event) is PairedTrade:
                resting = self.awake(self.entries[event.resting_order_id])
                if market_state.has_fees:
                    event = with_fees(market_state.market, event, entry.order, resting.order)
                    events[place] = event
                traded += self.apply_trade(entry, resting, event)
            elif type(event) is OrderRemoved:
                if event.reason is not FILLED and event.reason is not REPLACED:
                    self.finish(self.awake(self.entries[event.order_id]), event.reason)
            elif type(event) is OrderReduced:
                self.resize(self.awake(self.entries[event.order_id]), event.remaining)
            elif type(event) is OrderAdded:
                rested = event
        if rested is None:
            entry.remaining -= traded
            reason = removal_reason(entry, events) if entry.remaining else FILLED
            if entry.remaining and reason is FILLED:
                entry.order = resized(entry.order, entry.order.size - entry.remaining)
                entry.remaining = 0
            self.finish(entry, reason)
            return
        if rested.remaining != entry.remaining - traded:
            filled = entry.order.size - entry.remaining + traded
            entry.order = resized(entry.order, filled + rested.remaining)
        entry.remaining = rested.remaining
        if not entry.resting:
            self.rest(entry)
        elif market_state.has_accounts:
            self.reserve(entry, entry.remaining)

    def apply_trade(self, incoming: OrderEntry, resting: OrderEntry, event: Trade) -> int:
        """Apply a trade to both orders and their accounts; return its size."""
        if type(event) is not Trade:
            return self.apply_paired_trade(incoming, resting, event)
        size = event.size
        paid = size * event.price // 100
        if self.undo is not None:
            self.undo.append((rollback.restore, resting, resting.save()))
        resting.remaining = event.resting_remaining
        resting.filled_collateral += paid
        incoming.filled_collateral += paid
        market_state = resting.maker_state.market_state
        if market_state.has_accounts:
            self.reserve(resting, resting.remaining)
            if event.incoming_side is BUY:
                self.pay(market_state, incoming, resting, event, paid)
            else:
                self.pay(market_state, resting, incoming, event, paid)
        if not resting.remaining:
            self.finish(resting, FILLED)
        return size

    def apply_paired_trade(self, incoming: OrderEntry, resting: OrderEntry, event: Trade) -> int:
        """Apply one of the two trades of a mint or merge; return the size of the first, then 0."""
        first = event.token == incoming.order.token
        entry = incoming if first else resting
        paid = event.size * event.price // 100
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.save()))
        entry.filled_collateral += paid
        market_state = entry.maker_state.market_state
        if not first:
            entry.remaining = event.resting_remaining
            if market_state.has_accounts:
                self.reserve(entry, entry.remaining)
        if market_state.has_accounts:
            other_seq = event.seq + 1 if first else event.seq - 1
            self.pay_paired(market_state, entry, event, paid, other_seq)
        if not first and not entry.remaining:
            self.finish(entry, FILLED)
        return event.size if first else 0

    # ----- cancels -------------------------------------------------------------------------

    def cancel_order(self, command: Cancel, now_ms: int) -> list[Event]:
        """Execute a cancel."""
        order_id, maker = command.order_id, command.maker
        entry = None
        if type(order_id) is str or type(order_id) is int:
            found = self.entries.get(order_id)
            if found is not None:
                entry = self.awake(found)
        if (
            entry is None
            or not entry.resting
            or type(command.market) is not str
            or (command.market and command.market != entry.maker_state.market_state.market.id)
            or (maker is not None and not self.may_cancel(maker, entry.maker_state))
        ):
            raise rejections.cancel_rejection(self, command)
        entities.prefetch(entry.before)
        entities.prefetch(entry.after)
        return self.remove(entry, ADMIN if maker is None else CANCELLED, now_ms)

    def remove(self, entry: OrderEntry, reason: RemovalReason, now_ms: int) -> list[Event]:
        """Remove a resting order from its book."""
        book = self.book_of(entry)
        if self.undo is not None:
            rollback.before_cancel(self.undo, book, entry)
        events = book.cancel(entry.order.id, now_ms, reason)
        market_state = entry.maker_state.market_state
        if not entry.is_yes and market_state.complementary:
            complementary.convert_events(self.entry_of, market_state, events, False)
        self.finish(entry, reason)
        return events


def removal_reason(entry: "OrderEntry", events: list[Event]) -> RemovalReason:
    """Return why an order with an untraded remainder does not rest; the book has no event for it.

    ``FILLED`` if self-trade reduced it and all else traded, as after a reduction; ``SELF_TRADE`` if
    its maker's own order ended it; ``CANCELLED`` if an order that never rests met no more orders.
    """
    trades = [event for event in events if isinstance(event, Trade)]
    if trades and not trades[-1].incoming_remaining:
        return RemovalReason.FILLED
    order, market_state = entry.order, entry.maker_state.market_state
    policy = order.self_trade or market_state.self_trade
    if order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD):
        return RemovalReason.SELF_TRADE
    own = [
        event
        for event in events
        if isinstance(event, OrderReduced)
        or (isinstance(event, OrderRemoved) and event.reason is RemovalReason.SELF_TRADE)
    ]
    ended = False
    if policy is SelfTrade.CANCEL_BOTH:
        ended = bool(own)
    elif policy is SelfTrade.DECREMENT:
        lost = sum(event.remaining for event in own if isinstance(event, OrderRemoved))
        ended = lost == entry.remaining or any(isinstance(event, OrderReduced) for event in own)
    elif policy is SelfTrade.CANCEL_INCOMING:
        ended = _still_crosses(market_state, complementary.on_grid(entry, order))
    return RemovalReason.SELF_TRADE if ended else RemovalReason.CANCELLED


def _still_crosses(market_state: "MarketState", order: Order) -> bool:
    """Return whether the best order of the other side is within the limit of an order."""
    book = market_state.seq_book
    best = book.best_ask if order.side is Side.BUY else book.best_bid
    if best is None:
        return False
    return best <= order.price if order.side is Side.BUY else best >= order.price
