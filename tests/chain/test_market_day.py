"""A simulated day with hostile makers, reorganisations, dead and lying nodes.

``CLOB_DAY_MAKERS``, ``CLOB_DAY_MINUTES`` and ``CLOB_DAY_ORDERS`` (in a minute) are its size, and
``CLOB_DAY_SEED`` its seed. A run of more than ten minutes needs ``-o faulthandler_timeout=0``.
"""

import contextlib
import os
import sys

import pytest

from tests.chain.escrow_server import EscrowServer
from tests.chain.market_day import MarketDay
from tests.chain.nodes import running, start_anvil
from tests.chain.proxy import Proxy
from tests.chain.settling_server import FAUCETS, SETTINGS, accounts_of
from tests.chain.test_server_nodes import LIES, NUM_NODES
from tests.chain.wallets import UNIT
from tests.server.live import live_server

MAKERS = int(os.environ.get("CLOB_DAY_MAKERS", "60"))
MINUTES = int(os.environ.get("CLOB_DAY_MINUTES", "20"))
SEED = int(os.environ.get("CLOB_DAY_SEED", "1"))
ORDERS = int(os.environ.get("CLOB_DAY_ORDERS", "25"))
"""Orders in a minute."""
STATES = "128"
"""Blocks whose state anvil keeps; by default it writes the states of all blocks to disk."""
FINAL_BLOCKS = 6
FEES = {"restingFeeRateBps": 10, "incomingFeeRateBps": 20}


@pytest.mark.long
@pytest.mark.timeout(0)
def test_fates_and_accounts_of_a_hostile_day_equal_the_final_chain(tmp_path, capsys):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running(start_anvil("--prune-history", STATES)))
        proxies = [Proxy(node.url) for _ in range(NUM_NODES)]
        for proxy in proxies:
            stack.callback(proxy.close)
        first, *others = (proxy.url for proxy in proxies)
        settings = SETTINGS | {
            "chain": first, "chain_nodes": tuple(others), "chain_final_blocks": FINAL_BLOCKS,
            "chain_bump_after_s": 1, "maker_cool_down_s": 0.1,
        }  # fmt: skip
        live = stack.enter_context(live_server(tmp_path / "data", **settings))
        server = EscrowServer(live, node.url)
        server.proxies = proxies
        server.set_up(complementary=True, **FEES)
        fund(server, 4 * MAKERS)
        server.open_settling("snow", custody="wallet", complementary=True, **FEES)
        server.convert("split", server.source, server.market("snow"), MAKERS * UNIT)

        def restart():
            server.live.kill()
            server.live = stack.enter_context(live_server(tmp_path / "data", **settings))
            server.http = server.live.http

        day = MarketDay(server, LIES, restart, SEED, MAKERS)
        for number in range(MINUTES):
            day.minute(number, ORDERS)
            if number % 60 == 0:
                report(capsys, f"minute {number}: {dict(day.counts)}")
        day.check(FINAL_BLOCKS)
        report(capsys, str(dict(day.counts)))
        books = server.books.accounts(*day.tokens["snow"])
        books |= day.available_escrow(server.escrow)
        server.live.kill()
        assert accounts_of(tmp_path / "data")[1] == books


def fund(server, units):
    """Send collateral to the source, which the faucet limits to less."""
    while server.ledger.collateral(server.source.address) < units * UNIT:
        helper = server.trader(0, allows=False)
        for _ in range(FAUCETS):
            server.faucet(helper)
        helper.send_collateral(server.source.address, server.ledger.collateral(helper.address))


def report(capsys, text):
    """Write a line while the test runs."""
    with capsys.disabled():
        sys.stdout.write(f"{text}\n")
