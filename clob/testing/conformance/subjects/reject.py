"""Rejections of orders: status, code and field of each."""

from typing import Any

from clob.signing import Domain, SignedOrder
from clob.testing.conformance.checks import SPECIFICATION, check, expect, expect_match, expect_that
from clob.testing.conformance.session import CheckSession, expect_rejected
from clob.testing.conformance.wallet import ONE, Wallet

HTTP = "reference/http.md"
LONG_AGO = 1_700_000_000
"""An expiration in the past, Unix seconds."""


def rejected(
    session: CheckSession, changes: dict[str, Any], code: str, path: str | None = None
) -> dict[str, Any]:
    """Send a signed order with changed fields; expect its rejection."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.order(market) | changes)
    return expect_rejected(reply, code, path)


@check(HTTP, "A rejection is `application/problem+json` (RFC 9457)")
def problem_fields(session: CheckSession) -> None:
    """A rejection is a problem with all documented fields."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.order(market) | {"side": 7})
    problem = expect_rejected(reply, "INVALID_SIDE")
    kind = reply.headers.get("content-type", "").partition(";")[0]
    expect("content type of a rejection", kind, "application/problem+json")
    for name in ("type", "title", "detail", "code", "error", "requestId"):
        is_text = isinstance(problem.get(name), str) and bool(problem[name])
        expect_that(f"{name} of a rejection", is_text, problem.get(name), "a text")
    expect("status in the body", problem["status"], reply.status)
    expect("retryable of a rejection", problem["retryable"], False)
    expect("error of a rejection", problem["error"], problem["detail"])


@check(HTTP, "| `errors` | `path` and `message` of each invalid field, at least one;")
def problem_names_the_field(session: CheckSession) -> None:
    """A rejection names the field at fault."""
    rejected(session, {"makerAmount": "1.5"}, "INVALID_AMOUNT", "makerAmount")


@check(HTTP, "| `INVALID_JSON` | 400 | Invalid JSON |")
def invalid_json(session: CheckSession) -> None:
    """A body that is not JSON is rejected with 400."""
    headers = {"content-type": "application/json"}
    reply = session.request("POST", "/api/orders", content=b'{"maker": ', headers=headers)
    expect_rejected(reply, "INVALID_JSON")


@check(HTTP, "| `UNSUPPORTED_MEDIA_TYPE` | 415 | Body must be JSON |")
def media_type(session: CheckSession) -> None:
    """A body of another media type is rejected with 415."""
    headers = {"content-type": "text/plain"}
    reply = session.request("POST", "/api/orders", content=b"{}", headers=headers)
    expect_rejected(reply, "UNSUPPORTED_MEDIA_TYPE")


@check(
    "concepts/orders-over-http.md",
    "unknown field or query parameter | `INVALID_FIELD`, with the nearest known name",
)
def unknown_field(session: CheckSession) -> None:
    """An unknown field is rejected and named."""
    rejected(session, {"makerAmmount": "5"}, "INVALID_FIELD", "makerAmmount")


@check(HTTP, "| `INVALID_FIELD` | 422 | Missing or invalid field |")
def missing_field(session: CheckSession) -> None:
    """An order without its token is rejected."""
    rejected(session, {"tokenId": None}, "INVALID_FIELD", "tokenId")


@check(SPECIFICATION, "Valid Ethereum address (0x + 40 hex chars).")
def invalid_address(session: CheckSession) -> None:
    """A maker that is not an address is rejected."""
    rejected(session, {"maker": "0x1234"}, "INVALID_ADDRESS", "maker")


@check(HTTP, "| `INVALID_ADDRESS` | 422 | Invalid address |")
def wrong_capitals_of_an_address(session: CheckSession) -> None:
    """An address with capitals that are not those of EIP-55 is rejected."""
    maker = session.wallet().address
    rejected(session, {"maker": "0x" + maker[2:].swapcase()}, "INVALID_ADDRESS", "maker")


@check(HTTP, "| `INVALID_AMOUNT` | 422 | Invalid amount |")
def fractional_amount(session: CheckSession) -> None:
    """An amount with a decimal point is rejected."""
    rejected(session, {"takerAmount": 1.5}, "INVALID_AMOUNT", "takerAmount")


@check(HTTP, "| `INVALID_AMOUNT` | 422 | Invalid amount |")
def zero_amount(session: CheckSession) -> None:
    """An amount of zero is rejected."""
    rejected(session, {"makerAmount": "0"}, "INVALID_AMOUNT", "makerAmount")


@check(HTTP, "| `AMOUNT_TOO_LARGE` | 422 | Amount too large |")
def too_large_amount(session: CheckSession) -> None:
    """An amount of 2**256 is rejected."""
    rejected(session, {"takerAmount": str(2**256)}, "AMOUNT_TOO_LARGE", "takerAmount")


@check(SPECIFICATION, "Default 0. Range 0 to 1000.")
def fee_rate(session: CheckSession) -> None:
    """A fee rate above 1000 basis points is rejected."""
    rejected(session, {"feeRateBps": 1_001}, "INVALID_FEE_RATE")


@check(SPECIFICATION, "0 = BUY, 1 = SELL.")
def side(session: CheckSession) -> None:
    """A side other than 0 and 1 is rejected."""
    rejected(session, {"side": 2}, "INVALID_SIDE", "side")


