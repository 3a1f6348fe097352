"""The methods of a feed over one WebSocket that is kept: books, own orders, and requests.

The connection is replaced whenever it ends or is silent, and every subscription continues from its
position. A request whose answer was lost is sent again if it cannot be executed twice.
"""

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NoReturn, Union

import msgspec
from msgspec import UNSET

from clob.client.calls import (
    FREE,
    NO_HEADERS,
    ROUTES,
    BudgetLimiter,
    seconds,
    wait_for_budget,
)
from clob.client.connection import (
    TOO_LARGE,
    Backoff,
    KeptConnection,
    checked_headers,
    feed_url,
    header,
)
from clob.client.errors import (
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    NotFoundError,
    ResponseError,
    family,
    unexpected,
)
from clob.client.local_book import (
    NO_LOCK,
    BookGapError,
    BookLock,
    BookMismatchError,
    LocalBook,
)
from clob.client.message_stream import Conditions, FeedState, MessageStream
from clob.client.own_orders import FeedPosition, MakerOrders
from clob.client.socket_calls import RawSocketResponse, SocketCall, SocketCalls
from clob.client.steps import FeedMethod
from clob.client.subscriptions import Followed, FollowedBook, FollowedMaker, SubscriptionKey
from clob.signing.fields import address
from clob.wire.messages import (
    EVERY,
    BookMessage,
    Error,
    Heartbeat,
    Message,
    OrderChanged,
    Pong,
    SettlementMessage,
    SocketResponse,
    Subscribed,
    Unsubscribed,
    UserFill,
)
from clob.wire.orders import MakerFill

_RECEIVED: Final = tuple(each for each in EVERY if each is not SocketResponse)
_decode: Final = msgspec.json.Decoder(Union[(*_RECEIVED, RawSocketResponse)]).decode
_encode: Final = msgspec.json.Encoder().encode
_TYPES: Final = {each.__struct_config__.tag for each in EVERY}


class _Typed(msgspec.Struct):
    type: str


_decode_type: Final = msgspec.json.Decoder(_Typed).decode

RETRY_S: Final = 1.0
"""Seconds until a subscription is requested again that the server could not start yet."""
RETRIED: Final = ("RECOVERING", "RATE_LIMITED")
"""Codes of a rejected subscription that is requested again."""
STATUSES: Final = {
    "API_KEY_REQUIRED": 401,
    "INVALID_API_KEY": 401,
    "SCOPE_MISSING": 403,
    "MAKER_NOT_ALLOWED": 403,
    "UNKNOWN_MARKET": 404,
}
"""Status over HTTP of the codes of rejected subscriptions; that of others is 422."""
FILLS_PAGE: Final = 500
OPEN_MAX_S: Final = 10.0
"""Longest time of one attempt to connect, in seconds."""


