"""The user channel: open orders, order changes and fills of a maker; no message is skipped.

Each trade of an order is one message, and so is each change of its settlement status. An order is
sent once per batch, in its state after the batch; so are the accounts of the maker, to extended
clients. A client that reconnects receives the fills since its position from history, and while
these are read, newer messages wait.
"""

import asyncio
from collections.abc import Sequence
from operator import gt
from typing import Final, NamedTuple, Protocol, TypeAlias

from clob import (
    Balance,
    Batch,
    Event,
    Funds,
    PairedTrade,
    Rejected,
    RejectedError,
    Reopen,
    SetBalance,
    Settled,
    SettleFailed,
    Side,
    Submit,
    Trade,
)
from clob.errors import TooManyOrdersError, UnknownMarketError, UnknownOrderError
from clob.status import OrderRecord, OrderStatus
from clob.wire.accounts import AssetBalance
from clob.wire.messages import (
    POLICY,
    AccountChanged,
    Heartbeat,
    OrderChanged,
    Orders,
    UserFill,
)
from clob.wire.orders import MakerFill, OrderBody
from clob_server.core.ids import Cursor, Ids, fill_place
from clob_server.core.sequencer import Committed, Steps, accepted_orders
from clob_server.core.serialize import (
    assets_of,
    balance_fields,
    maker_fill,
    order_body,
    sorted_assets,
    trade_body,
)
from clob_server.core.settlement_status import NONE, PENDING
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import ScopedSubscription
from clob_server.feed.event_messages import TradeStatus, message_frame, status_frame

ORDERS_MAX: Final = 2_000
"""Open orders in one message; a maker with more has to name a market."""
CHANGES_MAX: Final = 50
"""Changes that are encoded in one iteration of the event loop; each takes about 15 us."""
RESUME_MAX: Final = 1_000
"""Fills, and finished orders, that a client may have missed and can still resume."""

_EMPTY: Final = Balance(0, 0, 0)
_SETTLEMENTS: Final = (Settled, SettleFailed, Reopen)
_FINAL: Final = (OrderStatus.FILLED, OrderStatus.CANCELLED)


class Past(Protocol):
    """History, as far as this channel needs it."""

    async def missed(
        self, maker: str, market: str | None, after: Cursor, until: Cursor, limit: int
    ) -> tuple[list[MakerFill], list[tuple[int, OrderBody]]] | None:
        """Return the fills, and times and bodies of finished orders, between two positions.

        None if some were deleted, or there are more than ``limit``.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """


class UserSubscription(ScopedSubscription):
    """A subscription to this channel."""

    __slots__ = ("held", "position")

    position: Cursor
    """Position at which it began; live fills up to there are not sent."""
    held: list[bytes] | None
    """Frames that wait while missed changes are read; None if none has to wait."""

    def write(self, frames: bytes) -> None:
        """Send frames, after the missed changes."""
        if self.held is None:
            self.client.send_frames(frames)
        else:
            self.held.append(frames)

    def release(self, before: bytes) -> None:
        """Send frames, then those that wait."""
        held, self.held = self.held or (), None
        self.client.send_frames(before + b"".join(held))


class WatchedMaker:
    """A maker with subscriptions, and the loop time of the last message to them."""

    __slots__ = ("balances", "order_ids", "sent_at", "subscriptions")

    def __init__(self, sent_at: float) -> None:
        self.balances: dict[str, Balance] | None = None
        """The accounts that extended clients know, by asset; None without such a client."""
        self.order_ids: Final[set[str | int]] = set()
        self.subscriptions: Final[list[UserSubscription]] = []
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
    command_seq: int
    """Number of the command that made the trade."""

    @property
    def place(self) -> int:
        """The place among all fills."""
        return fill_place(self.number, is_incoming=self.is_incoming)


class Encoded(NamedTuple):
    """A change as a frame."""

    market: str
    frame: bytes
    place: int = 0
    """Place of a fill; 0 for any other change."""


Changes: TypeAlias = dict[object, OrderChange | Filled]
"""Changes of a batch in order: by order id, where the last replaces the others, and fills."""


