"""The user channel: open orders, order changes and fills of a maker; no message is skipped.

Each trade of an order is one message, and so is each change of its settlement status. An order is
sent once per batch, in its state after the batch; so are the accounts of the maker, to extended
clients.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import structs

from clob import (
    Balance,
    Batch,
    Event,
    PairedTrade,
    Rejected,
    RejectedError,
    Reopen,
    SetBalance,
    Settled,
    SettleFailed,
    Submit,
    Trade,
)
from clob.errors import TooManyOrdersError, UnknownOrderError
from clob.status import OrderRecord, OrderStatus
from clob_server.api.schemas import AssetBalance, FillData, OrderBody
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed, Steps, accepted_orders
from clob_server.core.serialize import (
    assets_of,
    balance_fields,
    fill_fields,
    order_body,
    trade_body,
)
from clob_server.core.settlement_status import NONE, PENDING
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import ScopedSubscription
from clob_server.feed.event_messages import TradeStatus, message_frame, status_frame
from clob_server.feed.messages import (
    POLICY,
    AccountChanged,
    Heartbeat,
    OrderChanged,
    Orders,
    UserFill,
)

ORDERS_MAX: Final = 2_000
"""Open orders in one message; a maker with more has to name a market."""
CHANGES_MAX: Final = 50
"""Changes that are encoded in one iteration of the event loop; each takes about 15 us."""

_EMPTY: Final = Balance(0, 0, 0)
_SETTLEMENTS: Final = (Settled, SettleFailed, Reopen)
_FINAL: Final = (OrderStatus.FILLED, OrderStatus.CANCELLED)


class WatchedMaker:
    """A maker with subscriptions, and the loop time of the last message to them."""

    __slots__ = ("balances", "order_ids", "sent_at", "subscriptions")

    def __init__(self, sent_at: float) -> None:
        self.balances: dict[str, Balance] | None = None
        """The accounts that extended clients know, by asset; None without such a client."""
        self.order_ids: Final[set[str | int]] = set()
        self.subscriptions: Final[list[ScopedSubscription]] = []
        self.sent_at: float = sent_at


class OrderChange(NamedTuple):
    """An order that changed."""

    watched: WatchedMaker
    seq: int | None
    """Number of the event; None for an order that never rested."""
    now_ms: int
    """Time of the change, Unix milliseconds."""


class Filled(NamedTuple):
    """A trade of an order."""

    watched: WatchedMaker
    event: Trade
    number: int
    """Number of the trade in all markets, from 1."""
    is_incoming: bool
    """Whether the maker's order is the incoming one."""
    now_ms: int
    """Time of the trade, Unix milliseconds."""


Changes: TypeAlias = dict[object, OrderChange | Filled]
"""Changes of a batch in order: by order id, where the last replaces the others, and fills."""


