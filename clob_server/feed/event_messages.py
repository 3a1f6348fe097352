"""Market events as the feed stores them, and their encoding as WebSocket frames.

Events are stored as structs and encoded once, when the first client needs them.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, structs

import clob
from clob import Event, RemovalReason, Side
from clob.wire import messages
from clob.wire.messages import encode
from clob_server.core.ids import Ids
from clob_server.core.serialize import book_checksum, trade_body
from clob_server.core.settlement_status import NONE, PENDING, SettlementStatus, StatusChange
from clob_server.transport.websocket import TEXT, text_frame

REDUCED: Final = "reduced"
"""Removal reason that a plain client receives for a reduced order."""


class BookOrder(msgspec.Struct, gc=False):
    """A resting order: the fields that a removal event does not have."""

    side: Side
    price: int
    """Cents."""
    remaining: int
    """Wei."""


class BookOpened(msgspec.Struct, frozen=True, gc=False):
    """A market opened a book: a token got its id."""

    seq: int
    """Number of the market's last event; this one has no number."""
    market: str
    token: str
    changed_ms: int
    """Time of the market's last event, Unix milliseconds; 0 before the first."""


class FeedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event with everything needed to encode it later."""

    event: Event | BookOpened
    now_ms: int
    """Time of the event, Unix milliseconds."""
    number: int = 0
    """For a trade: its number among the trades of all markets, from 1."""
    order: BookOrder | None = None
    """For a trade, removal or reduction: the resting order."""
    before: int = 0
    """For a reduction: the remaining size before it, in wei."""
    mirror: "FeedEvent | None" = None
    """The same change in the other token's book, in a complementary market."""


_MEDIUM_HEAD: Final = struct.Struct(">BBH")
Frames: TypeAlias = bytes
"""One or more WebSocket frames, concatenated."""


def mirror_event(happened: FeedEvent, tokens: tuple[str, str], traded: int) -> FeedEvent | None:
    """Return the change in the other token's book of a complementary market.

    Args:
        happened: an event other than :class:`BookOpened`.
        tokens: YES and NO.
        traded: size of the preceding event if it was a direct trade, else 0. Such a trade is sent
            in its own token's book only; if it filled the resting order, the mirrored removal
            carries the traded size.

    Returns:
        The mirrored event. None for a mint or merge, which has a trade for each token, and for a
        trade that filled the resting order, whose removal follows.
    """
    event, order = happened.event, happened.order
    assert not isinstance(event, BookOpened)
    other = tokens[event.token == tokens[0]]
    if isinstance(event, clob.PairedTrade) or (
        isinstance(event, clob.Trade) and not event.resting_remaining
    ):
        return None
    if isinstance(event, clob.OrderAdded):
        side, price = Side(1 - event.side), 100 - event.price
        added = structs.replace(event, token=other, side=side, price=price)
        return FeedEvent(added, happened.now_ms)
    assert order is not None
    mirrored, before = BookOrder(Side(1 - order.side), 100 - order.price, 0), happened.before
    changed: Event
    if isinstance(event, clob.Trade):
        order_id, left = event.resting_order_id, event.resting_remaining
        changed = clob.OrderReduced(event.seq, event.market, other, order_id, left)
        before = left + event.size
    elif isinstance(event, clob.OrderRemoved) and event.reason is RemovalReason.FILLED:
        changed = structs.replace(event, token=other, remaining=traded)
    else:
        changed = structs.replace(event, token=other)
    return FeedEvent(changed, happened.now_ms, 0, mirrored, before)


class EventEncoder:
    """Encodes events as frames."""

    def __init__(self, ids: Ids, settles: Collection[str] = ()) -> None:
        self._ids = ids
        self._settles = settles

    def encode(self, happened: FeedEvent, *, extended: bool) -> Frames:
        """Encode an event and its mirror; about 3 us."""
        frames = self._encode(happened, extended=extended)
        if happened.mirror is not None:
            frames += self._encode(happened.mirror, extended=extended)
        return frames

    def _encode(self, happened: FeedEvent, *, extended: bool) -> Frames:
        event = happened.event
        if type(event) is clob.OrderAdded:
            message = added_message(event, happened.now_ms, event.side, event.price)
        elif type(event) is clob.OrderRemoved:
            message = removed_message(event, happened, event.reason, event.remaining)
        elif isinstance(event, clob.Trade):
            message = self._trade(event, happened)
        elif type(event) is clob.OrderReduced:
            return reduced_frames(event, happened, extended=extended)
        else:
            assert isinstance(event, BookOpened)
            message = opened_message(event, happened.now_ms)
        return message_frame(message)

    def _trade(self, event: clob.Trade, happened: FeedEvent) -> messages.Message:
        now_ms = happened.now_ms
        status = PENDING if event.market in self._settles else NONE
        body = trade_body(event, self._ids.trade(now_ms, happened.number), now_ms, status)
        data = messages.TradeData(
            **structs.asdict(body),
            resting_remaining=str(event.resting_remaining),
            incoming_remaining=str(event.incoming_remaining),
        )
        return messages.BookTradeMessage(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )


class EncodedEvents:
    """Events of a market, encoded at most once for each kind of client."""

    def __init__(self, encoder: EventEncoder, events: Sequence[FeedEvent]) -> None:
        self._encoder = encoder
        self._events = events
        self._plain: list[Frames] = []
        self._extended: list[Frames] = []

    def frames(self, *, extended: bool) -> list[Frames]:
        """Return the frames of each event; the two kinds differ only in reductions."""
        encode_event = self._encoder.encode
        if not self._plain:
            self._plain = [encode_event(each, extended=False) for each in self._events]
        if extended and not self._extended:
            self._extended = [
                encode_event(each, extended=True) if has_reduction(each) else frames
                for each, frames in zip(self._events, self._plain, strict=True)
            ]
        return self._extended if extended else self._plain