class UserChannel:
    """Subscriptions to the orders of makers.

    Args:
        state: the server's state.
        ids: the ids of trades.
        seq: number of the last applied command.
        past: history; without it no client can resume.
    """

    def __init__(
        self, state: ServerState, ids: Ids, seq: int = 0, past: Past | None = None
    ) -> None:
        self._state = state
        self._ids = ids
        self._past = past
        self.seq: int = seq
        """Number of the last applied command."""
        self.sent: Cursor = self.position
        """Position up to which all changes were sent."""
        self.makers: dict[str, WatchedMaker] = {}
        self._owners: dict[str | int, WatchedMaker] = {}

    def __bool__(self) -> bool:
        """Return whether there are subscriptions."""
        return bool(self.makers)

    @property
    def position(self) -> Cursor:
        """The position of the state."""
        return Cursor(self.seq, fill_place(self._state.num_trades, is_incoming=True))

    def join(self, subscription: UserSubscription, now_ms: int, now: float) -> Orders:
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
        subscription.position, subscription.held = self.position, None
        return orders

    async def missed(self, subscription: UserSubscription, after: Cursor) -> list[bytes] | None:
        """Return the fills and finished orders between a position and the subscription's begin.

        None if they are not available any more, or too many.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        until, (market, maker) = subscription.position, subscription.scope
        if self._past is None or any(map(gt, after, until)):
            return None
        assert maker is not None
        found = await self._past.missed(maker, market, after, until, RESUME_MAX)
        if found is None:
            return None
        fills, finished = found
        messages = [self._changed(body, now_ms) for now_ms, body in finished]
        frames: list[bytes] = []
        for number, message in enumerate([*map(user_fill, fills), *messages], 1):
            frames.append(message_frame(message))
            if number % CHANGES_MAX == 0:
                await asyncio.sleep(0)
        return frames

    def _changed(self, body: OrderBody, now_ms: int) -> OrderChanged:
        """Return the message about a finished order, whose market may be removed."""
        try:
            seq = self._state.matcher.seq(body.market_id)
        except UnknownMarketError:
            seq = 0
        return OrderChanged(
            market_id=body.market_id, token_id=body.token_id, seq=seq, timestamp=now_ms, data=body
        )

    def leave(self, subscription: ScopedSubscription) -> None:
        """Remove a subscription."""
        maker = maker_of(subscription)
        watched = self.makers[maker]
        watched.subscriptions.remove(subscription)  # type: ignore[arg-type]
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
            cursor=str(self.position),
            maker=maker_of(subscription),
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
        frames: dict[WatchedMaker, list[Encoded]] = {}
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
                    encoded = [Encoded(trade.market, status_frame(trade, "user"))]
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
                        watched, event, number, bool(is_incoming), now_ms, done.seq
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
        matcher = self._state.matcher
        if market is None:
            own = (asset for _, asset in matcher.balances(maker))
            assets: Sequence[str] = sorted_assets(matcher, own)
        else:
            assets = assets_of(self._state.markets[market])
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
        seen: set[tuple[str | int, str]] = set()
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
                market = markets.get(event.market)
                for order_id in orders_in(event):
                    places[owners.get(order_id), event.market] = None
                    if market is not None and market.funds is Funds.ACCOUNTS:
                        seen.add((order_id, event.market))
                if isinstance(event, Trade) and market is not None:
                    places[makers.get(market.fee_wallet), event.market] = None
        for order_id, name in seen:
            places |= dict.fromkeys((payer, name) for payer in self._payers(order_id, followed))
        for owner, name in places:
            if owner is not None and name in markets:
                touched.setdefault(owner, set()).update(assets_of(markets[name]))
        return touched

    def _payers(
        self, order_id: str | int, followed: Sequence[WatchedMaker]
    ) -> Sequence[WatchedMaker | None]:
        """Return the wallet that pays for an order of another maker; all if that is forgotten."""
        try:
            wallet = self._state.matcher.order(order_id).order.smart_wallet
        except UnknownOrderError:
            return followed
        return (self.makers.get(wallet),) if wallet else ()

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
                subscription.write(message_frame(account_message(maker, within, now_ms)))

    # ----- sending ---------------------------------------------------------------------------

    def _send_orders(self, subscription: UserSubscription, now_ms: int) -> None:
        """Send all open orders again to a subscription."""
        if not subscription.is_open:
            return
        client = subscription.client
        try:
            subscription.write(message_frame(self.orders(subscription, now_ms)))
        except TooManyOrdersError as error:
            client.close(POLICY, f"{error.code}: {error}")

    def _order(self, order_id: object, change: OrderChange) -> Encoded:
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
        return Encoded(record.market, message_frame(message))

    def _fill(self, filled: Filled) -> Encoded:
        """Encode a trade from the view of the maker."""
        event, now_ms = filled.event, filled.now_ms
        status = PENDING if event.market in self._state.settles else NONE
        body = trade_body(event, self._ids.trade(now_ms, filled.number), now_ms, status)
        cursor, incoming = Cursor(filled.command_seq, filled.place), filled.is_incoming
        fill = maker_fill(
            event, body, cursor, side_of(event, is_incoming=incoming), is_incoming=incoming
        )
        return Encoded(event.market, message_frame(user_fill(fill)), filled.place)

    def _body(self, record: OrderRecord) -> OrderBody:
        return order_body(record, self._state.signature(record.order.id))

    def send_heartbeats(self, quiet_since: float, now: float, now_ms: int) -> None:
        """Send heartbeats to subscriptions without a message since a loop time."""
        for watched in tuple(self.makers.values()):
            if watched.sent_at > quiet_since:
                continue
            watched.sent_at = now
            for each in tuple(watched.subscriptions):
                if each.extended and each.held is None:
                    market, _ = each.scope
                    seq = None if market is None else self._state.matcher.seq(market)
                    each.client.send(
                        Heartbeat(
                            channel="user",
                            market_id=market,
                            seq=seq,
                            timestamp=now_ms,
                            cursor=str(max(self.sent, each.position)),
                            maker=maker_of(each),
                        )
                    )


def account_message(maker: str, balances: dict[str, Balance], now_ms: int) -> AccountChanged:
    """Return the message with the accounts of a maker."""
    data = [AssetBalance(**balance_fields(asset, own)) for asset, own in balances.items()]
    return AccountChanged(maker=maker, timestamp=now_ms, data=data)


def send_changes(
    subscription: UserSubscription,
    encoded: Sequence[Encoded],
    by_market: dict[str | None, bytes],
) -> None:
    """Send changes to a subscription, except fills from before its begin.

    Args:
        subscription: may have ended meanwhile.
        encoded: the changes.
        by_market: the frames of a market, or all, that were joined for other subscriptions.
    """
    if not subscription.is_open:
        return
    wanted, _ = subscription.scope
    begin = subscription.position.place
    if any(0 < each.place <= begin for each in encoded):
        encoded = [each for each in encoded if not 0 < each.place <= begin]
        by_market = {}
    frames = by_market.get(wanted)
    if frames is None:
        frames = b"".join(each.frame for each in encoded if wanted in (None, each.market))
        by_market[wanted] = frames
    if frames:
        subscription.write(frames)


def maker_of(subscription: ScopedSubscription) -> str:
    """Return the maker, which a subscription to this channel always names."""
    _, maker = subscription.scope
    assert maker is not None
    return maker


def user_fill(fill: MakerFill) -> UserFill:
    """Return the message about a fill."""
    return UserFill(
        market_id=fill.market_id,
        token_id=fill.token_id,
        seq=fill.seq,
        timestamp=fill.timestamp,
        data=fill,
    )


def side_of(trade: Trade, *, is_incoming: bool) -> Side:
    """Return the side of one of the orders of a trade."""
    if isinstance(trade, PairedTrade):
        return Side.BUY if trade.buyer else Side.SELL
    return trade.incoming_side if is_incoming else Side(1 - trade.incoming_side)


def is_trade_of(trade: Trade, *, is_incoming: bool) -> bool:
    """Return whether a trade belongs to this order; a mint or merge has one for each order."""
    return not isinstance(trade, PairedTrade) or trade.is_incoming is is_incoming


def orders_in(event: Event) -> tuple[str | int, ...]:
    """Return the ids of the orders of an event; of a trade, the resting one first."""
    if isinstance(event, Trade):
        return event.resting_order_id, event.incoming_order_id
    return (event.order_id,)
