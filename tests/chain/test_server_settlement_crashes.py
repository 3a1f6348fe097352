"""A server is killed while trades are pending: each settles once, and accounts stay equal.

A trade settles within 0.2 s, and the server is killed at a random time: before or after it logs
which trades it sends, during requests to the chain, or between a result and its log entry.
``CLOB_CHAIN_LIVES`` is the number of server processes.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import time

import pytest

from tests.chain.nodes import running, start_anvil
from tests.chain.people import UNIT
from tests.chain.settling_venues import SETTINGS, SettlingVenue, accounts_of, settled_numbers
from tests.server.live import live_server

LIVES = int(os.environ.get("CLOB_CHAIN_LIVES", "5"))
LONGEST_S = 0.3
TRADES = 4
SIZE = UNIT // 10


def killed_again_and_again(folder, chain, url):
    """Run several servers in turn, most of which are killed while trades settle."""
    draw = random.Random(LIVES)
    for number in range(LIVES):
        with live_server(folder, chain=chain, **SETTINGS) as live:
            venue = SettlingVenue(live, url, names=f"{number}")
            if number == 0:
                venue.set_up(complementary=True)
            traders = venue.trader(5), venue.trader(5)
            venue.trade(*traders, size=SIZE)  # makes the traders known
            venue.until_settled()
            venue.trade(*traders, size=SIZE, count=TRADES)
            time.sleep(draw.uniform(0, LONGEST_S))  # at a random stage
            live.stop() if number % 3 == 2 else live.kill()
    with live_server(folder, chain=chain, **SETTINGS) as live:
        venue = SettlingVenue(live, url)
        assert venue.until_settled()["difference"] == 0
        check(venue)
        books = venue.books.accounts(*venue.tokens())
        live.kill()
    exchange, accounts = accounts_of(folder)
    assert accounts == books
    assert not exchange.registry.settling.operations


def check(venue):
    """Check that each trade was settled once, in the transaction that it names."""
    count = LIVES * (TRADES + 1)
    assert sorted(settled_numbers(venue)) == list(range(1, count + 1))
    fates = venue.settlements_by_id().values()
    assert len(fates) == count
    assert {settlement for settlement, _ in fates} == {"settled"}
    for _, hashed in fates:
        assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    statuses = {each["status"] for each in venue.operations(limit=100)}
    assert statuses == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_repeatedly_killed_server_settles_each_trade_once(tmp_path, chain):
    if chain == "embedded":
        killed_again_and_again(tmp_path, chain, None)
        return
    with running(start_anvil()) as node:
        killed_again_and_again(tmp_path, node.url, node.url)
