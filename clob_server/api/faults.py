"""Fields of requests: missing, invalid, or unknown, with the known name that is nearest."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import Any, Final

from clob import TimeInForce
from clob.signing import ZERO_ADDRESS
from clob.signing.fields import received
from clob.signing.signed_struct import read_address
from clob_server.api.problems import ApiError, Fault

NAME_MAX: Final = 64
"""Longest name that is compared with the known ones, and longest part of a name in a message."""
FAULTS_MAX: Final = 10
"""Unknown fields that one error lists."""

_ALIASES: Final = {
    "timeInForce": "tif orderType type orderKind duration validity",
    "size": "qty quantity amount shares volume contracts count sizeWei",
    "price": "limitPrice cents priceCents px",
    "tokenId": "token asset assetId outcome outcomeTokenId positionId",
    "marketId": "market symbol marketSlug slug conditionId instrument",
    "clientOrderId": "clientId clOrdId cloid externalId userOrderId orderLinkId",
    "expiration": "expiry expires expiresAt expirationTime expireTime validUntil goodTillDate",
    "feeRateBps": "fee feeRate feeBps fees makerFee takerFee",
    "maker": "owner wallet address user trader account funder from walletAddress",
    "user": "owner wallet address maker account to walletAddress",
    "selfTrade": "stp selfTradePrevention selfTradeMode",
    "deadlineMs": "deadline recvWindow validUntilMs",
    "signature": "sig",
    "side": "buySell direction isBuy",
    "postOnly": "makerOnly addLiquidityOnly",
    "signatureType": "sigType",
    "orderId": "id hash orderHash",
    "channel": "channels topic stream",
    "limit": "count pageSize perPage size",
    "cursor": "offset page after before nextCursor",
    "timestamp": "ts time timestampMs",
}
"""Names of other interfaces by the name that this interface has for the same."""
LIMIT_ORDERS: Final = (
    "every order is a limit order; a market order is one at price 99 (buy) or 1 (sell), "
    'for example with "timeInForce": "IOC"'
)


def wrong(path: str, rule: str, value: object) -> ApiError:
    """Return the error of an invalid field."""
    if value is None:
        return missing(path, rule)
    return fault(path, f"{path} {rule}; got {received(value)}")


def missing(path: str, rule: str = "") -> ApiError:
    """Return the error of a missing field."""
    return fault(path, f"{path} is missing; it {rule}" if rule else f"{path} is missing")


def fault(path: str, text: str, code: str = "INVALID_FIELD") -> ApiError:
    """Return an error about one field."""
    return ApiError(code, text, faults=(Fault(path, text),))


def present(path: str, value: Any, rule: str) -> Any:
    """Return the value of a required field; None is missing."""
    if value is None:
        raise missing(path, rule)
    return value


def read_wallet(path: str, value: object) -> str:
    """Read the address of a wallet, required, and return it checksummed.

    Raises:
        ApiError: INVALID_FIELD, it is missing; INVALID_ADDRESS, it is the zero address.
        InvalidAddressError: it is not an address.
    """
    return check_wallet(
        path, read_address(path, present(path, value, "must be 0x and 40 hex digits"))
    )


def check_wallet(path: str, address: str) -> str:
    """Return an address unless it is the zero address, for which no wallet can act."""
    if address == ZERO_ADDRESS:
        rule = f"{path} must be the address of a wallet; got the zero address, which has no key"
        raise fault(path, rule, "INVALID_ADDRESS")
    return address


# ----- unknown names -------------------------------------------------------------------------


def check_names(
    given: Mapping[str, Any], known: AbstractSet[str], *, within: str = "", kind: str = "field"
) -> None:
    """Reject the names that are not known.

    Args:
        given: a JSON object, or the parameters of a query.
        known: the known names.
        within: path of the object, with a dot at its end; empty for a whole body.
        kind: the noun in the message.

    Raises:
        ApiError: INVALID_FIELD, with the nearest known name of each unknown one.
    """
    if given.keys() <= known:
        return
    unknown = [name for name in given if name not in known][:FAULTS_MAX]
    faults = [
        Fault(within + name[:NAME_MAX], _unknown(within, name, given[name], known, kind))
        for name in unknown
    ]
    raise ApiError("INVALID_FIELD", faults[0].message, faults=faults)


def _unknown(within: str, name: str, value: object, known: AbstractSet[str], kind: str) -> str:
    """Describe an unknown name."""
    text = f"unknown {kind} {received(within + name[:NAME_MAX])}"
    if type(value) is dict and not known.isdisjoint(value):
        return f"{text}; its fields belong to {within.rstrip('.') or 'the body'} itself"
    other = nearest(name, known)
    if other is None:
        return f"{text}; expected {one_of(known) if known else 'none'}"
    if other == "timeInForce" and type(value) is str:
        word = value.upper()
        if word in ("LIMIT", "MARKET"):
            return f"{text}: {LIMIT_ORDERS}"
        if word in TimeInForce.__members__ or word == "FAK":
            word = "IOC" if word == "FAK" else word
            return f'{text}; did you mean "timeInForce": "{word}"?'
    return f"{text}; did you mean {other}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is meant by an unknown one, if that can be guessed.

    >>> nearest("time_in_force", {"timeInForce", "side"}), nearest("qty", {"size"})
    ('timeInForce', 'size')
    """
    plain = _plain(name[:NAME_MAX])
    by_plain = {_plain(each): each for each in sorted(known)}
    if plain not in by_plain:
        for each, aliases in _ALIASES.items():
            if each in by_plain.values() and plain in aliases.lower().split():
                return each
    close = get_close_matches(plain, by_plain, 1, 0.7)
    return by_plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def one_of(known: Iterable[str]) -> str:
    """Return names for a message, as a choice."""
    *first, last = sorted(known)
    return f"{', '.join(first)} or {last}" if first else last
