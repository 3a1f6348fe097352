"""A server is killed while trades are pending; each trade settles once, and accounts agree.

A trade settles within 0.2 s, and the server is killed at a random time: before or after it logs
which trades it sends, during requests to the chain, or between a result and its log entry.
``CLOB_CHAIN_LIVES`` is the number of server processes.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import time

import pytest

from tests.chain.nodes import running, start_anvil
from tests.chain.settling_server import SETTINGS, SettlingServer, accounts_of, settled_numbers
from tests.chain.wallets import UNIT
from tests.server.live import live_server

PROCESSES = int(os.environ.get("CLOB_CHAIN_LIVES", "5"))
KILL_AFTER_MAX_S = 0.3
TRADES = 4
SIZE = UNIT // 10


def run_and_kill_servers(folder, chain, url):
    """Run several servers in turn, most of which are killed while trades settle."""
    draw = random.Random(PROCESSES)
    for number in range(PROCESSES):
        with live_server(folder, chain=chain, **SETTINGS) as live:
            server = SettlingServer(live, url, names=f"{number}")
            if number == 0:
                server.set_up(complementary=True)
            traders = server.trader(5), server.trader(5)
            server.trade(*traders, size=SIZE)  # the server starts to watch the traders
            server.until_settled()
            server.trade(*traders, size=SIZE, count=TRADES)
            time.sleep(draw.uniform(0, KILL_AFTER_MAX_S))  # at a random stage
            live.stop() if number % 3 == 2 else live.kill()
    with live_server(folder, chain=chain, **SETTINGS) as live:
        server = SettlingServer(live, url)
        assert server.until_settled().difference == 0
        check(server)
        books = server.books.accounts(*server.tokens())
        live.kill()
    exchange, accounts = accounts_of(folder)
    assert accounts == books
    assert not exchange.registry.settling.operations


def check(server):
    """Check that each trade settled once, in the transaction of its ``txHash``."""
    count = PROCESSES * (TRADES + 1)
    assert sorted(settled_numbers(server)) == list(range(1, count + 1))
    trades = server.settlements_by_id().values()
    assert len(trades) == count
    assert {settlement for settlement, _ in trades} == {"settled"}
    for _, hashed in trades:
        assert server.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    statuses = {each.status for each in server.operations()}
    assert statuses == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_repeatedly_killed_server_settles_each_trade_once(tmp_path, chain):
    if chain == "embedded":
        run_and_kill_servers(tmp_path, chain, None)
        return
    with running(start_anvil()) as node:
        run_and_kill_servers(tmp_path, node.url, node.url)
