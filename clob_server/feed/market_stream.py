"""What happened in each market, kept for as long as somebody may want to go on from there."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from clob import (
    AddMarket,
    OrderAdded,
    OrderRecord,
    OrderReduced,
    OrderRemoved,
    RejectedError,
    SetMarket,
    Trade,
)
from clob_server.core.sequencer import Committed
from clob_server.core.serialize import orderbook_body
from clob_server.feed.broadcast import Group
from clob_server.feed.event_messages import Happening, Opened, RemovedOrder, frame_of, mirrored
from clob_server.feed.messages import LevelsData, Orderbook

if TYPE_CHECKING:
    from clob_server.core.state import ServerState


MARKETS_KEPT: Final = 20
"""Of all markets together so many times what one may have is kept; of more, the market in which
nothing has happened for longest is forgotten."""


class MarketStream:
    """A market, as those see it who follow it.

    Args:
        market: its id.
        seq: the number of its last event.
        changed_ms: when that was.
        is_named: if both of its tokens have a name.
        kept_max: how many events are kept.
        tokens: YES and NO, where orders for both meet; what happens in one book does in the other.
    """

    __slots__ = ("changed_ms", "groups", "is_named", "kept", "market", "seq", "tokens")

    def __init__(
        self,
        market: str,
        seq: int,
        changed_ms: int,
        *,
        is_named: bool,
        kept_max: int,
        tokens: tuple[str, str] | None = None,
    ) -> None:
        self.market: Final = market
        self.tokens: Final = tokens
        self.seq: int = seq
        self.changed_ms: int = changed_ms
        self.is_named: bool = is_named
        self.kept: Final[deque[Happening]] = deque(maxlen=kept_max)
        self.groups: Final[dict[tuple[bool, str | None], Group]] = {}

    def since(self, seq: int, count: int) -> list[Happening] | None:
        """Give the next events after one of them, so many at most; None where some are gone."""
        missing = self.seq - seq
        if not 0 <= missing <= len(self.kept):
            return None
        start = len(self.kept) - missing
        return list(islice(self.kept, start, start + count))

    def group(self, *, extended: bool, token: str | None) -> Group:
        """Give those who are told the same."""
        found = self.groups.get((extended, token))
        if found is None:
            found = self.groups[extended, token] = Group(extended=extended, token=token)
        return found


News: TypeAlias = dict[MarketStream, list[Happening]]
"""What is new, by market."""


class Streams:
    """All markets, and the orders that rest in them.

    Args:
        exchange: where it happens, at the moment from which on every batch is heard of.
        kept_max: how many events of a market are kept.
        records: all orders that rest; None asks for them.
    """

    def __init__(
        self,
        exchange: "ServerState",
        kept_max: int,
        records: Iterable[OrderRecord] | None = None,
    ) -> None:
        self._exchange = exchange
        self._kept_max = kept_max
        self._num_kept = 0
        self._streams: dict[str, MarketStream] = {}
        self._resting: dict[str | int, RemovedOrder] = {
            record.order.id: RemovedOrder(record.order.side, record.price, record.remaining)
            for record in (exchange.matcher.open_orders() if records is None else records)
        }

    def __iter__(self) -> Iterator[MarketStream]:
        """Go through the markets of which something is known here."""
        return iter(self._streams.values())

    def stream(self, market: str) -> MarketStream:
        """Give a market.

        Raises:
            UnknownMarketError: there is no such market.
        """
        return self._streams.get(market) or self._follow(market)

    def hear(self, batch: Sequence[Committed]) -> News:
        """Take in what a batch led to. About 1 us an event."""
        news: News = {}
        for done in batch:
            if isinstance(done.outcome, RejectedError):
                continue
            if isinstance(done.command, (AddMarket, SetMarket)):
                self._open(done.command, news)
            if done.outcome:
                self._take(done, news)
        for stream, happenings in news.items():
            self._keep(stream, happenings)
        return news

    def _follow(self, market: str) -> MarketStream:
        """Begin with a market as it is now."""
        matcher = self._exchange.matcher
        terms = matcher.market(market)
        made = self._streams[market] = MarketStream(
            market,
            matcher.seq(market),
            self._exchange.changed_ms.get(market, 0),
            is_named=bool(terms.no),
            kept_max=self._kept_max,
            tokens=(terms.yes, terms.no) if terms.complementary else None,
        )
        return made

    def _take(self, done: Committed, news: News) -> None:
        """Take in the events of a command."""
        assert not isinstance(done.outcome, RejectedError)
        now_ms, number, resting = done.command.now_ms, done.num_trades, self._resting
        traded = 0
        for event in done.outcome:
            if type(event) is OrderAdded:
                resting[event.order_id] = RemovedOrder(event.side, event.price, event.remaining)
                happening = Happening(event, now_ms)
            elif isinstance(event, Trade):
                number += 1
                order = resting[event.resting_order_id]
                order.remaining = event.resting_remaining
                happening = Happening(event, now_ms, number, order)
            elif type(event) is OrderRemoved:
                happening = Happening(event, now_ms, 0, resting.pop(event.order_id))
            elif type(event) is OrderReduced:
                order = resting[event.order_id]
                happening = Happening(event, now_ms, 0, order, order.remaining)
                order.remaining = event.remaining
            else:  # a refusal within a batch
                continue
            stream = self._streams.get(event.market) or self._follow(event.market)
            stream.seq = event.seq
            stream.changed_ms = now_ms
            if stream.tokens:
                mirror = mirrored(happening, stream.tokens, traded)
                happening = msgspec.structs.replace(happening, mirror=mirror)
                traded = event.size if type(event) is Trade else 0
            told = news.get(stream)
            if told is None:
                told = news[stream] = []
            told.append(happening)

    def _open(self, command: AddMarket | SetMarket, news: News) -> None:
        """Tell of books that are there from now on, and empty."""
        market, stream = command.market, self._streams.get(command.market.id)
        if type(command) is AddMarket:
            stream = self._follow(market.id)
            stream.seq, stream.changed_ms = 0, 0
            tokens = [market.yes, market.no] if market.no else [market.yes]
        elif stream is None or stream.is_named:  # nobody follows it, or nothing was named
            return
        else:
            tokens = [market.no] if market.no else []
        stream.is_named = bool(market.no)
        if not tokens:
            return
        news.setdefault(stream, []).extend(
            Happening(Opened(stream.seq, market.id, token, stream.changed_ms), command.now_ms)
            for token in tokens
        )

    def _keep(self, stream: MarketStream, happenings: list[Happening]) -> None:
        """Keep events for those who come back."""
        kept, before = stream.kept, len(stream.kept)
        kept.extend([each for each in happenings if type(each.event) is not Opened])
        self._num_kept += len(kept) - before
        most = MARKETS_KEPT * self._kept_max
        if self._num_kept > most:
            for each in sorted(self._streams.values(), key=lambda each: each.changed_ms):
                if self._num_kept <= most * 9 // 10:
                    break
                self._num_kept -= len(each.kept)
                each.kept.clear()


class Snapshots:
    """The books of an exchange, as frames.

    Args:
        exchange: whose books.
    """

    def __init__(self, exchange: "ServerState") -> None:
        self._exchange = exchange
        self._kept: dict[tuple[str, str], tuple[int, bytes]] = {}

    def frames(self, market: str, token: str | None) -> bytes:
        """Write the books of a market as they are now, YES first, or one of them.

        Raises:
            UnknownMarketError: there is no such market.
            TokenNotInMarketError: the market has no such token.
        """
        terms = self._exchange.matcher.market(market)
        if token is not None:
            return self._frame(market, token)
        return b"".join(self._frame(market, each) for each in (terms.yes, terms.no) if each)

    def _frame(self, market: str, token: str) -> bytes:
        """Write one book."""
        matcher = self._exchange.matcher
        seq = matcher.seq(market)
        kept = self._kept.get((market, token))
        if kept is not None and kept[0] == seq:
            return kept[1]
        changed_ms = self._exchange.changed_ms.get(market, 0)
        body = orderbook_body(market, matcher.depth(market, token), changed_ms)
        message = Orderbook(
            market_id=market,
            token_id=token,
            seq=seq,
            timestamp=changed_ms,
            data=LevelsData(bids=body.bids, asks=body.asks, last_update=changed_ms),
        )
        frame = frame_of(message)
        self._kept[market, token] = seq, frame
        return frame


# MERGED clob_server.feed.market_stream: Snapshots of books, written once for as long as nothing changes in the market.
