"""The user channel: to a maker what becomes of his orders, and nothing of it left out.

Each trade of an order is told by itself, and how its settlement stands whenever that changes; the
order as it stands after all that became durable at once with its change.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import structs

from clob import Batch, Event, PairedTrade, Rejected, RejectedError, Submit, Trade
from clob.errors import TooManyOrdersError, UnknownOrderError
from clob.status import OrderRecord, OrderStatus
from clob_server.api.schemas import OrderBody
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import order_body, trade_body
from clob_server.core.settlement_status import NONE, PENDING
from clob_server.feed.event_messages import TradeStatus, frame_of, standing_frame
from clob_server.feed.messages import POLICY, FillData, Heartbeat, OrderChanged, Orders, UserFill

if TYPE_CHECKING:
    from clob_server.core.ids import Ids
    from clob_server.core.state import ServerState
    from clob_server.feed.subscriber import Subscriber

ORDERS_MAX: Final = 2_000
"""How many open orders are told at once; of a maker who has more, one market at a time."""

_FINAL: Final = (OrderStatus.FILLED, OrderStatus.CANCELLED)


class UserSubscription:
    """Somebody who watches a maker.

    Args:
        users: who tells him.
        subscriber: who he is.
        maker: whom he watches.
        market: where; None is everywhere.
        extended: if he understands more than the specification's messages.
    """

    __slots__ = ("_users", "extended", "maker", "market", "subscriber")

    def __init__(
        self,
        users: "Users",
        subscriber: "Subscriber",
        maker: str,
        market: str | None,
        *,
        extended: bool,
    ) -> None:
        self.subscriber: Final = subscriber
        self.maker: Final = maker
        self.market: Final = market
        self.extended: Final = extended
        self._users = users

    def end(self) -> None:
        """Watch no longer."""
        self._users.leave(self)


class WatchedMaker:
    """A maker who is watched.

    Args:
        maker: who.
        told_at: when something was told last, by the clock of the loop.
    """

    __slots__ = ("maker", "order_ids", "subscriptions", "told_at")

    def __init__(self, maker: str, told_at: float) -> None:
        self.maker: Final = maker
        self.order_ids: Final[set[str | int]] = set()
        self.subscriptions: Final[list[UserSubscription]] = []
        self.told_at: float = told_at


class OrderChange(NamedTuple):
    """An order that changed."""

    watch: WatchedMaker
    """Whose it is."""
    seq: int | None
    """The number of the event that changed it; None where it never was in a book."""
    now_ms: int
    """When, Unix milliseconds."""


class Filled(NamedTuple):
    """A trade of an order."""

    watch: WatchedMaker
    """Whose it is."""
    event: Trade
    """The trade."""
    number: int
    """Which of all trades, counted from 1."""
    is_incoming: bool
    """If the order is the one that came in."""
    now_ms: int
    """When, Unix milliseconds."""


News: TypeAlias = dict[object, OrderChange | Filled]
"""What is new in its sequence: changes by their order, of which the last counts, and fills."""


class Users:
    """The makers who are watched.

    Args:
        exchange: where their orders are.
        ids: names trades.
    """

    def __init__(self, exchange: "ServerState", ids: "Ids") -> None:
        self._exchange = exchange
        self._ids = ids
        self._watches: dict[str, WatchedMaker] = {}
        self._owners: dict[str | int, WatchedMaker] = {}

    def __bool__(self) -> bool:
        """Say if anybody is watched."""
        return bool(self._watches)

    def join(self, subscription: UserSubscription, now_ms: int, now: float) -> Orders:
        """Begin to watch a maker; give his open orders.

        Raises:
            UnknownMarketError: there is no such market.
            TooManyOrdersError: they are too many to be told at once.
        """
        told = self.orders(subscription, now_ms)
        watch = self._watches.get(subscription.maker)
        if watch is None:
            watch = self._watches[subscription.maker] = WatchedMaker(subscription.maker, now)
            for record in self._exchange.matcher.open_orders(subscription.maker):
                self._own(record.order.id, watch)
        watch.subscriptions.append(subscription)
        return told

    def leave(self, subscription: UserSubscription) -> None:
        """Watch no longer."""
        watch = self._watches[subscription.maker]
        watch.subscriptions.remove(subscription)
        if not watch.subscriptions:
            del self._watches[subscription.maker]
            for order_id in watch.order_ids:
                del self._owners[order_id]

    def orders(self, subscription: UserSubscription, now_ms: int) -> Orders:
        """Tell all open orders of a maker. About 12 us an order.

        Raises:
            UnknownMarketError: there is no such market.
            TooManyOrdersError: they are too many to be told at once.
        """
        matcher, market = self._exchange.matcher, subscription.market
        records = matcher.open_orders(subscription.maker, market)
        if len(records) > ORDERS_MAX:
            raise TooManyOrdersError(
                f"{subscription.maker} has {len(records)} open orders, and at most {ORDERS_MAX} "
                "are told at once: name a market"
            )
        return Orders(
            market_id=market,
            seq=None if market is None else matcher.seq(market),
            timestamp=now_ms,
            data=[self._body(record) for record in records],
        )

    # ----- what happens ----------------------------------------------------------------------

    def hear(self, batch: Sequence[Committed], now: float) -> None:
        """Tell makers what a batch led to. Once what is there is done, its state is the batch's."""
        news: News = {}
        for done in batch:
            if not isinstance(done.outcome, RejectedError):
                for submit in accepted(done):
                    self._accept(submit, done.command.now_ms, news)
                self._take(done, news)
        frames: dict[WatchedMaker, list[tuple[str, bytes]]] = {}
        torn: set[WatchedMaker] = set()
        for key, new in news.items():
            try:
                written = self._fill(new) if isinstance(new, Filled) else self._order(key, new)
            except UnknownOrderError:  # the engine has let go of it already
                torn.add(new.watch)
            else:
                frames.setdefault(new.watch, []).append(written)
        for watch, told in frames.items():
            self._tell(watch, told, now)
        for watch in torn:
            self._tell_all(watch, batch[-1].now_ms)

    def hear_of(self, news: Sequence[TradeStatus], now: float) -> None:
        """Tell makers how trades of theirs stand from now on."""
        for standing in news:
            for maker in {standing.buyer, standing.seller}:
                watch = self._watches.get(maker)
                if watch is not None:
                    self._tell(watch, [(standing.market, standing_frame(standing, "user"))], now)

    def _accept(self, submit: Submit, now_ms: int, news: News) -> None:
        """Hear of an order that was accepted, and may never have been in a book."""
        watch = self._watches.get(submit.order.maker)
        if watch is not None:
            self._own(submit.order.id, watch)
            news[submit.order.id] = OrderChange(watch, None, now_ms)

    def _take(self, done: Committed, news: News) -> None:
        """Look for orders of those who are watched."""
        owners, number, now_ms = self._owners, done.num_trades, done.command.now_ms
        assert not isinstance(done.outcome, RejectedError)
        for event in done.outcome:
            if isinstance(event, Rejected):
                continue
            number += isinstance(event, Trade)
            for is_incoming, order_id in enumerate(orders_in(event)):
                watch = owners.get(order_id)
                if watch is None:
                    continue
                if isinstance(event, Trade) and is_of(event, is_incoming=bool(is_incoming)):
                    news[event.market, event.seq, is_incoming] = Filled(
                        watch, event, number, bool(is_incoming), now_ms
                    )
                news.pop(order_id, None)  # it goes to the end
                news[order_id] = OrderChange(watch, event.seq, now_ms)

    def _own(self, order_id: str | int, watch: WatchedMaker) -> None:
        """Note whose an order is."""
        self._owners[order_id] = watch
        watch.order_ids.add(order_id)

    def _disown(self, order_id: str | int) -> None:
        """Forget an order that is final."""
        self._owners.pop(order_id).order_ids.discard(order_id)

    # ----- telling ---------------------------------------------------------------------------

    def _tell(self, watch: WatchedMaker, told: list[tuple[str, bytes]], now: float) -> None:
        """Tell those who watch a maker, each what he wants to hear."""
        watch.told_at = now
        for subscription in tuple(watch.subscriptions):
            wanted = subscription.market
            frames = b"".join(frame for market, frame in told if wanted in (None, market))
            if frames:
                subscription.subscriber.push(frames)

    def _tell_all(self, watch: WatchedMaker, now_ms: int) -> None:
        """Tell those who watch a maker all his open orders again."""
        for subscription in tuple(watch.subscriptions):
            subscriber = subscription.subscriber
            try:
                subscriber.say(self.orders(subscription, now_ms))
            except TooManyOrdersError as error:
                subscriber.end(POLICY, f"{error.code}: {error}")

    def _order(self, order_id: object, change: OrderChange) -> tuple[str, bytes]:
        """Write an order as it stands.

        Raises:
            UnknownOrderError: the engine knows it no longer.
        """
        matcher = self._exchange.matcher
        assert isinstance(order_id, str | int)
        try:
            record = matcher.order(order_id)
        except UnknownOrderError:
            self._disown(order_id)
            raise
        if record.status in _FINAL:
            self._disown(order_id)
        message = OrderChanged(
            market_id=record.market,
            token_id=record.order.token,
            seq=matcher.seq(record.market) if change.seq is None else change.seq,
            timestamp=change.now_ms,
            data=self._body(record),
        )
        return record.market, frame_of(message)

    def _fill(self, filled: Filled) -> tuple[str, bytes]:
        """Write a trade as the maker of one of its orders sees it."""
        event, now_ms = filled.event, filled.now_ms
        fate = PENDING if event.market in self._exchange.settles else NONE
        body = trade_body(event, self._ids.trade(now_ms, filled.number), now_ms, fate)
        order_id, role, side, remaining = (
            (event.incoming_order_id, "incoming", event.incoming_side, event.incoming_remaining)
            if filled.is_incoming
            else (
                event.resting_order_id,
                "resting",
                1 - event.incoming_side,
                event.resting_remaining,
            )
        )
        data = FillData(
            **structs.asdict(body),
            order_id=str(order_id),
            role=role,
            side=int(side),
            remaining=str(remaining),
        )
        message = UserFill(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )
        return event.market, frame_of(message)

    def _body(self, record: OrderRecord) -> OrderBody:
        """Describe an order."""
        return order_body(record, self._exchange.registry.papers.get(record.order.id))

    def beat(self, quiet_since: float, now: float, now_ms: int) -> None:
        """Tell those who have heard nothing since a moment that nothing has happened."""
        for watch in tuple(self._watches.values()):
            if watch.told_at > quiet_since:
                continue
            watch.told_at = now
            for each in tuple(watch.subscriptions):
                if each.extended:
                    seq = None if each.market is None else self._exchange.matcher.seq(each.market)
                    each.subscriber.say(
                        Heartbeat(channel="user", market_id=each.market, seq=seq, timestamp=now_ms)
                    )


def is_of(trade: Trade, *, is_incoming: bool) -> bool:
    """Say whether a trade is that of an order; a mint or a merge has one for each."""
    return not isinstance(trade, PairedTrade) or trade.is_incoming is is_incoming


def orders_in(event: Event) -> tuple[str | int, ...]:
    """Give the orders that an event is about; of a trade the resting one first."""
    if isinstance(event, Trade):
        return event.resting_order_id, event.incoming_order_id
    return (event.order_id,)


def accepted(done: Committed) -> Iterator[Submit]:
    """Give the orders that a command brought in."""
    command, outcome = done.command, done.outcome
    if isinstance(command, Submit):
        yield command
    elif isinstance(command, Batch) and not isinstance(outcome, RejectedError):
        refused = {event.index for event in outcome if isinstance(event, Rejected)}
        for index, each in enumerate(command.commands):
            if isinstance(each, Submit) and index not in refused:
                yield each
