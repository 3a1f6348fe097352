"""The market channel: books, level changes and trades of tokens, as Polymarket publishes them.

A commit sends its trades, then one ``price_change`` with the sizes after it, then the books that
it traded in. A client that reads slowly skips messages and gets the books once it has caught up.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from clob import OrderAdded, PairedTrade, Side, Trade
from clob.depth import Depth
from clob.wire.messages import RESTART
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.markets import Token
from clob_server.dialects.polymarket.reads import hashed, levels_json
from clob_server.dialects.polymarket.units import WEI, decimal, price_text
from clob_server.feed.broadcast import Broadcaster, Group
from clob_server.feed.event_messages import BookOpened, FeedEvent
from clob_server.feed.market_stream import MarketStream, NewEvents
from clob_server.feed.subscriber import BEHIND, BookSources, BookSubscription, Subscriber
from clob_server.transport.websocket import text_frame

WHOLE: Final = 100
"""The price of YES and NO together, in cents."""


class LevelKey(NamedTuple):
    """A level of a token's book."""

    token: str
    side: Side
    price: int
    """Cents."""


class TokenBook:
    """The book of a token after a commit."""

    def __init__(self, token: Token, depth: Depth, now_ms: int) -> None:
        self.token: Final = token
        self._sizes: Final = tuple(
            {level.price: level.size for level in levels if level.size >= WEI}
            for levels in (depth.bids, depth.asks)
        )
        self._content: Final = hashed(
            {
                "market": token.condition_id,
                "asset_id": token.token,
                "timestamp": str(now_ms),
                "hash": "",
                "bids": levels_json(depth.bids),
                "asks": levels_json(depth.asks),
            }
        )

    def frame(self) -> bytes:
        """Return the ``book`` message."""
        return frame({"event_type": "book", **self._content})

    def change(self, key: LevelKey) -> dict[str, str]:
        """Return an item of ``price_change``."""
        bids, asks = self._sizes
        return {
            "asset_id": key.token,
            "price": price_text(key.price),
            "size": decimal(self._sizes[key.side].get(key.price, 0)),
            "side": key.side.name,
            "hash": self._content["hash"],
            "best_bid": price_text(max(bids, default=0)),
            "best_ask": price_text(min(asks, default=WHOLE)),
        }


class FollowedMarket:
    """A market with subscriptions: to both tokens, or to one of them."""

    def __init__(self, polymarket: Polymarket, stream: MarketStream) -> None:
        self.stream: Final = stream
        self.groups: Final[dict[str | None, Group]] = {}
        """The subscriptions by token; None is both."""
        market = polymarket.server.state.markets[stream.market]
        self.tokens: Final = polymarket.markets.tokens(market)
        """YES and NO."""
        self._state: Final = polymarket.server.state

    def group(self, token: str | None) -> Group:
        """Return the group of the subscriptions to a token, or to both."""
        return self.groups.setdefault(token, Group(extended=False, token=token))

    def books(self, now_ms: int) -> dict[str, TokenBook]:
        """Return the books as they are now, with a time."""
        depth, market = self._state.matcher.depth, self.stream.market
        return {
            each.token: TokenBook(each, depth(market, each.token), now_ms) for each in self.tokens
        }

    def snapshot(self, token: str | None) -> bytes:
        """Return the ``book`` messages of both tokens, YES first, or of one of them.

        Their time is that of the last command, so that times never run backwards.
        """
        books = self.books(self._state.now_ms)
        return b"".join([book.frame() for each, book in books.items() if token in (None, each)])

    def frames(self, events: Sequence[FeedEvent]) -> list[tuple[str | None, bytes]]:
        """Return the messages about events, each with the token that it is about."""
        condition_id, now_ms = self.tokens[0].condition_id, events[-1].now_ms
        common = {"market": condition_id, "timestamp": str(now_ms)}
        found: list[tuple[str | None, bytes]] = [
            (trade.token, frame(trade_message(trade) | common)) for trade in trades_in(events)
        ]
        keys = dict.fromkeys(
            key for event in events for key in changed_levels(event, self.stream.tokens)
        )
        if not keys:
            return []
        books = self.books(now_ms)
        changes = [books[key.token].change(key) for key in keys]
        message = {"event_type": "price_change", "price_changes": changes, **common}
        traded = {key.token for key in keys} if found else ()
        found.append((None, frame(message)))
        return found + [(token, books[token].frame()) for token in books if token in traded]


def frame(message: dict[str, Any]) -> bytes:
    """Return a message as a WebSocket frame."""
    return text_frame(msgspec.json.encode(message))


