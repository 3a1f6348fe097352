"""Requests of a WebSocket client: parsing, subscribing and errors.

An extended client receives an ``error`` message for a rejected request. A plain client, which knows
only the messages of the specification, is closed with 1008, except for a subscription to a market
that does not exist yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from operator import gt
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from clob.errors import ClobError, UnknownMarketError
from clob.signing import fields
from clob.wire.messages import (
    POLICY,
    RESTART,
    Error,
    Id,
    Orders,
    Pong,
    Subscribed,
    Unsubscribed,
)
from clob_server.api.convert import convert
from clob_server.api.faults import fault, missing, wrong
from clob_server.api.options import market_id
from clob_server.api.problems import ApiError, text_of
from clob_server.api.request import kind_of, not_json
from clob_server.core.commands import ApiKey
from clob_server.core.ids import Cursor, cursor_in
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches, SocketLease
from clob_server.feed.broadcast import ScopedSubscription, TradeScope, loop_time
from clob_server.feed.event_messages import message_frame
from clob_server.feed.market_stream import MarketStreams
from clob_server.feed.paced_channel import PacedChannel, PacedSubscription
from clob_server.feed.requests import SocketRequest, SocketRequests, read_request
from clob_server.feed.settlement_channel import SettlementChannel
from clob_server.feed.subscriber import BookSources, BookSubscription, Subscriber, SubscriptionName
from clob_server.feed.user_channel import UserChannel, UserSubscription
from clob_server.settings import NO_CHAIN, Settings
from clob_server.transport.websocket import text_frame

PING: Final = "PING"
"""Text message that some clients send instead of a JSON ping."""
OF_MARKET: Final = ("orderbook", "ticker", "candles")
"""Channels of a market, without a maker."""
PACED: Final = ("ticker", "candles")
"""Channels that send the newest state a few times a second, to extended clients."""
OF_TOKEN: Final = ("orderbook", "candles")
"""Channels of one token or of both."""
Channel: TypeAlias = Literal["orderbook", "user", "settlement", "ticker", "candles"]
"""Name of a channel."""
Interval: TypeAlias = Literal["1m", "5m", "1h", "1d"]
"""Length of a candle."""
POSITIONS: Final = {"orderbook": "seq", "user": "cursor"}
"""The field of :class:`Resume` that a channel has."""
PONG: Final = text_frame(b"PONG")
"""Response to it."""

POSITION_S: Final = 2.0
"""Seconds that a node of a cluster waits for the position that a client resumes from."""
RESTORES_MAX: Final = 2**16
"""Epochs of one exchange. With its number of 32 bits an epoch is exact in JavaScript."""


class ClientRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    tag_field="type",
    forbid_unknown_fields=True,
):
    """Base of all client messages."""

    extended: bool = False
    """True to receive more than the four message types of the specification."""
    id: Id | None = None
    """Request id, repeated in the response."""


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Position of a client that reconnects."""

    seq: int | None = None
    """Number of the last event received; for ``orderbook``."""
    cursor: str | None = None
    """Last ``cursor`` received; for ``user``."""
    epoch: int = 0
    """``epoch`` of the ``subscribed`` message that the position followed; 0 or absent is that of
    any exchange that was never restored from a backup."""


class Subscribe(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="subscribe"):
    """Start a subscription, or restart it if it exists."""

    channel: Channel
    """Channel."""
    market_id: str | None = None
    """Market id; required for ``orderbook``, ``ticker`` and ``candles``. With ``maker``, absent
    means all markets."""
    token_id: str | int | None = None
    """Outcome token for ``orderbook`` and ``candles``, decimal or hexadecimal; absent means
    both."""
    interval: Interval | None = None
    """Length of the candles; required for ``candles``."""
    maker: str | None = None
    """Maker's address; required for ``user``. For ``settlement``, absent means all makers."""
    resume: Resume | None = None
    """Position to resume from, for ``orderbook`` and ``user``."""
    api_key: str | None = None
    """API key of this subscription, for ``user``; absent means that of the handshake."""
    cancel_on_disconnect: bool = False
    """For ``user`` of an extended client: true to cancel all resting orders of the maker when its
    last connection closes that asked for it. Unsubscribing, or subscribing without it, withdraws
    it."""