@check(HTTP, "| `TAKER_NOT_SUPPORTED` | 422 | Taker not supported |")
def taker(session: CheckSession) -> None:
    """An order for one counterparty is rejected."""
    rejected(session, {"taker": session.wallet().address}, "TAKER_NOT_SUPPORTED")


@check(HTTP, "| `TOKEN_NOT_IN_MARKET` | 422 | Token not in this market |")
def token_of_another_market(session: CheckSession) -> None:
    """A third token is rejected."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.order(market, token=market.no + 1))
    expect_rejected(reply, "TOKEN_NOT_IN_MARKET")


@check(SPECIFICATION, "Signed by the signer address. Format 0x + 130 hex chars.")
def signature_of_another_wallet(session: CheckSession) -> None:
    """An order that another wallet signed is rejected."""
    market, mine, other = session.market(), session.wallet(), session.wallet()
    body = mine.order(market)
    forged = other.order(market) | {"maker": mine.address, "signer": mine.address}
    expect_rejected(session.create(mine, forged), "INVALID_SIGNATURE")
    reply = session.create(mine, body | {"signature": forged["signature"]})
    expect_rejected(reply, "INVALID_SIGNATURE")


@check(SPECIFICATION, "Signature of the order struct, 65 bytes hex (r + s + v).")
def order_changed_after_signing(session: CheckSession) -> None:
    """An order whose amounts were changed after signing is rejected."""
    rejected(session, {"takerAmount": str(ONE + 10**16)}, "INVALID_SIGNATURE")


@check("concepts/signed-orders.md", "A signature is invalid for any other domain.")
def signature_for_another_domain(session: CheckSession) -> None:
    """A signature for another chain is rejected."""
    known = session.domain
    domain = Domain(known.name, known.version, known.chain_id + 1, known.verifying_contract)
    wallet = Wallet(domain)
    expect_rejected(session.create(wallet, wallet.order(session.market())), "INVALID_SIGNATURE")


@check(SPECIFICATION, "signature | 0x + 130 hex chars (65 bytes)")
def short_signature(session: CheckSession) -> None:
    """A signature of 64 bytes is rejected."""
    signature = "0x" + "12" * 64
    rejected(session, {"signature": signature}, "INVALID_SIGNATURE", "signature")


@check(HTTP, "| `SIGNER_NOT_AUTHORISED` | 422 | Signer not authorised by the maker |")
def signer_without_permission(session: CheckSession) -> None:
    """A delegate without the permission of the maker is rejected."""
    market, delegate, maker = session.market(), session.wallet(), session.wallet()
    order = SignedOrder(
        maker=maker.address,
        signer=delegate.address,
        token_id=market.yes,
        maker_amount=ONE // 2,
        taker_amount=ONE,
    )
    reply = session.create(delegate, delegate.signed(order, market))
    expect_rejected(reply, "SIGNER_NOT_AUTHORISED")


@check(SPECIFICATION, "Orders past it are rejected from matching.")
def expired(session: CheckSession) -> None:
    """An order past its expiration is rejected."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.order(market, expiration_s=LONG_AGO))
    expect_rejected(reply, "ORDER_EXPIRED")


@check("concepts/orders-over-http.md", "is not in seconds (`INVALID_FIELD`)")
def expiration_in_milliseconds(session: CheckSession) -> None:
    """An expiration in milliseconds is rejected."""
    wallet, market = session.wallet(), session.market()
    body = wallet.order(market, expiration_s=session.now_ms() + 60_000)
    expect_rejected(session.create(wallet, body), "INVALID_FIELD", "expiration")


@check("concepts/orders-over-http.md", "A rejection changes nothing and names the rule")
def changes_nothing(session: CheckSession) -> None:
    """After a rejection the book and the list of the maker are as before."""
    wallet, market = session.wallet(), session.market()
    before = session.book(market)
    bodies = [
        wallet.order(market) | {"signature": "0x" + "12" * 65},
        wallet.order(market, expiration_s=LONG_AGO),
        wallet.order(market) | {"colour": "red"},
    ]
    for body in bodies:
        reply = session.create(wallet, body)
        expect_match("status of a rejection", str(reply.status), "4..", "a status from 400 on")
    after = session.book(market)
    expect("bids after rejections", after["bids"], before["bids"])
    expect("asks after rejections", after["asks"], before["asks"])
    expect("orders of the maker", session.read("/api/orders", maker=wallet.address), [])


@check(HTTP, "| `UNKNOWN_ORDER` | 404 | Order not found |")
def unknown_order(session: CheckSession) -> None:
    """An unknown order id is rejected with 404."""
    reply = session.request("GET", "/api/orders/ord_1700000000_aaaaaa")
    expect_rejected(reply, "UNKNOWN_ORDER")


@check(HTTP, "| `UNKNOWN_MARKET` | 404 | Market not found |")
def unknown_market(session: CheckSession) -> None:
    """The book of an unknown market is rejected with 404."""
    reply = session.request("GET", "/api/markets/conformance-no-such-market/orderbook")
    expect_rejected(reply, "UNKNOWN_MARKET")
