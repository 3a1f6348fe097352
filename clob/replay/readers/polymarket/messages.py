"""Parses single messages of Polymarket's market channel: books, changes, trades, resolutions."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from clob.replay.io.json_lines import Message
from clob.replay.io.text import received
from clob.replay.readers import side_of, unix_time_ns

SIZE_PLACES = 6
"""Decimal places of sizes: a lot is a millionth of a token."""

SIDES = {"buy": 0, "sell": 1}
"""The side of each word."""

KINDS = ("book", "price_change", "last_trade_price", "tick_size_change", "market_resolved")
"""The messages that change a book."""

WRAPPERS = ("payload", "data", "message", "msg", "raw")
"""Keys under which recorders store a message."""

ALIASES = (("bids", "buys"), ("asks", "sells"))
"""Current and former names of the sides of a book."""


class PolymarketBook(NamedTuple):
    """The complete book of an outcome."""

    ts_ns: int
    market: str
    asset: str
    levels: dict[tuple[int, str], str]
    """Sizes by side and price, both as text."""


class PolymarketChange(NamedTuple):
    """The new size of a level, and the best bid and ask if they are stated; numbers are text."""

    asset: str
    side: int
    """0 buy, 1 sell."""
    price: str
    size: str
    bests: tuple[str | None, str | None]


class ChangeMessage(NamedTuple):
    """Levels that changed, possibly of both outcomes."""

    ts_ns: int
    market: str
    changes: list[PolymarketChange]


class TradeMessage(NamedTuple):
    """A trade, with the side of the incoming order."""

    ts_ns: int
    market: str
    asset: str
    side: int
    price: str
    size: str


class TickMessage(NamedTuple):
    """A change of the tick size."""

    ts_ns: int
    market: str
    tick: str


class EndMessage(NamedTuple):
    """The resolution of a market, with the winning token."""

    ts_ns: int
    market: str
    winner: str


AnyMessage: TypeAlias = PolymarketBook | ChangeMessage | TradeMessage | TickMessage | EndMessage
"""A message that changes a book; ``market`` is its condition, ``asset`` the token of an outcome."""

NumberedMessage: TypeAlias = tuple[int, AnyMessage]
"""The number of a line and a message in it."""


def unwrapped(message: Message) -> Iterator[Message]:
    """Yield the message in the wrapper of a recorder, or several if it holds an array."""
    if "event_type" not in message and "market" not in message:
        for name in WRAPPERS:
            inner = message.get(name)
            if isinstance(inner, dict | list):
                parts = inner if isinstance(inner, list) else [inner]
                yield from (each for each in parts if isinstance(each, dict))
                return
    yield message


def read_message(message: Message) -> AnyMessage | None:
    """Parse a message; return None if it does not change a book.

    Raises:
        ValueError: a field is malformed.
        LookupError: a field is missing.
    """
    kind = message.get("event_type") or _kind(message)
    if kind not in KINDS:
        return None
    ts_ns, market = unix_time_ns(message["timestamp"]), str(message["market"])
    if kind == "book":
        levels = _levels(message)
        return PolymarketBook(ts_ns, market, str(message["asset_id"]), levels)
    if kind == "price_change":
        return ChangeMessage(ts_ns, market, list(_changes(message)))
    if kind == "last_trade_price":
        side = side_of(SIDES, "side", message["side"])
        price, size = _text(message["price"]), _text(message["size"])
        return TradeMessage(ts_ns, market, str(message["asset_id"]), side, price, size)
    if kind == "tick_size_change":
        return TickMessage(ts_ns, market, _text(message["new_tick_size"]))
    return EndMessage(ts_ns, market, str(message["winning_asset_id"]))


def _kind(message: Message) -> str:
    """Return the type of a message without ``event_type``, derived from its keys."""
    if "price_changes" in message or "changes" in message:
        return "price_change"
    if any(name in message for names in ALIASES for name in names):
        return "book"
    return "last_trade_price" if {"asset_id", "price", "size"} <= message.keys() else ""


def _text(value: Any) -> str:
    """Return a number as text; JSON integers are accepted as well."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected a number, got {received(value)}")
    return str(value)


def _levels(message: Message) -> dict[tuple[int, str], str]:
    levels = {}
    for side, names in enumerate(ALIASES):
        rows = next((message[name] for name in names if name in message), None)
        if rows is None:
            raise LookupError(f"a book must have {names[0]!r}")
        for row in rows:
            levels[side, _text(row["price"])] = _text(row["size"])
    return levels


def _changes(message: Message) -> Iterator[PolymarketChange]:
    """Parse the levels of a change message, in its current and two former layouts."""
    rows = message.get("price_changes", message.get("changes"))
    for row in [message] if rows is None else rows:
        bid, ask = (_text(row[k]) if row.get(k) else None for k in ("best_bid", "best_ask"))
        asset = str(row["asset_id"] if "asset_id" in row else message["asset_id"])
        side = side_of(SIDES, "side", row["side"])
        price, size = _text(row["price"]), _text(row["size"])
        yield PolymarketChange(asset, side, price, size, (bid, ask))
