"""Decisions on signed fields and signatures, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import re

import pytest

from clob.signing import SignedOrder, sign
from tests.server.api.makers import (
    BUY,
    LONG_AGO,
    SELL,
    ApiClient,
    Maker,
    assert_rejected,
    good,
    problem,
    with_amounts,
)
from tests.server.live import live_server
from tests.signings import DOMAIN

# ----- signed fields -------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "echo"), [
    (5, "5"), ("5", "5"), ("0xff", "0xff"), (str(2**256 - 1), str(2**256 - 1)),
    (2**200, str(2**200)), ("1700-x7", "1700-x7"), ("ключ", "ключ"),
])  # fmt: skip
def test_decision_11_salt(api, market, alice, given, echo):
    """Decimal or 0x-hex text or integer within uint256: that number. Any other text:
    uint256(keccak256(utf-8)). The original is echoed."""
    reply = api.place(alice.signed(market, salt=given))
    assert api.order(reply["orderId"])["salt"] == echo


def test_decision_11_equal_numbers_are_one_salt(api, market, alice):
    """that number."""
    body = alice.signed(market, salt=255)
    order_id = api.place(body)["orderId"]
    repeated = api.place(body | {"salt": "0xff"})
    assert (repeated["orderId"], repeated["duplicate"]) == (order_id, True)


@pytest.mark.parametrize("kind", [0, 1])
def test_decision_12_and_13_signature_types(http, api, market, alice, kind):
    """0 accepts an EIP-712 signature of the order or a personal_sign of its hash; 1 is EIP-712.
    Both bind the whole order, and signatureType is part of it."""
    body = alice.signed(market, signature_type=kind)
    changed = SignedOrder.from_json(body | {"signatureType": 1 - kind, "salt": 99})
    assert_rejected(http, body | {"signatureType": 1 - kind}, "INVALID_SIGNATURE")
    api.place(body)
    by_eip712 = sign(changed, DOMAIN, alice.key, profile="ctf")
    assert api.place({**by_eip712.to_json(), "marketId": market.id})["success"]


def test_decision_14_domain(http, market, alice):
    """`EIP712Domain(name, version, chainId, verifyingContract)`, configured; published at GET /
    under `eip712`."""
    domain = good(http.get("/"))["eip712"]
    assert domain["chainId"] == DOMAIN.chain_id
    assert domain["verifyingContract"] == DOMAIN.verifying_contract
    other = SignedOrder.from_json(alice.signed(market))
    other_chain = sign(other, type(DOMAIN)("clob", "1", 1, DOMAIN.verifying_contract), alice.key)
    assert_rejected(http, {**other_chain.to_json(), "marketId": market.id}, "INVALID_SIGNATURE")


def test_decision_15_strictness(http, api, market, alice):
    """v in {0, 1, 27, 28}, low s; addresses 0x + 40 hex, mixed case must pass EIP-55."""
    body = alice.signed(market)
    v = int(body["signature"][-2:], 16)
    for wrong in (2, 26, 29, 255):
        signature = f"{body['signature'][:-2]}{wrong:02x}"
        wrong_v = body | {"signature": signature}
        rejection = assert_rejected(http, wrong_v, "INVALID_SIGNATURE", "signature")
        assert rejection["check"] == "INVALID_V"
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    high = f"{body['signature'][:66]}{order - int(body['signature'][66:130], 16):064x}{55 - v:02x}"
    rejection = assert_rejected(http, body | {"signature": high}, "INVALID_SIGNATURE")
    assert rejection["check"] == "HIGH_S"
    swapped = "0x" + alice.address[2:].swapcase()
    assert_rejected(http, body | {"maker": swapped}, "INVALID_ADDRESS", "maker")
    reply = api.place(body | {"signature": f"{body['signature'][:-2]}{v - 27:02x}"})
    assert api.order(reply["orderId"])["signature"][-2:] == f"{v - 27:02x}"


@pytest.mark.parametrize(
    "field", ["makerAmount", "takerAmount", "salt", "side", "tokenId", "nonce"]
)
def test_decision_15_json_integers_are_accepted(api, market, alice, field):
    """JSON integers accepted for amounts, salt, side ("BUY"/"SELL" too) as real clients send
    them; never through a float."""
    body = alice.signed(market, SELL, 50, 10**21 + 2, salt=2**200 + 1)
    reply = api.place(body | {field: int(body[field]), "side": "SELL"})
    order = api.order(reply["orderId"])
    assert (order["makerAmount"], order["side"]) == (str(10**21 + 2), 1)
    assert order["salt"] == str(2**200 + 1)


def test_decision_15_integers_are_never_read_as_floats(http, market, alice):
    """never through a float."""
    body = alice.signed(market)
    assert_rejected(
        http, body | {"makerAmount": float(body["makerAmount"])}, "INVALID_AMOUNT", "makerAmount"
    )


def test_decision_16_delegates(http, api, market, alice, bob):
    """Needs an explicit authorisation; rejected by default. `POST /api/orders/delegates {maker,
    delegate, allowed, nonce, signature}` by the maker, nonce rising, a logged command."""
    body = bob.signed(market, maker=alice.address, signer=bob.address)
    assert_rejected(http, body, "SIGNER_NOT_AUTHORISED")
    reply = api.post("/api/orders/delegates", alice.delegate(bob, 3))
    assert reply == {
        "success": True,
        "maker": alice.address,
        "delegate": bob.address,
        "allowed": True,
        "nonce": "3",
    }
    assert api.place(body)["success"]
    repeated = http.post("/api/orders/delegates", json=alice.delegate(bob, 3))
    problem(repeated, "DELEGATE_NONCE_TOO_LOW")
    api.post("/api/orders/delegates", alice.delegate(bob, 4, allowed=False))
    another = bob.signed(market, maker=alice.address, signer=bob.address)
    assert_rejected(http, another, "SIGNER_NOT_AUTHORISED")


def test_decision_16_only_the_maker_adds_delegates(http, alice, bob):
    """EIP-712 `SetDelegate(...)` by the maker."""
    forged = alice.delegate(bob, 0) | {"signature": bob.delegate(bob, 0)["signature"]}
    problem(http.post("/api/orders/delegates", json=forged), "INVALID_SIGNATURE", "signature")
    for field in ("maker", "delegate", "allowed", "nonce"):
        body = alice.delegate(bob, 0)
        del body[field]
        problem(http.post("/api/orders/delegates", json=body), "INVALID_FIELD", field)


def test_decision_17_expiration(http, api, market, alice):
    """Absent or 0: never. Expired when now > expiration (seconds)."""
    never = alice.signed(market, expiration_s=0)
    assert api.order(api.place(never)["orderId"])["expiration"] == 0
    assert_rejected(http, alice.signed(market, expiration_s=LONG_AGO), "ORDER_EXPIRED")


def test_decision_18_nonce(http, api, market, alice, bob):
    """Lower than the maker's current nonce is rejected; raising it cancels resting orders below it.
    `POST /api/orders/nonce {maker, nonce, signature}`."""
    low, high = (api.place(alice.signed(market, nonce=nonce))["orderId"] for nonce in (4, 5))
    others = api.place(bob.signed(market, nonce=0))["orderId"]
    reply = api.post("/api/orders/nonce", alice.nonce(5))
    assert reply == {"success": True, "maker": alice.address, "nonce": "5", "numCancelled": 1}
    assert (api.order(low)["status"], api.order(low)["cancelReason"]) == ("cancelled", "nonce")
    assert [api.order(each)["status"] for each in (high, others)] == ["open", "open"]
    assert_rejected(http, alice.signed(market, nonce=4), "NONCE_TOO_LOW")
    problem(http.post("/api/orders/nonce", json=alice.nonce(5)), "NONCE_TOO_LOW")
    forged = alice.nonce(6) | {"signature": bob.nonce(6)["signature"]}
    problem(http.post("/api/orders/nonce", json=forged), "INVALID_SIGNATURE", "signature")


def test_decision_18_gasless_order_has_the_nonce_of_its_maker(api, market, alice):
    """A gasless order has no nonce field, so a maker with a raised nonce can still place one."""
    api.post("/api/orders/nonce", alice.nonce(2**200))
    reply = api.gasless(alice.gasless(market))
    assert api.order(reply["orderId"])["nonce"] == str(2**200)


def test_decision_19_taker(tmp_path, market, alice):
    """Zero address or the operator; otherwise 422 `TAKER_NOT_SUPPORTED`."""
    operator = Maker()
    with live_server(tmp_path / "data", operators=(operator.address,)) as live:
        reply = ApiClient(live.http).place(alice.signed(market, taker=operator.address))
        assert ApiClient(live.http).order(reply["orderId"])["taker"] == operator.address
        for_another = alice.signed(market, taker=Maker().address)
        assert_rejected(live.http, for_another, "TAKER_NOT_SUPPORTED", "taker")


def test_decision_21_side_absent(http, api, market, alice):
    """BUY; the signature binds it anyway. Required on gasless."""
    body = alice.signed(market, BUY)
    del body["side"]
    assert api.order(api.place(body)["orderId"])["side"] == 0
    sell = with_amounts(alice, market, SELL, 40, 80)
    del sell["side"]
    assert_rejected(http, sell, "INVALID_SIGNATURE")


def test_decision_22_ids(api, market, alice):
    """`ord_{unix seconds}_{6 of [0-9a-z]}`: unique, not guessable."""
    order_ids = [api.place(alice.signed(market))["orderId"] for _ in range(20)]
    assert len({re.fullmatch("ord_[0-9]+_([0-9a-z]{6})", each)[1] for each in order_ids}) == 20