class Unsubscribe(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="unsubscribe"):
    """End a subscription; no error if it does not exist."""

    channel: Channel
    """Channel."""
    market_id: str | None = None
    """Market id of the subscription."""
    token_id: str | int | None = None
    """Outcome token of the subscription, for ``candles``."""
    interval: Interval | None = None
    """Length of the candles of the subscription."""
    maker: str | None = None
    """Maker of the subscription."""


class Ping(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="ping"):
    """Request a ``pong``."""


Request: TypeAlias = Subscribe | Unsubscribe | Ping | SocketRequest
"""Any client message."""


class ParsedMessage(NamedTuple):
    """The valid part of a client message."""

    request: Request | ApiError
    """The request, or the error of an invalid one."""
    extended: bool = False
    """Whether the message has ``"extended": true``."""
    id: Id | None = None
    """The request id, also of an invalid request that has a valid id."""
    is_operation: bool = False
    """Whether it is a request of the HTTP interface, which is answered by a ``response``."""


def parse_message(text: str | None) -> ParsedMessage:
    """Parse a client message, None if it is binary; errors are returned, not raised."""
    try:
        raw = msgspec.json.decode(text or "")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return ParsedMessage(not_json("the message", text, error))
    if type(raw) is not dict:
        text = f"the message must be a JSON object; got {kind_of(raw)}"
        return ParsedMessage(ApiError("INVALID_FIELD", text))
    request_id = raw.get("id")
    if type(request_id) not in (str, int):
        request_id = None
    try:
        request: Request | ApiError = convert(raw, Request)
    except ApiError as error:
        request = error
    return ParsedMessage(
        request, raw.get("extended") is True, request_id, raw.get("type") == "request"
    )


def token_id(value: str | int) -> str:
    """Return the decimal digits of a token that is decimal or hexadecimal.

    Raises:
        InvalidFieldError: the value is neither, or at least 2**256.
    """
    if isinstance(value, str) and fields.HEX.fullmatch(value):
        value = int(value, 16)
    return str(fields.uint("tokenId", value))


def is_request(subscriber: Subscriber, settings: Settings, text: str | None) -> bool:
    """Count a message and answer a text ping; return whether it is a request to handle."""
    if not subscriber.count_message(loop_time()):
        limit = settings.ws_messages_per_minute
        subscriber.close(POLICY, f"RATE_LIMITED: more than {limit} messages per minute")
        return False
    if text == PING:
        subscriber.send_frames(PONG)
        return False
    return True


class MessageHandler(Protocol):
    """Handles the messages of one client."""

    def on_message(self, text: str | None, /) -> Awaitable[None] | None:
        """Handle a message; ``text`` is None if it is binary.

        The next message waits for the awaitable, if one is returned.
        """


