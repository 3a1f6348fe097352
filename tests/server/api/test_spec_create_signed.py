"""Specification, "POST /api/orders (create a signed order)": each row of its table.

A docstring quotes the row.
"""

import re

import pytest

from clob.signing import SignedOrder, amounts_of
from tests.server.api.makers import BUY, ONE, SELL, ZERO, Maker, problem

REQUIRED = ("maker", "tokenId", "makerAmount", "takerAmount", "marketId", "signature")


def assert_rejected(http, body, code, path=None):
    return problem(http.post("/api/orders", json=body), code, path)


@pytest.mark.parametrize("field", REQUIRED)
@pytest.mark.parametrize("gone", ["absent", "null"])
def test_required_fields_are_required(http, market, alice, field, gone):
    """| Field | Type | Required |"""
    body = alice.signed(market)
    body = body | {field: None} if gone == "null" else {k: body[k] for k in body if k != field}
    assert_rejected(http, body, "INVALID_FIELD", field)


@pytest.mark.parametrize(
    "given", ["0x12", "x" * 42, "0x" + "g" * 40, "0x" + "1" * 41, "", 5, [], {}, True, 1.5]
)
def test_maker_is_a_valid_ethereum_address(http, market, alice, given):
    """Valid Ethereum address (0x + 40 hex chars)."""
    assert_rejected(http, alice.signed(market) | {"maker": given}, "INVALID_ADDRESS", "maker")


def test_token_id_is_the_yes_or_the_no_token(http, api, market, alice):
    """ERC1155 outcome token ID (YES or NO)."""
    api.place(alice.signed(market, token=market.yes))
    api.place(alice.signed(market, token=market.no))
    assert_rejected(http, alice.signed(market, token=market.no + 1), "TOKEN_NOT_IN_MARKET")


@pytest.mark.parametrize("field", ["makerAmount", "takerAmount"])
@pytest.mark.parametrize("given", ["1.5", "-1", "1e18", "", " 1", "0x10", 1.5, -1, True, [], {}])
def test_amounts_are_wei(http, market, alice, field, given):
    """Wei."""
    assert_rejected(http, alice.signed(market) | {field: given}, "INVALID_AMOUNT", field)


@pytest.mark.parametrize(("side", "price"), [(BUY, 1), (BUY, 99), (SELL, 1), (SELL, 99)])
def test_amounts_of_both_sides(api, market, alice, side, price):
    """Wei. BUY: collateral; SELL: tokens. - Wei. BUY: tokens; SELL: collateral."""
    body = alice.signed(market, side, price, 7 * ONE)
    maker, taker = amounts_of(side, price, 7 * ONE)
    assert (body["makerAmount"], body["takerAmount"]) == (str(maker), str(taker))
    order = api.order(api.place(body)["orderId"])
    assert (order["price"], order["size"]) == (price, str(7 * ONE))


def test_market_id_routes_the_order_to_the_right_orderbook(api, alice, market):
    """Routes the order to the right orderbook."""
    reply = api.place(alice.signed(market, BUY, 41))
    assert api.order(reply["orderId"])["marketId"] == market.id
    assert [level["price"] for level in api.book(market)["bids"]] == [41]


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "ä", "a/b", 5, [], {}, True])
def test_market_id_with_invalid_characters_is_rejected(http, market, alice, given):
    """Identifier (decision 25: 1 to 64 of [A-Za-z0-9._:-])."""
    assert_rejected(http, alice.signed(market) | {"marketId": given}, "INVALID_FIELD", "marketId")


def test_signature_is_by_the_signer(http, market, alice, bob):
    """Signed by the signer address."""
    body = alice.signed(market)
    forged = bob.body(SignedOrder.from_json(body), market)
    rejection = assert_rejected(http, forged, "INVALID_SIGNATURE", "signature")
    assert (rejection["check"], rejection["expectedSigner"]) == ("WRONG_SIGNER", alice.address)
    assert rejection["recoveredAddress"] == bob.address


@pytest.mark.parametrize("change", [
    lambda sign: sign[:-1], lambda sign: sign + "0", lambda sign: sign[2:],
    lambda sign: "0x" + "z" * 130, lambda _: "", lambda _: "0x", lambda _: 5, lambda _: [],
])  # fmt: skip
def test_signature_has_the_format_0x_and_130_hex_chars(http, market, alice, change):
    """Format 0x + 130 hex chars."""
    body = alice.signed(market)
    body["signature"] = change(body["signature"])
    assert_rejected(http, body, "INVALID_SIGNATURE", "signature")


def test_signer_is_the_maker_by_default(api, market, alice):
    """Usually the maker; may be a delegate. | required: no"""
    body = alice.signed(market)
    del body["signer"]
    assert api.order(api.place(body)["orderId"])["signer"] == alice.address


