"""A server is killed while operations are pending; each operation runs once.

``CLOB_CHAIN_LIVES`` is the number of server processes.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import threading
import time

import pytest
from eth_utils import keccak

from tests.chain.chain_server import ChainServer, conversion
from tests.chain.chains import hashes_of
from tests.chain.nodes import running, start_anvil
from tests.chain.test_server_faults import send_request
from tests.chain.wallets import UNIT
from tests.server.live import live_server

SETTINGS = {"chain_port": 0, "rate_limits": False, "log_level": "error"}
PROCESSES = int(os.environ.get("CLOB_CHAIN_LIVES", "3"))
UNITS = 100
KILL_AFTER_MAX_S = 0.25
KINDS = ("faucet", "split", "merge", "faucet")


class Round:
    """Concurrent requests of a user just before the server is killed."""

    def __init__(self, server, number):
        self.server, self.market = server, server.market
        self.user = user = server.user(f"0x{keccak(text=f'user {number}').hex()}")
        server.send_gas(user.address)
        server.faucet(user)
        user.approve_collateral()
        user.approve_tokens()
        server.convert("split", user, server.market, 40 * UNIT)
        body = conversion(user, server.market, 7 * UNIT)
        bodies = {"faucet": {"user": user.address}, "split": body, "merge": body}
        self.requests = [
            (kind, bodies[kind], f"{number}-{index}") for index, kind in enumerate(KINDS)
        ]

    def begin(self):
        """Send all requests."""
        url = self.server.live.url
        self.threads = [
            threading.Thread(target=send_request, args=(url, *each), daemon=True)
            for each in self.requests
        ]
        for thread in self.threads:
            thread.start()

    def check(self, server):
        """Check that every request took effect once."""
        for thread in self.threads:
            thread.join()
        answers = [
            server.done(f"/api/gasless/{kind}", body, key) for kind, body, key in self.requests
        ]
        hashes = [hashed for answer in answers for hashed in hashes_of(answer)]
        assert len(set(hashes)) == 2 + 4 + 4 + 2
        for hashed in hashes:
            assert server.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
        balances = [server.ledger.collateral(self.user.address)]
        for name in ("yes", "no"):
            token = int(self.market[f"{name}TokenId"])
            balances.append(server.ledger.token(self.user.address, token))
        assert balances == [(3 * UNITS - 40) * UNIT, 40 * UNIT, 40 * UNIT]
        self.check_allowance(server)

    def check_allowance(self, server):
        """Check that 300 of 500 faucet units are used."""
        for _ in range(2):
            server.faucet(self.user)
        rejected = server.post("/api/gasless/faucet", {"user": self.user.address})
        assert rejected.json()["code"] == "FAUCET_LIMIT"


def begin_round(server, number, last):
    """Check the last round, or open the market; begin another round."""
    if last is None:
        server.open_market("rain", "Will it rain?")
    else:
        last.check(server)
    server.market = server.http.get("/api/markets/rain").json()
    made = Round(server, number)
    made.begin()
    return made


def run_and_kill_servers(folder, chain, url, count):
    """Run several servers in turn, each of which is killed."""
    last = None
    for number in range(count):
        with live_server(folder, chain=chain, **SETTINGS) as live:
            last = begin_round(ChainServer(live, url), number, last)
            time.sleep(random.Random(number).uniform(0, KILL_AFTER_MAX_S))  # at a random stage
            live.kill()
    with live_server(folder, chain=chain, **SETTINGS) as live:
        server = ChainServer(live, url)
        last.check(server)
        assert {each.status for each in server.operations()} == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_repeatedly_killed_server_runs_each_operation_once(tmp_path, chain):
    if chain == "embedded":
        run_and_kill_servers(tmp_path, chain, None, PROCESSES)
        return
    with running(start_anvil()) as node:
        run_and_kill_servers(tmp_path, node.url, node.url, PROCESSES)
