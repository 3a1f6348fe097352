"""Creation of signed and gasless orders, the order resource and its lists."""

from typing import Any

from clob.order import Side
from clob.signing import ZERO_ADDRESS, SignedOrder
from clob.testing.conformance.checks import (
    SPECIFICATION,
    CheckSkippedError,
    check,
    expect,
    expect_match,
    expect_milliseconds,
    expect_that,
    expect_wei,
)
from clob.testing.conformance.session import CheckSession, good
from clob.testing.conformance.wallet import ONE

ORDER_ID = r"ord_\d+_[0-9a-z]{6}"
TYPES: dict[str, type] = {
    "id": str, "marketId": str, "tokenId": str, "maker": str, "signer": str, "taker": str,
    "side": int, "makerAmount": str, "takerAmount": str, "filledAmount": str, "salt": str,
    "expiration": int, "nonce": str, "feeRateBps": int, "signatureType": int, "signature": str,
    "status": str, "timestamp": int,
}  # fmt: skip
"""Fields of the order resource."""


def placed(session: CheckSession, **more: Any) -> dict[str, Any]:
    """Place a buy of one token; return the order resource."""
    order_id = session.place(session.wallet(), session.market(), **more)["orderId"]
    return session.order(order_id)


@check(SPECIFICATION, "Participants place limit orders that are signed (EIP-712 or personal-sign).")
def eip712(session: CheckSession) -> None:
    """An order signed by EIP-712 is accepted."""
    body = session.place(session.wallet(), session.market(), signature_type=1)
    expect("success", body["success"], True)


@check(SPECIFICATION, "0 = EOA signature (personal_sign); 1 = EIP-712 typed-data signature")
def personal_sign(session: CheckSession) -> None:
    """An order of type 0, signed by personal_sign of its hash, is accepted."""
    order = placed(session, signature_type=0)
    expect("signatureType", order["signatureType"], 0)


@check(
    SPECIFICATION,
    "Response (order created): `success` (boolean), `orderId` (string), `matched` (boolean), "
    "`trades` (array of trade summary).",
)
def response_fields(session: CheckSession) -> None:
    """The response has success, orderId, matched and trades."""
    body = session.place(session.wallet(), session.market())
    expect("success", body["success"], True)
    expect_that("orderId", isinstance(body["orderId"], str), body["orderId"], "a string")
    expect("matched of an order that rests", body["matched"], False)
    expect("trades of an order that rests", body["trades"], [])


@check(SPECIFICATION, "Format `ord_{unix_timestamp}_{random_6_chars}`.")
def id_format(session: CheckSession) -> None:
    """Order ids have the documented form."""
    body = session.place(session.wallet(), session.market())
    expect_match("orderId", body["orderId"], ORDER_ID, "ord_{seconds}_{6 characters}")


@check(SPECIFICATION, "Returns one Order resource.")
def resource_fields(session: CheckSession) -> None:
    """An order has every field of the resource, with its type."""
    order = placed(session)
    for name, kind in TYPES.items():
        is_right = type(order.get(name)) is kind
        expect_that(f"{name} of an order", is_right, order.get(name), f"JSON {kind.__name__}")