class FeedGuard(Protocol):
    """Access rules, as far as the feed needs them."""

    def check_site(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise if a handshake is for another host, or from a page of another site."""

    def key_of_handshake(self, headers: Mapping[bytes, bytes], address: str) -> ApiKey | None:
        """Return the API key of a handshake; None without a key."""

    def key_of_message(self, sent: bytes, address: str) -> ApiKey:
        """Return the API key that a message has."""

    def charge_request(self, key: ApiKey | None, address: str) -> None:
        """Count a handshake as a request of its key or address."""

    def may_follow(self, key: ApiKey | None, channel: str, maker: str) -> None:
        """Raise if the key must not subscribe to a maker's orders."""

    def may_arm(self, key: ApiKey | None, address: str, maker: str) -> None:
        """Count a cancel; raise if the key must not cancel a maker's orders."""


class Channels(NamedTuple):
    """Sources of the messages that clients subscribe to."""

    state: ServerState
    streams: MarketStreams
    books: BookSources
    users: UserChannel
    settlements: SettlementChannel
    switches: CancelSwitches
    paced: PacedChannel | None
    exchange: int
    """The exchange's number of 32 bits."""

    @property
    def epoch(self) -> int:
        """The numbering that sequence numbers and cursors belong to.

        It differs between exchanges, so that a client does not resume from a number of data that
        was replaced, and rises when the exchange is restored from a backup.
        """
        return self.exchange * RESTORES_MAX + self.state.registry.epoch

    def continues(self, resume: Resume | None) -> bool:
        """Return whether a position belongs to the current numbering."""
        if resume is None:
            return False
        return resume.epoch == (self.epoch if resume.epoch else self.state.registry.epoch)


class FeedSession:
    """Handles the requests of one client."""

    def __init__(
        self,
        subscriber: Subscriber,
        channels: Channels,
        settings: Settings,
        guard: FeedGuard,
        clock_ms: Callable[[], int],
        requests: SocketRequests,
    ) -> None:
        self._requests = requests
        self._subscriber = subscriber
        self._channels = channels
        self._settings = settings
        self._guard = guard
        self._clock_ms = clock_ms
        self._resuming: set[asyncio.Task[None]] = set()

    def at_once(self, text: str) -> bool:
        """Start a request that need not wait; return False, without any effect, otherwise."""
        request = read_request(text)
        if request is None or not self._subscriber.is_open:
            return False
        try:
            return self._requests.start_at_once(request)
        except ClobError:  # rejected in on_message
            return False

    def on_message(self, text: str | None) -> Awaitable[None] | None:
        """Handle a message; ``text`` is None if it is binary.

        Returns an awaitable if the message is a request that waits for earlier ones; the next
        message has to wait for it. A request that starts counts against the budgets of its route,
        every other message against the limit of messages.
        """
        request = read_request(text or "")
        if request is None:
            return self._on_other(text)
        try:
            return self._requests.start(request)
        except ClobError as error:
            if is_request(self._subscriber, self._settings, text):
                self._requests.reject(error, request.id)
            return None

    def _on_other(self, text: str | None) -> Awaitable[None] | None:
        """Handle a message that is no valid request of the HTTP interface."""
        subscriber = self._subscriber
        if not is_request(subscriber, self._settings, text):
            return None
        parsed = parse_message(text)
        subscriber.extended = subscriber.extended or parsed.extended
        if self._settings.log and self._is_ahead(parsed.request):
            return self._wait(parsed)
        self._on_parsed(parsed)
        return None

    def _is_ahead(self, request: Request | ApiError) -> bool:
        """Return whether a client of another node resumes from commands that this node lacks."""
        channels = self._channels
        if not isinstance(request, Subscribe) or not channels.continues(request.resume):
            return False
        resume = request.resume or Resume()
        if request.channel == "user":
            cursor = cursor_in(resume.cursor or "")
            return cursor is not None and any(map(gt, cursor, channels.users.position))
        markets, market = channels.state.markets, request.market_id or ""
        return market in markets and (resume.seq or 0) > channels.state.matcher.seq(market)

    async def _wait(self, parsed: ParsedMessage) -> None:
        """Handle a subscription once this node has reached its position, or after some time."""
        end = loop_time() + POSITION_S
        while self._is_ahead(parsed.request) and loop_time() < end:
            await asyncio.sleep(POSITION_S / 100)
        if self._subscriber.is_open:
            self._on_parsed(parsed)

    def _on_parsed(self, parsed: ParsedMessage) -> None:
        """Handle a message that is no request of the HTTP interface."""
        try:
            if isinstance(parsed.request, ApiError):
                raise parsed.request
            self._handle(parsed.request)
        except ClobError as error:
            if parsed.is_operation and parsed.id is not None:
                self._requests.reject(error, parsed.id)
            else:
                self._reject(error, parsed.id)

    def _reject(self, error: ClobError, request_id: Id | None) -> None:
        if self._subscriber.extended:
            self._subscriber.send(
                Error(code=error.code, message=text_of(error), id=or_unset(request_id))
            )
        else:
            self._subscriber.close(POLICY, f"{error.code}: {text_of(error)}")

    def _handle(self, request: Request) -> None:
        """Execute a request, or raise its rejection, after which nothing changed."""
        if isinstance(request, Subscribe):
            check_applies(request)
        if isinstance(request, Ping):
            self._subscriber.send(Pong(id=or_unset(request.id)))
        elif isinstance(request, SocketRequest):  # valid, but read_request could not read it
            raise ApiError("INVALID_JSON", "the message is not JSON that this server reads")
        elif isinstance(request, Unsubscribe):
            self._unsubscribe(request)
        elif request.channel == "orderbook":
            self._subscribe_book(request)
        elif request.channel == "user":
            self._subscribe_user(request)
        elif request.channel in PACED:
            self._subscribe_paced(request)
        else:
            self._subscribe_settlement(request)

    # ----- subscribing -----------------------------------------------------------------------

    def _check_limit(self, name: SubscriptionName) -> None:
        """Raise TOO_MANY_SUBSCRIPTIONS if there is no room for another subscription."""
        limit, subscriptions = self._settings.ws_subscriptions_max, self._subscriber.subscriptions
        if len(subscriptions) >= limit and name not in subscriptions:
            raise ApiError(
                "TOO_MANY_SUBSCRIPTIONS", f"a connection can have at most {limit} subscriptions"
            )

    def _subscribe_book(self, request: Subscribe) -> None:
        """Subscribe to a market's books; for a plain client the market may not exist yet."""
        channels, subscriber = self._channels, self._subscriber
        market = market_id(request.market_id)
        token = None if request.token_id is None else token_id(request.token_id)
        name = ("orderbook", market, "")
        self._check_limit(name)
        subscription = BookSubscription(
            subscriber, market, token, channels.books, extended=request.extended
        )
        try:
            channels.state.matcher.depth(market, token, 0)  # checks market and token
        except UnknownMarketError:
            if subscriber.extended:
                raise
            subscriber.replace(name, subscription)
            channels.books.pending.add(subscription)
            return
        subscriber.replace(name, subscription)
        stream = channels.streams.stream(market)
        resume = request.resume if channels.continues(request.resume) else None
        resumed = subscription.follow(stream, resume.seq if resume else None)
        self._confirm(request, market, token, stream.seq, resumed=resumed)
        subscriber.catch_up()

    def _subscribe_user(self, request: Subscribe) -> None:
        """Subscribe to the orders of a maker, once its switch is armed if that is requested."""
        market, maker = scope = scope_of(request)
        assert maker is not None
        key = self._key_of(request)
        self._guard.may_follow(key, "user", maker)
        after = None if request.resume is None else position_in(request.resume)
        self._check_limit(("user", market or "", maker))
        if request.cancel_on_disconnect:
            self._hold(request, scope, after, key)
        else:
            self._join_user(request, scope, after, key)
            self._withdraw(scope)

    def _key_of(self, request: Subscribe) -> ApiKey | None:
        """Return the key of a subscription: its own, or else that of the handshake."""
        subscriber, sent = self._subscriber, request.api_key
        if sent is None:
            return subscriber.key
        return self._guard.key_of_message(sent.encode(), subscriber.address)

    def _hold(
        self, request: Subscribe, scope: TradeScope, after: Cursor | None, key: ApiKey | None
    ) -> None:
        """Arm the switch that cancels the orders of a maker, and subscribe when it is armed."""
        subscriber, switches, (_, maker) = self._subscriber, self._channels.switches, scope
        assert maker is not None
        name = lease_name(scope)
        self._check_limit(name)
        self._guard.may_arm(key, subscriber.address, maker)
        lease = switches.hold(maker)

        def on_armed(error: Exception | None) -> None:
            if subscriber.subscriptions.get(name) is not lease:  # it closed, or was withdrawn
                return
            try:
                if error is not None:
                    raise error
                self._join_user(request, scope, after, key)
            except ClobError as error:
                self._withdraw(scope)
                self._reject(error, request.id)

        subscriber.replace(name, lease, key)
        try:
            if switches.is_armed(lease):
                self._join_user(request, scope, after, key)
            else:
                switches.arm(lease, on_armed)
        except ClobError:
            self._withdraw(scope)
            raise

    def _withdraw(self, scope: TradeScope) -> None:
        """End the lease of a subscription, if any, without a cancel."""
        name = lease_name(scope)
        lease = self._subscriber.subscriptions.get(name)
        if isinstance(lease, SocketLease):
            lease.cancels = False
            self._subscriber.remove(name)

    def _join_user(
        self, request: Subscribe, scope: TradeScope, after: Cursor | None, key: ApiKey | None
    ) -> None:
        """Subscribe to the orders of a maker, from a position on if there is one."""
        users, subscriber = self._channels.users, self._subscriber
        market, maker = scope
        name = ("user", market or "", maker or "")
        subscription = UserSubscription(subscriber, scope, users.leave, extended=request.extended)
        orders = users.join(subscription, self._clock_ms(), loop_time())
        subscriber.replace(name, subscription, key)
        accounts = users.accounts(subscription, self._clock_ms())
        state = b"".join(message_frame(each) for each in (orders, accounts) if each is not None)
        if after is None or not self._channels.continues(request.resume):
            self._confirm(request, market, None, orders.seq, cursor=orders.cursor)
            subscriber.send_frames(state)
            return
        subscription.held = []
        resuming = self._resume_user(request, subscription, after, orders, state)
        task = asyncio.get_running_loop().create_task(resuming)
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)

    async def _resume_user(
        self,
        request: Subscribe,
        subscription: UserSubscription,
        after: Cursor,
        orders: Orders,
        state: bytes,
    ) -> None:
        """Send the changes since a position, then the state; end the subscription on an error."""
        market, maker = subscription.scope
        try:
            missed = await self._channels.users.missed(subscription, after)
        except ClobError as error:
            if subscription.is_open:
                self._subscriber.remove(("user", market or "", maker or ""))
                self._withdraw(subscription.scope)
                self._reject(error, request.id)
        except Exception:
            self._subscriber.close(RESTART, "the missed changes cannot be read")
            raise
        else:
            if subscription.is_open:
                is_resumed, cursor = missed is not None, orders.cursor
                self._confirm(request, market, None, orders.seq, resumed=is_resumed, cursor=cursor)
                subscription.release(b"".join((*(missed or ()), state)))

    def _subscribe_settlement(self, request: Subscribe) -> None:
        channels, subscriber = self._channels, self._subscriber
        if self._settings.chain_source == NO_CHAIN:
            raise ApiError(
                "CHAIN_NOT_CONFIGURED", "this server has no chain, so trades do not settle"
            )
        market, maker = scope = scope_of(request)
        seq = None if market is None else channels.state.matcher.seq(market)
        name = ("settlement", market or "", maker or "")
        self._check_limit(name)
        subscription = ScopedSubscription(
            subscriber, scope, channels.settlements.leave, extended=request.extended
        )
        subscriber.replace(name, subscription)
        channels.settlements.join(subscription, loop_time())
        self._confirm(request, market, None, seq)

    def _subscribe_paced(self, request: Subscribe) -> None:
        """Subscribe to the ticker or the candles of a market."""
        channels, subscriber = self._channels, self._subscriber
        _, market, _ = name = paced_name(request)
        token = None if request.token_id is None else token_id(request.token_id)
        channels.state.matcher.depth(market, token, 0)  # checks market and token
        seq = channels.streams.stream(market).seq
        assert channels.paced is not None
        self._check_limit(name)
        subscription = PacedSubscription(subscriber, name, channels.paced.leave)
        subscriber.replace(name, subscription)
        self._confirm(request, market, token, seq)
        channels.paced.join(subscription)

    def _confirm(
        self,
        request: Subscribe,
        market: str | None,
        token: str | None,
        seq: int | None,
        *,
        resumed: bool = False,
        cursor: str | UnsetType = UNSET,
    ) -> None:
        """Send ``subscribed`` to an extended client."""
        if request.extended:
            self._subscriber.send(
                Subscribed(
                    channel=request.channel,
                    market_id=market,
                    token_id=token,
                    seq=seq,
                    timestamp=self._clock_ms(),
                    resumed=resumed,
                    epoch=self._channels.epoch,
                    cursor=cursor,
                    interval=request.interval or UNSET,
                    id=or_unset(request.id),
                )
            )

    def _unsubscribe(self, request: Unsubscribe) -> None:
        """End a subscription; do nothing if it does not exist."""
        if request.channel in PACED:
            name = paced_name(request)
        elif request.channel in OF_MARKET:
            name = (request.channel, market_id(request.market_id), "")
        else:
            market, maker = scope = scope_of(request)
            name = (request.channel, market or "", maker or "")
            if request.channel == "user":
                self._withdraw(scope)
        self._subscriber.remove(name)
        if request.extended or self._subscriber.extended:
            self._subscriber.send(
                Unsubscribed(
                    channel=request.channel,
                    market_id=request.market_id,
                    timestamp=self._clock_ms(),
                    interval=request.interval or UNSET,
                    id=or_unset(request.id),
                )
            )


