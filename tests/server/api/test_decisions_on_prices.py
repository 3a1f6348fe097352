"""Decisions on prices, amounts and instructions, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import pytest

from clob.units import SIZE_MAX
from tests.server.api.people import (
    BUY,
    FAR,
    ONE,
    SELL,
    Shop,
    assert_rejected,
    problem,
    with_amounts,
)
from tests.server.live import live_server

# ----- prices and amounts --------------------------------------------------------------------


def test_decision_01_execution_price(shop, place, alice, bob):
    """The resting order's price; improvement goes to the incoming order. A BUY's improvement is
    refunded collateral, its size stays takerAmount tokens."""
    shop.place(alice.signed(place, SELL, 40, 10 * ONE))
    made = shop.place(bob.signed(place, BUY, 55, 10 * ONE))
    assert [trade["price"] for trade in made["trades"]] == [40]
    found = shop.order(made["orderId"])
    assert (found["status"], found["filledTokens"]) == ("filled", str(10 * ONE))
    assert found["filledCollateral"] == str(4 * ONE)
    assert found["filledAmount"] == found["takerAmount"]


def test_decision_02_filled_amount(shop, place, alice, bob):
    """BUY: filled tokens. SELL: floor(filledTokens * takerAmount / makerAmount), and exactly
    takerAmount when complete. Extra response fields `filledTokens`, `filledCollateral`,
    `averagePrice`."""
    shop.place(alice.signed(place, BUY, 50, 2 * ONE))
    made = shop.place(bob.signed(place, SELL, 1, 100 * ONE))["orderId"]
    found = shop.order(made)
    assert (found["status"], found["filledTokens"]) == ("partial", str(2 * ONE))
    assert found["filledAmount"] == str(2 * ONE * int(found["takerAmount"]) // (100 * ONE))
    assert (found["filledCollateral"], found["averagePrice"]) == (str(ONE), "50")
    shop.place(alice.signed(place, BUY, 1, 98 * ONE))
    found = shop.order(made)
    assert (found["status"], found["filledAmount"]) == ("filled", found["takerAmount"])
    assert found["averagePrice"] == "1.98"


@pytest.mark.parametrize(("side", "maker", "taker", "price"), [
    (BUY, 50, 100, 50), (BUY, 335, 1000, 33), (BUY, 33 * ONE + 1, 100 * ONE, 33),
    (SELL, 1000, 335, 34), (SELL, 100 * ONE, 33 * ONE - 1, 33),
])  # fmt: skip
def test_decision_03_price_from_amounts(shop, place, alice, side, maker, taker, price):
    """c counts as signed when d < 100 (less than one wei of collateral on the whole order), and off
    chain also when d * 10**9 <= c * tokens. Otherwise BUY floors and SELL ceils: never worse than
    signed."""
    made = shop.place(with_amounts(alice, place, side, maker, taker))
    found = shop.order(made["orderId"])
    assert (found["price"], found["makerAmount"], found["takerAmount"]) == (
        (price, str(maker), str(taker))
    )


@pytest.mark.parametrize(("maker", "taker"), [(1, 1000), (1000, 1000), (2000, 1000)])
def test_decision_03_price_out_of_range(http, place, alice, maker, taker):
    """c outside 1..99: `PRICE_OUT_OF_RANGE`."""
    assert_rejected(http, with_amounts(alice, place, BUY, maker, taker), "PRICE_OUT_OF_RANGE")


def test_decision_03_strict(tmp_path, place, alice):
    """`price_policy="strict"` (off by default) rejects what is not exact."""
    with live_server(tmp_path / "data", price_policy="strict") as live:
        assert_rejected(live.http, with_amounts(alice, place, BUY, 335, 1000), "INVALID_AMOUNT")
        assert Shop(live.http).place(with_amounts(alice, place, BUY, 330, 1000))["success"]


def test_decision_04_rounding_of_collateral(shop, place, alice, bob):
    """One formula: collateral = size * price // 100."""
    shop.place(alice.signed(place, SELL, 33, ONE + 1))
    made = shop.place(bob.signed(place, BUY, 33, ONE + 1))
    found = shop.order(made["orderId"])
    assert found["filledCollateral"] == str((ONE + 1) * 33 // 100)


@pytest.mark.parametrize(("amounts", "code"), [
    ((0, ONE), "INVALID_AMOUNT"), ((ONE, 0), "INVALID_AMOUNT"),
    ((SIZE_MAX, SIZE_MAX + 1), "AMOUNT_TOO_LARGE"),
])  # fmt: skip
def test_decision_05_amounts(http, place, alice, amounts, code):
    """Zero or negative amounts, more than uint256, more than SIZE_MAX: 422 `INVALID_AMOUNT` /
    `AMOUNT_TOO_LARGE`, with the limit in the message."""
    said = assert_rejected(http, with_amounts(alice, place, BUY, *amounts), code)
    assert "positive" in said["detail"] or str(SIZE_MAX) in said["detail"]


def test_decision_05_more_than_uint256(http, place, alice):
    """more than uint256."""
    body = alice.signed(place)
    for field in ("makerAmount", "takerAmount"):
        for given in (str(2**256), 2**256, 10**77 * 9):
            said = assert_rejected(http, body | {field: given}, "AMOUNT_TOO_LARGE", field)
            assert "2**256" in said["detail"]


def test_decision_06_remainder_of_a_market_order_rests_by_default(shop, place, alice, bob):
    """Rests, as specified, unless the optional `timeInForce` (GTC, GTD, IOC, FOK) or `postOnly`
    says otherwise."""
    for word, status in (("GTC", "partial"), ("IOC", "cancelled")):
        shop.place(alice.signed(place, SELL, 40))
        body = bob.signed(place, BUY, 99, 3 * ONE, also={"timeInForce": word})
        made = shop.place(body)
        assert (made["matched"], made["status"]) == (True, status)
        assert shop.order(made["orderId"])["timeInForce"] == word
        if status == "partial":
            shop.cancel(made["orderId"], bob)


def test_decision_06_fill_or_kill_and_post_only(http, shop, place, alice, bob):
    """timeInForce FOK, postOnly."""
    shop.place(alice.signed(place, SELL, 40))
    killed = bob.signed(place, BUY, 99, 3 * ONE, also={"timeInForce": "FOK"})
    assert_rejected(http, killed, "FOK_NOT_FILLABLE")
    crossing = bob.signed(place, BUY, 40, also={"postOnly": True})
    assert_rejected(http, crossing, "POST_ONLY_WOULD_CROSS")
    resting = bob.signed(place, BUY, 39, also={"postOnly": True})
    assert shop.order(shop.place(resting)["orderId"])["postOnly"] is True
    whole = bob.signed(place, BUY, 99, ONE, also={"timeInForce": "FOK"})
    assert shop.place(whole)["status"] == "filled"


def test_decision_06_good_till_date(http, shop, place, alice):
    """timeInForce GTD."""
    dated = alice.signed(place, expiration_s=FAR, also={"timeInForce": "GTD"})
    assert shop.order(shop.place(dated)["orderId"])["timeInForce"] == "GTD"
    assert_rejected(http, alice.signed(place, also={"timeInForce": "GTD"}), "INVALID_INSTRUCTION")


@pytest.mark.parametrize(("field", "given"), [
    ("timeInForce", "gtc"), ("timeInForce", 0), ("timeInForce", "__class__"), ("timeInForce", []),
    ("postOnly", 1), ("postOnly", "true"), ("selfTrade", "NO"), ("selfTrade", 3),
    ("clientOrderId", ""), ("clientOrderId", "a" * 65), ("clientOrderId", 5),
    ("clientOrderId", "a\nb"), ("deadlineMs", -1), ("deadlineMs", "5"), ("deadlineMs", 1.5),
    ("deadlineMs", True), ("deadlineMs", 2**63),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_optional_fields_are_read_strictly(http, place, alice, kind, field, given):
    """Optional body fields `timeInForce`, `postOnly`, `selfTrade`, `clientOrderId`,
    `deadlineMs`."""
    body = getattr(alice, kind)(place) | {field: given}
    path = "/api/orders" if kind == "signed" else "/api/orders/gasless"
    problem(http.post(path, json=body), "INVALID_FIELD", field)


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_optional_fields_that_are_null_are_absent(shop, place, alice, kind):
    """`null` is as good as absent."""
    fields = ("timeInForce", "postOnly", "selfTrade", "clientOrderId", "deadlineMs")
    body = getattr(alice, kind)(place) | dict.fromkeys(fields)
    made = shop.place(body) if kind == "signed" else shop.gasless(body)
    found = shop.order(made["orderId"])
    assert (found["timeInForce"], found["postOnly"]) == ("GTC", False)
    assert "clientOrderId" not in found