def has_reduction(happened: FeedEvent) -> bool:
    """Return whether the event or its mirror is a reduction."""
    mirror = happened.mirror
    return type(happened.event) is clob.OrderReduced or (
        mirror is not None and type(mirror.event) is clob.OrderReduced
    )


def for_token(happened: FeedEvent, token: str | None) -> FeedEvent | None:
    """Return the part of an event that concerns a token's book; None if no part does.

    Args:
        happened: the event.
        token: outcome token; None for both, which returns the event unchanged.
    """
    if token is None or (happened.event.token == token and happened.mirror is None):
        return happened
    if happened.event.token == token:
        return structs.replace(happened, mirror=None)
    mirror = happened.mirror
    return mirror if mirror is not None and mirror.event.token == token else None


def message_frame(message: messages.Message) -> Frames:
    """Return the frame of a message."""
    payload = encode(message)
    size = len(payload)
    if 126 <= size < 65_536:  # most messages; the same as text_frame
        return _MEDIUM_HEAD.pack(TEXT, 126, size) + payload
    return text_frame(payload)


def added_message(
    event: clob.OrderAdded | clob.OrderReduced, now_ms: int, side: Side, price: int
) -> messages.Message:
    """Return ``order_added`` for a new order or the remainder of a reduced one."""
    data = messages.AddedData(
        order_id=str(event.order_id), side=side, price=price, size=str(event.remaining)
    )
    return messages.OrderAddedMessage(
        market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
    )


def removed_message(
    event: clob.OrderRemoved | clob.OrderReduced,
    happened: FeedEvent,
    reason: RemovalReason | str,
    size: int,
) -> messages.Message:
    """Return ``order_removed`` with the removed size in wei."""
    order = happened.order
    assert order is not None
    data = messages.RemovedData(
        order_id=str(event.order_id),
        side=order.side,
        price=order.price,
        size=str(size),
        reason=reason,
    )
    return messages.OrderRemovedMessage(
        market_id=event.market,
        token_id=event.token,
        seq=event.seq,
        timestamp=happened.now_ms,
        data=data,
    )


def reduced_frames(event: clob.OrderReduced, happened: FeedEvent, *, extended: bool) -> Frames:
    """Encode a reduction: ``order_reduced``, or a removal and an addition for plain clients."""
    order, now_ms = happened.order, happened.now_ms
    assert order is not None
    if not extended:
        removed = removed_message(event, happened, REDUCED, happened.before)
        added = added_message(event, now_ms, order.side, order.price)
        return message_frame(removed) + message_frame(added)
    data = messages.ReducedData(
        order_id=str(event.order_id),
        side=order.side,
        price=order.price,
        size=str(event.remaining),
        reduced_by=str(happened.before - event.remaining),
    )
    return message_frame(
        messages.OrderReducedMessage(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )
    )


def opened_message(event: BookOpened, now_ms: int) -> messages.Message:
    """Return the empty snapshot of a new book."""
    return messages.Orderbook(
        market_id=event.market,
        token_id=event.token,
        seq=event.seq,
        timestamp=now_ms,
        data=messages.LevelsData(
            bids=[], asks=[], last_update=event.changed_ms, checksum=book_checksum((), ())
        ),
    )


# ----- settlement ----------------------------------------------------------------------------


class TradeStatus(NamedTuple):
    """A trade and its new settlement status."""

    trade_id: str
    market: str
    token: str
    seq: int
    """Event number of the trade in its market."""
    match_type: clob.MatchType
    buyer: str
    """Maker of the buy order; empty in a merge."""
    seller: str
    """Maker of the sell order; empty in a mint."""
    status: SettlementStatus
    now_ms: int
    """Time of the status change, Unix milliseconds."""
    revision: str = ""
    """Reason for which an earlier result was withdrawn."""


def trade_statuses(changes: Sequence[StatusChange], ids: Ids) -> Iterator[TradeStatus]:
    """Yield the trades of status changes: two for a mint or merge."""
    for held, status, now_ms, revision, _ in changes:
        for half in held.halves:
            if len(held.halves) == 1:
                match_type = clob.MatchType.DIRECT
            else:
                match_type = clob.MatchType.MERGE if half.seller else clob.MatchType.MINT
            yield TradeStatus(
                ids.trade(held.traded_ms, half.number),
                held.market,
                half.token,
                half.seq,
                match_type,
                half.buyer,
                half.seller,
                status,
                now_ms,
                revision,
            )


def status_frame(trade: TradeStatus, channel: Literal["settlement", "user"]) -> Frames:
    """Encode the settlement status of a trade; about 3 us."""
    settlement, tx_hash, reason, is_final = trade.status
    data = messages.SettlementData(
        trade_id=trade.trade_id,
        match_type=trade.match_type.value,
        settlement=settlement,
        tx_hash=tx_hash,
        buyer=trade.buyer,
        seller=trade.seller,
        reason=reason or UNSET,
        final=is_final,
        revision=trade.revision or UNSET,
    )
    return message_frame(
        messages.SettlementMessage(
            channel=channel,
            market_id=trade.market,
            token_id=trade.token,
            seq=trade.seq,
            timestamp=trade.now_ms,
            data=data,
        )
    )