def scope_of(request: Subscribe | Unsubscribe) -> TradeScope:
    """Return the market and maker of a request on ``user`` or ``settlement``.

    Raises:
        ApiError: INVALID_FIELD, ``maker`` or ``marketId`` is missing or not valid.
        InvalidAddressError: the maker is not an address.
    """
    if request.maker is None and (request.channel == "user" or request.market_id is None):
        name = "maker" if request.channel == "user" else "marketId or maker"
        raise missing(name, f"is required for the channel {request.channel}")
    market = None if request.market_id is None else market_id(request.market_id)
    maker = None if request.maker is None else fields.address("maker", request.maker)
    return market, maker


def paced_name(request: Subscribe | Unsubscribe) -> SubscriptionName:
    """Return the name of a subscription on ``ticker`` or ``candles``.

    Raises:
        ApiError: INVALID_FIELD, ``marketId`` or ``interval`` is missing, or a field is not valid.
        InvalidFieldError: ``tokenId`` is not a token id.
    """
    market = market_id(request.market_id)
    if request.channel == "ticker":
        return "ticker", market, ""
    if request.interval is None:
        raise missing("interval", "is required for the channel candles")
    token = "" if request.token_id is None else token_id(request.token_id)
    return "candles", market, f"{request.interval} {token}"


