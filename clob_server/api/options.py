"""Options of an order besides its signed fields."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from clob import SelfTrade, TimeInForce
from clob.units import TIME_MAX
from clob_server.api.faults import fault, wrong

MARKET_ID_MAX: Final = 64
"""Longest market id, in characters."""
CLIENT_ID_MAX: Final = 64
"""Longest client order id, in characters."""
MIN_SIZE_WEI: Final = 10**16
"""Smallest order of a market that names no other: 0.01 token."""
EXPIRATION_MAX_S: Final = 10**11
"""Later Unix seconds, from the year 5138 on, are meant in another unit."""
OPTIONAL: Final = frozenset(("timeInForce", "postOnly", "selfTrade", "clientOrderId", "deadlineMs"))
"""The names of the options besides ``marketId``."""

_SECONDS_MIN: Final = 10**9
"""Unix seconds of 2001."""
_MARKET_ID: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")
_Word = TypeVar("_Word", TimeInForce, SelfTrade)


class OrderOptions(msgspec.Struct, frozen=True, gc=False):
    """Options of an order."""

    market: str
    time_in_force: TimeInForce = TimeInForce.GTC
    """Handling of the size that does not trade immediately."""
    post_only: bool = False
    """Reject the order if it would trade immediately."""
    self_trade: SelfTrade | None = None
    """Self-trade policy; None for the market's."""
    client_id: str | None = None
    deadline_ms: int | None = None
    """Reject the order after this Unix millisecond."""


def read_options(body: Mapping[str, Any]) -> OrderOptions:
    """Parse ``marketId`` and the :data:`OPTIONAL` options; ``null`` counts as absent.

    Raises:
        ApiError: INVALID_FIELD, for the first invalid field.
    """
    get, market = body.get, market_id(body.get("marketId"))
    if OPTIONAL.isdisjoint(body):  # most orders
        return OrderOptions(market)
    tif = word("timeInForce", get("timeInForce"), TimeInForce) or TimeInForce.GTC
    post_only, client_id, deadline_ms = get("postOnly"), get("clientOrderId"), get("deadlineMs")
    if post_only is not None and type(post_only) is not bool:
        raise wrong("postOnly", "must be true or false", post_only)
    policy = word("selfTrade", get("selfTrade"), SelfTrade)
    if client_id is not None and not is_client_id(client_id):
        rule = f"must be 1 to {CLIENT_ID_MAX} printable characters"
        raise wrong("clientOrderId", rule, client_id)
    is_int = type(deadline_ms) is int
    if deadline_ms is not None and not (is_int and 0 <= deadline_ms <= TIME_MAX):
        raise wrong("deadlineMs", "must be Unix milliseconds, an integer", deadline_ms)
    if deadline_ms is not None:
        check_milliseconds("deadlineMs", deadline_ms)
    return OrderOptions(market, tif, bool(post_only), policy, client_id, deadline_ms)


def check_milliseconds(path: str, time_ms: int) -> None:
    """Reject a time in seconds where milliseconds are expected.

    Raises:
        ApiError: INVALID_FIELD, with the milliseconds.
    """
    if _SECONDS_MIN <= time_ms < EXPIRATION_MAX_S:
        hint = f"{time_ms}, which is seconds; in milliseconds it is {time_ms}000"
        raise fault(path, f"{path} must be Unix milliseconds; got {hint}")


def check_expiration(expiration_s: int) -> None:
    """Reject an expiration in a finer unit than seconds.

    Raises:
        ApiError: INVALID_FIELD, with the unit and the seconds.
    """
    if expiration_s < EXPIRATION_MAX_S:
        return
    text = f"expiration must be Unix seconds, below {EXPIRATION_MAX_S}; got {expiration_s}"
    for unit, factor in (("milli", 10**3), ("micro", 10**6), ("nano", 10**9)):
        if expiration_s < EXPIRATION_MAX_S * factor:
            seconds = expiration_s // factor
            raise fault("expiration", f"{text}, probably {unit}seconds: {seconds} in seconds")
    raise fault("expiration", f"{text}; 0 or absent is no expiration")


def market_id(value: object) -> str:
    """Parse a market id: 1 to 64 characters of ``[A-Za-z0-9._:-]`` (decision 25).

    Raises:
        ApiError: INVALID_FIELD; also for ``.`` and ``..``, which clients remove from paths.
    """
    name = known_market_id(value)
    if name in (".", ".."):
        rule = "must not be . or .., which clients remove from paths"
        raise wrong("marketId", rule, value)
    return name


def known_market_id(value: object) -> str:
    """Parse the id of a market in a path; logs of older versions have ``.`` and ``..`` as well.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if type(value) is str and 0 < len(value) <= MARKET_ID_MAX and _MARKET_ID.issuperset(value):
        return value
    raise wrong("marketId", f"must be 1 to {MARKET_ID_MAX} of A-Z a-z 0-9 . _ : -", value)


def is_client_id(value: object) -> bool:
    """Return whether a value is a valid client order id."""
    return type(value) is str and 0 < len(value) <= CLIENT_ID_MAX and value.isprintable()


def word(path: str, value: object, kind: type[_Word]) -> _Word | None:
    """Parse a member of an enumeration; None counts as absent."""
    if value is None:
        return None
    if type(value) is str and value in kind.__members__:
        return kind[value]
    raise wrong(path, f"must be one of {', '.join(kind.__members__)}", value)
