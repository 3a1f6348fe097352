"""What happened in a market, kept as it is until somebody has to be told, and then written once."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, structs

import clob
from clob import Event, RemovalReason, Side
from clob_server.core.serialize import trade_body
from clob_server.core.settlement_status import NONE, PENDING, Fate, StatusChange
from clob_server.feed import messages
from clob_server.feed.messages import encode
from clob_server.transport import text_frame

if TYPE_CHECKING:
    from clob_server.core.ids import Ids

REDUCED: Final = "reduced"
"""Why a plain subscriber sees an order removed that became smaller."""


class RemovedOrder(msgspec.Struct, gc=False):
    """What a removal does not say of an order in a book."""

    side: Side
    """Which way it trades."""
    price: int
    """Its limit, in cents."""
    remaining: int
    """What is left of it, in wei."""


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A token of a market got its name, and its book is empty."""

    seq: int
    """The number of the last event before it; it has none of its own."""
    market: str
    """The market."""
    token: str
    """The token."""
    changed_ms: int
    """When the market last had an event, Unix milliseconds; 0 where it never had one."""


class Happening(msgspec.Struct, frozen=True, gc=False):
    """An event, with what is needed to tell of it later."""

    event: Event | Opened
    """The event."""
    now_ms: int
    """When, Unix milliseconds."""
    number: int = 0
    """Of a trade, which of all trades it is, counted from 1."""
    order: RemovedOrder | None = None
    """Of a removal or a reduction, the order."""
    before: int = 0
    """Of a reduction, what was left of the order before, in wei."""
    mirror: "Happening | None" = None
    """The same as the book of the other token has it, where both tokens meet and that changes."""


Frames: TypeAlias = bytes
"""Frames of a WebSocket, one after the other."""


def mirrored(happening: Happening, tokens: tuple[str, str], traded: int) -> Happening | None:
    """Give what happened to the book of the other token, where orders for both meet.

    Args:
        happening: what happened; not the opening of a book.
        tokens: YES and NO.
        traded: what was traded in the event before, if that was a direct trade: it is told in the
            book of its token only, and here with the removal that follows where nothing was left.

    Returns:
        What happened; None where that is told by itself, as of a mint, or comes with the next.
    """
    event, order = happening.event, happening.order
    assert not isinstance(event, Opened)
    other = tokens[event.token == tokens[0]]
    if isinstance(event, clob.PairedTrade) or (
        isinstance(event, clob.Trade) and not event.resting_remaining
    ):
        return None
    if isinstance(event, clob.OrderAdded):
        side, price = Side(1 - event.side), 100 - event.price
        turned = structs.replace(event, token=other, side=side, price=price)
        return Happening(turned, happening.now_ms)
    assert order is not None
    seen, before = RemovedOrder(Side(1 - order.side), 100 - order.price, 0), happening.before
    changed: Event
    if isinstance(event, clob.Trade):
        order_id, left = event.resting_order_id, event.resting_remaining
        changed = clob.OrderReduced(event.seq, event.market, other, order_id, left)
        before = left + event.size
    elif isinstance(event, clob.OrderRemoved) and event.reason is RemovalReason.FILLED:
        changed = structs.replace(event, token=other, remaining=traded)
    else:
        changed = structs.replace(event, token=other)
    return Happening(changed, happening.now_ms, 0, seen, before)


class Writer:
    """Writes what happened as frames.

    Args:
        ids: names trades.
        settles: the markets whose trades settle on a chain.
    """

    def __init__(self, ids: "Ids", settles: Collection[str] = ()) -> None:
        self._ids = ids
        self._settles = settles

    def frames(self, happening: Happening, *, extended: bool) -> Frames:
        """Write what a subscriber is told; about 3 us.

        Args:
            happening: what happened.
            extended: if the subscriber understands ``order_reduced``.
        """
        frames = self._frames(happening, extended=extended)
        if happening.mirror is not None:
            frames += self._frames(happening.mirror, extended=extended)
        return frames

    def _frames(self, happening: Happening, *, extended: bool) -> Frames:
        """Write what happened in one book."""
        event = happening.event
        if type(event) is clob.OrderAdded:
            message = added(event, happening.now_ms, event.side, event.price)
        elif type(event) is clob.OrderRemoved:
            message = removed(event, happening, event.reason, event.remaining)
        elif isinstance(event, clob.Trade):
            message = self._trade(event, happening)
        elif type(event) is clob.OrderReduced:
            return reduced(event, happening, extended=extended)
        else:
            assert isinstance(event, Opened)
            message = empty(event, happening.now_ms)
        return frame_of(message)

    def _trade(self, event: clob.Trade, happening: Happening) -> messages.Message:
        """Tell of a trade, which waits for its settlement then, if it settles."""
        now_ms = happening.now_ms
        fate = PENDING if event.market in self._settles else NONE
        body = trade_body(event, self._ids.trade(now_ms, happening.number), now_ms, fate)
        data = messages.TradeData(
            **structs.asdict(body),
            resting_remaining=str(event.resting_remaining),
            incoming_remaining=str(event.incoming_remaining),
        )
        return messages.TradeMessage(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )


