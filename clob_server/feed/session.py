"""What a client asks for on a WebSocket, and what he is told about it.

Who said that he understands more than the specification's messages is told what was wrong. Nobody
else can be told: he is closed with 1008, unless he only named a market too early.
"""

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from clob import ClobError
from clob.errors import TokenNotInMarketError, UnknownMarketError
from clob.signing import fields
from clob_server.api.options import market_id
from clob_server.api.problems import ApiError, Fault
from clob_server.feed.messages import POLICY, Error, Id, Pong, Subscribed, Unsubscribed
from clob_server.feed.settlement_channel import Scope, SettlementSubscription
from clob_server.feed.subscriber import BookSubscription, Name, Subscriber
from clob_server.feed.user_channel import UserSubscription
from clob_server.settings import NO_CHAIN
from clob_server.transport import text_frame

if TYPE_CHECKING:
    from clob_server.feed.feed import Feed


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Whatever a client says."""

    extended: bool = False
    """If he understands more than the four messages of the specification."""
    id: Id | None = None
    """What he calls it; the answer has it, too."""


class Resume(msgspec.Struct, frozen=True):
    """Where a client was."""

    seq: int
    """The number of the last event he has."""


class Subscribe(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="subscribe"):
    """Tell me what happens."""

    channel: Literal["orderbook", "user", "settlement"]
    """Of which kind."""
    market_id: str | None = None
    """In which market; needed for a book, and all of them where a maker is named without it."""
    token_id: str | int | None = None
    """In which book, decimal or hexadecimal; left out, both."""
    maker: str | None = None
    """Whose orders, or the settlement of whose trades; all of them where it is left out for a
    market."""
    resume: Resume | None = None
    """Where to go on."""


class Unsubscribe(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="unsubscribe"):
    """Tell me no more."""

    channel: Literal["orderbook", "user", "settlement"]
    """Of which kind."""
    market_id: str | None = None
    """In which market."""
    maker: str | None = None
    """Whose orders, or trades."""


class Ping(ClientRequest, frozen=True, kw_only=True, rename="camel", tag="ping"):
    """Are you there?"""


Request: TypeAlias = Subscribe | Unsubscribe | Ping
"""What a client may say."""


class Heard(NamedTuple):
    """What a client said, as far as it can be understood."""

    request: Request | None
    """What he wants; None where it cannot be told."""
    error: ApiError | None
    """Why not."""
    extended: bool
    """If he says that he understands more than the specification's messages."""
    id: Id | None
    """What he calls it."""


def read(text: str) -> Heard:
    """Read a message of a client.

    Args:
        text: what he sent.
    """
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Heard(
            None, ApiError("INVALID_JSON", f"the message is not JSON: {error}"), False, None
        )
    if type(raw) is not dict:
        problem = ApiError("INVALID_FIELD", "the message must be a JSON object")
        return Heard(None, problem, False, None)
    extended, given = raw.get("extended") is True, id_of(raw)
    try:
        return Heard(msgspec.convert(raw, Request), None, extended, given)
    except (msgspec.ValidationError, RecursionError) as error:
        return Heard(None, ApiError("INVALID_FIELD", str(error)), extended, given)


def id_of(raw: dict[str, Any]) -> Id | None:
    """Give what a client calls a message that may be wrong otherwise."""
    given = raw.get("id")
    return given if type(given) in (str, int) else None


def token_id(given: str | int) -> str:
    """Read a token, decimal or hexadecimal, and give its decimal digits.

    Raises:
        InvalidFieldError: it is neither, or 2**256 or more.
    """
    if isinstance(given, str) and fields.HEX.fullmatch(given):
        given = int(given, 16)
    return str(fields.uint("tokenId", given))


def wanting(name: str) -> ApiError:
    """Refuse a request that lacks a field."""
    rule = "must be given"
    return ApiError("INVALID_FIELD", f"{name} {rule}", faults=(Fault(name, rule),))


