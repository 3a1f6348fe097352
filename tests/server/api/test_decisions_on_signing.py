"""Decisions on signed fields and signatures, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import re

import pytest

from clob.signing import SignedOrder, sign
from tests.server.api.people import (
    BUY,
    LONG_AGO,
    SELL,
    Person,
    Shop,
    assert_rejected,
    good,
    problem,
    with_amounts,
)
from tests.server.live import live_server
from tests.signings import DOMAIN

# ----- what is signed ------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "echo"), [
    (5, "5"), ("5", "5"), ("0xff", "0xff"), (str(2**256 - 1), str(2**256 - 1)),
    (2**200, str(2**200)), ("1700-x7", "1700-x7"), ("ключ", "ключ"),
])  # fmt: skip
def test_decision_11_salt(shop, place, alice, given, echo):
    """Decimal or 0x-hex text or integer within uint256: that number. Any other text:
    uint256(keccak256(utf-8)). The original is echoed."""
    made = shop.place(alice.signed(place, salt=given))
    assert shop.order(made["orderId"])["salt"] == echo


def test_decision_11_equal_numbers_are_one_salt(shop, place, alice):
    """that number."""
    body = alice.signed(place, salt=255)
    made = shop.place(body)["orderId"]
    again = shop.place(body | {"salt": "0xff"})
    assert (again["orderId"], again["duplicate"]) == (made, True)


@pytest.mark.parametrize("kind", [0, 1])
def test_decision_12_and_13_signature_types(http, shop, place, alice, kind):
    """0 accepts an EIP-712 signature of the order or a personal_sign of its hash; 1 is EIP-712.
    Both bind the whole order, and signatureType is part of it."""
    body = alice.signed(place, signature_type=kind)
    changed = SignedOrder.from_json(body | {"signatureType": 1 - kind, "salt": 99})
    assert_rejected(http, body | {"signatureType": 1 - kind}, "INVALID_SIGNATURE")
    shop.place(body)
    by_eip712 = sign(changed, DOMAIN, alice.key, profile="ctf")
    assert shop.place({**by_eip712.to_json(), "marketId": place.id})["success"]


def test_decision_14_domain(http, place, alice):
    """`EIP712Domain(name, version, chainId, verifyingContract)`, configured; published at GET /
    under `eip712`."""
    domain = good(http.get("/"))["eip712"]
    assert domain["chainId"] == DOMAIN.chain_id
    assert domain["verifyingContract"] == DOMAIN.verifying_contract
    other = SignedOrder.from_json(alice.signed(place))
    elsewhere = sign(other, type(DOMAIN)("clob", "1", 1, DOMAIN.verifying_contract), alice.key)
    assert_rejected(http, {**elsewhere.to_json(), "marketId": place.id}, "INVALID_SIGNATURE")


def test_decision_15_strictness(http, shop, place, alice):
    """v in {0, 1, 27, 28}, low s; addresses 0x + 40 hex, mixed case must pass EIP-55."""
    body = alice.signed(place)
    v = int(body["signature"][-2:], 16)
    for wrong in (2, 26, 29, 255):
        signature = f"{body['signature'][:-2]}{wrong:02x}"
        wrong_v = body | {"signature": signature}
        said = assert_rejected(http, wrong_v, "INVALID_SIGNATURE", "signature")
        assert said["check"] == "INVALID_V"
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    high = f"{body['signature'][:66]}{order - int(body['signature'][66:130], 16):064x}{55 - v:02x}"
    said = assert_rejected(http, body | {"signature": high}, "INVALID_SIGNATURE")
    assert said["check"] == "HIGH_S"
    swapped = "0x" + alice.address[2:].swapcase()
    assert_rejected(http, body | {"maker": swapped}, "INVALID_ADDRESS", "maker")
    made = shop.place(body | {"signature": f"{body['signature'][:-2]}{v - 27:02x}"})
    assert shop.order(made["orderId"])["signature"][-2:] == f"{v - 27:02x}"


@pytest.mark.parametrize(
    "field", ["makerAmount", "takerAmount", "salt", "side", "tokenId", "nonce"]
)
def test_decision_15_json_integers_are_accepted(shop, place, alice, field):
    """JSON integers accepted for amounts, salt, side ("BUY"/"SELL" too) as real clients send
    them; never through a float."""
    body = alice.signed(place, SELL, 50, 10**21 + 2, salt=2**200 + 1)
    made = shop.place(body | {field: int(body[field]), "side": "SELL"})
    found = shop.order(made["orderId"])
    assert (found["makerAmount"], found["side"]) == (str(10**21 + 2), 1)
    assert found["salt"] == str(2**200 + 1)


def test_decision_15_integers_are_never_read_as_floats(http, place, alice):
    """never through a float."""
    body = alice.signed(place)
    assert_rejected(
        http, body | {"makerAmount": float(body["makerAmount"])}, "INVALID_AMOUNT", "makerAmount"
    )


def test_decision_16_delegates(http, shop, place, alice, bob):
    """Needs an explicit authorisation; rejected by default. `POST /api/orders/delegates {maker,
    delegate, allowed, nonce, signature}` by the maker, nonce rising, a logged command."""
    body = bob.signed(place, maker=alice.address, signer=bob.address)
    assert_rejected(http, body, "SIGNER_NOT_AUTHORISED")
    told = shop.post("/api/orders/delegates", alice.delegate(bob, 3))
    assert told == {
        "success": True,
        "maker": alice.address,
        "delegate": bob.address,
        "allowed": True,
        "nonce": "3",
    }
    assert shop.place(body)["success"]
    again = http.post("/api/orders/delegates", json=alice.delegate(bob, 3))
    problem(again, "DELEGATE_NONCE_TOO_LOW")
    shop.post("/api/orders/delegates", alice.delegate(bob, 4, allowed=False))
    another = bob.signed(place, maker=alice.address, signer=bob.address)
    assert_rejected(http, another, "SIGNER_NOT_AUTHORISED")


def test_decision_16_only_the_maker_adds_delegates(http, alice, bob):
    """EIP-712 `SetDelegate(...)` by the maker."""
    forged = alice.delegate(bob, 0) | {"signature": bob.delegate(bob, 0)["signature"]}
    problem(http.post("/api/orders/delegates", json=forged), "INVALID_SIGNATURE", "signature")
    for field in ("maker", "delegate", "allowed", "nonce"):
        body = alice.delegate(bob, 0)
        del body[field]
        problem(http.post("/api/orders/delegates", json=body), "INVALID_FIELD", field)


def test_decision_17_expiration(http, shop, place, alice):
    """Absent or 0: never. Expired when now > expiration (seconds)."""
    never = alice.signed(place, expiration_s=0)
    assert shop.order(shop.place(never)["orderId"])["expiration"] == 0
    assert_rejected(http, alice.signed(place, expiration_s=LONG_AGO), "ORDER_EXPIRED")


def test_decision_18_nonce(http, shop, place, alice, bob):
    """Lower than the maker's current nonce is rejected; raising it cancels resting orders below it.
    `POST /api/orders/nonce {maker, nonce, signature}`."""
    low, high = (shop.place(alice.signed(place, nonce=nonce))["orderId"] for nonce in (4, 5))
    others = shop.place(bob.signed(place, nonce=0))["orderId"]
    told = shop.post("/api/orders/nonce", alice.nonce(5))
    assert told == {"success": True, "maker": alice.address, "nonce": "5", "numCancelled": 1}
    assert (shop.order(low)["status"], shop.order(low)["cancelReason"]) == ("cancelled", "nonce")
    assert [shop.order(each)["status"] for each in (high, others)] == ["open", "open"]
    assert_rejected(http, alice.signed(place, nonce=4), "NONCE_TOO_LOW")
    problem(http.post("/api/orders/nonce", json=alice.nonce(5)), "NONCE_TOO_LOW")
    forged = alice.nonce(6) | {"signature": bob.nonce(6)["signature"]}
    problem(http.post("/api/orders/nonce", json=forged), "INVALID_SIGNATURE", "signature")


def test_decision_18_gasless_order_has_the_nonce_of_its_maker(shop, place, alice):
    """A gasless order has no field for a nonce; whoever raised his can still place one."""
    shop.post("/api/orders/nonce", alice.nonce(2**200))
    made = shop.gasless(alice.gasless(place))
    assert shop.order(made["orderId"])["nonce"] == str(2**200)


def test_decision_19_taker(tmp_path, place, alice):
    """Zero address or the operator; otherwise 422 `TAKER_NOT_SUPPORTED`."""
    operator = Person()
    with live_server(tmp_path / "data", operators=(operator.address,)) as live:
        made = Shop(live.http).place(alice.signed(place, taker=operator.address))
        assert Shop(live.http).order(made["orderId"])["taker"] == operator.address
        stranger = alice.signed(place, taker=Person().address)
        assert_rejected(live.http, stranger, "TAKER_NOT_SUPPORTED", "taker")


def test_decision_21_side_absent(http, shop, place, alice):
    """BUY; the signature binds it anyway. Required on gasless."""
    body = alice.signed(place, BUY)
    del body["side"]
    assert shop.order(shop.place(body)["orderId"])["side"] == 0
    sell = with_amounts(alice, place, SELL, 40, 80)
    del sell["side"]
    assert_rejected(http, sell, "INVALID_SIGNATURE")


def test_decision_22_ids(shop, place, alice):
    """`ord_{unix seconds}_{6 of [0-9a-z]}`: unique, not guessable."""
    made = [shop.place(alice.signed(place))["orderId"] for _ in range(20)]
    assert len({re.fullmatch("ord_[0-9]+_([0-9a-z]{6})", each)[1] for each in made}) == 20
