"""Specification, "POST /api/orders/gasless" and the gasless operations: each row and sentence.

A docstring quotes it.
"""

import re

import pytest

from clob.units import SIZE_MAX
from tests.server.api.makers import BUY, ONE, SELL, Maker, good, problem

REQUIRED = ("maker", "tokenId", "side", "price", "size", "marketId")
CONVERSION = {
    "user": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "amount": str(ONE),
    "conditionId": "0x" + "5c" * 32,
    "yesTokenId": "101",
    "noTokenId": "102",
}


def assert_rejected(http, body, code, path=None):
    return problem(http.post("/api/orders/gasless", json=body), code, path)


# ----- orders --------------------------------------------------------------------------------


@pytest.mark.parametrize("field", REQUIRED)
@pytest.mark.parametrize("gone", ["absent", "null"])
def test_required_fields_are_required(http, market, alice, field, gone):
    """| Field | Type | Required |"""
    body = alice.gasless(market)
    body = body | {field: None} if gone == "null" else {k: body[k] for k in body if k != field}
    assert_rejected(http, body, "INVALID_FIELD", field)


def test_maker_is_the_wallet_of_the_client(api, market, alice):
    """The caller's EOA wallet address."""
    order = api.order(api.gasless(alice.gasless(market))["orderId"])
    assert order["maker"] == order["signer"] == alice.address


def test_smart_wallet_holds_the_collateral(http, api, market, alice):
    """Smart wallet holding the collateral. | required: no"""
    wallet = Maker().address
    reply = api.gasless(alice.gasless(market, smartWallet=wallet.lower()))
    assert api.order(reply["orderId"])["smartWallet"] == wallet
    body = alice.gasless(market, smartWallet="0x12")
    assert_rejected(http, body, "INVALID_ADDRESS", "smartWallet")


def test_token_id_is_the_yes_or_the_no_token(http, api, market, alice):
    """YES or NO token ID."""
    api.gasless(alice.gasless(market, token=market.yes))
    api.gasless(alice.gasless(market, token=market.no))
    assert_rejected(http, alice.gasless(market, token=market.no + 1), "TOKEN_NOT_IN_MARKET")


@pytest.mark.parametrize("side", [BUY, SELL])
def test_side(api, market, alice, side):
    """0 = BUY, 1 = SELL."""
    order = api.order(api.gasless(alice.gasless(market, side))["orderId"])
    assert order["side"] == int(side)


@pytest.mark.parametrize("price", [1, 99])
def test_price_is_cents(api, market, alice, price):
    """Cents, 1 to 99."""
    assert api.order(api.gasless(alice.gasless(market, price=price))["orderId"])["price"] == price


@pytest.mark.parametrize("price", [0, 100, -1, 10**30, 50.0, 1.5, "50", "x", True, [], {}])
def test_invalid_price_is_rejected(http, market, alice, price):
    """Cents, 1 to 99. | integer"""
    assert_rejected(http, alice.gasless(market, price=price), "PRICE_OUT_OF_RANGE", "price")


def test_size_is_wei(http, api, market, alice):
    """Wei (1e18 = 1 token)."""
    order = api.order(api.gasless(alice.gasless(market, size=ONE + 7))["orderId"])
    assert order["size"] == str(ONE + 7)
    for size in ("1e18", "1.0", "", "x", "-1"):
        assert_rejected(http, alice.gasless(market, size=size), "INVALID_AMOUNT", "size")
    assert_rejected(http, alice.gasless(market, size=0), "INVALID_AMOUNT", "size")
    assert_rejected(http, alice.gasless(market, size=SIZE_MAX + 1), "AMOUNT_TOO_LARGE", "size")
    assert_rejected(http, alice.gasless(market, size=2**256), "AMOUNT_TOO_LARGE", "size")


def test_market_identifier(api, market, alice):
    """Market identifier."""
    assert api.order(api.gasless(alice.gasless(market))["orderId"])["marketId"] == market.id