PING: Final = "PING"
"""What some clients send as it is, to hear if anybody is there."""
PONG: Final = text_frame(b"PONG")
"""The answer."""


class Conversation:
    """What is said on one WebSocket.

    Args:
        feed: what it is about.
        subscriber: the client.
    """

    def __init__(self, feed: "Feed", subscriber: Subscriber) -> None:
        self._feed = feed
        self._subscriber = subscriber

    def hear(self, text: str | None) -> None:
        """Take a message.

        Args:
            text: what the client sent; None where it was no text.
        """
        subscriber = self._subscriber
        if not subscriber.may_say(self._feed.time()):
            most = self._feed.settings.ws_messages_per_minute
            subscriber.end(POLICY, f"RATE_LIMITED: more than {most} messages a minute")
            return
        if text == PING:
            subscriber.push(PONG)
            return
        heard = read(text or "")
        subscriber.extended = subscriber.extended or heard.extended
        try:
            if heard.error is not None:
                raise heard.error
            assert heard.request is not None
            self._answer(heard.request)
        except ClobError as error:
            self._refuse(error, heard.id)

    def _refuse(self, error: ClobError, given: Id | None) -> None:
        """Tell what was wrong, to those who can be told."""
        if self._subscriber.extended:
            self._subscriber.say(Error(code=error.code, message=str(error), id=unset(given)))
        else:
            self._subscriber.end(POLICY, f"{error.code}: {error}")

    def _answer(self, request: Request) -> None:
        """Do what is asked.

        Raises:
            ClobError: it is refused, and nothing changed.
        """
        if isinstance(request, Ping):
            self._subscriber.say(Pong(id=unset(request.id)))
        elif isinstance(request, Unsubscribe):
            self._unsubscribe(request)
        elif request.channel == "orderbook":
            self._subscribe_book(request)
        elif request.channel == "user":
            self._subscribe_user(request)
        else:
            self._subscribe_settlement(request)

    # ----- subscribing -----------------------------------------------------------------------

    def _check_room(self, name: Name) -> None:
        """Refuse a subscription too many.

        Raises:
            ApiError: TOO_MANY_SUBSCRIPTIONS.
        """
        most, subscriptions = (
            self._feed.settings.ws_subscriptions_max,
            self._subscriber.subscriptions,
        )
        if len(subscriptions) >= most and name not in subscriptions:
            raise ApiError(
                "TOO_MANY_SUBSCRIPTIONS", f"there are {most} subscriptions, and no more are allowed"
            )

    def _subscribe_book(self, request: Subscribe) -> None:
        """Begin to tell what happens in a market.

        Raises:
            ApiError: INVALID_FIELD, TOO_MANY_SUBSCRIPTIONS.
            UnknownMarketError: there is no such market; to those alone who can be told.
            TokenNotInMarketError: the market has no such token.
        """
        feed, subscriber = self._feed, self._subscriber
        market = market_id(request.market_id)
        token = None if request.token_id is None else token_id(request.token_id)
        name = ("orderbook", market, "")
        self._check_room(name)
        made = BookSubscription(feed, subscriber, market, token, extended=request.extended)
        try:
            terms = feed.exchange.matcher.market(market)
        except UnknownMarketError:
            if subscriber.extended:
                raise
            subscriber.remove(name)
            subscriber.add(name, made)
            feed.wait_for_market(made)
            return
        if token not in (None, terms.yes, terms.no):
            raise TokenNotInMarketError(f"market {market!r} has no token {token}")
        subscriber.remove(name)
        subscriber.add(name, made)
        stream = feed.streams.stream(market)
        resumed = made.follow(stream, request.resume.seq if request.resume else None)
        if request.extended:
            self._confirm(request, market, token, stream.seq, resumed=resumed)
        subscriber.catch_up()

    def _subscribe_user(self, request: Subscribe) -> None:
        """Begin to tell what becomes of a maker's orders.

        Raises:
            ApiError: INVALID_FIELD, TOO_MANY_SUBSCRIPTIONS, API_KEY_REQUIRED, SCOPE_MISSING,
                MAKER_NOT_ALLOWED.
            InvalidAddressError: the maker is none.
            UnknownMarketError: there is no such market.
            TooManyOrdersError: he has more open orders than can be told at once.
        """
        feed, subscriber = self._feed, self._subscriber
        market, maker = scope_of(request)
        assert maker is not None
        feed.guard.may_follow(subscriber.key, "user", maker)
        name = ("user", market or "", maker)
        self._check_room(name)
        made = UserSubscription(feed.users, subscriber, maker, market, extended=request.extended)
        orders = feed.users.join(made, feed.clock_ms(), feed.time())
        subscriber.remove(name)
        subscriber.add(name, made)
        if request.extended:
            self._confirm(request, market, None, orders.seq, resumed=False)
        subscriber.say(orders)

    def _subscribe_settlement(self, request: Subscribe) -> None:
        """Begin to tell how trades of a market, or of a maker, stand.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED, INVALID_FIELD, TOO_MANY_SUBSCRIPTIONS.
            InvalidAddressError: the maker is none.
            UnknownMarketError: there is no such market.
        """
        feed, subscriber = self._feed, self._subscriber
        if feed.settings.chain_source == NO_CHAIN:
            raise ApiError("CHAIN_NOT_CONFIGURED", "there is no chain here, and nothing settles")
        market, maker = scope = scope_of(request)
        seq = None if market is None else feed.exchange.matcher.seq(market)
        name = ("settlement", market or "", maker or "")
        self._check_room(name)
        made = SettlementSubscription(
            feed.settlements, subscriber, scope, extended=request.extended
        )
        subscriber.remove(name)
        subscriber.add(name, made)
        feed.settlements.join(made, feed.time())
        if request.extended:
            self._confirm(request, market, None, seq, resumed=False)

    def _confirm(
        self,
        request: Subscribe,
        market: str | None,
        token: str | None,
        seq: int | None,
        *,
        resumed: bool,
    ) -> None:
        """Tell that a subscription was made."""
        self._subscriber.say(
            Subscribed(
                channel=request.channel,
                market_id=market,
                token_id=token,
                seq=seq,
                timestamp=self._feed.clock_ms(),
                resumed=resumed,
                id=unset(request.id),
            )
        )

    def _unsubscribe(self, request: Unsubscribe) -> None:
        """Tell no more of something; if nothing was told of it, that is as good.

        Raises:
            ApiError: INVALID_FIELD.
            InvalidAddressError: the maker is none.
        """
        if request.channel == "orderbook":
            scope: Scope = market_id(request.market_id), None
        else:
            scope = scope_of(request)
        market, maker = scope
        self._subscriber.remove((request.channel, market or "", maker or ""))
        if request.extended or self._subscriber.extended:
            self._subscriber.say(
                Unsubscribed(
                    channel=request.channel,
                    market_id=request.market_id,
                    timestamp=self._feed.clock_ms(),
                    id=unset(request.id),
                )
            )


def scope_of(request: Subscribe | Unsubscribe) -> Scope:
    """Read of which market and maker somebody wants to hear, beside the book.

    Raises:
        ApiError: INVALID_FIELD, he says neither, or no maker whose orders he wants to hear of.
        InvalidAddressError: the maker is none.
    """
    if request.maker is None and (request.channel == "user" or request.market_id is None):
        raise wanting("maker" if request.channel == "user" else "marketId or maker")
    market = None if request.market_id is None else market_id(request.market_id)
    maker = None if request.maker is None else fields.address("maker", request.maker)
    return market, maker


def unset(given: Id | None) -> Id | UnsetType:
    """Leave out what a client did not give."""
    return UNSET if given is None else given


# MERGED clob_server.feed.session: What a client says on a WebSocket, read from JSON.
