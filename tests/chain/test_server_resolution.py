"""Resolving a market that settles: the outcome is reported after the trades."""

import pytest

from tests.chain.chain_server import wait_until
from tests.chain.proxy import Drop
from tests.chain.settling_server import BUY, SELL
from tests.chain.test_server_reorganisations import restartable
from tests.server.meta.operators import authority_of

pytestmark = pytest.mark.long
PATH = "/api/admin/markets/rain"


def resolve(server, **body):
    """Resolve the market."""
    headers = authority_of(server.live)
    return server.http.post(f"{PATH}/resolve", json={"outcome": "yes"} | body, headers=headers)


def resolution(server):
    """Return the progress of the resolution."""
    return server.http.get(PATH, headers=authority_of(server.live)).json()["resolution"]


def closing(start):
    """Return a server with a resolved market and a trade that the chain has not seen."""
    server = start().set_up()
    buyer, seller = server.trader(), server.trader()
    server.placed(seller, SELL, 90)  # the server knows the funds of both
    server.placed(buyer, BUY, 10)
    drop = server.proxy.inject(Drop())
    drop.__enter__()
    server.trade(buyer, seller)
    answer = resolve(server)
    assert (answer.status_code, answer.headers["location"]) == (202, PATH)
    assert answer.json()["resolution"]["state"] == "closing"
    assert resolution(server)["waiting"] == 1
    return server, drop


def test_outcome_is_reported_once_the_trades_are_final(tmp_path):
    with restartable(tmp_path, chain_final_blocks=4) as start:
        server, drop = closing(start)
        assert server.place(server.user(server.source.key), SELL, 50).status_code == 409
        server.stop()
        drop.__exit__(None, None, None)
        server = start()
        server.until_settled()
        wait_until(lambda: resolution(server)["state"] == "closing")
        assert resolution(server)["waiting"] == 1  # settled, but not final
        assert resolve(server).json()["code"] == "MARKET_NOT_OPEN"
        server.ask("anvil_mine", "0x4")
        wait_until(lambda: resolution(server)["state"] == "resolved")
        assert server.market()["chain"] == "reported"
        assert server.settlement().difference == 0


def test_operator_may_report_without_waiting(tmp_path):
    with restartable(tmp_path, chain_final_blocks=4) as start:
        server, drop = closing(start)
        drop.__exit__(None, None, None)
        assert resolve(server, outcome="no", now=True).json()["code"] == "MARKET_NOT_OPEN"
        assert resolve(server, now=True).status_code == 202
        wait_until(lambda: resolution(server)["state"] == "resolved")
