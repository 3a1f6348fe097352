"""The WebSockets of the dialect: ``/ws/market`` and ``/ws/user``.

The first message of a client has ``type`` and, on the user channel, ``auth``. Later ones add or end
subscriptions with ``operation``. Unknown fields are ignored, as Polymarket does; a request that
cannot be done closes the connection with 1008 and the reason.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from clob import ClobError
from clob.wire.messages import POLICY
from clob_server.api.faults import wrong
from clob_server.api.problems import ApiError, text_of
from clob_server.api.request import Receive, Scope, Send, kind_of, not_json
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.credentials import Credentials
from clob_server.dialects.polymarket.market_channel import MarketChannel, TokenSubscription
from clob_server.dialects.polymarket.user_channel import WalletChannel, WalletSubscription
from clob_server.feed.session import MessageHandler, is_request
from clob_server.feed.subscriber import Subscriber

SUBSCRIBE, UNSUBSCRIBE = "subscribe", "unsubscribe"
"""Operations; the first is the default."""
TEXTS: Final = ("apiKey", "secret", "passphrase")
"""Fields of ``auth``."""


class Socket:
    """An ASGI application of one channel."""

    def __init__(
        self, polymarket: Polymarket, session_of: Callable[[Subscriber], MessageHandler]
    ) -> None:
        self._feed: Final = polymarket.server.feed
        self._session_of: Final = session_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await self._feed.serve(scope, receive, send, self._session_of)


def sockets(polymarket: Polymarket) -> Mapping[str, Socket]:
    """Return the WebSockets by path; the channels receive every batch from now on."""
    market, user = MarketChannel(polymarket), WalletChannel(polymarket)
    polymarket.server.feed.listeners.append(market)
    polymarket.server.sequencer.subscribe(user.on_batch)
    return {
        "/ws/market": Socket(polymarket, lambda each: MarketSession(polymarket, each, market)),
        "/ws/user": Socket(polymarket, lambda each: UserSession(polymarket, each, user)),
    }


class ChannelSession:
    """Reads the requests of one client."""

    channel: str
    """The ``type`` of its first message."""

    def __init__(self, polymarket: Polymarket, subscriber: Subscriber) -> None:
        self._polymarket: Final = polymarket
        self._subscriber: Final = subscriber
        self._settings: Final = polymarket.server.settings

    def on_message(self, text: str | None) -> None:
        """Handle a message; close the connection if it cannot be done."""
        if not is_request(self._subscriber, self._settings, text):
            return
        try:
            request = read_request(text)
            if str(request.get("type", self.channel)).lower() != self.channel:
                raise wrong("type", f"must be {self.channel} on this path", request["type"])
            operation = request.get("operation", SUBSCRIBE)
            if operation not in (SUBSCRIBE, UNSUBSCRIBE):
                raise wrong("operation", f"must be {SUBSCRIBE} or {UNSUBSCRIBE}", operation)
            self._handle(request, is_start=operation == SUBSCRIBE)
        except ClobError as error:
            self._subscriber.close(POLICY, f"{error.code}: {text_of(error)}")

    def _handle(self, request: dict[str, Any], *, is_start: bool) -> None:
        """Start or end subscriptions.

        Raises:
            ClobError: the request cannot be done.
        """
        raise NotImplementedError

    def _check_limit(self, count: int) -> None:
        """Raise TOO_MANY_SUBSCRIPTIONS if a connection may not have so many."""
        limit = self._settings.ws_subscriptions_max
        if count > limit:
            raise ApiError(
                "TOO_MANY_SUBSCRIPTIONS", f"a connection can have at most {limit} subscriptions"
            )


class MarketSession(ChannelSession):
    """Requests on the market channel."""

    channel = "market"

    def __init__(
        self, polymarket: Polymarket, subscriber: Subscriber, channel: MarketChannel
    ) -> None:
        super().__init__(polymarket, subscriber)
        self._channel: Final = channel
        self._followed: dict[str, set[str]] = {}
        """The tokens that the client follows, by market id."""

    def _handle(self, request: dict[str, Any], *, is_start: bool) -> None:
        """Start or end subscriptions to tokens."""
        index, asked = self._polymarket.markets, dict[str, set[str]]()
        for text in read_texts(request, "assets_ids"):
            token = index.token(text)
            asked.setdefault(token.market, set()).add(token.token)
        if is_start:
            self._check_limit(len(self._followed.keys() | asked.keys()))
        for market, tokens in asked.items():
            before = self._followed.get(market, set())
            self._follow(market, before | tokens if is_start else before - tokens)
        self._subscriber.catch_up()

    def _follow(self, market: str, tokens: set[str]) -> None:
        """Follow these tokens of a market and no others."""
        name = ("market", market, "")
        if not tokens:
            self._followed.pop(market, None)
            self._subscriber.remove(name)
            return
        self._followed[market] = tokens
        only = next(iter(tokens)) if len(tokens) == 1 else None
        subscription = TokenSubscription(self._subscriber, self._channel, market, only)
        self._subscriber.replace(name, subscription)


class UserSession(ChannelSession):
    """Requests on the user channel."""

    channel = "user"

    def __init__(
        self, polymarket: Polymarket, subscriber: Subscriber, channel: WalletChannel
    ) -> None:
        super().__init__(polymarket, subscriber)
        self._channel: Final = channel
        self._credentials: Credentials | None = None
        self._markets: frozenset[str] | None = frozenset()
        """The markets that the client follows; None is all."""

    def _handle(self, request: dict[str, Any], *, is_start: bool) -> None:
        """Start or end the subscription to a wallet in some markets, or in all if none is named."""
        if "auth" in request or self._credentials is None:
            self._credentials = self._signed_in(request.get("auth"))
        index = self._polymarket.markets
        asked = frozenset(index.market(text).id for text in read_texts(request, "markets"))
        before = self._markets
        if not asked:
            self._markets = None if is_start else frozenset()
        elif is_start:
            self._markets = asked | (before or frozenset())
        elif before is not None:
            self._markets = before - asked
        else:
            raise wrong("markets", "must be empty to end a subscription to all markets", [*asked])
        self._check_limit(len(self._markets or ()))
        name = ("user", "", "")
        self._subscriber.remove(name)
        if self._markets is None or self._markets:
            subscription = WalletSubscription(
                self._subscriber, self._channel, self._credentials, self._markets
            )
            self._subscriber.replace(name, subscription)

    def _signed_in(self, auth: object) -> Credentials:
        """Return the credentials of a wallet.

        Raises:
            ApiError: API_KEY_REQUIRED, a field is missing; INVALID_API_KEY.
        """
        values = [auth.get(name) if type(auth) is dict else None for name in TEXTS]
        if not all(type(value) is str and value for value in values):
            rule = f"auth must have {', '.join(TEXTS)} of the wallet's credentials"
            raise ApiError("API_KEY_REQUIRED", rule)
        key, secret, passphrase = map(str, values)
        found = self._polymarket.credentials.find(key, passphrase)
        if found is None or not hmac.compare_digest(found.secret.encode(), secret.encode()):
            raise ApiError("INVALID_API_KEY", "auth has no active credentials of a wallet")
        return found


def read_request(text: str | None) -> dict[str, Any]:
    """Read a message of a client, None if it is binary.

    Raises:
        ApiError: INVALID_JSON; INVALID_FIELD, it is no object.
    """
    try:
        request = msgspec.json.decode(text or "")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise not_json("the message", text, error) from None
    if type(request) is not dict:
        rule = f"the message must be a JSON object; got {kind_of(request)}"
        raise ApiError("INVALID_FIELD", rule)
    return request


def read_texts(request: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts in a request; an absent one is empty.

    Raises:
        ApiError: INVALID_FIELD.
    """
    values = request.get(name) or []
    if type(values) is not list or not all(type(each) is str for each in values):
        raise wrong(name, "must be an array of texts", values)
    return values
