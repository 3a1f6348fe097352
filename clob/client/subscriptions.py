"""Subscriptions of a client of the feed, each with the state that it keeps; no input and output.

A subscription states its request, with the position to resume from, and accepts the messages that
follow ``subscribed``. Messages before it belong to an earlier request and are skipped.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from clob.client.errors import ClientError
from clob.client.local_book import NO_LOCK, BookLock, BookUpdate, LocalBook
from clob.client.own_orders import MakerOrders, MakerUpdate
from clob.wire.messages import (
    Heartbeat,
    Message,
    Orderbook,
    Orders,
    SettlementMessage,
    Subscribed,
)

SubscriptionKey: TypeAlias = tuple[str, str | None, str | None]
"""Channel, market and maker."""


class Followed:
    """A subscription; of a channel without a state to keep.

    Args:
        channel: name of the channel.
        market_id: market; None for all.
        maker: maker; None for all.
        fields: further fields of the request.
    """

    def __init__(
        self,
        channel: str,
        market_id: str | None = None,
        maker: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        self.channel: Final = channel
        self.market_id: Final = market_id
        self.maker: Final = maker
        self.fields: Final = fields or {}
        self.request_id: int = 0
        """Id of the newest request."""
        self.is_confirmed: bool = False
        """Whether the newest request was answered by ``subscribed``."""
        self.is_ready: bool = False
        """Whether the state is up to date."""
        self.was_ready: bool = False
        """Whether it was up to date once."""
        self.ping_id: int = 0
        """Id of the ping whose answer it waits for; 0 without one."""
        self.error: ClientError | None = None
        """The error with which the server ended it; None without one. Reconnecting tries again."""
        self.last: Message | None = None
        """The newest message with data."""

    @property
    def key(self) -> SubscriptionKey:
        """The subscriptions of a connection have different keys."""
        return self.channel, self.market_id, self.maker

    def accepts(self, message: SettlementMessage) -> bool:
        """Return whether a settlement that was not received here yet is within the scope.

        The server sends a copy to each subscription of a connection, without its scope.
        """
        return (
            self.is_confirmed
            and self.channel == message.channel
            and self.market_id in (None, message.market_id)
            and self.maker in (None, message.data.buyer, message.data.seller)
            and self.last != message
        )

    def request(self, request_id: int) -> dict[str, Any]:
        """Return the request; the messages until its answer are skipped."""
        self.on_cut()
        self.request_id, self.error = request_id, None
        fields = {
            "type": "subscribe",
            "id": request_id,
            "channel": self.channel,
            "marketId": self.market_id,
            "maker": self.maker,
            "extended": True,
            **self.fields,
            "resume": self._resume(),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def unsubscribe_request(self, request_id: int) -> dict[str, Any]:
        """Return the request that ends it."""
        scope = {"channel": self.channel, "marketId": self.market_id, "maker": self.maker}
        found = {name: value for name, value in scope.items() if value is not None}
        named = {name: self.fields[name] for name in ("interval", "tokenId") if name in self.fields}
        return {"type": "unsubscribe", "id": request_id, "extended": True, **found, **named}

    def on_subscribed(self, message: Subscribed) -> None:
        """Accept the messages that follow."""
        if message.id == self.request_id:
            self.is_confirmed = True
            self._start(message)

    def on_message(self, message: Message) -> bool:
        """Apply a message with data; return whether it is new.

        Raises:
            BookGapError: messages are missing; subscribe again.
            BookMismatchError: the state is wrong; subscribe again.
        """
        if self.is_confirmed and self._apply(message):
            self.last = message
            return True
        return False

    def on_heartbeat(self, message: Heartbeat) -> None:
        """Compare the state with a heartbeat.

        Raises:
            BookGapError: messages are missing; subscribe again.
            BookMismatchError: the state is wrong; subscribe again.
        """

    def on_pong(self) -> None:
        """Note that the answer to a ping arrived, which was sent after a snapshot."""

    @property
    def wants_pong(self) -> bool:
        """Whether it waits for the answer to a ping."""
        return False

    def on_cut(self) -> None:
        """Skip messages until the next request is answered."""
        self.is_confirmed = self.is_ready = False
        self.ping_id = 0

    def end(self, error: ClientError) -> None:
        """Note that the server ended it."""
        self.on_cut()
        self.error = error

    def _resume(self) -> dict[str, Any] | None:
        """Return the position to resume from."""
        return None

    def _start(self, message: Subscribed) -> None:
        self.set_ready()

    def _apply(self, message: Message) -> bool:
        return True

    def set_ready(self) -> None:
        """Note that the state is up to date."""
        self.is_ready = self.was_ready = True


class FollowedBook(Followed):
    """A subscription to the books of a market."""

    def __init__(
        self, market_id: str, token_id: str | int | None = None, lock: BookLock = NO_LOCK
    ) -> None:
        book = LocalBook(market_id, token_id, lock)
        super().__init__("orderbook", market_id, fields={"tokenId": book.only_token})
        self.book: Final = book
        """The books of both tokens, or of one."""
        self._epoch = 0
        self._awaited: int | None = None
        self._wants_pong = False

    def _resume(self) -> dict[str, Any] | None:
        position = self.book.position
        return None if position is None else {"seq": position, "epoch": self._epoch}

    def _start(self, message: Subscribed) -> None:
        self._epoch, self._wants_pong, self._awaited = message.epoch, False, None
        if not message.resumed:
            self.book.reset()
        elif self.book.only_token is not None or self.book.position == message.seq:
            self.set_ready()
        else:
            self._awaited = message.seq

    def _apply(self, message: Message) -> bool:
        update: BookUpdate = message  # type: ignore[assignment]
        if not self.is_ready and not self._wants_pong:
            is_last = self._awaited is not None and update.seq >= self._awaited
            self._wants_pong = is_last or type(update) is Orderbook
        return self.book.apply(update)

    @property
    def wants_pong(self) -> bool:
        """Whether it waits until both tokens have their snapshot, or their last event."""
        return self._wants_pong and not self.is_ready

    def on_pong(self) -> None:
        """Be ready: the server sent this after both."""
        if self.wants_pong:
            self.book.confirm()
            self.set_ready()

    def on_heartbeat(self, message: Heartbeat) -> None:
        """Compare number and checksums."""
        if self.is_confirmed:
            self.book.check(message)
            self.set_ready()


class FollowedMaker(Followed):
    """A subscription to the orders of a maker; a feed has one per maker."""

    def __init__(self, orders: MakerOrders, *, cancel_on_disconnect: bool = False) -> None:
        fields = {"cancelOnDisconnect": True} if cancel_on_disconnect else {}
        super().__init__("user", orders.market_id, orders.maker, fields)
        self.orders: Final = orders

    @property
    def key(self) -> SubscriptionKey:
        """Channel and maker: messages to a maker do not state the market of the subscription."""
        return self.channel, None, self.maker

    def _resume(self) -> dict[str, Any] | None:
        position = self.orders.position
        return None if position is None else position._asdict()

    def _start(self, message: Subscribed) -> None:
        self.orders.on_subscribed(message)

    def _apply(self, message: Message) -> bool:
        update: MakerUpdate = message  # type: ignore[assignment]
        is_new = self.orders.apply(update)
        if type(message) is Orders and self.orders.missed is None:
            self.set_ready()
        return is_new

    def on_heartbeat(self, message: Heartbeat) -> None:
        """Move the position to that of the heartbeat."""
        if self.is_confirmed:
            self.orders.check(message)
