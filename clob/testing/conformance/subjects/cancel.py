"""Cancels: by the maker, by strangers, and of finished orders."""

from clob.order import Side
from clob.testing.conformance.checks import (
    SPECIFICATION,
    CheckSkippedError,
    check,
    expect,
)
from clob.testing.conformance.session import CheckSession, expect_rejected, good
from clob.testing.conformance.wallet import ONE

PAGE = "concepts/orders-over-http.md"
HTTP = "reference/http.md"


@check(PAGE, "The response is the order after the cancel.")
def signed(session: CheckSession) -> None:
    """A cancel that the maker signed takes the order out of the book."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    order = good(session.cancel(wallet, order_id))
    expect("id in the answer of a cancel", order["id"], order_id)
    expect("status in the answer of a cancel", order["status"], "cancelled")
    expect("bids after the cancel", session.book(market)["bids"], [])


@check(SPECIFICATION, "Body: `maker` (string, the wallet address of the order's maker).")
def by_the_address_of_the_maker(session: CheckSession) -> None:
    """The address of the maker suffices in the test environment."""
    if session.info.get("environment", "test") != "test":
        raise CheckSkippedError("production requires a signature or a key")
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    good(session.request("DELETE", f"/api/orders/{order_id}", {"maker": wallet.address}))
    expect("status after the cancel", session.order(order_id)["status"], "cancelled")


@check(SPECIFICATION, "request made by the maker")
def stranger_is_rejected(session: CheckSession) -> None:
    """A cancel in the name and with the signature of another wallet is rejected."""
    wallet, stranger, market = session.wallet(), session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    expect_rejected(session.cancel(stranger, order_id), "NOT_THE_MAKER")
    expect("status of the order", session.order(order_id)["status"], "open")


@check(PAGE, "A signature is always checked if present.")
def forged_signature_is_rejected(session: CheckSession) -> None:
    """A cancel in the name of the maker that another wallet signed is rejected."""
    wallet, stranger, market = session.wallet(), session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    body = stranger.cancel(order_id, session.now_ms(), maker=wallet.address)
    reply = session.request("DELETE", f"/api/orders/{order_id}", body)
    expect_rejected(reply, "INVALID_SIGNATURE")
    expect("status of the order", session.order(order_id)["status"], "open")


@check(PAGE, "within 60 seconds of the server's")
def old_signature_is_rejected(session: CheckSession) -> None:
    """A cancel that was signed an hour ago is rejected."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    body = wallet.cancel(order_id, session.now_ms() - 3_600_000)
    reply = session.request("DELETE", f"/api/orders/{order_id}", body)
    expect_rejected(reply, "TIMESTAMP_OUT_OF_WINDOW")


@check(PAGE, "A final order is rejected with `409 ORDER_NOT_OPEN` and included as `order`.")
def second_cancel_is_rejected(session: CheckSession) -> None:
    """A cancelled order cannot be cancelled again; the answer has the order."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, price=35)["orderId"]
    good(session.cancel(wallet, order_id))
    problem = expect_rejected(session.cancel(wallet, order_id), "ORDER_NOT_OPEN")
    expect("id of order in the rejection", problem["order"]["id"], order_id)


@check(PAGE, "A final order is rejected with `409 ORDER_NOT_OPEN` and included as `order`.")
def filled_order_is_final(session: CheckSession) -> None:
    """A filled order cannot be cancelled."""
    seller, market = session.wallet(), session.market()
    order_id = session.place(seller, market, Side.SELL, 52)["orderId"]
    session.place(session.wallet(), market, Side.BUY, 52)
    expect_rejected(session.cancel(seller, order_id), "ORDER_NOT_OPEN")
    expect("status of the order", session.order(order_id)["status"], "filled")


@check(HTTP, "| `UNKNOWN_ORDER` | 404 | Order not found |")
def unknown_order(session: CheckSession) -> None:
    """A cancel of an unknown order is rejected with 404."""
    reply = session.cancel(session.wallet(), "ord_1700000000_aaaaaa")
    expect_rejected(reply, "UNKNOWN_ORDER")


@check(SPECIFICATION, "`open` or `partial` | cancellation by the maker (DELETE on the order)")
def partial_order(session: CheckSession) -> None:
    """The rest of an order that was filled in part is cancelled; its fills stay."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, Side.BUY, 45, 3 * ONE)["orderId"]
    session.place(session.wallet(), market, Side.SELL, 45, ONE)
    order = good(session.cancel(wallet, order_id))
    expect("status", order["status"], "cancelled")
    expect("filledAmount", order["filledAmount"], str(ONE))
    expect("bids after the cancel", session.book(market)["bids"], [])


@check(SPECIFICATION, "cancellation and full fills remove orders.")
def cancelled_order_does_not_trade(session: CheckSession) -> None:
    """An order does not trade after its cancel."""
    wallet, market = session.wallet(), session.market()
    order_id = session.place(wallet, market, Side.SELL, 52)["orderId"]
    good(session.cancel(wallet, order_id))
    body = session.place(session.wallet(), market, Side.BUY, 60)
    expect("matched of a buy after the cancel", body["matched"], False)
