"""Permissions set and revoked on the chain take effect on the server.

Covers delegates, unsigned orders, and wallets that pay or are paid for a maker.
"""

import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.chain.people import UNIT
from tests.chain.settling_venues import BUY, SELL, SETTINGS, SettlingVenue
from tests.chain.venues import wait_until
from tests.server.live import live_server

pytestmark = pytest.mark.long
ORDER = (
    "uint256,address,address,address,uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8"
)


@pytest.fixture(scope="module")
def venue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permits")
    with live_server(folder, chain="embedded", **SETTINGS) as live:
        yield SettlingVenue(live).set_up()


@pytest.fixture(scope="module")
def other(venue):
    """A trader to trade with."""
    return venue.trader(50)


def at_exchange(venue, user, signature, *arguments):
    """Call the exchange contract."""
    user.call(venue.contracts.exchange, signature, *arguments)


def gasless(venue, user, side, price=50, wallet=None):
    """Place an unsigned order of one token and return the HTTP response."""
    body = {
        "maker": user.address,
        "marketId": "rain",
        "tokenId": str(venue.tokens()[0]),
        "side": int(side),
        "price": price,
        "size": str(UNIT),
    }
    return venue.post("/api/orders/gasless", body | ({"smartWallet": wallet} if wallet else {}))


def until(answer, code):
    """Repeat a request until it is rejected with a code, or accepted for None; return it."""
    found = []

    def comes():
        found.append(answer())
        return found[-1].json().get("code") == code

    wait_until(comes)
    return found[-1]


def test_delegate_signs_until_revoked(venue, other):
    maker, delegate = venue.trader(), venue.trader(0, allows=False)

    def place():
        named = {"maker": maker.address, "signer": delegate.address, "key": delegate.key}
        return venue.place(maker, BUY, 50, **named)

    venue.placed(maker, BUY, 1)
    assert place().json()["code"] == "SIGNER_NOT_AUTHORISED"
    venue.placed(other, SELL, 50)
    at_exchange(venue, maker, "setDelegate(address,bool)", delegate.address, True)
    assert until(place, None).json()["matched"]
    venue.until_settled()
    several = [
        venue.signed(maker, SELL, 90, signer=signer.address, key=signer.key)
        for signer in (delegate, other)
    ]
    result = venue.done("/api/orders/batch", {"orders": several})["results"]
    assert [each.get("code") for each in result] == [None, "SIGNER_NOT_AUTHORISED"]
    before = place().json()
    at_exchange(venue, maker, "setDelegate(address,bool)", delegate.address, False)
    until(place, "SIGNER_NOT_AUTHORISED")
    assert venue.http.get(f"/api/orders/{before['orderId']}").json()["status"] == "cancelled"
    assert {result for result, _ in venue.settlements_by_id().values()} == {"settled"}


def test_gasless_maker_trades_without_a_signature(venue, other):
    maker = venue.trader()
    assert gasless(venue, maker, SELL).json()["code"] == "GASLESS_NOT_ALLOWED"
    at_exchange(venue, maker, "setGasless(bool)", True)
    venue.placed(other, BUY, 50, 2 * UNIT)
    for _ in range(2):
        answer = until(lambda: gasless(venue, maker, SELL), None)
        assert answer.json()["matched"]
    venue.until_settled()
    assert {result for result, _ in venue.settlements_by_id().values()} == {"settled"}
    at_exchange(venue, maker, "setGasless(bool)", False)
    until(lambda: gasless(venue, maker, SELL), "GASLESS_NOT_ALLOWED")


def test_smart_wallet_pays_and_is_paid_for_a_maker(venue, other):
    maker, safe = venue.trader(), venue.trader(tokens=False)
    at_exchange(venue, maker, "setGasless(bool)", True)
    until(lambda: gasless(venue, maker, BUY, 1), None)
    at_exchange(venue, maker, "setPayee(address,bool)", safe.address, True)
    for side in (BUY, SELL):
        wanted = "WALLET_NOT_ALLOWED" if side is BUY else None
        until(lambda side=side: gasless(venue, maker, side, 98 - side, safe.address), wanted)
    at_exchange(venue, safe, "setPayer(address,bool)", maker.address, True)
    before = venue.ledger.collateral(safe.address)
    venue.placed(other, SELL, 40)
    answer = until(lambda: gasless(venue, maker, BUY, 40, safe.address), None)
    assert answer.json()["matched"]
    venue.until_settled()
    assert venue.ledger.collateral(safe.address) - before == -40 * UNIT // 100
    assert {result for result, _ in venue.settlements_by_id().values()} == {"settled"}


def test_order_cancelled_on_chain_is_rejected(venue):
    maker = venue.trader()
    body = venue.signed(maker, BUY, 50)
    order = (
        int(body["salt"]), maker.address, maker.address, body["taker"], int(body["tokenId"]),
        int(body["makerAmount"]), int(body["takerAmount"]), 0, 0, 0, 0, 1,
    )  # fmt: skip
    call = keccak(text=f"cancel(({ORDER}))")[:4] + encode(ORDER.split(","), order)
    maker.send(venue.contracts.exchange, call)

    def is_cancelled():
        said = venue.http.post("/api/orders/validate", json=body).json()
        return not said["valid"] and said["refusal"]["code"] == "ORDER_CANCELLED"

    # Placed too early, the order would rest and be cancelled later.
    wait_until(is_cancelled)
    answer = venue.http.post("/api/orders", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "ORDER_CANCELLED")
