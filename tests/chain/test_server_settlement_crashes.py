"""A server that is killed while trades are under way: each settles once, and nothing drifts.

A trade settles within two tenths of a second, and the server dies somewhere within: before it is
noted which trades go, after that, while the chain is asked, or between what the chain says and the
log. ``CLOB_CHAIN_LIVES`` is how many servers there are, one after the other.
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
    """Go through so many lives of a server, which end while trades settle, most by a kill."""
    draw = random.Random(LIVES)
    for number in range(LIVES):
        with live_server(folder, chain=chain, **SETTINGS) as live:
            venue = SettlingVenue(live, url, names=f"{number}")
            if number == 0:
                venue.found(complementary=True)
            traders = venue.trader(5), venue.trader(5)
            venue.trade(*traders, size=SIZE)  # from now on they are known
            venue.until_settled()
            venue.trade(*traders, size=SIZE, count=TRADES)
            time.sleep(draw.uniform(0, LONGEST_S))  # anywhere on its way
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
    """Each trade was settled once, in the transaction that it names."""
    count = LIVES * (TRADES + 1)
    assert sorted(settled_numbers(venue)) == list(range(1, count + 1))
    fates = venue.fates().values()
    assert len(fates) == count
    assert {settlement for settlement, _ in fates} == {"settled"}
    for _, hashed in fates:
        assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    statuses = {each["status"] for each in venue.operations(limit=100)}
    assert statuses == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_a_server_that_is_killed_again_and_again_settles_every_trade_once(tmp_path, chain):
    if chain == "embedded":
        killed_again_and_again(tmp_path, chain, None)
        return
    with running(start_anvil()) as node:
        killed_again_and_again(tmp_path, node.url, node.url)
