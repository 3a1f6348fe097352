"""A server whose trades settle on a chain, including faults of makers, node and processes.

Accounts are compared with balances computed from the logs of the chain, to the wei.
"""

import contextlib
import re
import time

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.people import UNIT
from tests.chain.proxy import Drop, in_front_of
from tests.chain.settling_venues import (
    BUY,
    SELL,
    SETTINGS,
    SettlingVenue,
    accounts_of,
    settled_numbers,
)
from tests.chain.test_server_faults import kill_child
from tests.chain.venues import wait_until
from tests.server.live import live_server

pytestmark = pytest.mark.long
WORKER, DEVCHAIN = "clob_server.chain.worker", "clob_server.chain.devchain"
SOON_S = 0.3


@pytest.fixture(scope="module", params=KINDS)
def venue(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settling")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        in_front_of(node) as proxy,
        live_server(folder / "data", chain=proxy.url, **SETTINGS) as live,
    ):
        venue = SettlingVenue(live, node.url).set_up(complementary=True)
        venue.proxy = proxy
        yield venue


def settlements(venue):
    """Return the number of settled and failed trades from the metrics."""
    lines = venue.http.get("/metrics").text.splitlines()
    return {
        outcome: sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(f'clob_settlements_total{{outcome="{outcome}"}}')
        )
        for outcome in ("settled", "failed")
    }


def held(venue, user):
    """Return a user's collateral and both tokens, in wei."""
    tokens = (venue.ledger.token(user.address, token) for token in venue.tokens())
    return (venue.ledger.collateral(user.address), *tokens)


def fate(venue, trade):
    """Wait for the end of a trade; return settlement, transaction and reason."""
    found = []

    def has_ended():
        trades = venue.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
        found[:] = [each for each in trades if each["id"] == trade]
        return found[0]["settlement"] in ("settled", "failed")

    wait_until(has_ended)
    return found[0]["settlement"], found[0]["txHash"], found[0].get("settlementReason")


def test_trade_settles_on_the_chain(venue):
    ada, bob = venue.trader(), venue.trader()
    venue.placed(ada, SELL, 40, 2 * UNIT)
    [trade] = venue.placed(bob, BUY, 40, 2 * UNIT)["trades"]
    settlement, tx, _ = fate(venue, trade["id"])
    assert settlement == "settled"
    assert venue.ask("eth_getTransactionReceipt", tx)["status"] == "0x1"
    paid = 2 * UNIT * 40 // 100
    assert held(venue, ada) == (5 * UNIT + paid, 3 * UNIT, 5 * UNIT)
    assert held(venue, bob) == (5 * UNIT - paid, 7 * UNIT, 5 * UNIT)
    assert venue.until_settled()["difference"] == 0


