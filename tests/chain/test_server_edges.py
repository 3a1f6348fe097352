"""A server whose chain is away, slow, wrong or dead: it trades on, and nothing is done twice."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from eth_utils import keccak

from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.people import UNIT
from tests.chain.proxy import SEND, Delay, Drop, Since, in_front_of
from tests.chain.test_hard_edges import WRONG
from tests.chain.venues import Venue, conversion, wait_until
from tests.chain.worlds import hashes_of
from tests.server.live import live_server

pytestmark = pytest.mark.long
BUY, SELL = 0, 1
SLOWEST_S = 0.5
"""A trade that waits for a node takes longer than this."""
WAIT_S = 1.5
NUM_DEATHS = 5
SETTINGS = {"chain_wait_s": WAIT_S, "chain_bump_after_s": 1, "rate_limits": False}


@pytest.fixture(scope="module", params=KINDS)
def venue(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        in_front_of(node) as proxy,
        live_server(folder / "data", chain=proxy.url, **SETTINGS) as live,
    ):
        venue = Venue(live, node.url)
        venue.proxy = proxy
        venue.market = venue.open_market("rain", "Will it rain?")
        yield venue


def somebody(venue, name, units=100):
    """Somebody with tokens of the market."""
    wait_until(lambda: venue.chain()["state"] == "ready")
    user = venue.user(f"0x{keccak(text=name).hex()}")
    venue.give_gas(user.address)
    for _ in range(units // 100):
        venue.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    venue.convert("split", user, venue.market, 50 * UNIT)
    return user


def trades_on(venue):
    """Orders are taken and matched, at once."""
    ada, bob = (venue.user(f"0x{keccak(text=name).hex()}") for name in ("Ada", "Bob"))
    begin = time.monotonic()
    venue.order(ada, venue.market, SELL, 50, UNIT)
    assert venue.order(bob, venue.market, BUY, 50, UNIT)["matched"]
    assert venue.http.get("/api/markets/rain/orderbook").status_code == 200
    assert time.monotonic() - begin < SLOWEST_S
    assert venue.http.get("/ready").status_code == 200


def tokens_of(venue, user):
    """Collateral, YES and NO of somebody, in wei."""
    tokens = (int(venue.market[f"{name}TokenId"]) for name in ("yes", "no"))
    held = (venue.ledger.token(user.address, token) for token in tokens)
    return (venue.ledger.collateral(user.address), *held)


def ask(url, kind, body, key):
    """Ask a server for something, and give the answer; None where it is gone."""
    headers = {"Idempotency-Key": key}
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(f"{url}/api/gasless/{kind}", json=body, headers=headers, timeout=60)
    return None


@pytest.mark.parametrize("wrong", ["drops connections", "answers HTML"])
def test_trading_goes_on_while_the_chain_is_away(venue, wrong):
    ada = somebody(venue, f"Ada {venue.url} {wrong}")
    with venue.proxy.goes_wrong(WRONG[wrong](None)):
        wait_until(lambda: venue.chain()["state"] == "unreachable")
        trades_on(venue)
        before = tokens_of(venue, ada)
        path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
        refused = venue.post(path, body, "later")
        assert (refused.status_code, refused.json()["code"]) == (503, "CHAIN_UNAVAILABLE")
        assert refused.headers["retry-after"]
        faucet = venue.post("/api/gasless/faucet", {"user": ada.address})
        assert faucet.json()["code"] == "CHAIN_UNAVAILABLE"
        trades_on(venue)
        assert tokens_of(venue, ada) == before
    wait_until(lambda: venue.chain()["state"] == "ready")
    assert len(hashes_of(venue.done(path, body, "later"))) == 4
    for _ in range(4):  # what was refused did not count
        venue.faucet(ada)
    over = venue.post("/api/gasless/faucet", {"user": ada.address})
    assert (over.status_code, over.json()["code"]) == (429, "FAUCET_LIMIT")


def test_trading_goes_on_while_the_chain_is_slow(venue):
    ada = somebody(venue, f"Ada {venue.url} slow")
    collateral, yes, no = tokens_of(venue, ada)
    body = conversion(ada, venue.market, UNIT)
    asking = threading.Thread(target=ask, args=(venue.live.url, "merge", body, "slow"))
    with venue.proxy.goes_wrong(Delay(0.3)) as fault:
        asking.start()
        wait_until(lambda: fault.hits > 1)
        trades_on(venue)
        asking.join()
    assert len(hashes_of(venue.done("/api/gasless/merge", body, "slow"))) == 4
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_an_operation_that_takes_long_goes_on_by_itself(venue):
    ada = somebody(venue, f"Ada {venue.url} waits")
    before = tokens_of(venue, ada)
    fault = Since(b"", Drop())
    path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
    with venue.proxy.goes_wrong(fault):
        told = venue.post(path, body, "patience")
        assert (told.status_code, told.json()["code"]) == (503, "OPERATION_PENDING")
        name = told.json()["operation"]
        assert told.json()["hashes"]["yesTransferTx"]
        trades_on(venue)
        assert venue.http.get(f"/api/gasless/operations/{name}").json()["status"] == "pending"
    wait_until(lambda: venue.http.get(f"/api/gasless/operations/{name}").json()["status"] == "done")
    answer = venue.done(path, body, "patience")
    assert answer == venue.http.get(f"/api/gasless/operations/{name}").json()["answer"]
    collateral, yes, no = before
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_a_client_that_hangs_up_changes_nothing(venue):
    ada = somebody(venue, f"Ada {venue.url} hangs up")
    collateral, yes, no = tokens_of(venue, ada)
    path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
    with venue.proxy.goes_wrong(Delay(0.3, SEND)), pytest.raises(httpx.ReadTimeout):
        venue.http.post(path, json=body, headers={"Idempotency-Key": "gone"}, timeout=0.1)
    wait_until(lambda: tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT))
    assert len(hashes_of(venue.done(path, body, "gone"))) == 4
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


# ----- deaths --------------------------------------------------------------------------------


def child_of(pid, module):
    """The process that runs a module and was begun by this one; None as long as there is none.

    A child that has just been begun says its parent's words yet, and one that ended and waits
    to be collected says none.
    """
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if module.encode() in words:
                return int(child)
    return None


def kill_child(pid, module):
    """Whether there was such a child, which is killed then."""
    child = child_of(pid, module)
    if child is not None:
        os.kill(child, signal.SIGKILL)
    return child is not None


@pytest.mark.parametrize(
    ("module", "chain"),
    [
        ("clob_server.chain.worker", "embedded"),
        ("clob_server.chain.devchain", "embedded"),
        ("clob_server.chain.worker", "anvil"),
    ],
)
def test_a_child_that_dies_is_begun_again_and_nothing_is_lost(tmp_path, module, chain):
    with contextlib.ExitStack() as stack:
        url = None
        if chain == "anvil":
            url = chain = stack.enter_context(running(start_anvil())).url
        settings = {"chain": chain, "chain_port": 0, "rate_limits": False}
        venue = Venue(stack.enter_context(live_server(tmp_path, **settings)), url)
        venue.market = venue.open_market("rain", "Will it rain?")
        ada = somebody(venue, "Ada")
        before = tokens_of(venue, ada)
        body = conversion(ada, venue.market, UNIT)
        for number in range(NUM_DEATHS):
            asked = (venue.live.url, "merge", body, f"{number}")
            asking = threading.Thread(target=ask, args=asked)
            asking.start()
            time.sleep(0.01 * number)  # anywhere on its way: no verdict depends on it
            wait_until(lambda: kill_child(venue.live.process.pid, module))
            trades_on(venue)
            asking.join()
            wait_until(lambda: venue.chain()["state"] == "ready")
            venue.url = url or venue.chain()["rpcUrl"]
        keys = [f"{number}" for number in range(NUM_DEATHS)]
        done = [venue.done_at_last("/api/gasless/merge", body, key) for key in keys]
        hashes = [hashed for each in done for hashed in hashes_of(each)]
        assert len(set(hashes)) == 4 * NUM_DEATHS
        merged = NUM_DEATHS * UNIT
        collateral, yes, no = before
        assert tokens_of(venue, ada) == (collateral + merged, yes - merged, no - merged)
        assert venue.outbox()["numDeaths"] >= NUM_DEATHS


# ----- the clock -----------------------------------------------------------------------------

JUMPING = """
import pathlib
import time

