"""A server whose trades settle on a chain, including faults of makers, node and processes.

Accounts are compared with balances computed from the logs of the chain, to the wei.
"""

import contextlib
import re
import time

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.chain_server import wait_until
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.proxy import Drop, proxy_to
from tests.chain.settling_server import (
    BUY,
    SELL,
    SETTINGS,
    SettlingServer,
    accounts_of,
    settled_numbers,
)
from tests.chain.test_server_faults import kill_child
from tests.chain.wallets import UNIT
from tests.server.live import live_server

pytestmark = pytest.mark.long
WORKER, DEVCHAIN = "clob_server.chain.worker", "clob_server.chain.devchain"
SHORT_S = 0.3


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settling")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        proxy_to(node) as proxy,
        live_server(folder / "data", chain=proxy.url, **SETTINGS) as live,
    ):
        server = SettlingServer(live, node.url).set_up(complementary=True)
        server.proxy = proxy
        yield server


def settlements(server):
    """Return the number of settled and failed trades from the metrics."""
    lines = server.http.get("/metrics").text.splitlines()
    return {
        outcome: sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(f'clob_settlements_total{{outcome="{outcome}"}}')
        )
        for outcome in ("settled", "failed")
    }


def balances_of(server, user):
    """Return a user's collateral and both tokens, in wei."""
    tokens = (server.ledger.token(user.address, token) for token in server.tokens())
    return (server.ledger.collateral(user.address), *tokens)


def wait_for_end(server, trade):
    """Wait for the end of a trade; return settlement, transaction and reason."""
    matches = []

    def has_ended():
        trades = server.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
        matches[:] = [each for each in trades if each["id"] == trade]
        return matches[0]["settlement"] in ("settled", "failed")

    wait_until(has_ended)
    return matches[0]["settlement"], matches[0]["txHash"], matches[0].get("settlementReason")


def test_trade_settles_on_the_chain(server):
    ada, bob = server.trader(), server.trader()
    server.placed(ada, SELL, 40, 2 * UNIT)
    [trade] = server.placed(bob, BUY, 40, 2 * UNIT)["trades"]
    settlement, tx, _ = wait_for_end(server, trade["id"])
    assert settlement == "settled"
    assert server.ask("eth_getTransactionReceipt", tx)["status"] == "0x1"
    paid = 2 * UNIT * 40 // 100
    assert balances_of(server, ada) == (5 * UNIT + paid, 3 * UNIT, 5 * UNIT)
    assert balances_of(server, bob) == (5 * UNIT - paid, 7 * UNIT, 5 * UNIT)
    assert server.until_settled().difference == 0