def test_bought_tokens_can_be_sold_at_once(venue):
    """Bought tokens are available as soon as the trade is settled."""
    ada, bob = venue.trader(), venue.trader(tokens=False)
    venue.placed(ada, SELL, 40)
    venue.placed(bob, BUY, 40)
    venue.placed(bob, SELL, 60)
    venue.placed(ada, BUY, 60)
    venue.until_settled()
    assert held(venue, ada) == (5 * UNIT - UNIT // 5, 5 * UNIT, 5 * UNIT)


def test_mint_and_merge_trades_settle(venue):
    yes, no = venue.tokens()
    ada, bob = venue.trader(tokens=False), venue.trader(tokens=False)
    venue.placed(ada, BUY, 30, token=yes)
    trades = venue.placed(bob, BUY, 70, token=no)["trades"]
    assert len({fate(venue, each["id"])[:2] for each in trades}) == 1
    assert held(venue, ada) == (5 * UNIT - 30 * UNIT // 100, UNIT, 0)
    assert held(venue, bob) == (5 * UNIT - 70 * UNIT // 100, 0, UNIT)
    venue.placed(ada, SELL, 50, token=yes)
    venue.placed(bob, SELL, 50, token=no)
    venue.until_settled()
    assert held(venue, ada) == (5 * UNIT + 20 * UNIT // 100, 0, 0)
    assert venue.until_settled()["difference"] == 0


def test_revoked_approval_fails_only_the_makers_own_trade(venue):
    ada, bob, eve = venue.trader(), venue.trader(), venue.trader()
    rests = venue.placed(eve, SELL, 80)["orderId"]
    with venue.proxy.inject(Drop()):  # events of this time arrive together
        venue.placed(eve, SELL, 50)
        [bad] = venue.placed(bob, BUY, 50)["trades"]
        venue.placed(ada, SELL, 50)
        [good] = venue.placed(bob, BUY, 50)["trades"]
        venue.allow_tokens(eve, False)
    assert fate(venue, good["id"])[0] == "settled"
    settlement, _, reason = fate(venue, bad["id"])
    assert settlement == "failed"
    assert reason
    assert venue.http.get(f"/api/orders/{rests}").json()["status"] == "cancelled"
    found = venue.until_settled()
    assert found["difference"] == 0
    assert found["failures"][0]["reason"] == reason
    assert held(venue, bob) == (5 * UNIT - UNIT // 2, 6 * UNIT, 5 * UNIT)
    assert held(venue, eve) == (5 * UNIT, 5 * UNIT, 5 * UNIT)
    rejected = venue.place(eve, SELL, 50).json()
    assert rejected["code"] == "INSUFFICIENT_BALANCE"
    assert " has 0 wei " in rejected["detail"]


def test_orders_need_funds_on_the_chain(venue):
    ada = venue.trader(1, tokens=False)
    venue.placed(ada, BUY, 60)
    rejected = venue.place(ada, BUY, 60).json()
    figures = [int(digits) for digits in re.findall(r"\b\d{3,}\b", rejected["detail"])]
    assert figures == [UNIT * part // 100 for part in (40, 60, 60, 100)]
    ada.send_collateral(venue.source.address, UNIT // 2)
    orders = {"maker": ada.address}
    wait_until(lambda: not venue.http.get("/api/orders", params=orders).json())
    assert venue.until_settled()["difference"] == 0


def test_trading_continues_while_the_chain_is_unreachable(venue):
    ada, bob = venue.trader(), venue.trader()
    venue.trade(ada, bob, size=UNIT // 10)
    before = settlements(venue)
    with venue.proxy.inject(Drop()):
        wait_until(lambda: venue.chain()["state"] == "unreachable")
        begin = time.monotonic()
        venue.trade(ada, bob, size=UNIT // 10, count=10)
        assert time.monotonic() - begin < 10 * SOON_S
        found = venue.settlement()
        assert found["pending"] + found["submitted"] >= 10
        assert found["detail"]
    assert venue.until_settled()["difference"] == 0
    after = settlements(venue)
    assert after["settled"] - before["settled"] >= 10
    assert after["failed"] == before["failed"]


def test_trades_wait_while_the_exchange_is_paused(venue):
    owner = venue.user(next(a.private_key for a in ACCOUNTS if a.address == venue.operator))
    ada, bob = venue.trader(), venue.trader()
    venue.trade(ada, bob)
    venue.until_settled()
    before = settlements(venue)
    owner.call(venue.contracts.exchange, "pause()")
    venue.trade(ada, bob)
    wait_until(lambda: venue.settlement()["detail"] != "")
    time.sleep(SOON_S)
    assert venue.settlement()["submitted"] + venue.settlement()["pending"] == 1
    owner.call(venue.contracts.exchange, "unpause()")
    found = venue.until_settled()
    assert (found["detail"], found["difference"]) == ("", 0)
    after = settlements(venue)
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
        venue = SettlingVenue(live, url).set_up()
        ada, bob = venue.trader(20), venue.trader(20)
        for number in range(5):
            venue.trade(ada, bob, size=UNIT // 10, count=5)
            time.sleep(0.03 * number)  # at different stages of settlement
            wait_until(lambda: kill_child(live.process.pid, module))
            venue.trade(ada, bob, size=UNIT // 10, count=5)
            wait_until(lambda: venue.chain()["state"] == "ready")
        venue.url = url or venue.chain()["rpcUrl"]
        assert venue.until_settled()["difference"] == 0
        fates = venue.settlements_by_id()
        assert len(fates) == 50
        assert {settlement for settlement, _ in fates.values()} == {"settled"}
        assert sorted(settled_numbers(venue)) == list(range(1, 51))
        books = venue.books.accounts(*venue.tokens())
        live.kill()
        assert accounts_of(tmp_path)[1] == books