class UserChannel:
    """Subscriptions to the orders of makers."""

    def __init__(self, state: ServerState, ids: Ids) -> None:
        self._state = state
        self._ids = ids
        self.makers: dict[str, WatchedMaker] = {}
        self._owners: dict[str | int, WatchedMaker] = {}

    def __bool__(self) -> bool:
        """Return whether there are subscriptions."""
        return bool(self.makers)

    def join(self, subscription: ScopedSubscription, now_ms: int, now: float) -> Orders:
        """Add a subscription; return the maker's open orders.

        Raises:
            UnknownMarketError: the market does not exist.
            TooManyOrdersError: the maker has more than :data:`ORDERS_MAX` open orders.
        """
        orders = self.orders(subscription, now_ms)
        maker = maker_of(subscription)
        watched = self.makers.get(maker)
        if watched is None:
            watched = self.makers[maker] = WatchedMaker(now)
            for record in self._state.matcher.open_orders(maker):
                self._add_order(record.order.id, watched)
        watched.subscriptions.append(subscription)
        if subscription.extended and watched.balances is None:
            watched.balances = self._balances(maker, None)
        return orders

    def leave(self, subscription: ScopedSubscription) -> None:
        """Remove a subscription."""
        maker = maker_of(subscription)
        watched = self.makers[maker]
        watched.subscriptions.remove(subscription)
        if not any(each.extended for each in watched.subscriptions):
            watched.balances = None
        if not watched.subscriptions:
            del self.makers[maker]
            for order_id in watched.order_ids:
                del self._owners[order_id]

    def orders(self, subscription: ScopedSubscription, now_ms: int) -> Orders:
        """Return the maker's open orders; about 12 us per order.

        Raises:
            UnknownMarketError: the market does not exist.
            TooManyOrdersError: the maker has more than :data:`ORDERS_MAX` open orders.
        """
        matcher, (market, maker) = self._state.matcher, subscription.scope
        records = matcher.open_orders(maker, market)
        if len(records) > ORDERS_MAX:
            raise TooManyOrdersError(
                f"{maker} has {len(records)} open orders; the limit per message is "
                f"{ORDERS_MAX}: add a marketId"
            )
        return Orders(
            market_id=market,
            seq=None if market is None else matcher.seq(market),
            timestamp=now_ms,
            data=[self._body(record) for record in records],
        )

    # ----- events ----------------------------------------------------------------------------

    def publish(self, batch: Sequence[Committed], now: float) -> Steps:
        """Send the fills and changed orders of a batch, ``CHANGES_MAX`` in a step.

        Orders are sent in their current state, so all steps must end before the next batch is
        applied.
        """
        changes: Changes = {}
        for done in batch:
            if not isinstance(done.outcome, RejectedError):
                for submit in accepted_orders(done.command, done.outcome):
                    self._on_accepted(submit, done.command.now_ms, changes)
                self._add_changes(done, changes)
        touched = self._touched(batch)
        # A client that joins between two steps got the orders as they are after the batch.
        receivers = {each.watched: tuple(each.watched.subscriptions) for each in changes.values()}
        frames: dict[WatchedMaker, list[tuple[str, bytes]]] = {}
        incomplete: set[WatchedMaker] = set()
        for number, (key, change) in enumerate(changes.items(), 1):
            try:
                encoded = (
                    self._fill(change) if isinstance(change, Filled) else self._order(key, change)
                )
            except UnknownOrderError:  # the engine already dropped the finished order
                incomplete.add(change.watched)
            else:
                frames.setdefault(change.watched, []).append(encoded)
            if number % CHANGES_MAX == 0:
                yield
        for watched, encoded_changes in frames.items():
            watched.sent_at = now
            by_market: dict[str | None, bytes] = {}
            for subscription in receivers[watched]:
                send_changes(subscription, encoded_changes, by_market)
                if len(encoded_changes) > CHANGES_MAX:
                    yield
        for watched in incomplete:
            for subscription in receivers[watched]:
                self._send_orders(subscription, batch[-1].now_ms)
                yield
        for watched, assets in touched.items():
            self._send_accounts(watched, assets, batch[-1].now_ms, now)
            yield

    def on_statuses(self, trades: Sequence[TradeStatus], now: float) -> None:
        """Send new settlement statuses to the makers of the trades."""
        for trade in trades:
            for maker in {trade.buyer, trade.seller}:
                watched = self.makers.get(maker)
                if watched is not None:
                    watched.sent_at = now
                    encoded = [(trade.market, status_frame(trade, "user"))]
                    for subscription in tuple(watched.subscriptions):
                        send_changes(subscription, encoded, {})

    def _on_accepted(self, submit: Submit, now_ms: int, changes: Changes) -> None:
        """Add an accepted order, which may never rest and so have no event."""
        watched = self.makers.get(submit.order.maker)
        if watched is not None:
            self._add_order(submit.order.id, watched)
            changes[submit.order.id] = OrderChange(watched, None, now_ms)

    def _add_changes(self, done: Committed, changes: Changes) -> None:
        """Add the events of a command that concern orders of watched makers."""
        owners, number, now_ms = self._owners, done.num_trades, done.command.now_ms
        assert not isinstance(done.outcome, RejectedError)
        for event in done.outcome:
            if isinstance(event, Rejected):
                continue
            number += isinstance(event, Trade)
            for is_incoming, order_id in enumerate(orders_in(event)):
                watched = owners.get(order_id)
                if watched is None:
                    continue
                if isinstance(event, Trade) and is_trade_of(event, is_incoming=bool(is_incoming)):
                    changes[event.market, event.seq, is_incoming] = Filled(
                        watched, event, number, bool(is_incoming), now_ms
                    )
                changes.pop(order_id, None)  # moves to the end
                changes[order_id] = OrderChange(watched, event.seq, now_ms)

    def _add_order(self, order_id: str | int, watched: WatchedMaker) -> None:
        self._owners[order_id] = watched
        watched.order_ids.add(order_id)

    def _remove_order(self, order_id: str | int) -> None:
        watched = self._owners.pop(order_id, None)
        if watched is not None:  # its last subscription may have ended meanwhile
            watched.order_ids.discard(order_id)

    # ----- accounts --------------------------------------------------------------------------

    def accounts(self, subscription: ScopedSubscription, now_ms: int) -> AccountChanged | None:
        """Return the accounts that are not empty; None without one, or for a plain client."""
        market, maker = subscription.scope
        if not subscription.extended or maker is None:
            return None
        balances = self._balances(maker, market)
        return account_message(maker, balances, now_ms) if balances else None

    def _balances(self, maker: str, market: str | None) -> dict[str, Balance]:
        """Return the accounts of a maker that are not empty, of a market or of all."""
        matcher, markets = self._state.matcher, self._state.markets
        chosen = markets.values() if market is None else [markets[market]]
        assets = dict.fromkeys(asset for each in chosen for asset in assets_of(each))
        balances = {asset: matcher.balance(maker, asset) for asset in assets}
        return {asset: each for asset, each in balances.items() if each != _EMPTY}

    def _touched(self, batch: Sequence[Committed]) -> dict[WatchedMaker, set[str]]:
        """Return the assets of makers with extended clients that a batch may have changed.

        Call it before final orders are forgotten.
        """
        followed = [each for each in self.makers.values() if each.balances is not None]
        places: dict[tuple[WatchedMaker | None, str], None] = {}
        touched: dict[WatchedMaker, set[str]] = {}
        markets, owners, makers = self._state.markets, self._owners, self.makers
        for done in batch if followed else ():
            command, outcome = done.command, done.outcome
            if isinstance(outcome, RejectedError):
                continue
            for each in command.commands if isinstance(command, Batch) else (command,):
                if isinstance(each, SetBalance) and each.wallet in makers:
                    touched.setdefault(makers[each.wallet], set()).add(each.asset)
                elif isinstance(each, _SETTLEMENTS):
                    places |= dict.fromkeys((watched, each.market) for watched in followed)
            for event in outcome:
                if isinstance(event, Rejected):
                    continue
                for order_id in orders_in(event):
                    places[owners.get(order_id), event.market] = None
                if isinstance(event, Trade) and event.market in markets:
                    places[makers.get(markets[event.market].fee_wallet), event.market] = None
        for owner, name in places:
            if owner is not None and name in markets:
                touched.setdefault(owner, set()).update(assets_of(markets[name]))
        return touched

    def _send_accounts(
        self, watched: WatchedMaker, assets: set[str], now_ms: int, now: float
    ) -> None:
        """Send the accounts among ``assets`` that changed to the extended clients of a maker."""
        known, balance = watched.balances, self._state.matcher.balance
        if known is None:  # the last client left meanwhile
            return
        maker = maker_of(watched.subscriptions[0])
        changed = {
            asset: own
            for asset in sorted(assets)
            if (own := balance(maker, asset)) != known.get(asset, _EMPTY)
        }
        known.update(changed)
        for subscription in tuple(watched.subscriptions) if changed else ():
            name, _ = subscription.scope
            within, market = changed, self._state.markets.get(name or "")
            if name is not None:
                own_assets = () if market is None else assets_of(market)
                within = {asset: each for asset, each in changed.items() if asset in own_assets}
            if within and subscription.extended and subscription.is_open:
                watched.sent_at = now
                subscription.client.send(account_message(maker, within, now_ms))

    # ----- sending ---------------------------------------------------------------------------

    def _send_orders(self, subscription: ScopedSubscription, now_ms: int) -> None:
        """Send all open orders again to a subscription."""
        if not subscription.is_open:
            return
        client = subscription.client
        try:
            client.send(self.orders(subscription, now_ms))
        except TooManyOrdersError as error:
            client.close(POLICY, f"{error.code}: {error}")

    def _order(self, order_id: object, change: OrderChange) -> tuple[str, bytes]:
        """Encode the current state of an order.

        Raises:
            UnknownOrderError: the engine already dropped the finished order.
        """
        matcher = self._state.matcher
        assert isinstance(order_id, str | int)
        try:
            record = matcher.order(order_id)
        except UnknownOrderError:
            self._remove_order(order_id)
            raise
        if record.status in _FINAL:
            self._remove_order(order_id)
        message = OrderChanged(
            market_id=record.market,
            token_id=record.order.token,
            seq=matcher.seq(record.market) if change.seq is None else change.seq,
            timestamp=change.now_ms,
            data=self._body(record),
        )
        return record.market, message_frame(message)

    def _fill(self, filled: Filled) -> tuple[str, bytes]:
        """Encode a trade from the view of the maker."""
        event, now_ms = filled.event, filled.now_ms
        status = PENDING if event.market in self._state.settles else NONE
        body = trade_body(event, self._ids.trade(now_ms, filled.number), now_ms, status)
        incoming = filled.is_incoming
        data = FillData(**structs.asdict(body), **fill_fields(event, is_incoming=incoming))
        message = UserFill(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )
        return event.market, message_frame(message)

    def _body(self, record: OrderRecord) -> OrderBody:
        return order_body(record, self._state.signature(record.order.id))

    def send_heartbeats(self, quiet_since: float, now: float, now_ms: int) -> None:
        """Send heartbeats to subscriptions without a message since a loop time."""
        for watched in tuple(self.makers.values()):
            if watched.sent_at > quiet_since:
                continue
            watched.sent_at = now
            for each in tuple(watched.subscriptions):
                if each.extended:
                    market, _ = each.scope
                    seq = None if market is None else self._state.matcher.seq(market)
                    each.client.send(
                        Heartbeat(channel="user", market_id=market, seq=seq, timestamp=now_ms)
                    )


