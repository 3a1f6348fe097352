"""Reads single messages of Polymarket's market channel: books, changes, trades, the end."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from clob.replay.io.text import time_ns, units
from clob.replay.readers.kalshi import Message

MS_NS = 10**6
SECOND_NS = 10**9

MS_LEAST = 10**11
"""A time below this is of seconds, as very old dumps have them."""

SIZE_PLACES = 6
"""Sizes have up to six digits behind the point: a lot is a millionth of a token."""

SIDES = {"BUY": 0, "SELL": 1}
"""The words for sides."""

WRAPPERS = ("payload", "data", "message", "msg", "raw")
"""Where recorders put a message that they add something to."""

ALIASES = (("bids", "buys"), ("asks", "sells"))
"""What the sides of a book are called, now and formerly."""


class PolymarketBook(NamedTuple):
    """The whole book of an outcome."""

    ts_ns: int
    """When, in ns."""
    market: str
    """The condition."""
    asset: str
    """The token of the outcome."""
    levels: dict[tuple[int, str], str]
    """Sizes by side and price, both as written."""


class LevelChange(NamedTuple):
    """One level of a message of changes."""

    asset: str
    """The token of the outcome."""
    side: int
    """0 buy, 1 sell."""
    price: str
    """As written."""
    size: str
    """What there is now, as written."""
    bests: tuple[str | None, str | None]
    """The best bid and offer that are stated with it, as written; None where there is none."""


class ChangeMessage(NamedTuple):
    """Levels that changed."""

    ts_ns: int
    """When, in ns."""
    market: str
    """The condition."""
    changes: list[LevelChange]
    """The levels, of both outcomes perhaps."""


class TradeMessage(NamedTuple):
    """A trade."""

    ts_ns: int
    """When, in ns."""
    market: str
    """The condition."""
    asset: str
    """The token of the outcome."""
    side: int
    """The side of the incoming order."""
    price: str
    """As written."""
    size: str
    """As written."""


class TickMessage(NamedTuple):
    """Another tick size."""

    ts_ns: int
    """When, in ns."""
    market: str
    """The condition."""
    tick: str
    """The tick from now on, as written."""


class EndMessage(NamedTuple):
    """A market that was resolved."""

    ts_ns: int
    """When, in ns."""
    market: str
    """The condition."""
    winner: str
    """The token that won."""


AnyMessage: TypeAlias = PolymarketBook | ChangeMessage | TradeMessage | TickMessage | EndMessage
"""A message that says something of a book."""


def unwrapped(message: Message) -> Iterator[Message]:
    """Take a message out of what a recorder put around it.

    Args:
        message: an object of the dump.

    Yields:
        The message; several where an array of them was wrapped.
    """
    if "event_type" not in message and "market" not in message:
        for name in WRAPPERS:
            inner = message.get(name)
            if isinstance(inner, dict | list):
                found = inner if isinstance(inner, list) else [inner]
                yield from (each for each in found if isinstance(each, dict))
                return
    yield message


def read_message(message: Message) -> AnyMessage | None:
    """Read a message.

    Args:
        message: the object.

    Returns:
        What it says; None where that is nothing of a book.

    Raises:
        ValueError: something in it cannot be read.
        LookupError: something is missing.
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
    """Tell what a message without a name is."""
    if "price_changes" in message or "changes" in message:
        return "price_change"
    if any(name in message for names in ALIASES for name in names):
        return "book"
    return "last_trade_price" if {"asset_id", "price", "size"} <= message.keys() else ""


def _ts_ns(text: Any) -> int:
    """Read a time."""
    time = units(text, 0)
    return time_ns(time, MS_NS if time >= MS_LEAST else SECOND_NS)


def _text(value: Any) -> str:
    """Give a number as it is written; JSON numbers are taken, too."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is no number")
    return str(value)


def _levels(message: Message) -> dict[tuple[int, str], str]:
    """Read the levels of a book."""
    found = {}
    for side, names in enumerate(ALIASES):
        rows = next((message[name] for name in names if name in message), None)
        if rows is None:
            raise LookupError(f"a book without {names[0]}")
        for row in rows:
            found[side, _text(row["price"])] = _text(row["size"])
    return found


def _changes(message: Message) -> Iterator[LevelChange]:
    """Read the levels of a message of changes, in its newer form, its older and its oldest."""
    rows = message.get("price_changes", message.get("changes"))
    for row in [message] if rows is None else rows:
        bests = tuple(
            _text(row[name]) if row.get(name) else None for name in ("best_bid", "best_ask")
        )
        yield LevelChange(
            str(row["asset_id"] if "asset_id" in row else message["asset_id"]),
            SIDES[row["side"].upper()],
            _text(row["price"]),
            _text(row["size"]),
            (bests[0], bests[1]),
        )
