"""Decisions on prices, amounts and instructions, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import pytest

from clob.units import SIZE_MAX
from tests.server.api.makers import (
    BUY,
    FAR,
    ONE,
    SELL,
    ApiClient,
    assert_rejected,
    problem,
    with_amounts,
)
from tests.server.live import live_server

MILLI = ONE // 1000
"""A thousandth of a token, in wei."""

# ----- prices and amounts --------------------------------------------------------------------


def test_decision_01_execution_price(api, market, alice, bob):
    """The resting order's price; improvement goes to the incoming order. A BUY's improvement is
    refunded collateral, its size stays takerAmount tokens."""
    api.place(alice.signed(market, SELL, 40, 10 * ONE))
    reply = api.place(bob.signed(market, BUY, 55, 10 * ONE))
    assert [trade["price"] for trade in reply["trades"]] == [40]
    order = api.order(reply["orderId"])
    assert (order["status"], order["filledTokens"]) == ("filled", str(10 * ONE))
    assert order["filledCollateral"] == str(4 * ONE)
    assert order["filledAmount"] == order["takerAmount"]


def test_decision_02_filled_amount(api, market, alice, bob):
    """BUY: filled tokens. SELL: floor(filledTokens * takerAmount / makerAmount), and exactly
    takerAmount when complete. Extra response fields `filledTokens`, `filledCollateral`,
    `averagePrice`."""
    api.place(alice.signed(market, BUY, 50, 2 * ONE))
    order_id = api.place(bob.signed(market, SELL, 1, 100 * ONE))["orderId"]
    order = api.order(order_id)
    assert (order["status"], order["filledTokens"]) == ("partial", str(2 * ONE))
    assert order["filledAmount"] == str(2 * ONE * int(order["takerAmount"]) // (100 * ONE))
    assert (order["filledCollateral"], order["averagePrice"]) == (str(ONE), "50")
    api.place(alice.signed(market, BUY, 1, 98 * ONE))
    order = api.order(order_id)
    assert (order["status"], order["filledAmount"]) == ("filled", order["takerAmount"])
    assert order["averagePrice"] == "1.98"


@pytest.mark.parametrize(("side", "maker", "taker", "price"), [
    (BUY, 50 * MILLI, 100 * MILLI, 50), (BUY, 335 * MILLI, 1000 * MILLI, 33),
    (BUY, 33 * ONE + 1, 100 * ONE, 33),
    (SELL, 1000 * MILLI, 335 * MILLI, 34), (SELL, 100 * ONE, 33 * ONE - 1, 33),
])  # fmt: skip
def test_decision_03_price_from_amounts(api, market, alice, side, maker, taker, price):
    """c counts as signed when d < 100 (less than one wei of collateral on the whole order), and off
    chain also when d * 10**9 <= c * tokens. Otherwise BUY floors and SELL ceils: never worse than
    signed."""
    reply = api.place(with_amounts(alice, market, side, maker, taker))
    order = api.order(reply["orderId"])
    assert (order["price"], order["makerAmount"], order["takerAmount"]) == (
        (price, str(maker), str(taker))
    )


@pytest.mark.parametrize(("maker", "taker"), [(1, 1000), (1000, 1000), (2000, 1000)])
def test_decision_03_price_out_of_range(http, market, alice, maker, taker):
    """c outside 1..99: `PRICE_OUT_OF_RANGE`."""
    assert_rejected(http, with_amounts(alice, market, BUY, maker, taker), "PRICE_OUT_OF_RANGE")


def test_decision_03_strict(tmp_path, market, alice):
    """`price_policy="strict"` (off by default) rejects what is not exact."""
    with live_server(tmp_path / "data", price_policy="strict") as live:
        assert_rejected(
            live.http, with_amounts(alice, market, BUY, 335 * MILLI, 1000 * MILLI), "INVALID_AMOUNT"
        )
        assert ApiClient(live.http).place(
            with_amounts(alice, market, BUY, 330 * MILLI, 1000 * MILLI)
        )["success"]


def test_decision_04_rounding_of_collateral(api, market, alice, bob):
    """One formula: collateral = size * price // 100."""
    api.place(alice.signed(market, SELL, 33, ONE + 1))
    reply = api.place(bob.signed(market, BUY, 33, ONE + 1))
    order = api.order(reply["orderId"])
    assert order["filledCollateral"] == str((ONE + 1) * 33 // 100)


@pytest.mark.parametrize(("amounts", "code"), [
    ((0, ONE), "INVALID_AMOUNT"), ((ONE, 0), "INVALID_AMOUNT"),
    ((SIZE_MAX, SIZE_MAX + 1), "AMOUNT_TOO_LARGE"),
])  # fmt: skip
def test_decision_05_amounts(http, market, alice, amounts, code):
    """Zero or negative amounts, more than uint256, more than SIZE_MAX: 422 `INVALID_AMOUNT` /
    `AMOUNT_TOO_LARGE`, with the limit in the message."""
    rejection = assert_rejected(http, with_amounts(alice, market, BUY, *amounts), code)
    assert "positive" in rejection["detail"] or str(SIZE_MAX) in rejection["detail"]


def test_decision_05_more_than_uint256(http, market, alice):
    """more than uint256."""
    body = alice.signed(market)
    for field in ("makerAmount", "takerAmount"):
        for given in (str(2**256), 2**256, 10**77 * 9):
            rejection = assert_rejected(http, body | {field: given}, "AMOUNT_TOO_LARGE", field)
            assert "2^256" in rejection["detail"]


def test_decision_06_remainder_of_a_market_order_rests_by_default(api, market, alice, bob):
    """Rests, as specified, unless the optional `timeInForce` (GTC, GTD, IOC, FOK) or `postOnly`
    says otherwise."""
    for word, status in (("GTC", "partial"), ("IOC", "cancelled")):
        api.place(alice.signed(market, SELL, 40))
        body = bob.signed(market, BUY, 99, 3 * ONE, also={"timeInForce": word})
        reply = api.place(body)
        assert (reply["matched"], reply["status"]) == (True, status)
        assert api.order(reply["orderId"])["timeInForce"] == word
        if status == "partial":
            api.cancel(reply["orderId"], bob)


def test_decision_06_fill_or_kill_and_post_only(http, api, market, alice, bob):
    """timeInForce FOK, postOnly."""
    api.place(alice.signed(market, SELL, 40))
    killed = bob.signed(market, BUY, 99, 3 * ONE, also={"timeInForce": "FOK"})
    assert_rejected(http, killed, "FOK_NOT_FILLABLE")
    crossing = bob.signed(market, BUY, 40, also={"postOnly": True})
    assert_rejected(http, crossing, "POST_ONLY_WOULD_CROSS")
    resting = bob.signed(market, BUY, 39, also={"postOnly": True})
    assert api.order(api.place(resting)["orderId"])["postOnly"] is True
    whole = bob.signed(market, BUY, 99, ONE, also={"timeInForce": "FOK"})
    assert api.place(whole)["status"] == "filled"


def test_decision_06_good_till_date(http, api, market, alice):
    """timeInForce GTD."""
    dated = alice.signed(market, expiration_s=FAR, also={"timeInForce": "GTD"})
    assert api.order(api.place(dated)["orderId"])["timeInForce"] == "GTD"
    assert_rejected(http, alice.signed(market, also={"timeInForce": "GTD"}), "INVALID_INSTRUCTION")


@pytest.mark.parametrize(("field", "given"), [
    ("timeInForce", "gtc"), ("timeInForce", 0), ("timeInForce", "__class__"), ("timeInForce", []),
    ("postOnly", 1), ("postOnly", "true"), ("selfTrade", "NO"), ("selfTrade", 3),
    ("clientOrderId", ""), ("clientOrderId", "a" * 65), ("clientOrderId", 5),
    ("clientOrderId", "a\nb"), ("deadlineMs", -1), ("deadlineMs", "5"), ("deadlineMs", 1.5),
    ("deadlineMs", True), ("deadlineMs", 2**63),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_optional_fields_are_read_strictly(http, market, alice, kind, field, given):
    """Optional body fields `timeInForce`, `postOnly`, `selfTrade`, `clientOrderId`,
    `deadlineMs`."""
    body = getattr(alice, kind)(market) | {field: given}
    path = "/api/orders" if kind == "signed" else "/api/orders/gasless"
    problem(http.post(path, json=body), "INVALID_FIELD", field)


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_optional_fields_that_are_null_are_absent(api, market, alice, kind):
    """`null` means the same as an absent field."""
    fields = ("timeInForce", "postOnly", "selfTrade", "clientOrderId", "deadlineMs")
    body = getattr(alice, kind)(market) | dict.fromkeys(fields)
    reply = api.place(body) if kind == "signed" else api.gasless(body)
    order = api.order(reply["orderId"])
    assert (order["timeInForce"], order["postOnly"]) == ("GTC", False)
    assert "clientOrderId" not in order
