"""Precedence of rejections: of two broken rules the first one is named."""

from typing import Any

from clob.order import Side
from clob.testing.conformance.checks import check
from clob.testing.conformance.session import CheckSession, expect_rejected
from clob.testing.conformance.subjects.reject import LONG_AGO
from clob.testing.conformance.wallet import ONE

PAGE = "concepts/orders-over-http.md"
HTTP = "reference/http.md"
FORGED = "0x" + "11" * 64 + "1b"
"""A signature of another wallet: well-formed, and recoverable or not."""


def first(
    session: CheckSession, changes: dict[str, Any], code: str, path: str | None = None
) -> None:
    """Send a signed order with several broken rules; expect the first code."""
    wallet, market = session.wallet(), session.market()
    expect_rejected(session.create(wallet, wallet.order(market) | changes), code, path)


@check(PAGE, "fields: unknown ones; the signed ones in the sequence of the struct")
def unknown_fields_before_known(session: CheckSession) -> None:
    """An unknown field comes before an invalid address."""
    first(session, {"colour": 1, "maker": "me"}, "INVALID_FIELD", "colour")


@check(PAGE, "fields: unknown ones; the signed ones in the sequence of the struct")
def fields_in_the_sequence_of_the_struct(session: CheckSession) -> None:
    """The salt comes before the maker, and the maker before the token."""
    first(session, {"salt": 1.5, "maker": "me"}, "INVALID_FIELD", "salt")
    first(session, {"maker": "me", "tokenId": "x"}, "INVALID_ADDRESS", "maker")


@check(PAGE, "`marketId`, `timeInForce`, `postOnly`, `selfTrade`, `clientOrderId` and `deadlineMs`")
def options_after_signed_fields(session: CheckSession) -> None:
    """The signature comes before the options."""
    first(session, {"signature": 5, "timeInForce": "NOW"}, "INVALID_SIGNATURE", "signature")
    first(session, {"timeInForce": "NOW", "postOnly": 1}, "INVALID_FIELD", "timeInForce")


@check(PAGE, "values: taker, fee rate, side, amounts, price;")
def fields_before_values(session: CheckSession) -> None:
    """An invalid option comes before a fee rate out of range."""
    first(session, {"deadlineMs": "x", "feeRateBps": 1_001}, "INVALID_FIELD", "deadlineMs")


@check(PAGE, "values: taker, fee rate, side, amounts, price;")
def values_in_sequence(session: CheckSession) -> None:
    """Taker, fee rate, side and amounts are checked in this sequence."""
    stranger = session.wallet().address
    first(session, {"taker": stranger, "feeRateBps": 1_001}, "TAKER_NOT_SUPPORTED")
    first(session, {"feeRateBps": 1_001, "side": 7}, "INVALID_FEE_RATE")
    first(session, {"side": 7, "makerAmount": "0"}, "INVALID_SIDE")


@check(PAGE, "the market, its token, and with")
def price_before_token(session: CheckSession) -> None:
    """A price out of range comes before a token of another market."""
    wallet, market = session.wallet(), session.market()
    body = wallet.amounts(market, Side.BUY, 2 * ONE, ONE) | {"tokenId": str(market.no + 1)}
    expect_rejected(session.create(wallet, body), "PRICE_OUT_OF_RANGE")


@check(PAGE, "the signature, and the signer's permission to sign for the maker;")
def token_before_signature(session: CheckSession) -> None:
    """A token of another market comes before an invalid signature."""
    wallet, market = session.wallet(), session.market()
    body = wallet.order(market) | {"tokenId": str(market.no + 1), "signature": FORGED}
    expect_rejected(session.create(wallet, body), "TOKEN_NOT_IN_MARKET")


@check(PAGE, "the signature, and the signer's permission to sign for the maker;")
def price_before_signature(session: CheckSession) -> None:
    """A price out of range comes before an invalid signature."""
    first(session, {"makerAmount": str(2 * ONE), "signature": FORGED}, "PRICE_OUT_OF_RANGE")


@check(PAGE, "the engine's rules, in the sequence of [its errors](../reference/errors.md).")
def signature_before_expiration(session: CheckSession) -> None:
    """An invalid signature comes before an expiration in the past."""
    wallet, market = session.wallet(), session.market()
    body = wallet.order(market, expiration_s=LONG_AGO) | {"signature": FORGED}
    expect_rejected(session.create(wallet, body), "INVALID_SIGNATURE")


@check(HTTP, "If several codes apply, the first in this table is returned")
def media_type_before_json(session: CheckSession) -> None:
    """The media type comes before the JSON."""
    headers = {"content-type": "text/plain"}
    reply = session.request("POST", "/api/orders", content=b"{", headers=headers)
    expect_rejected(reply, "UNSUPPORTED_MEDIA_TYPE")