def test_bought_tokens_can_be_sold_at_once(server):
    """Bought tokens are available as soon as the trade is settled."""
    ada, bob = server.trader(), server.trader(tokens=False)
    server.placed(ada, SELL, 40)
    server.placed(bob, BUY, 40)
    server.placed(bob, SELL, 60)
    server.placed(ada, BUY, 60)
    server.until_settled()
    assert balances_of(server, ada) == (5 * UNIT - UNIT // 5, 5 * UNIT, 5 * UNIT)


def test_mint_and_merge_trades_settle(server):
    yes, no = server.tokens()
    ada, bob = server.trader(tokens=False), server.trader(tokens=False)
    server.placed(ada, BUY, 30, token=yes)
    trades = server.placed(bob, BUY, 70, token=no)["trades"]
    assert len({wait_for_end(server, each["id"])[:2] for each in trades}) == 1
    assert balances_of(server, ada) == (5 * UNIT - 30 * UNIT // 100, UNIT, 0)
    assert balances_of(server, bob) == (5 * UNIT - 70 * UNIT // 100, 0, UNIT)
    server.placed(ada, SELL, 50, token=yes)
    server.placed(bob, SELL, 50, token=no)
    server.until_settled()
    assert balances_of(server, ada) == (5 * UNIT + 20 * UNIT // 100, 0, 0)
    assert server.until_settled().difference == 0


def test_revoked_approval_fails_only_the_makers_own_trade(server):
    ada, bob, eve = server.trader(), server.trader(), server.trader()
    resting = server.placed(eve, SELL, 80)["orderId"]
    with server.proxy.inject(
        Drop()
    ):  # the server receives the events of this block together afterwards
        server.placed(eve, SELL, 50)
        [bad] = server.placed(bob, BUY, 50)["trades"]
        server.placed(ada, SELL, 50)
        [good] = server.placed(bob, BUY, 50)["trades"]
        server.allow_tokens(eve, False)
    assert wait_for_end(server, good["id"])[0] == "settled"
    settlement, _, reason = wait_for_end(server, bad["id"])
    assert settlement == "failed"
    assert reason
    assert server.http.get(f"/api/orders/{resting}").json()["status"] == "cancelled"
    status = server.until_settled()
    assert status.difference == 0
    assert status.failures[0].reason == reason
    assert balances_of(server, bob) == (5 * UNIT - UNIT // 2, 6 * UNIT, 5 * UNIT)
    assert balances_of(server, eve) == (5 * UNIT, 5 * UNIT, 5 * UNIT)
    rejected = server.place(eve, SELL, 50)
    assert (rejected.status_code, rejected.json()["code"]) == (409, "MAKER_COOLING_DOWN")
    assert 1 <= int(rejected.headers["retry-after"]) <= 60
    server.placed(bob, BUY, 10)  # no fault of the counterparty


def test_orders_need_funds_on_the_chain(server):
    ada = server.trader(1, tokens=False)
    server.placed(ada, BUY, 60)
    rejected = server.place(ada, BUY, 60).json()
    amounts, _, advice = rejected["detail"].partition("; on the chain")
    assert f"{ada.address} has a balance of {UNIT} wei and approved" in advice
    figures = [int(digits) for digits in re.findall(r"\b\d{3,}\b", amounts)]
    assert figures == [UNIT * part // 100 for part in (40, 60, 60, 100)]
    ada.send_collateral(server.source.address, UNIT // 2)
    orders = {"maker": ada.address}
    wait_until(lambda: not server.http.get("/api/orders", params=orders).json())
    assert server.until_settled().difference == 0


def test_trading_continues_while_the_chain_is_unreachable(server):
    ada, bob = server.trader(), server.trader()
    server.trade(ada, bob, size=UNIT // 10)
    before = settlements(server)
    with server.proxy.inject(Drop()):
        wait_until(lambda: server.chain()["state"] == "unreachable")
        server.trade(ada, bob, size=UNIT // 10, count=10)
        status = server.settlement()
        assert status.pending + status.submitted >= 10
        assert status.detail
    assert server.until_settled().difference == 0
    after = settlements(server)
    assert after["settled"] - before["settled"] >= 10
    assert after["failed"] == before["failed"]


def test_trades_wait_while_the_exchange_is_paused(server):
    owner = server.user(next(a.private_key for a in ACCOUNTS if a.address == server.operator))
    ada, bob = server.trader(), server.trader()
    server.trade(ada, bob)
    server.until_settled()
    before = settlements(server)
    owner.call(server.contracts.exchange, "pause()")
    server.trade(ada, bob)
    wait_until(lambda: server.settlement().detail != "")
    time.sleep(SHORT_S)
    assert server.settlement().submitted + server.settlement().pending == 1
    owner.call(server.contracts.exchange, "unpause()")
    status = server.until_settled()
    assert (status.detail, status.difference) == ("", 0)
    after = settlements(server)
    assert (after["settled"], after["failed"]) == (before["settled"] + 1, before["failed"])


# ----- crashes -------------------------------------------------------------------------------


@contextlib.contextmanager
def chain_of(kind):
    """Yield the chain setting and the URL of a node that outlives the server."""
    if kind == "embedded":
        yield kind, None
        return
    with running(start_anvil()) as node:
        yield node.url, node.url


@pytest.mark.parametrize(
    ("module", "kind"), [(WORKER, "embedded"), (DEVCHAIN, "embedded"), (WORKER, "anvil")]
)
def test_repeated_crashes_of_a_child_process_lose_no_trade(tmp_path, module, kind):
    with (
        chain_of(kind) as (chain, url),
        live_server(tmp_path, chain=chain, **SETTINGS) as live,
    ):
        server = SettlingServer(live, url).set_up()
        ada, bob = server.trader(20), server.trader(20)
        for number in range(5):
            server.trade(ada, bob, size=UNIT // 10, count=5)
            time.sleep(0.03 * number)  # at different stages of settlement
            wait_until(lambda: kill_child(live.process.pid, module))
            server.trade(ada, bob, size=UNIT // 10, count=5)
            wait_until(lambda: server.chain()["state"] == "ready")
        server.url = url or server.chain()["rpcUrl"]
        assert server.until_settled().difference == 0
        trades = server.settlements_by_id()
        assert len(trades) == 50
        assert {settlement for settlement, _ in trades.values()} == {"settled"}
        assert sorted(settled_numbers(server)) == list(range(1, 51))
        books = server.books.accounts(*server.tokens())
        live.kill()
        assert accounts_of(tmp_path)[1] == books
