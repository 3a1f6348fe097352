"""A server that drops idle wallets: money that they receive meanwhile counts when they return."""

import pytest

from tests.chain.chain_server import wait_until
from tests.chain.settling_server import BUY, SELL, SETTINGS, SettlingServer
from tests.chain.test_server_reorganisations import restartable
from tests.chain.wallets import UNIT
from tests.server.live import live_server

IDLE_S = 2.0


@pytest.fixture(params=["embedded", pytest.param("anvil", marks=pytest.mark.long)])
def server(request, tmp_path):
    """A server on a node of either kind that drops wallets soon, with a market that settles."""
    if request.param == "anvil":
        with restartable(tmp_path, wallet_idle_s=IDLE_S) as start:
            yield start().set_up()
        return
    with live_server(tmp_path, chain="embedded", wallet_idle_s=IDLE_S, **SETTINGS) as live:
        yield SettlingServer(live).set_up()


def dropped(server):
    """Create a trader without money, and wait until the server has dropped it."""
    before = server.settlement().wallets
    trader = server.trader(0)
    wait_until(lambda: server.settlement().wallets > before)
    wait_until(lambda: server.settlement().wallets <= before)
    return trader


def test_first_order_of_a_dropped_wallet_is_covered_by_what_it_received(server):
    buyer, seller = dropped(server), server.trader(5)
    server.source.send_collateral(buyer.address, 3 * UNIT)
    answer = server.place(buyer, BUY, 50)
    assert answer.status_code == 200, answer.text
    server.placed(seller, SELL, 50)
    status = server.until_settled()
    assert (status.failures, status.difference) == ([], 0)


def test_first_batch_of_a_dropped_wallet_is_covered_by_what_it_received(server):
    maker = dropped(server)
    server.source.send_collateral(maker.address, 3 * UNIT)
    orders = [server.signed(maker, BUY, price) for price in (11, 12)]
    answer = server.http.post("/api/orders/batch", json={"orders": orders})
    assert [each["success"] for each in answer.json()["results"]] == [True, True], answer.text


def test_account_of_a_dropped_wallet_is_read_from_the_chain(server):
    maker = dropped(server)
    server.source.send_collateral(maker.address, 3 * UNIT)
    body = server.http.get(f"/api/accounts/{maker.address}").json()
    [cash] = [each for each in body["balances"] if each["asset"] == server.contracts.collateral]
    assert cash["balance"] == cash["chain"]["balance"] == str(3 * UNIT)