def lease_name(scope: TradeScope) -> SubscriptionName:
    """Return the name of the lease that belongs to a subscription on ``user``."""
    market, maker = scope
    return "cancelOnDisconnect", market or "", maker or ""


def check_applies(request: Subscribe) -> None:
    """Reject a field that another channel has.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if request.channel in OF_MARKET and request.maker is not None:
        rule = "maker is for the channels user and settlement"
        raise fault("maker", f"{rule}, not for {request.channel}")
    if request.channel in PACED and not request.extended:
        raise fault("extended", f"extended must be true for the channel {request.channel}")
    if request.token_id is not None and request.channel not in OF_TOKEN:
        rule = "tokenId is for the channels orderbook and candles"
        raise fault("tokenId", f"{rule}, not for {request.channel}")
    if request.api_key is not None and request.channel != "user":
        raise fault("apiKey", f"apiKey is for the channel user, not for {request.channel}")
    if request.interval is not None and request.channel != "candles":
        raise fault("interval", f"interval is for the channel candles, not for {request.channel}")
    if request.resume is not None:
        check_resume(request.resume, request.channel)
    if request.cancel_on_disconnect and not (request.channel == "user" and request.extended):
        rule = 'is for the channel user with "extended": true'
        raise fault("cancelOnDisconnect", f"cancelOnDisconnect {rule}")


def check_resume(resume: Resume, channel: str) -> None:
    """Reject a position that another channel has, or that is missing.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if channel not in POSITIONS:
        raise fault("resume", f"resume is for the channels orderbook and user, not for {channel}")
    for on, name in POSITIONS.items():
        value = getattr(resume, name)
        if on == channel and value is None:
            raise missing(f"resume.{name}", f"is required for the channel {channel}")
        if on != channel and value is not None:
            raise fault(
                f"resume.{name}", f"resume.{name} is for the channel {on}, not for {channel}"
            )


def position_in(resume: Resume) -> Cursor:
    """Return the position of a client of ``user``, or raise INVALID_FIELD."""
    cursor = cursor_in(resume.cursor or "")
    if cursor is None:
        raise wrong("resume.cursor", "must be the cursor of a message", resume.cursor)
    return cursor


def or_unset(request_id: Id | None) -> Id | UnsetType:
    """Return the id, or UNSET to omit it from the message."""
    return UNSET if request_id is None else request_id