@check(SPECIFICATION, "Amounts are decimal strings in wei (18 decimals; 1e18 = 1 token).")
def amounts_are_strings(session: CheckSession) -> None:
    """Amounts of an order are strings of digits."""
    order = placed(session, price=37, size=3 * ONE)
    for name in ("makerAmount", "takerAmount", "filledAmount"):
        expect_wei(f"{name} of an order", order[name])
    expect("makerAmount of a buy of 3 at 37", order["makerAmount"], str(111 * ONE // 100))
    expect("takerAmount of a buy of 3 at 37", order["takerAmount"], str(3 * ONE))


@check(SPECIFICATION, "filledAmount is '0'; the order is matched at once if prices cross.")
def starts_open(session: CheckSession) -> None:
    """A new order that rests is open, with a filledAmount of 0."""
    order = placed(session)
    expect("status of a new order", order["status"], "open")
    expect("filledAmount of a new order", order["filledAmount"], "0")


@check(SPECIFICATION, "Creation time in Unix milliseconds. Used for time priority.")
def timestamp_is_in_milliseconds(session: CheckSession) -> None:
    """The time of an order is in milliseconds."""
    expect_milliseconds("timestamp of an order", placed(session)["timestamp"])


@check(SPECIFICATION, "Wallet address that created the order and owns the traded assets.")
def maker_is_checksummed(session: CheckSession) -> None:
    """An address in lower case is accepted and returned checksummed."""
    wallet, market = session.wallet(), session.market()
    body = wallet.order(market)
    body |= {name: body[name].lower() for name in ("maker", "signer")}
    order = session.order(good(session.create(wallet, body))["orderId"])
    expect("maker of an order", order["maker"], wallet.address)


@check(SPECIFICATION, "Default is the zero address (any taker).")
def optional_fields(session: CheckSession) -> None:
    """Absent fields take their defaults, which are those of the signed struct."""
    wallet, market = session.wallet(), session.market()
    order = SignedOrder(
        maker=wallet.address,
        signer=wallet.address,
        token_id=market.yes,
        maker_amount=ONE // 2,
        taker_amount=ONE,
        salt=0,
    )
    body = wallet.signed(order, market)
    needed = ("maker", "tokenId", "makerAmount", "takerAmount", "marketId", "signature")
    reply = session.create(wallet, {name: body[name] for name in needed})
    made = session.order(good(reply)["orderId"])
    defaults = {
        "taker": ZERO_ADDRESS,
        "signer": wallet.address,
        "feeRateBps": 0,
        "nonce": "0",
        "signatureType": 1,
    }
    for name, value in defaults.items():
        expect(f"{name} of an order without it", made[name], value)


@check(SPECIFICATION, "For gasless orders it is a placeholder.")
def gasless(session: CheckSession) -> None:
    """A gasless order is accepted and has a placeholder as signature."""
    wallet, market = session.wallet(), session.market()
    body = {
        "maker": wallet.address,
        "tokenId": str(market.yes),
        "side": 1,
        "price": 60,
        "size": str(2 * ONE),
        "marketId": market.id,
    }
    reply = session.request("POST", "/api/orders/gasless", body)
    if reply.status == 403:
        raise CheckSkippedError("the API key is not bound to the maker")
    made = good(reply)
    order = session.order(made["orderId"])
    session.cancel(wallet, made["orderId"])
    expect("makerAmount of a gasless sell of 2", order["makerAmount"], str(2 * ONE))
    expect("takerAmount of a gasless sell of 2 at 60", order["takerAmount"], str(12 * ONE // 10))
    expect_match("signature", order["signature"], "0x[0-9a-fA-F]{130}", "0x and 130 digits")


@check(SPECIFICATION, "Returns an array of Order resources with status `open` or `partial` only.")
def list_has_open_orders_only(session: CheckSession) -> None:
    """The list of a maker has its open orders and no finished one."""
    wallet, market = session.wallet(), session.market()
    first = session.place(wallet, market, price=40)["orderId"]
    gone = session.place(wallet, market, price=41)["orderId"]
    session.cancel(wallet, gone)
    listed = session.read("/api/orders", maker=wallet.address)
    expect("ids of GET /api/orders?maker=", [each["id"] for each in listed], [first])
    expect("status of a listed order", listed[0]["status"], "open")


@check(SPECIFICATION, "Filter by maker wallet address; must be a valid Ethereum address.")
def list_filters_by_maker(session: CheckSession) -> None:
    """The list of a maker has no orders of others."""
    mine, other, market = session.wallet(), session.wallet(), session.market()
    session.place(mine, market, price=40)
    session.place(other, market, price=40)
    listed = session.read("/api/orders", maker=other.address)
    expect("makers of the list", [each["maker"] for each in listed], [other.address])


@check(SPECIFICATION, "Filter by market identifier.")
def list_filters_by_market(session: CheckSession) -> None:
    """The list of a market has its orders."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, price=40)["orderId"]
    listed = session.read("/api/orders", marketId=market.id)
    expect("ids of GET /api/orders?marketId=", [each["id"] for each in listed], [order_id])
    other = session.read("/api/orders", maker=wallet.address, marketId="another-market")
    expect("orders of the maker in another market", other, [])


@check(
    "concepts/orders-over-http.md",
    'Sending it again returns the first response with `"duplicate": true`',
)
def duplicate_returns_the_first_response(session: CheckSession) -> None:
    """The same signed order again creates no second order."""
    wallet, market = session.wallet(), session.market()
    body = wallet.order(market, price=44)
    first, second = good(session.create(wallet, body)), good(session.create(wallet, body))
    expect("orderId of the duplicate", second["orderId"], first["orderId"])
    expect("duplicate", second.get("duplicate"), True)
    bids = session.book(market)["bids"]
    expect("size of the level after a duplicate", bids[0]["size"], str(ONE))


@check("concepts/orders-over-http.md", "A signed order is identified by its hash.")
def order_is_found_by_its_hash(session: CheckSession) -> None:
    """The hash of an order names it in paths."""
    order = placed(session)
    if "orderHash" not in order:
        raise CheckSkippedError("orders have no orderHash")
    expect("id of GET /api/orders/{hash}", session.order(order["orderHash"])["id"], order["id"])


@check(SPECIFICATION, "Buy orders sorted by price descending (highest bid first).")
def sides_are_the_right_way_round(session: CheckSession) -> None:
    """Side 0 rests as a bid, and side 1 as an ask."""
    market = session.market()
    session.place(session.wallet(), market, Side.BUY, 30)
    session.place(session.wallet(), market, Side.SELL, 70)
    book = session.book(market)
    expect("prices of bids", [each["price"] for each in book["bids"]], [30])
    expect("prices of asks", [each["price"] for each in book["asks"]], [70])