def test_signer_may_be_a_delegate(http, api, market, alice, bob):
    """may be a delegate."""
    body = bob.signed(market, maker=alice.address, signer=bob.address)
    assert_rejected(http, body, "SIGNER_NOT_AUTHORISED")
    api.post("/api/orders/delegates", alice.delegate(bob, 0))
    order = api.order(api.place(body)["orderId"])
    assert (order["maker"], order["signer"]) == (alice.address, bob.address)


@pytest.mark.parametrize("given", [2, -1, 256, "buy", "2", 0.0, 1.5, True, [], {}])
def test_side_is_0_or_1(http, market, alice, given):
    """0 = BUY, 1 = SELL."""
    assert_rejected(http, alice.signed(market) | {"side": given}, "INVALID_SIDE", "side")


@pytest.mark.parametrize("given", [2, 3, 255, 256, -1, "x", 1.5, True, []])
def test_signature_type_is_0_or_1(http, market, alice, given):
    """0 or 1. Default 1."""
    code = "INVALID_SIGNATURE" if given in (2, 3, 255) and given is not True else "INVALID_FIELD"
    assert_rejected(http, alice.signed(market) | {"signatureType": given}, code, "signatureType")


def test_signature_type_is_1_by_default(api, market, alice):
    """Default 1."""
    body = alice.signed(market)
    del body["signatureType"]
    assert api.order(api.place(body)["orderId"])["signatureType"] == 1


@pytest.mark.parametrize("given", [-1, 1.5, "1.5", "soon", True, [], {}, 2**256])
def test_expiration_is_unix_seconds(http, market, alice, given):
    """Unix seconds."""
    body = alice.signed(market) | {"expiration": given}
    assert_rejected(http, body, "INVALID_FIELD", "expiration")


def test_fee_rate_bps_is_0_by_default(api, market, alice):
    """Default 0."""
    body = alice.signed(market)
    del body["feeRateBps"]
    assert api.order(api.place(body)["orderId"])["feeRateBps"] == 0


@pytest.mark.parametrize(("rate", "good"), [(0, True), (1000, True), (1001, False)])
def test_fee_rate_bps_has_a_range(http, api, market, alice, rate, good):
    """Range 0 to 1000."""
    body = alice.signed(market, fee_rate_bps=rate)
    if good:
        assert api.order(api.place(body)["orderId"])["feeRateBps"] == rate
    else:
        assert_rejected(http, body, "INVALID_FEE_RATE", "feeRateBps")


def test_salt_is_a_uniqueness_value(api, market, alice):
    """Uniqueness value."""
    one, other = (api.place(alice.signed(market, salt=salt)) for salt in ("1", "2"))
    assert one["orderId"] != other["orderId"]


@pytest.mark.parametrize(("field", "default"), [("nonce", "0"), ("taker", ZERO), ("salt", "0")])
def test_absent_field_has_its_default(api, market, alice, field, default):
    """Default '0'. - Default is the zero address (any taker)."""
    body = alice.signed(market, salt=0)
    del body[field]
    assert api.order(api.place(body)["orderId"])[field] == default


def test_order_for_one_taker_is_rejected(http, market, alice):
    """Default is the zero address (any taker). (Decision 19: another is rejected.)"""
    body = alice.signed(market, taker=Maker().address)
    assert_rejected(http, body, "TAKER_NOT_SUPPORTED", "taker")


def test_the_response(api, market, alice, bob):
    """`success` (boolean), `orderId` (string), `matched` (boolean), `trades` (array of trade
    summary)."""
    quiet = api.place(alice.signed(market, SELL, 40, ONE))
    assert (quiet["success"], quiet["matched"], quiet["trades"]) == (True, False, [])
    assert re.fullmatch("ord_[0-9]+_[0-9a-z]{6}", quiet["orderId"])
    api.place(alice.signed(market, SELL, 41, 2 * ONE))
    reply = api.place(bob.signed(market, BUY, 41, 2 * ONE))
    assert (reply["success"], reply["matched"]) == (True, True)
    assert [(trade["price"], trade["size"]) for trade in reply["trades"]] == (
        [(40, str(ONE)), (41, str(ONE))]
    )


def test_the_trade_summary(api, market, alice, bob):
    """`id` (string), `price` (integer, cents), `size` (string, wei), `txHash` (string)."""
    api.place(alice.signed(market, SELL, 40))
    (trade,) = api.place(bob.signed(market, BUY, 45))["trades"]
    assert trade.keys() == {"id", "price", "size", "txHash"}
    assert re.fullmatch("trade_[0-9]+_[0-9a-z]{6}", trade["id"])
    assert (trade["price"], trade["size"], trade["txHash"]) == (40, str(ONE), None)
    (kept,) = api.http.get(f"/api/markets/{market.id}/trades").json()
    assert {name: kept[name] for name in trade} == trade