def test_the_response(api, market, alice, bob):
    """`success` (boolean), `orderId` (string), `matched` (boolean), `trades` (array of trade
    summary)."""
    quiet = api.gasless(alice.gasless(market, SELL, 40))
    assert (quiet["success"], quiet["matched"], quiet["trades"]) == (True, False, [])
    assert re.fullmatch("ord_[0-9]+_[0-9a-z]{6}", quiet["orderId"])
    reply = api.gasless(bob.gasless(market, BUY, 60))
    assert (reply["success"], reply["matched"]) == (True, True)
    assert [(trade["price"], trade["size"]) for trade in reply["trades"]] == [(40, str(ONE))]


def test_gasless_and_signed_orders_share_one_book(api, market, alice, bob):
    """Gasless operations: the operator pays the blockchain gas for order creation."""
    api.place(alice.signed(market, SELL, 40))
    assert api.gasless(bob.gasless(market, BUY, 40))["matched"]


# ----- merge, split, faucet ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/gasless/merge", "/api/gasless/split"])
def test_merge_and_split_need_a_chain(http, path):
    """Converts equal amounts of YES and NO tokens into collateral; the operator pays all gas."""
    problem(http.post(path, json=CONVERSION), "CHAIN_NOT_CONFIGURED")


@pytest.mark.parametrize("path", ["/api/gasless/merge", "/api/gasless/split"])
@pytest.mark.parametrize(("field", "given", "code"), [
    ("user", "0x12", "INVALID_ADDRESS"), ("user", None, "INVALID_FIELD"),
    ("amount", "x", "INVALID_AMOUNT"), ("amount", "0", "INVALID_AMOUNT"),
    ("amount", 1.5, "INVALID_AMOUNT"), ("amount", str(2**256), "AMOUNT_TOO_LARGE"),
    ("conditionId", "0x5c", "INVALID_FIELD"), ("conditionId", None, "INVALID_FIELD"),
    ("yesTokenId", "x", "INVALID_FIELD"), ("noTokenId", -1, "INVALID_FIELD"),
])  # fmt: skip
def test_merge_and_split_read_their_fields(http, path, field, given, code):
    """Body (all strings): `user` (wallet address), `amount` (token amount to merge), `conditionId`
    (hex market condition ID), `yesTokenId` (decimal), `noTokenId` (decimal)."""
    problem(http.post(path, json=CONVERSION | {field: given}), code, field)


@pytest.mark.parametrize("path", ["/api/gasless/wrap", "/api/gasless/unwrap"])
def test_wrap_and_unwrap_read_their_fields_and_need_a_chain(http, alice, path):
    body = {"user": alice.address, "amount": str(10**18)}
    problem(http.post(path, json=body), "CHAIN_NOT_CONFIGURED")
    for field, given, code in (
        ("user", "0x12", "INVALID_ADDRESS"),
        ("amount", "0", "INVALID_AMOUNT"),
        ("amount", None, "INVALID_FIELD"),
        ("amount", str(2**256), "AMOUNT_TOO_LARGE"),
    ):
        problem(http.post(path, json=body | {field: given}), code, field)
    problem(http.post(path, json=body | {"permit": {"value": "1"}}), "INVALID_FIELD", None)


def test_faucet_needs_a_chain(http, alice):
    """Mints test stablecoin to a wallet; the operator pays gas. Body: `user` (string, wallet
    address)."""
    path = "/api/gasless/faucet"
    problem(http.post(path, json={"user": alice.address}), "CHAIN_NOT_CONFIGURED")
    problem(http.post(path, json={"user": "me"}), "INVALID_ADDRESS", "user")
    problem(http.post(path, json={}), "INVALID_FIELD", "user")


def test_rejected_chain_operation_changes_nothing(http, api, market, alice):
    """A rejection changes nothing."""
    before = good(http.get("/health"))["commandSeq"]
    http.post("/api/gasless/merge", json=CONVERSION)
    http.post("/api/gasless/faucet", json={"user": alice.address})
    assert good(http.get("/health"))["commandSeq"] == before
