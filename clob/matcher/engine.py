"""The desk: every order of every market by its id, and what a submission or a cancel does to it.

This is the part of the matcher that every order passes. The same lines run as plain Python and,
compiled with the types of ``_desk_c.pxd``, as C; there is no second text that could drift. What a
desk refuses is worded in :mod:`clob.matcher.rejections`, which is asked only once something is wrong.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clob.commands import Cancel, Submit
from clob.errors import MatcherBusyError, RejectedError
from clob.events import (
    Event,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    PairedTrade,
    RemovalReason,
    Trade,
)
from clob.market import Limits, Market, Mode
from clob.matcher import complementary, entities, handlers, rejections, rollback
from clob.matcher.amounts import resized, with_fees
from clob.matcher.entities import MarketState, OrderEntry
from clob.matcher.order_index import OrderIndex
from clob.order import Order, Side, TimeInForce

if TYPE_CHECKING:
    from clob.book import Book

BUY = Side.BUY
GTC = TimeInForce.GTC
GTD = TimeInForce.GTD
CANCEL_ONLY = Mode.CANCEL_ONLY
FILLED = RemovalReason.FILLED
REPLACED = RemovalReason.REPLACED
CANCELLED = RemovalReason.CANCELLED
ADMIN = RemovalReason.ADMIN


class Engine(OrderIndex):
    """The orders of all markets, and the hot half of :class:`clob.Matcher`."""

    def __init__(self, book_class: "type[Book]") -> None:
        super().__init__()
        self.book_class = book_class
        self.busy = False
        self.number = 0
        self.tokens: dict[str, str] = {}
        # What came of each command of the last batch.
        self.results: list[Any] = []
        self.adopt_limits(Limits())

    def __del__(self) -> None:
        """Take apart what holds itself: compiled, the collector does not look at it."""
        for entry in self.entries.values():
            entry.detach()
        for venue in self.venues.values():
            venue.detach()
        for account in self.accounts.values():
            account.guests.clear()

    def adopt_limits(self, limits: Limits) -> None:
        """Take over other limits."""
        self.limits = limits
        self.orders_max = limits.orders_max
        self.trades_max = limits.trades_max
        self.finished_max = limits.finished_max

    # ----- the door ------------------------------------------------------------------------

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
        # Whatever else is raised leaves the desk busy for good: it may be half done.
        while self.num_finished > self.finished_max:
            self.evict()
        self.busy = False
        return events

    def replay(self, commands: Iterable[Any]) -> tuple[int, dict[str, int], int]:
        """Execute a stream of commands; see :meth:`clob.Matcher.replay`."""
        refused: dict[str, int] = {}
        applied = events = 0
        for command in commands:
            try:
                events += len(self.apply(command))
                applied += 1
            except RejectedError as error:
                refused[error.code] = refused.get(error.code, 0) + 1
        return applied, refused, events

    def execute(self, command: Any) -> Any:
        """Check the time and hand the command to whom it concerns."""
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
            return handlers.execute(self, command)
        self.now_ms = now_ms
        return events

    def execute_at(self, command: Any, now_ms: int) -> Any:
        """Execute a command of a batch, at the time of the batch."""
        if type(command) is Submit:
            return self.submit_order(command, now_ms)
        if type(command) is Cancel:
            return self.cancel_order(command, now_ms)
        return handlers.execute_at(self, command, now_ms)

    def open_venue(
        self, market: Market, yes_capacity: int = 0, no_capacity: int = 0
    ) -> MarketState:
        """Make the two empty books of a market, with room for so many orders."""
        yes = self.make_book(market, market.yes, yes_capacity)
        no = self.make_book(market, market.no, no_capacity)
        venue = self.venues[market.id] = MarketState(market, yes, no)
        self.tokens[market.yes] = market.id
        if market.no:
            self.tokens[market.no] = market.id
        return venue

    def make_book(self, market: Market, token: str, capacity: int = 0) -> "Book":
        """Make an empty book for a token of a market."""
        return self.book_class(
            token=token, lot_wei=market.lot_wei, capacity=capacity, market=market.id
        )

    def name_no(self, market: Market) -> None:
        """Give a market its NO token, which it did not have."""
        venue = self.venues[market.id]
        # The book that is replaced never had an order, but it may hold the sequence number.
        venue.hand_over(venue.yes_book)
        venue.no_book = self.make_book(market, market.no)
        self.tokens[market.no] = market.id

    def book_of(self, entry: OrderEntry) -> "Book":
        """Give the book of an order, ready to be used."""
        venue = entry.trader.venue
        book = venue.yes_book if entry.is_yes or venue.complementary else venue.no_book
        if venue.turn is not book:
            venue.hand_over(book)
        return book

    # ----- orders that come in -------------------------------------------------------------

    def submit_order(self, command: Submit, now_ms: int) -> list[Event]:
        """Execute a submission."""
        given = command.order
        if type(given) is not Order:
            given = rejections.order_of(command, now_ms)
        entry = self.admit(command, given, now_ms)
        venue = entry.trader.venue
        if venue.self_trade and given.self_trade is None:
            given = rejections.with_policy(given, venue.self_trade)
        book = self.book_of(entry)
        if self.undo is not None:
            rollback.before_submit(self.undo, venue, book, entry)
        turned = venue.complementary and not entry.is_yes
        if turned:
            events = complementary.submit(entry, given, now_ms, self.trades_max)
        else:
            events = book.submit(given, now_ms, self.trades_max)
        rested = len(events) == 1 and type(events[0]) is OrderAdded
        if turned or (venue.complementary and not rested):
            complementary.told(self, venue, events, entry.is_yes)
        self.number += 1
        entry.number, entry.accepted_ms = self.number, now_ms
        self.enter(entry)
        if rested:
            self.rest(entry)
        else:
            self.absorb(entry, events)
        return events

    def admit(self, command: Submit, order: Order, now_ms: int) -> OrderEntry:
        """Refuse a submission, but for what only the book can refuse; nothing changes."""
        venue, token = None, order.token
        if type(command.market) is str and type(token) is str:
            venue = self.venues.get(command.market)
        if (
            venue is None
            or (token != venue.yes and token != venue.no)
            or not self.suits(venue, order)
            or not self.is_new(command, order, now_ms)
        ):
            raise rejections.submit_refused(self, command, order, now_ms)
        entry = self.entry_for(venue, order)
        entry.client_id, entry.order_hash = command.client_id, command.order_hash
        trader, tif = entry.trader, order.time_in_force
        if trader.count >= self.orders_max and (tif is GTC or tif is GTD):
            raise rejections.submit_refused(self, command, order, now_ms)
        if venue.has_accounts and not self.is_covered(venue, trader, order):
            raise rejections.submit_refused(self, command, order, now_ms)
        return entry

    # ----- what the book did ---------------------------------------------------------------

    def absorb(self, entry: OrderEntry, events: list[Event]) -> None:
        """Follow the events of an order that came in or was replaced; give trades their fees."""
        venue, rested, traded = entry.trader.venue, None, 0
        for place in range(len(events)):
            event = events[place]
            if type(event) is Trade or type(event) is PairedTrade:
                resting = self.entries[event.resting_order_id]
                if venue.charges:
                    event = with_fees(venue.market, event, entry.order, resting.order)
                    events[place] = event
                traded += self.trade(entry, resting, event)
            elif type(event) is OrderRemoved:
                if event.reason is not FILLED and event.reason is not REPLACED:
                    self.finish(self.entries[event.order_id], event.reason)
            elif type(event) is OrderReduced:
                self.resize(self.entries[event.order_id], event.remaining)
            elif type(event) is OrderAdded:
                rested = event
        if rested is None:
            entry.remaining -= traded
            reason = rejections.why_gone(entry, events) if entry.remaining else FILLED
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
        elif venue.has_accounts:
            self.reserve(entry, entry.remaining)

    def trade(self, incoming: OrderEntry, resting: OrderEntry, event: Trade) -> int:
        """Book a trade to both orders, move what it is worth, and give its size."""
        if type(event) is not Trade:
            return self.half(incoming, resting, event)
        size = event.size
        paid = size * event.price // 100
        if self.undo is not None:
            self.undo.append((rollback.restore, resting, resting.saved()))
        resting.remaining = event.resting_remaining
        resting.filled_collateral += paid
        incoming.filled_collateral += paid
        venue = resting.trader.venue
        if venue.has_accounts:
            self.reserve(resting, resting.remaining)
            if event.incoming_side is BUY:
                self.pay(venue, incoming, resting, event, paid)
            else:
                self.pay(venue, resting, incoming, event, paid)
        if not resting.remaining:
            self.finish(resting, FILLED)
        return size

    def half(self, incoming: OrderEntry, resting: OrderEntry, event: Trade) -> int:
        """Book one of the two trades of a mint or a merge; the first one gives its size."""
        first = event.token == incoming.order.token
        entry = incoming if first else resting
        paid = event.size * event.price // 100
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.saved()))
        entry.filled_collateral += paid
        venue = entry.trader.venue
        if not first:
            entry.remaining = event.resting_remaining
            if venue.has_accounts:
                self.reserve(entry, entry.remaining)
        if venue.has_accounts:
            self.pay_half(venue, entry, event, paid, event.seq + 1 if first else event.seq - 1)
        if not first and not entry.remaining:
            self.finish(entry, FILLED)
        return event.size if first else 0

    def cancel_order(self, command: Cancel, now_ms: int) -> list[Event]:
        """Execute a cancel."""
        order_id, maker = command.order_id, command.maker
        entry = None
        if type(order_id) is str or type(order_id) is int:
            entry = self.entries.get(order_id)
        if (
            entry is None
            or not entry.resting
            or type(command.market) is not str
            or (command.market and command.market != entry.trader.venue.market.id)
            or (maker is not None and not self.may_cancel(maker, entry.trader))
        ):
            raise rejections.order_refused(self, command, CANCEL_ONLY)
        entities.prefetch(entry.before)
        entities.prefetch(entry.after)
        return self.take_out(entry, ADMIN if maker is None else CANCELLED, now_ms)

    def take_out(self, entry: OrderEntry, reason: RemovalReason, now_ms: int) -> list[Event]:
        """Take a resting order out of its book."""
        book = self.book_of(entry)
        if self.undo is not None:
            rollback.before_cancel(self.undo, book, entry)
        events = book.cancel(entry.order.id, now_ms, reason)
        if not entry.is_yes and entry.trader.venue.complementary:
            complementary.told(self, entry.trader.venue, events, False)
        self.finish(entry, reason)
        return events