def trades_in(events: Sequence[FeedEvent]) -> Iterator[Trade]:
    """Yield the trades of at least a millionth of a token, each in the incoming order's token."""
    for happened in events:
        event = happened.event
        is_second = isinstance(event, PairedTrade) and not event.is_incoming
        if isinstance(event, Trade) and not is_second and event.size >= WEI:
            yield event


def trade_message(trade: Trade) -> dict[str, str]:
    """Return ``last_trade_price`` without market and time."""
    return {
        "event_type": "last_trade_price",
        "asset_id": trade.token,
        "price": price_text(trade.price),
        "side": trade.incoming_side.name,
        "size": decimal(trade.size),
        "fee_rate_bps": "0",
    }


def changed_levels(happened: FeedEvent, tokens: tuple[str, str] | None) -> Iterator[LevelKey]:
    """Yield the level of the order that an event changed.

    Args:
        happened: the event.
        tokens: YES and NO of a complementary market, where the other token has a level as well.
    """
    event, order = happened.event, happened.order
    if isinstance(event, BookOpened) or (isinstance(event, PairedTrade) and event.is_incoming):
        return
    if isinstance(event, OrderAdded):
        side, price = event.side, event.price
    else:
        assert order is not None
        side, price = order.side, order.price
    yield LevelKey(event.token, side, price)
    if tokens:
        other = tokens[event.token == tokens[0]]
        yield LevelKey(other, Side(1 - side), WHOLE - price)


class TokenSubscription(BookSubscription):
    """A subscription to the tokens of a market in the messages of this channel."""

    __slots__ = ("_channel", "_followed")

    def __init__(
        self, subscriber: Subscriber, channel: "MarketChannel", market: str, token: str | None
    ) -> None:
        super().__init__(subscriber, market, token, channel.sources, extended=False)
        self._channel: Final = channel
        self._followed: Final = channel.followed(market)
        self._followed.group(token).join(self)
        self._skip()

    def catch_up(self) -> bool:
        """Send the books; return whether the subscription is up to date."""
        self.write(self._followed.snapshot(self.token))
        if self.buffered() > self.soft_bytes:
            return False
        self.seq = self._followed.stream.seq
        self._followed.group(self.token).last = None  # see BookSubscription.catch_up
        return True

    def end(self) -> None:
        """End the subscription."""
        self.seq: int = BEHIND
        self._followed.group(self.token).leave(self)
        self._channel.drop_unused(self._followed)


class MarketChannel:
    """The subscriptions of all clients. The feed hands over the events."""

    def __init__(self, polymarket: Polymarket) -> None:
        self._polymarket: Final = polymarket
        self._followed: Final[dict[str, FollowedMarket]] = {}
        self._broadcaster: Final = Broadcaster()

    @property
    def sources(self) -> BookSources:
        """The sources of the feed."""
        return self._polymarket.server.feed.channels.books

    def followed(self, market: str) -> FollowedMarket:
        """Return a market with its subscriptions."""
        found = self._followed.get(market)
        if found is None:
            stream = self._polymarket.server.feed.channels.streams.stream(market)
            found = self._followed[market] = FollowedMarket(self._polymarket, stream)
        return found

    def drop_unused(self, followed: FollowedMarket) -> None:
        """Forget a market without subscriptions."""
        is_used = any(group.members for group in followed.groups.values())
        if not is_used and self._followed.get(followed.stream.market) is followed:
            del self._followed[followed.stream.market]

    def on_events(self, new: NewEvents, conflated: Collection[MarketStream]) -> None:
        """Queue the messages about the events of a commit."""
        for stream in conflated:
            followed = self._followed.get(stream.market)
            for group in followed.groups.values() if followed else ():
                group.skip_to_snapshot()
        for stream, events in new.items():
            followed = self._followed.get(stream.market)
            if followed is not None and stream not in conflated:
                self._enqueue(followed, events)
        self._broadcaster.flush()

    def _enqueue(self, followed: FollowedMarket, events: Sequence[FeedEvent]) -> None:
        """Queue messages for the groups that they concern."""
        found, first = followed.frames(events), events[0].event
        after = first.seq if isinstance(first, BookOpened) else first.seq - 1
        for token, group in followed.groups.items():
            wanted = [each for about, each in found if token is None or about in (None, token)]
            if group.members and wanted:
                self._broadcaster.enqueue(group, wanted, after)

    def on_market_removed(self, stream: MarketStream) -> None:
        """Close the connections of clients that follow a market that was removed."""
        followed = self._followed.get(stream.market)
        groups = tuple(followed.groups.values()) if followed else ()
        for member in [each for group in groups for each in group.members]:
            assert isinstance(member, TokenSubscription)
            member.subscriber.close(RESTART, f"market {stream.market} was removed")
