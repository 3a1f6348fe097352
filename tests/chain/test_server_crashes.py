"""A server is killed while operations are pending: each of them happens once.

``CLOB_CHAIN_LIVES`` is the number of server processes.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import threading
import time

import pytest
from eth_utils import keccak

from tests.chain.nodes import running, start_anvil
from tests.chain.people import UNIT
from tests.chain.test_server_faults import ask
from tests.chain.venues import Venue, conversion
from tests.chain.worlds import hashes_of
from tests.server.live import live_server

SETTINGS = {"chain_port": 0, "rate_limits": False, "log_level": "error"}
LIVES = int(os.environ.get("CLOB_CHAIN_LIVES", "3"))
UNITS = 100
LONGEST_S = 0.25
KINDS = ("faucet", "split", "merge", "faucet")


class Round:
    """Concurrent requests of a user just before the server is killed."""

    def __init__(self, venue, number):
        self.venue, self.market = venue, venue.market
        self.user = user = venue.user(f"0x{keccak(text=f'user {number}').hex()}")
        venue.send_gas(user.address)
        venue.faucet(user)
        user.approve_collateral()
        user.approve_tokens()
        venue.convert("split", user, venue.market, 40 * UNIT)
        body = conversion(user, venue.market, 7 * UNIT)
        asked = {"faucet": {"user": user.address}, "split": body, "merge": body}
        self.asked = [
            (kind, asked[kind], f"{number} {place}".replace(" ", "-"))
            for place, kind in enumerate(KINDS)
        ]

    def begin(self):
        """Send all requests."""
        url = self.venue.live.url
        self.threads = [
            threading.Thread(target=ask, args=(url, *each), daemon=True) for each in self.asked
        ]
        for thread in self.threads:
            thread.start()

    def check(self, venue):
        """Check that every request had its effect once."""
        for thread in self.threads:
            thread.join()
        done = [venue.done(f"/api/gasless/{kind}", body, key) for kind, body, key in self.asked]
        hashes = [hashed for answer in done for hashed in hashes_of(answer)]
        assert len(set(hashes)) == 2 + 4 + 4 + 2
        for hashed in hashes:
            assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
        held = [venue.ledger.collateral(self.user.address)]
        for name in ("yes", "no"):
            token = int(self.market[f"{name}TokenId"])
            held.append(venue.ledger.token(self.user.address, token))
        assert held == [(3 * UNITS - 40) * UNIT, 40 * UNIT, 40 * UNIT]
        self.check_allowance(venue)

    def check_allowance(self, venue):
        """Check that 300 of 500 faucet units are used."""
        for _ in range(2):
            venue.faucet(self.user)
        rejected = venue.post("/api/gasless/faucet", {"user": self.user.address})
        assert rejected.json()["code"] == "FAUCET_LIMIT"


def killed_again_and_again(folder, chain, url, count):
    """Run several servers in turn, each of which is killed."""
    last = None
    for number in range(count):
        with live_server(folder, chain=chain, **SETTINGS) as live:
            venue = Venue(live, url)
            if last is None:
                venue.open_market("rain", "Will it rain?")
            else:
                last.check(venue)
            venue.market = live.http.get("/api/markets/rain").json()
            last = Round(venue, number)
            last.begin()
            time.sleep(random.Random(number).uniform(0, LONGEST_S))  # at a random stage
            live.kill()
    with live_server(folder, chain=chain, **SETTINGS) as live:
        venue = Venue(live, url)
        last.check(venue)
        assert {each["status"] for each in venue.operations(limit=100)} == {"done"}


@pytest.mark.long
@pytest.mark.parametrize("chain", ["embedded", "anvil"])
def test_repeatedly_killed_server_runs_each_operation_once(tmp_path, chain):
    if chain == "embedded":
        killed_again_and_again(tmp_path, chain, None, LIVES)
        return
    with running(start_anvil()) as node:
        killed_again_and_again(tmp_path, node.url, node.url, LIVES)