def account_message(maker: str, balances: dict[str, Balance], now_ms: int) -> AccountChanged:
    """Return the message with the accounts of a maker."""
    data = [AssetBalance(**balance_fields(asset, own)) for asset, own in balances.items()]
    return AccountChanged(maker=maker, timestamp=now_ms, data=data)


def send_changes(
    subscription: ScopedSubscription,
    encoded: Sequence[tuple[str, bytes]],
    by_market: dict[str | None, bytes],
) -> None:
    """Send frames, each with its market, to a subscription.

    Args:
        subscription: may have ended meanwhile.
        encoded: the frames.
        by_market: the frames of a market, or all, that were joined for other subscriptions.
    """
    if not subscription.is_open:
        return
    wanted, _ = subscription.scope
    frames = by_market.get(wanted)
    if frames is None:
        frames = b"".join(frame for market, frame in encoded if wanted in (None, market))
        by_market[wanted] = frames
    if frames:
        subscription.client.send_frames(frames)


def maker_of(subscription: ScopedSubscription) -> str:
    """Return the maker, which a subscription to this channel always names."""
    _, maker = subscription.scope
    assert maker is not None
    return maker


def is_trade_of(trade: Trade, *, is_incoming: bool) -> bool:
    """Return whether a trade belongs to this order; a mint or merge has one for each order."""
    return not isinstance(trade, PairedTrade) or trade.is_incoming is is_incoming


def orders_in(event: Event) -> tuple[str | int, ...]:
    """Return the ids of the orders of an event; of a trade, the resting one first."""
    if isinstance(event, Trade):
        return event.resting_order_id, event.incoming_order_id
    return (event.order_id,)
