"""Permissions set and revoked on the chain take effect on the server.

Covers delegates, unsigned orders, and wallets that pay or are paid for a maker.
"""

import pytest
from eth_abi import encode
from eth_utils import keccak

from tests.chain.chain_server import wait_until
from tests.chain.exchange.test_signatures import SIGNS
from tests.chain.settling_server import BUY, SELL, SETTINGS, SettlingServer
from tests.chain.test_server_reorganisations import restartable
from tests.chain.wallets import UNIT
from tests.server.live import live_server

pytestmark = pytest.mark.long
ORDER = (
    "uint256,address,address,address,uint256,uint256,uint256,uint256,uint256,uint256,uint8,uint8"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permits")
    with live_server(folder, chain="embedded", **SETTINGS) as live:
        yield SettlingServer(live).set_up()


@pytest.fixture(scope="module")
def other(server):
    """The counterparty of the trades."""
    return server.trader(50)


def at_exchange(server, user, signature, *arguments):
    """Call the exchange contract."""
    user.call(server.contracts.exchange, signature, *arguments)


def gasless(server, user, side, price=50, wallet=None):
    """Place an unsigned order of one token and return the HTTP response."""
    body = {
        "maker": user.address,
        "marketId": "rain",
        "tokenId": str(server.tokens()[0]),
        "side": int(side),
        "price": price,
        "size": str(UNIT),
    }
    return server.post("/api/orders/gasless", body | ({"smartWallet": wallet} if wallet else {}))


def until(request, code):
    """Repeat a request until its response has this code (None if accepted); return the response."""
    responses = []

    def has_code():
        responses.append(request())
        return responses[-1].json().get("code") == code

    wait_until(has_code)
    return responses[-1]


def test_delegate_signs_until_revoked(server, other):
    maker, delegate = server.trader(), server.trader(0, allows=False)

    def place():
        fields = {"maker": maker.address, "signer": delegate.address, "key": delegate.key}
        return server.place(maker, BUY, 50, **fields)

    server.placed(maker, BUY, 1)
    assert place().json()["code"] == "SIGNER_NOT_AUTHORISED"
    server.placed(other, SELL, 50)
    at_exchange(server, maker, "setDelegate(address,bool)", delegate.address, True)
    assert until(place, None).json()["matched"]
    server.until_settled()
    several = [
        server.signed(maker, SELL, 90, signer=signer.address, key=signer.key)
        for signer in (delegate, other)
    ]
    result = server.done("/api/orders/batch", {"orders": several})["results"]
    assert [each.get("code") for each in result] == [None, "SIGNER_NOT_AUTHORISED"]
    before = place().json()
    at_exchange(server, maker, "setDelegate(address,bool)", delegate.address, False)
    until(place, "SIGNER_NOT_AUTHORISED")
    assert server.http.get(f"/api/orders/{before['orderId']}").json()["status"] == "cancelled"
    assert {result for result, _ in server.settlements_by_id().values()} == {"settled"}


def test_gasless_maker_trades_without_a_signature(server, other):
    maker = server.trader()
    assert gasless(server, maker, SELL).json()["code"] == "GASLESS_NOT_ALLOWED"
    at_exchange(server, maker, "setGasless(bool)", True)
    server.placed(other, BUY, 50, 2 * UNIT)
    for _ in range(2):
        answer = until(lambda: gasless(server, maker, SELL), None)
        assert answer.json()["matched"]
    server.until_settled()
    assert {result for result, _ in server.settlements_by_id().values()} == {"settled"}
    at_exchange(server, maker, "setGasless(bool)", False)
    until(lambda: gasless(server, maker, SELL), "GASLESS_NOT_ALLOWED")


def test_smart_wallet_pays_and_is_paid_for_a_maker(server, other):
    maker, safe = server.trader(), server.trader(tokens=False)
    at_exchange(server, maker, "setGasless(bool)", True)
    until(lambda: gasless(server, maker, BUY, 1), None)
    at_exchange(server, maker, "setPayee(address,bool)", safe.address, True)
    for side in (BUY, SELL):
        code = "WALLET_NOT_ALLOWED" if side is BUY else None
        until(lambda side=side: gasless(server, maker, side, 98 - side, safe.address), code)
    at_exchange(server, safe, "setPayer(address,bool)", maker.address, True)
    before = server.ledger.collateral(safe.address)
    server.placed(other, SELL, 40)
    answer = until(lambda: gasless(server, maker, BUY, 40, safe.address), None)
    assert answer.json()["matched"]
    server.until_settled()
    assert server.ledger.collateral(safe.address) - before == -40 * UNIT // 100
    assert {result for result, _ in server.settlements_by_id().values()} == {"settled"}


def test_order_cancelled_on_chain_is_rejected(server):
    maker = server.trader()
    body = server.signed(maker, BUY, 50)
    order = (
        int(body["salt"]), maker.address, maker.address, body["taker"], int(body["tokenId"]),
        int(body["makerAmount"]), int(body["takerAmount"]), 0, 0, 0, 0, 1,
    )  # fmt: skip
    call = keccak(text=f"cancel(({ORDER}))")[:4] + encode(ORDER.split(","), order)
    maker.send(server.contracts.exchange, call)

    def is_cancelled():
        preview = server.http.post("/api/orders/validate", json=body).json()
        return not preview["valid"] and preview["refusal"]["code"] == "ORDER_CANCELLED"

    # Placed too early, the order would rest and be cancelled later.
    wait_until(is_cancelled)
    answer = server.http.post("/api/orders", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "ORDER_CANCELLED")


def test_contract_wallet_trades_through_a_delegate_only(tmp_path):
    with restartable(tmp_path) as start:
        server = start().set_up()
        maker, delegate, buyer = server.trader(), server.trader(0, allows=False), server.trader()
        at_exchange(server, maker, "setDelegate(address,bool)", delegate.address, True)
        server.ask("anvil_setCode", maker.address, f"0x{SIGNS.hex()}")
        body = server.signed(maker, SELL, 40)
        confirmed = body | {"signature": f"0x{'12' * 64}1b"}  # the wallet confirms any signature
        answer = server.http.post("/api/orders", json=confirmed)
        assert answer.json()["code"] == "INVALID_SIGNATURE"
        signed_by = {"signer": delegate.address, "key": delegate.key}
        until(lambda: server.place(maker, SELL, 40, **signed_by), None)
        server.placed(buyer, BUY, 40)
        status = server.until_settled()
        assert (status.failures, status.difference) == ([], 0)
        assert server.ledger.token(buyer.address, server.tokens()[0]) == 6 * UNIT
