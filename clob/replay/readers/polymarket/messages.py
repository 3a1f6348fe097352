"""Parses single messages of Polymarket's market channel: books, changes, trades, resolutions."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from clob.replay.io.json_lines import Message
from clob.replay.io.text import time_ns, units

MS_NS = 10**6
SECOND_NS = 10**9

MS_LEAST = 10**11
"""A smaller Unix time is in seconds, as in very old dumps."""

SIZE_PLACES = 6
"""Decimal places of sizes: a lot is a millionth of a token."""

SIDES = {"BUY": 0, "SELL": 1}
"""The side of each word."""

WRAPPERS = ("payload", "data", "message", "msg", "raw")
"""Keys under which recorders store a message."""

ALIASES = (("bids", "buys"), ("asks", "sells"))
"""Current and former names of the sides of a book."""


class PolymarketBook(NamedTuple):
    """The complete book of an outcome."""

    ts_ns: int
    """The time, in ns."""
    market: str
    """The condition."""
    asset: str
    """The token of the outcome."""
    levels: dict[tuple[int, str], str]
    """Sizes by side and price, both as text."""


class PolymarketChange(NamedTuple):
    """One level of a change message."""

    asset: str
    """The token of the outcome."""
    side: int
    """0 buy, 1 sell."""
    price: str
    """As text."""
    size: str
    """The new size, as text."""
    bests: tuple[str | None, str | None]
    """The stated best bid and ask, as text; None if not stated."""


class ChangeMessage(NamedTuple):
    """Levels that changed."""

    ts_ns: int
    """The time, in ns."""
    market: str
    """The condition."""
    changes: list[PolymarketChange]
    """The levels, possibly of both outcomes."""


class TradeMessage(NamedTuple):
    """A trade."""

    ts_ns: int
    """The time, in ns."""
    market: str
    """The condition."""
    asset: str
    """The token of the outcome."""
    side: int
    """The side of the incoming order."""
    price: str
    """As text."""
    size: str
    """As text."""


class TickMessage(NamedTuple):
    """A change of the tick size."""

    ts_ns: int
    """The time, in ns."""
    market: str
    """The condition."""
    tick: str
    """The new tick, as text."""


class EndMessage(NamedTuple):
    """The resolution of a market."""

    ts_ns: int
    """The time, in ns."""
    market: str
    """The condition."""
    winner: str
    """The winning token."""


AnyMessage: TypeAlias = PolymarketBook | ChangeMessage | TradeMessage | TickMessage | EndMessage
"""A message that changes a book."""


def unwrapped(message: Message) -> Iterator[Message]:
    """Remove the wrapper that a recorder added to a message.

    Args:
        message: an object of the dump.

    Yields:
        The message, or several if the wrapper holds an array.
    """
    if "event_type" not in message and "market" not in message:
        for name in WRAPPERS:
            inner = message.get(name)
            if isinstance(inner, dict | list):
                parts = inner if isinstance(inner, list) else [inner]
                yield from (each for each in parts if isinstance(each, dict))
                return
    yield message


def read_message(message: Message) -> AnyMessage | None:
    """Parse a message.

    Args:
        message: the object.

    Returns:
        The parsed message, or None if it does not change a book.

    Raises:
        ValueError: a field is malformed.
        LookupError: a field is missing.
    """
    kind = message.get("event_type") or _kind(message)
    if kind not in ("book", "price_change", "last_trade_price", *LAST_KINDS):
        return None
    ts_ns, market = _ts_ns(message["timestamp"]), str(message["market"])
    if kind == "book":
        levels = _levels(message)
        return PolymarketBook(ts_ns, market, str(message["asset_id"]), levels)
    if kind == "price_change":
        return ChangeMessage(ts_ns, market, list(_changes(message)))
    if kind == "last_trade_price":
        side = SIDES[message["side"].upper()]
        price, size = _text(message["price"]), _text(message["size"])
        return TradeMessage(ts_ns, market, str(message["asset_id"]), side, price, size)
    if kind == "tick_size_change":
        return TickMessage(ts_ns, market, _text(message["new_tick_size"]))
    return EndMessage(ts_ns, market, str(message["winning_asset_id"]))


LAST_KINDS = ("tick_size_change", "market_resolved")


def _kind(message: Message) -> str:
    """Return the type of a message without ``event_type``, derived from its keys."""
    if "price_changes" in message or "changes" in message:
        return "price_change"
    if any(name in message for names in ALIASES for name in names):
        return "book"
    return "last_trade_price" if {"asset_id", "price", "size"} <= message.keys() else ""


def _ts_ns(text: Any) -> int:
    """Parse a time."""
    time = units(text, 0)
    return time_ns(time, MS_NS if time >= MS_LEAST else SECOND_NS)


def _text(value: Any) -> str:
    """Return a number as text; JSON integers are accepted as well."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected a number, got {value!r}")
    return str(value)


def _levels(message: Message) -> dict[tuple[int, str], str]:
    """Parse the levels of a book."""
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
        bests = tuple(
            _text(row[name]) if row.get(name) else None for name in ("best_bid", "best_ask")
        )
        yield PolymarketChange(
            str(row["asset_id"] if "asset_id" in row else message["asset_id"]),
            SIDES[row["side"].upper()],
            _text(row["price"]),
            _text(row["size"]),
            (bests[0], bests[1]),
        )