class EncodedEvents:
    """What happened in a market, each of it written once for all who are told the same.

    Args:
        writer: who writes it.
        happenings: what happened.
    """

    def __init__(self, writer: Writer, happenings: Sequence[Happening]) -> None:
        self._writer = writer
        self._happenings = happenings
        self._plain: list[Frames] = []
        self._extended: list[Frames] = []

    def frames(self, *, extended: bool) -> list[Frames]:
        """Give the frames of each event; only a reduction is told in two ways."""
        write = self._writer.frames
        if not self._plain:
            self._plain = [write(each, extended=False) for each in self._happenings]
        if extended and not self._extended:
            self._extended = [
                write(each, extended=True) if reduces(each) else frames
                for each, frames in zip(self._happenings, self._plain, strict=True)
            ]
        return self._extended if extended else self._plain


def reduces(happening: Happening) -> bool:
    """Say whether an order became smaller in one of the books."""
    mirror = happening.mirror
    return type(happening.event) is clob.OrderReduced or (
        mirror is not None and type(mirror.event) is clob.OrderReduced
    )


def heard(happening: Happening, token: str | None) -> Happening | None:
    """Give what those hear of it who follow the book of a token, or of both; None is nothing."""
    if token is None or (happening.event.token == token and happening.mirror is None):
        return happening
    if happening.event.token == token:
        return structs.replace(happening, mirror=None)
    mirror = happening.mirror
    return mirror if mirror is not None and mirror.event.token == token else None


def frame_of(message: messages.Message) -> Frames:
    """Make the frame of a message."""
    return text_frame(encode(message))


def added(
    event: clob.OrderAdded | clob.OrderReduced, now_ms: int, side: Side, price: int
) -> messages.Message:
    """Tell of an order that rests."""
    data = messages.AddedData(
        order_id=str(event.order_id), side=side, price=price, size=str(event.remaining)
    )
    return messages.OrderAddedMessage(
        market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
    )


def removed(
    event: clob.OrderRemoved | clob.OrderReduced,
    happening: Happening,
    reason: RemovalReason | str,
    left: int,
) -> messages.Message:
    """Tell of an order that rests no longer."""
    order = happening.order
    assert order is not None
    data = messages.RemovedData(
        order_id=str(event.order_id),
        side=order.side,
        price=order.price,
        size=str(left),
        reason=reason,
    )
    return messages.OrderRemovedMessage(
        market_id=event.market,
        token_id=event.token,
        seq=event.seq,
        timestamp=happening.now_ms,
        data=data,
    )


def reduced(event: clob.OrderReduced, happening: Happening, *, extended: bool) -> Frames:
    """Tell of an order that became smaller: one message, or two for those who know four types."""
    order, now_ms = happening.order, happening.now_ms
    assert order is not None
    if not extended:
        gone = removed(event, happening, REDUCED, happening.before)
        return frame_of(gone) + frame_of(added(event, now_ms, order.side, order.price))
    data = messages.ReducedData(
        order_id=str(event.order_id),
        side=order.side,
        price=order.price,
        size=str(event.remaining),
        reduced_by=str(happening.before - event.remaining),
    )
    return frame_of(
        messages.OrderReducedMessage(
            market_id=event.market, token_id=event.token, seq=event.seq, timestamp=now_ms, data=data
        )
    )


def empty(event: Opened, now_ms: int) -> messages.Message:
    """Tell of a book in which nothing has been yet."""
    return messages.Orderbook(
        market_id=event.market,
        token_id=event.token,
        seq=event.seq,
        timestamp=now_ms,
        data=messages.LevelsData(bids=[], asks=[], last_update=event.changed_ms),
    )


# ----- settlement ----------------------------------------------------------------------------


class TradeStatus(NamedTuple):
    """A trade, and how its settlement stands from now on."""

    trade_id: str
    """The trade."""
    market: str
    """Its market."""
    token: str
    """Its token."""
    seq: int
    """Its number in its market."""
    match_type: clob.MatchType
    """How its orders met."""
    buyer: str
    """The maker of the buying order; empty in a merge."""
    seller: str
    """The maker of the selling order; empty in a mint."""
    fate: Fate
    """How it stands."""
    now_ms: int
    """Since when, Unix milliseconds."""


def standings(changes: Sequence[StatusChange], ids: "Ids") -> Iterator[TradeStatus]:
    """Give the trades that stand differently; of a mint or a merge there are two."""
    for held, fate, now_ms in changes:
        for half in held.halves:
            if len(held.halves) == 1:
                kind = clob.MatchType.DIRECT
            else:
                kind = clob.MatchType.MERGE if half.seller else clob.MatchType.MINT
            yield TradeStatus(
                ids.trade(held.traded_ms, half.number),
                held.market,
                half.token,
                half.seq,
                kind,
                half.buyer,
                half.seller,
                fate,
                now_ms,
            )


def standing_frame(standing: TradeStatus, channel: Literal["settlement", "user"]) -> Frames:
    """Write how a trade stands; about 3 us."""
    settlement, tx_hash, reason = standing.fate
    data = messages.SettlementData(
        trade_id=standing.trade_id,
        match_type=standing.match_type.value,
        settlement=settlement,
        tx_hash=tx_hash,
        buyer=standing.buyer,
        seller=standing.seller,
        reason=reason or UNSET,
    )
    return frame_of(
        messages.SettlementMessage(
            channel=channel,
            market_id=standing.market,
            token_id=standing.token,
            seq=standing.seq,
            timestamp=standing.now_ms,
            data=data,
        )
    )
