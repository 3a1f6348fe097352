"""Recent events of each market, kept for clients that resume, and snapshots of its books."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
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
from clob_server.feed.messages import BookChecksum, LevelsData, Orderbook

MARKETS_KEPT: Final = 20
"""Limit of stored events of all markets, in multiples of the limit of one market. Beyond it the
markets without events for the longest time lose theirs."""

EVENTS_MAX: Final = 1_000
"""Events of one command that are sent one by one. After a command with more, each subscriber of its
markets gets a snapshot of the book instead."""


class MarketStream:
    """Events and subscriptions of one market."""

    __slots__ = ("changed_ms", "groups", "is_named", "kept", "market", "seq", "tokens")

    def __init__(self, terms: Market, seq: int, changed_ms: int, kept_max: int) -> None:
        self.market: Final = terms.id
        self.tokens: Final = (terms.yes, terms.no) if terms.complementary else None
        """YES and NO of a complementary market, where an event changes both books; else None."""
        self.seq: int = seq
        """Number of the last event."""
        self.changed_ms: int = changed_ms
        """Time of that event, Unix milliseconds."""
        self.is_named: bool = bool(terms.no)
        """Whether both tokens have an id."""
        self.kept: Final[deque[FeedEvent]] = deque(maxlen=kept_max)
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
        records: all resting orders; None reads them from the state.
    """

    def __init__(
        self, state: ServerState, kept_max: int, records: Iterable[OrderRecord] | None = None
    ) -> None:
        self._state = state
        self._kept_max = kept_max
        self._num_kept = 0
        self._streams: dict[str, MarketStream] = {}
        self.conflated: Final[set[MarketStream]] = set()
        """Markets of the last call of :meth:`on_batch` with more events than are sent."""
        self._removed: list[MarketStream] = []
        self._orders: dict[str | int, BookOrder] = {
            record.order.id: BookOrder(record.order.side, record.price, record.remaining)
            for record in (state.matcher.open_orders() if records is None else records)
        }

    def __iter__(self) -> Iterator[MarketStream]:
        """Iterate over the markets with events or subscriptions."""
        return iter(self._streams.values())

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
        stream = self._streams[market] = MarketStream(terms, seq, changed_ms, self._kept_max)
        return stream

    def take_removed(self) -> list[MarketStream]:
        """Return the streams of markets that were removed since the last call."""
        removed, self._removed = self._removed, []
        return removed

    def _remove_stream(self, market: str) -> None:
        stream = self._streams.pop(market, None)
        if stream is not None:
            self._num_kept -= len(stream.kept)
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
            self._num_kept -= len(stream.kept)
            stream.kept.clear()
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
        kept, num_before = stream.kept, len(stream.kept)
        kept.extend([each for each in events if type(each.event) is not BookOpened])
        self._num_kept += len(kept) - num_before
        limit = MARKETS_KEPT * self._kept_max
        if self._num_kept > limit:
            for each in sorted(self._streams.values(), key=lambda each: each.changed_ms):
                if self._num_kept <= limit * 9 // 10:
                    break
                self._num_kept -= len(each.kept)
                each.kept.clear()


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
        self._cache: dict[tuple[str, str], BookSnapshot] = {}

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
        for key in [key for key in self._cache if key[0] == market]:
            del self._cache[key]

    def _tokens(self, market: str, token: str | None) -> list[str]:
        """Return the tokens of a market that have a book, YES first, or the given one."""
        terms = self._state.matcher.market(market)
        return [each for each in (terms.yes, terms.no) if each] if token is None else [token]

    def _snapshot(self, market: str, token: str) -> BookSnapshot:
        matcher = self._state.matcher
        seq = matcher.seq(market)
        cached = self._cache.get((market, token))
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
        self._cache[market, token] = snapshot
        return snapshot