class FeedBase:
    """The methods of both feeds.

    Arguments are those of :class:`~clob.client.Feed`.
    """

    _lock: BookLock = NO_LOCK
    """Lock of the books, for readers in other threads."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        heartbeat_s: float = 5.0,
        timeout_s: float = 30.0,
        backoff: Backoff | None = None,
        respects_limits: bool = True,
        proxy: str | Literal[True] | None = True,
        headers: Mapping[str, str] | None = None,
        subprotocols: Sequence[str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url: Final = feed_url(url)
        """URL of the WebSocket."""
        self.error: ClientError | None = None
        """The error that closed the feed; None without one."""
        self.num_gaps: int = 0
        """Times that messages were missing or a book was wrong, and were requested again."""
        self._timeout_s = seconds("timeout_s", timeout_s)
        key = {} if api_key is None else {"X-API-Key": header("api_key", api_key)}
        options: dict[str, Any] = {
            "additional_headers": {**checked_headers(headers), **key},
            "proxy": proxy,
            "subprotocols": list(subprotocols or ()) or None,
            "open_timeout": min(timeout_s, OPEN_MAX_S),
        }
        if tls is not None:
            options["ssl"] = tls
        self._kept: Final = KeptConnection(
            self.url, options, self, seconds("heartbeat_s", heartbeat_s), backoff or Backoff()
        )
        self._state = FeedState.CONNECTING
        self._followed: Final[dict[SubscriptionKey, Followed]] = {}
        self._by_request: Final[dict[int, Followed]] = {}
        self._calls: Final = SocketCalls()
        self._limiter: Final = BudgetLimiter() if respects_limits else None
        self._streams: tuple[MessageStream, ...] = ()
        self.conditions: Final = Conditions()
        """Conditions that are checked after each message and change of state."""
        self._num_requests = 0

    def __reduce__(self) -> NoReturn:
        """Raise: a feed belongs to a process."""
        raise TypeError("a feed has a connection and cannot be pickled or copied; make another one")

    async def begin(self) -> None:
        """Connect.

        Raises:
            InvalidCallError: the feed was opened before.
            ConnectionFailedError: no connection within ``timeout_s``.
            ResponseError: the server rejected the handshake.
        """
        self._check_new()
        self._kept.open()
        try:
            await self._within_timeout(lambda: self._kept.current is not None, "connection")
        except BaseException:
            await self._kept.close()
            raise

    async def end(self) -> None:
        """Close the connection; requests without an answer end with an error."""
        await self._kept.close()

    def cut(self) -> None:
        """End the current connection at once; another one follows, as after a failure."""
        self._kept.cut()

    @property
    def state(self) -> FeedState:
        """The state; :meth:`until` waits for another one."""
        return self._state

    @property
    def num_connections(self) -> int:
        """Connections so far."""
        return self._kept.num_connections

    # ----- subscribing -----------------------------------------------------------------------

    @FeedMethod
    async def orderbook(self, market_id: str, token_id: str | int | None = None) -> LocalBook:
        """Follow the books of a market; return them with their first snapshot.

        Args:
            market_id: the market.
            token_id: the only token to follow; None for both.

        Raises:
            InvalidCallError: the token is not a number in decimal digits.
            ResponseError: the server rejected the subscription.
            ConnectionFailedError: it was not up to date within ``timeout_s``.
        """
        followed = await self._follow(FollowedBook(market_id, token_id, self._lock))
        assert isinstance(followed, FollowedBook)
        return followed.book

    @FeedMethod
    async def own_orders(
        self,
        maker: str,
        *,
        market_id: str | None = None,
        position: FeedPosition | None = None,
        fills_kept: int | None = 10_000,
        cancel_on_disconnect: bool = False,
    ) -> MakerOrders:
        """Follow the orders, fills and accounts of a maker; return them once they are complete.

        A feed follows any number of makers, each with one scope.

        Args:
            maker: its address.
            market_id: the only market to follow; None for all.
            position: position of an earlier feed, to receive the fills since then.
            fills_kept: number of fills to keep; None keeps all.
            cancel_on_disconnect: whether the server cancels all resting orders of the maker when
                its last such connection ends; it does so before a reconnect, too.

        Raises:
            InvalidAddressError: the maker is not an address.
            InvalidCallError: the feed follows the maker in another scope.
            ResponseError: the server rejected the subscription.
            ConnectionFailedError: it was not up to date within ``timeout_s``.
        """
        orders = MakerOrders(address("maker", maker), market_id, position, fills_kept)
        followed = await self._follow(
            FollowedMaker(orders, cancel_on_disconnect=cancel_on_disconnect)
        )
        assert isinstance(followed, FollowedMaker)
        return followed.orders

    @FeedMethod
    async def follow(
        self, /, channel: str, market_id: str | None = None, maker: str | None = None, **fields: Any
    ) -> Followed:
        """Follow ``ticker``, ``candles`` or ``settlement``; return the subscription.

        Its ``last`` is the newest message; ``messages`` of the feed has all.

        Args:
            channel: the channel.
            market_id: the market; None for all.
            maker: the maker; None for all.
            fields: further fields of ``subscribe``, with their names in JSON, such as
                ``interval`` and ``tokenId`` of candles.

        Raises:
            InvalidCallError: the channel has a method of its own.
            ResponseError: the server rejected the subscription.
            ConnectionFailedError: no answer within ``timeout_s``.
        """
        if channel in ("orderbook", "user"):
            raise InvalidCallError(f"use orderbook() or own_orders() for the channel {channel}")
        return await self._follow(Followed(channel, market_id, maker, fields))

    def unfollow(
        self, channel: str, market_id: str | None = None, maker: str | None = None
    ) -> None:
        """End a subscription; do nothing if it does not exist.

        Args:
            channel: the channel.
            market_id: the market; of ``user`` any.
            maker: the maker.

        Raises:
            InvalidAddressError: the maker of ``user`` is not an address.
        """
        if channel == "user":
            market_id, maker = None, address("maker", maker)
        followed = self._followed.pop((channel, market_id, maker), None)
        if followed is not None:
            followed.on_cut()
            self._post(followed.unsubscribe_request(self._next_id()))
            self._refresh()

    def add_stream(self) -> MessageStream:
        """Return a stream of all messages with data from now on, each once."""
        stream = MessageStream(self)
        with self._lock:
            self._streams = (*self._streams, stream)
        return stream

    def remove_stream(self, stream: MessageStream) -> None:
        """Add no further messages to a stream."""
        with self._lock:
            self._streams = tuple(each for each in self._streams if each is not stream)

    @FeedMethod
    async def until(
        self,
        is_true: Callable[[], bool],
        *,
        or_closed: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until a condition holds, which is checked after each message and change of state.

        Args:
            is_true: the condition; it must not wait.
            or_closed: whether to return if the feed is closed before.
            timeout_s: longest wait; None waits without end.

        Raises:
            ClientError: the feed was closed before, with its error or without one.
            TimeoutError: the condition did not hold within ``timeout_s``.
        """
        if timeout_s is None or self._state is FeedState.CLOSED:
            await self._until(is_true, or_closed=or_closed)
            return
        async with asyncio.timeout(timeout_s):
            await self._until(is_true, or_closed=or_closed)

    async def _until(self, is_true: Callable[[], bool], *, or_closed: bool = False) -> None:
        while not is_true():
            if self._state is FeedState.CLOSED:
                if or_closed:
                    return
                raise self.closed_error()
            await self.conditions.wait(is_true)

    def closed_error(self) -> ClientError:
        """Return the error of a call of a closed feed."""
        return self.error or ConnectionFailedError("the feed is closed")

    async def _within_timeout(self, is_true: Callable[[], bool], subject: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._until(is_true)
        except TimeoutError:
            text = f"no {subject} within {self._timeout_s:g} s"
            if self._kept.current is None:
                text = f"{text}: {self._kept.reason}"
            raise ConnectionFailedError(text) from None

    def _check_new(self) -> None:
        """Raise if the feed was opened before."""
        if self._kept.is_running or self._state is not FeedState.CONNECTING:
            raise InvalidCallError("a feed can be opened once; make another one")

    def _check_running(self) -> None:
        """Raise if the feed was not opened, or is closed."""
        if self._state is FeedState.CLOSED:
            raise self.closed_error()
        if not self._kept.is_running:
            raise InvalidCallError("open the feed first, by a with statement")

    async def _follow(self, new: Followed) -> Followed:
        """Add a subscription, or return the one with its key, when it is up to date."""
        self._check_running()
        before = self._followed.get(new.key)
        followed = new if before is None or before.error is not None else before
        self._followed[new.key] = followed
        if (followed.market_id, followed.fields) != (new.market_id, new.fields):
            name = " ".join(each for each in new.key if each is not None)
            raise InvalidCallError(
                f"the feed follows {name} with another scope or other options; unfollow it first, "
                "or use another feed"
            )
        if followed is new:
            self._kept.needed.set()
            self._subscribe(new)
        try:
            ends = lambda: followed.is_ready or followed.error is not None  # noqa: E731
            await self._within_timeout(ends, f"answer for the channel {new.channel}")
        except BaseException:
            if followed is new:
                self.unfollow(*new.key)
            raise
        if followed.error is not None:
            self._followed.pop(new.key, None)
            raise followed.error
        return followed

    # ----- requests --------------------------------------------------------------------------

    async def send_request(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        api_key: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request and return its result; see :meth:`Feed.request`."""
        self._check_running()
        request_id = self._next_id()
        timeout_s = self._timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        costs = ROUTES[operation].costs if operation in ROUTES else FREE
        await self._acquire(costs, timeout_s)
        headers: Mapping[str, str] = NO_HEADERS
        try:
            call = self._calls.add(request_id, operation, params, body, api_key, deadline_s)
            if self._kept.current is None:
                self._kept.needed.set()
            else:
                await self._kept.send(call.to_send())
            try:
                return await call.future
            finally:
                headers = call.headers
        finally:
            self._calls.remove(request_id)
            if self._limiter is not None and costs:
                self._limiter.settle(costs, headers, time.monotonic())

    async def _acquire(self, costs: Mapping[str, int], timeout_s: float) -> None:
        """Wait until the rate limit allows a request.

        Raises:
            RateLimitedError: the wait is longer than the time-out.
        """
        if self._limiter is not None and costs:
            for pause in wait_for_budget(self._limiter, costs, time.monotonic() + timeout_s):
                await asyncio.sleep(pause.seconds)

    async def _repeat(self, call: SocketCall, wait_s: float) -> None:
        """Send a request again that the server could not execute."""
        await asyncio.sleep(wait_s)
        if self._kept.current is not None and not call.is_sent and not call.future.done():
            await self._kept.send(call.to_send())

    # ----- connection ------------------------------------------------------------------------

    def is_needed(self) -> bool:
        """Return whether a connection would be used."""
        return bool(self._followed) or len(self._calls) > 0

    def on_open(self) -> None:
        """Request all subscriptions on a new connection, and send the requests that waited."""
        for each in tuple(self._followed.values()):
            self._subscribe(each)
        for call in self._calls.unsent():
            self._kept.post(call.to_send())
        self._refresh()

    def on_cut(self, code: int | None) -> None:
        """Keep the positions; end the requests that cannot be sent again."""
        if code == TOO_LARGE:
            self._calls.on_too_large()
        self._by_request.clear()
        for each in self._followed.values():
            each.on_cut()
        self._calls.on_cut()
        self._refresh()

    def on_tick(self, now_s: float) -> None:
        """End late requests."""
        self._calls.expire(now_s, "the time-out passed")

    def on_quiet(self) -> None:
        """Ask for a sign of life."""
        self._post({"type": "ping", "id": self._next_id(), "extended": True})

    def on_silence(self) -> None:
        """Set the state."""
        self._refresh()

    def on_end(self, error: ClientError | None) -> None:
        """Be closed."""
        self.error = self.error or error
        self._state = FeedState.CLOSED
        self._calls.expire(math.inf, "the feed was closed")
        self.conditions.end()

    def _refresh(self) -> None:
        """Set the state."""
        if self._state is FeedState.CLOSED:
            return
        is_missing = any(each.was_ready and not each.is_ready for each in self._followed.values())
        if self._kept.current is None:
            state = FeedState.RECONNECTING if self.num_connections else FeedState.CONNECTING
        elif not is_missing and not self._kept.is_silent:
            state = FeedState.LIVE
        elif self._state is FeedState.RECONNECTING and not any(
            each.error for each in self._followed.values()
        ):
            state = FeedState.RECONNECTING
        else:
            state = FeedState.STALE
        self._state = state
        self.conditions.check()

    # ----- sending ---------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._num_requests += 1
        return self._num_requests

    def _post(self, fields: Mapping[str, Any]) -> None:
        """Send a message soon, if there is a connection."""
        self._kept.post(_encode(fields))

    def _subscribe(self, followed: Followed) -> None:
        """Request a subscription, from its position on if it has one."""
        if self._kept.current is not None and self._followed.get(followed.key) is followed:
            request_id = self._next_id()
            self._by_request[request_id] = followed
            self._post(followed.request(request_id))

    def _subscribe_later(self, followed: Followed) -> None:
        """Request a subscription again after a pause, unless it was requested meanwhile."""
        request_id = followed.request_id

        def subscribe() -> None:
            if followed.request_id == request_id:
                self._subscribe(followed)

        asyncio.get_running_loop().call_later(RETRY_S, subscribe)

    # ----- receiving -------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        """Handle a message; one of an unknown type is skipped."""
        try:
            message = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._check_unknown(data, error)
            return
        if isinstance(message, BookMessage):
            followed = self._followed.get(("orderbook", message.market_id, None))
            if followed is not None:
                self._apply(followed, message)
        elif type(message) is RawSocketResponse:
            again = self._calls.on_response(message, asyncio.get_running_loop().time())
            if again is not None:
                self._kept.start(self._repeat(*again))
        else:
            self._on_other(message)
        self.conditions.check()

    def _check_unknown(self, data: bytes, error: Exception) -> None:
        """Skip a message of an unknown type; end with an error for any other that is malformed."""
        try:
            kind = _decode_type(data).type
        except (msgspec.DecodeError, UnicodeDecodeError):
            kind = None
        if kind is None or kind in _TYPES:
            start = data[:200].decode(errors="replace")
            self._kept.fail(unexpected(f"a message of the feed: {error}", start))

    def _on_other(self, message: Any) -> None:
        """Handle a message that is neither about a book nor an answer."""
        if type(message) is Subscribed:
            followed = self._by_request.pop(message.id, None)  # type: ignore[arg-type]
            if followed is not None:
                followed.on_subscribed(message)
                if isinstance(followed, FollowedMaker) and followed.orders.missed is not None:
                    self._kept.start(self._read_missed(followed))
                self._after(followed)
        elif type(message) is Heartbeat:
            followed = self._source(message)
            if followed is not None:
                self._check(followed, partial(followed.on_heartbeat, message))
        elif type(message) is Pong:
            followed = self._by_request.pop(message.id, None)  # type: ignore[arg-type]
            if followed is not None and followed.ping_id == message.id:
                self._check(followed, followed.on_pong)
        elif type(message) is Error:
            self._on_error(message)
        elif type(message) is Unsubscribed:
            self._on_unsubscribed(message)
        else:
            followed = self._source(message)
            if followed is not None:
                self._apply(followed, message)

    def _source(self, message: Any) -> Followed | None:
        """Return the subscription that a message belongs to."""
        if type(message) is SettlementMessage:
            every = self._followed.values()
            return next((each for each in every if each.accepts(message)), None)
        if message.channel != "user":
            return self._followed.get((message.channel, message.market_id, None))
        kind = type(message)
        maker = message.data.maker if kind is UserFill or kind is OrderChanged else message.maker
        if maker is UNSET:  # a server that does not state it can be used for one maker
            makers = [each for each in self._followed.values() if isinstance(each, FollowedMaker)]
            return makers[0] if len(makers) == 1 else None
        return self._followed.get(("user", None, maker))

    def _apply(self, followed: Followed, message: Message) -> None:
        """Apply a message with data; pass it on if it is new."""
        try:
            is_new = followed.on_message(message)
        except (BookGapError, BookMismatchError) as error:
            self._repair(followed, error)
            return
        if is_new and self._streams:
            self._deliver(message)
        if not followed.is_ready or self._state is not FeedState.LIVE:
            self._after(followed)

    def _deliver(self, message: Message) -> None:
        for each in self._streams:
            each.add(message)

    def _after(self, followed: Followed) -> None:
        """Continue after a change of a subscription."""
        if followed.wants_pong and not followed.ping_id:
            followed.ping_id = self._next_id()
            self._by_request[followed.ping_id] = followed
            self._post({"type": "ping", "id": followed.ping_id, "extended": True})
        self._refresh()

    def _check(self, followed: Followed, work: Callable[[], None]) -> None:
        """Handle a heartbeat or pong of a subscription, which may show that it is wrong."""
        try:
            work()
        except (BookGapError, BookMismatchError) as error:
            self._repair(followed, error)
        else:
            self._after(followed)

    def _repair(self, followed: Followed, error: BookGapError | BookMismatchError) -> None:
        """Request the missing messages; if that was not enough a moment ago, a new state."""
        self.num_gaps += 1
        is_again = not followed.is_ready
        followed.on_cut()
        if isinstance(followed, FollowedBook) and (
            is_again or isinstance(error, BookMismatchError)
        ):
            followed.book.reset()
        if is_again:
            self._subscribe_later(followed)
        else:
            self._subscribe(followed)
        self._refresh()

    def _on_error(self, message: Error) -> None:
        """End the subscription that the server rejected, or request it again."""
        followed = self._by_request.pop(message.id, None)  # type: ignore[arg-type]
        if followed is None or followed.request_id != message.id:
            self._deliver(message)
        elif message.code in RETRIED:
            self._subscribe_later(followed)
        else:
            status = STATUSES.get(message.code, 422)
            followed.end(family(status)(message.code, message.message, status=status))
            self._deliver(message)
            self._refresh()

    def _on_unsubscribed(self, message: Unsubscribed) -> None:
        """End a subscription whose market was removed."""
        followed = self._followed.get((message.channel, message.market_id, None))
        if followed is not None and message.reason is not UNSET:
            followed.end(NotFoundError("UNKNOWN_MARKET", f"{message.market_id} was removed"))
            self._deliver(message)
            self._refresh()

    async def _read_missed(self, followed: FollowedMaker) -> None:
        """Read the fills that the server cannot send again, and deliver them before later ones."""
        orders, found = followed.orders, list[MakerFill]()
        missed = orders.missed
        assert missed is not None
        after: str | None = missed.after
        while after is not None and orders.missed is missed and self._kept.is_running:
            try:
                page = await self.send_request("list_fills", fills_query(orders, after))
            except ResponseError as error:
                if not error.retryable:
                    self._kept.fail(error)
                    return
                await asyncio.sleep(error.retry_after_s or RETRY_S)
            except ConnectionFailedError:  # no answer within the time
                await asyncio.sleep(RETRY_S)
            else:
                found += page
                after = page[-1].cursor if len(page) == FILLS_PAGE else None
        if orders.missed is missed:
            for each in orders.add_missed(found):
                self._deliver(each)
            followed.set_ready()
            self._refresh()


def fills_query(orders: MakerOrders, after: str) -> dict[str, Any]:
    """Return the parameters that list the fills of a maker after a cursor, oldest first."""
    query = {"maker": orders.maker, "order": "asc", "after": after, "limit": FILLS_PAGE}
    return query if orders.market_id is None else {**query, "marketId": orders.market_id}
