"""Recent events of each market, kept for clients that resume, and snapshots of its books."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

from clob import (
    AddMarket,
    Market,
    OrderAdded,
    OrderRecord,
    OrderReduced,
    OrderRemoved,
    Rejected,
    RejectedError,
    RemoveMarket,
    SetMarket,
    Trade,
)
from clob.wire.messages import BookChecksum, LevelsData, Orderbook
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import orderbook_body
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import Group
from clob_server.feed.event_messages import (
    BookOpened,
    BookOrder,
    FeedEvent,
    message_frame,
    mirror_event,
)

MARKETS_KEPT: Final = 20
"""Limit of stored events of all markets, in multiples of the limit of one market. Beyond it the
markets without events for the longest time lose theirs."""

EVENTS_MAX: Final = 1_000
"""Events of one command that are sent one by one. After a command with more, each subscriber of its
markets gets a snapshot of the book instead."""


class MarketStream:
    """Events and subscriptions of one market."""

    __slots__ = ("changed_ms", "groups", "is_named", "kept", "market", "seq", "tokens")

    kept: Sequence[FeedEvent]
    """The newest events, oldest first."""

    def __init__(self, terms: Market, seq: int, changed_ms: int) -> None:
        self.market: Final = terms.id
        self.tokens: Final = (terms.yes, terms.no) if terms.complementary else None
        """YES and NO of a complementary market, where an event changes both books; else None."""
        self.seq: int = seq
        """Number of the last event."""
        self.changed_ms: int = changed_ms
        """Time of that event, Unix milliseconds."""
        self.is_named: bool = bool(terms.no)
        """Whether both tokens have an id."""
        self.kept = ()
        self.groups: Final[dict[tuple[bool, str | None], Group]] = {}

    def events_after(self, seq: int, count: int) -> list[FeedEvent] | None:
        """Return up to ``count`` events after ``seq``; None if some are no longer stored."""
        missing = self.seq - seq
        if not 0 <= missing <= len(self.kept):
            return None
        start = len(self.kept) - missing
        return list(islice(self.kept, start, start + count))

    def group(self, *, extended: bool, token: str | None) -> Group:
        """Return the group of a kind of subscription."""
        group = self.groups.get((extended, token))
        if group is None:
            group = self.groups[extended, token] = Group(extended=extended, token=token)
        return group

    def end_deliveries(self) -> None:
        """Send later events separately from those that are queued."""
        for group in self.groups.values():
            group.last = None


NewEvents: TypeAlias = dict[MarketStream, list[FeedEvent]]
"""Events of a batch by market."""


class MarketStreams:
    """Events of all markets.

    Args:
        state: the server's state; from now on :meth:`on_batch` must receive every batch.
    """

    def __init__(self, state: ServerState, kept_max: int) -> None:
        self._state = state
        self._kept_max = kept_max
        self._num_kept = 0
        # The streams with stored events, the one without events for the longest time first.
        self._storing: dict[MarketStream, deque[FeedEvent]] = {}
        self._streams: dict[str, MarketStream] = {}
        self.conflated: Final[set[MarketStream]] = set()
        """Markets of the last call of :meth:`on_batch` with more events than are sent."""
        self._removed: list[MarketStream] = []
        self._orders: dict[str | int, BookOrder] = {}
        state.follow_orders(self._add_order)

    def __iter__(self) -> Iterator[MarketStream]:
        """Iterate over the markets with events or subscriptions."""
        return iter(self._streams.values())

    def _add_order(self, record: OrderRecord) -> None:
        self._orders[record.order.id] = BookOrder(record.order.side, record.price, record.remaining)

    def stream(self, market: str) -> MarketStream:
        """Return the stream of a market.

        Raises:
            UnknownMarketError: the market does not exist.
        """
        return self._streams.get(market) or self._add_stream(market)

    def on_batch(self, batch: Sequence[Committed]) -> NewEvents:
        """Store the events of a batch and return them; about 1 us per event.

        Markets in :attr:`conflated` need snapshots instead.
        """
        new: NewEvents = {}
        self.conflated.clear()
        for done in batch:
            if isinstance(done.outcome, RejectedError):
                continue
            if isinstance(done.command, (AddMarket, SetMarket)):
                self._open_books(done.command, batch, new)
            if len(done.outcome) > EVENTS_MAX:
                self._skip_events(done, new)
            elif done.outcome:
                self._add_events(done, new)
            elif type(done.command) is RemoveMarket:
                self._remove_stream(done.command.market)
        for stream, events in new.items():
            self._store(stream, events)
        return new

    def _add_stream(self, market: str) -> MarketStream:
        matcher, changed_ms = self._state.matcher, self._state.changed_ms.get(market, 0)
        terms, seq = matcher.market(market), matcher.seq(market)
        stream = self._streams[market] = MarketStream(terms, seq, changed_ms)
        return stream

    def take_removed(self) -> list[MarketStream]:
        """Return the streams of markets that were removed since the last call."""
        removed, self._removed = self._removed, []
        return removed

    def _remove_stream(self, market: str) -> None:
        stream = self._streams.pop(market, None)
        if stream is not None:
            self._forget(stream)
            self._removed.append(stream)

    def _add_events(self, done: Committed, new: NewEvents) -> None:
        """Add the events of a command, each with the resting order it changed."""
        assert not isinstance(done.outcome, RejectedError)
        now_ms, number, orders = done.command.now_ms, done.num_trades, self._orders
        traded = 0
        for event in done.outcome:
            if type(event) is OrderAdded:
                orders[event.order_id] = BookOrder(event.side, event.price, event.remaining)
                happened = FeedEvent(event, now_ms)
            elif isinstance(event, Trade):
                number += 1
                order = orders[event.resting_order_id]
                order.remaining = event.resting_remaining
                happened = FeedEvent(event, now_ms, number, order)
            elif type(event) is OrderRemoved:
                happened = FeedEvent(event, now_ms, 0, orders.pop(event.order_id))
            elif type(event) is OrderReduced:
                order = orders[event.order_id]
                happened = FeedEvent(event, now_ms, 0, order, order.remaining)
                order.remaining = event.remaining
            else:  # a rejection within a batch
                continue
            stream = self._streams.get(event.market) or self._add_stream(event.market)
            stream.seq = event.seq
            stream.changed_ms = now_ms
            if stream.tokens:
                mirror = mirror_event(happened, stream.tokens, traded)
                happened = msgspec.structs.replace(happened, mirror=mirror)
                traded = event.size if type(event) is Trade else 0
            events = new.get(stream)
            if events is None:
                events = new[stream] = []
            events.append(happened)

    def _skip_events(self, done: Committed, new: NewEvents) -> None:
        """Follow a command without keeping its events; no client can resume before it."""
        orders, now_ms, last = self._orders, done.command.now_ms, {}
        assert not isinstance(done.outcome, RejectedError)
        for event in done.outcome:
            if type(event) is OrderAdded:
                orders[event.order_id] = BookOrder(event.side, event.price, event.remaining)
            elif isinstance(event, Trade):
                orders[event.resting_order_id].remaining = event.resting_remaining
            elif type(event) is OrderRemoved:
                del orders[event.order_id]
            elif type(event) is OrderReduced:
                orders[event.order_id].remaining = event.remaining
            else:  # a rejection within a batch
                continue
            last[event.market] = event.seq
        for market, seq in last.items():
            stream = self._streams.get(market) or self._add_stream(market)
            stream.seq, stream.changed_ms = seq, now_ms
            self._forget(stream)
            new.pop(stream, None)
            self.conflated.add(stream)

    def _open_books(
        self, command: AddMarket | SetMarket, batch: Sequence[Committed], new: NewEvents
    ) -> None:
        """Add empty books: of a new market, or of a token that got its id later."""
        market, stream = command.market, self._streams.get(command.market.id)
        if type(command) is AddMarket:
            stream = self._add_stream(market.id)
            stream.seq, stream.changed_ms = seq_before(market.id, batch, stream.seq), 0
            tokens = [market.yes, market.no] if market.no else [market.yes]
        elif stream is None or stream.is_named:  # no subscriptions, or both books exist
            return
        else:
            tokens = [market.no] if market.no else []
        stream.is_named = bool(market.no)
        if not tokens:
            return
        new.setdefault(stream, []).extend(
            FeedEvent(BookOpened(stream.seq, market.id, token, stream.changed_ms), command.now_ms)
            for token in tokens
        )

    def _store(self, stream: MarketStream, events: list[FeedEvent]) -> None:
        """Keep events for clients that resume, and drop those of quiet markets if too many."""
        events = [each for each in events if type(each.event) is not BookOpened]
        if not events:
            return
        kept = self._storing.pop(stream, None)
        if kept is None:
            kept = stream.kept = deque(maxlen=self._kept_max)
        self._storing[stream] = kept
        num_before = len(kept)
        kept.extend(events)
        self._num_kept += len(kept) - num_before
        limit = MARKETS_KEPT * self._kept_max
        if self._num_kept > limit:
            while self._num_kept > limit * 9 // 10:
                self._forget(next(iter(self._storing)))

    def _forget(self, stream: MarketStream) -> None:
        """Drop the stored events of a market."""
        self._storing.pop(stream, None)
        self._num_kept -= len(stream.kept)
        stream.kept = ()


def seq_before(market: str, batch: Sequence[Committed], seq: int) -> int:
    """Return the number before a market's first event in a batch, after which it is ``seq``."""
    for done in batch:
        if not isinstance(done.outcome, RejectedError):
            for event in done.outcome:
                if not isinstance(event, Rejected) and event.market == market:
                    return event.seq - 1
    return seq