def shifted(now, unit, file=pathlib.Path(__file__).with_name("jump_s")):
    return lambda: now() + type(now())(file.read_text()) * unit

time.time, time.time_ns = shifted(time.time, 1), shifted(time.time_ns, 10**9)
"""
JUMPS_S = (86_400, -172_800, 3 * 86_400)


def test_a_clock_that_jumps_does_nothing_to_operations(tmp_path, monkeypatch):
    clock = tmp_path / "clock"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(JUMPING)
    (clock / "jump_s").write_text("0")
    monkeypatch.setenv("PYTHONPATH", str(clock))
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path / "data", **settings) as live:
        venue = Venue(live)
        venue.market = venue.open_market("rain", "Will it rain?")
        ada = somebody(venue, "Ada")
        collateral, yes, no = tokens_of(venue, ada)
        for number, jump_s in enumerate(JUMPS_S, 1):
            (clock / "jump_s").write_text(str(jump_s))
            answer = venue.convert("merge", ada, venue.market, UNIT, f"{number}")
            assert venue.convert("merge", ada, venue.market, UNIT, f"{number}") == answer
            trades_on(venue)
        merged = len(JUMPS_S) * UNIT
        assert tokens_of(venue, ada) == (collateral + merged, yes - merged, no - merged)
        moved_s = live.http.get("/api/markets/rain/trades").json()[0]["timestamp"] / 1000
        assert moved_s > time.time_ns() / 10**9 + JUMPS_S[0] / 2