class BookSnapshot(NamedTuple):
    """A snapshot of a book as a frame."""

    seq: int
    """Number of the last event of its market."""
    frame: bytes
    checksum: int


class BookSnapshots:
    """Book snapshots as frames, cached until the market's next event."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._cache: dict[str, dict[str, BookSnapshot]] = {}

    def frames(self, market: str, token: str | None) -> bytes:
        """Return snapshots of both books of a market, YES first, or of one of them.

        Raises:
            UnknownMarketError: the market does not exist.
            TokenNotInMarketError: the token is not in the market.
        """
        tokens = self._tokens(market, token)
        return b"".join([self._snapshot(market, each).frame for each in tokens])

    def checksums(self, market: str, token: str | None) -> list[BookChecksum]:
        """Return the checksums of both books of a market, YES first, or of one of them.

        Raises:
            UnknownMarketError: the market does not exist.
            TokenNotInMarketError: the token is not in the market.
        """
        tokens = self._tokens(market, token)
        return [
            BookChecksum(token_id=each, checksum=self._snapshot(market, each).checksum)
            for each in tokens
        ]

    def drop(self, market: str) -> None:
        """Drop the snapshots of a market that was removed."""
        self._cache.pop(market, None)

    def _tokens(self, market: str, token: str | None) -> list[str]:
        """Return the tokens of a market that have a book, YES first, or the given one."""
        terms = self._state.matcher.market(market)
        return [each for each in (terms.yes, terms.no) if each] if token is None else [token]

    def _snapshot(self, market: str, token: str) -> BookSnapshot:
        matcher = self._state.matcher
        seq = matcher.seq(market)
        cached = self._cache.get(market, {}).get(token)
        if cached is not None and cached.seq == seq:
            return cached
        changed_ms = self._state.changed_ms.get(market, 0)
        body = orderbook_body(market, matcher.depth(market, token), changed_ms)
        message = Orderbook(
            market_id=market,
            token_id=token,
            seq=seq,
            timestamp=changed_ms,
            data=LevelsData(
                bids=body.bids, asks=body.asks, last_update=changed_ms, checksum=body.checksum
            ),
        )
        snapshot = BookSnapshot(seq, message_frame(message), body.checksum)
        self._cache.setdefault(market, {})[token] = snapshot
        return snapshot
