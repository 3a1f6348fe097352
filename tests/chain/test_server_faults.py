"""A server with an unreachable, slow or crashing chain keeps trading and does nothing twice."""

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
from tests.chain.test_node_faults import WRONG
from tests.chain.venues import Venue, conversion, wait_until
from tests.chain.worlds import hashes_of
from tests.server.live import live_server

pytestmark = pytest.mark.long
BUY, SELL = 0, 1
SLOWEST_S = 0.5
"""Maximum duration of trading, which must not wait for the node."""
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
    """Return a user with tokens of the market."""
    wait_until(lambda: venue.chain()["state"] == "ready")
    user = venue.user(f"0x{keccak(text=name).hex()}")
    venue.send_gas(user.address)
    for _ in range(units // 100):
        venue.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    venue.convert("split", user, venue.market, 50 * UNIT)
    return user


def trades_on(venue):
    """Check that orders are accepted and matched at once."""
    ada, bob = (venue.user(f"0x{keccak(text=name).hex()}") for name in ("Ada", "Bob"))
    begin = time.monotonic()
    venue.order(ada, venue.market, SELL, 50, UNIT)
    assert venue.order(bob, venue.market, BUY, 50, UNIT)["matched"]
    assert venue.http.get("/api/markets/rain/orderbook").status_code == 200
    assert time.monotonic() - begin < SLOWEST_S
    assert venue.http.get("/ready").status_code == 200


def tokens_of(venue, user):
    """Return a user's collateral, YES and NO, in wei."""
    tokens = (int(venue.market[f"{name}TokenId"]) for name in ("yes", "no"))
    held = (venue.ledger.token(user.address, token) for token in tokens)
    return (venue.ledger.collateral(user.address), *held)


def ask(url, kind, body, key):
    """Send a request; None if the server is gone."""
    headers = {"Idempotency-Key": key}
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(f"{url}/api/gasless/{kind}", json=body, headers=headers, timeout=60)
    return None


@pytest.mark.parametrize("wrong", ["drops connections", "answers HTML"])
def test_trading_continues_while_the_chain_is_unreachable(venue, wrong):
    ada = somebody(venue, f"Ada {venue.url} {wrong}")
    with venue.proxy.inject(WRONG[wrong](None)):
        wait_until(lambda: venue.chain()["state"] == "unreachable")
        trades_on(venue)
        before = tokens_of(venue, ada)
        path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
        rejected = venue.post(path, body, "later")
        assert (rejected.status_code, rejected.json()["code"]) == (503, "CHAIN_UNAVAILABLE")
        assert rejected.headers["retry-after"]
        faucet = venue.post("/api/gasless/faucet", {"user": ada.address})
        assert faucet.json()["code"] == "CHAIN_UNAVAILABLE"
        trades_on(venue)
        assert tokens_of(venue, ada) == before
    wait_until(lambda: venue.chain()["state"] == "ready")
    assert len(hashes_of(venue.done(path, body, "later"))) == 4
    for _ in range(4):  # the rejected request did not count
        venue.faucet(ada)
    over = venue.post("/api/gasless/faucet", {"user": ada.address})
    assert (over.status_code, over.json()["code"]) == (429, "FAUCET_LIMIT")


def test_trading_continues_while_the_chain_is_slow(venue):
    ada = somebody(venue, f"Ada {venue.url} slow")
    collateral, yes, no = tokens_of(venue, ada)
    body = conversion(ada, venue.market, UNIT)
    asking = threading.Thread(target=ask, args=(venue.live.url, "merge", body, "slow"))
    with venue.proxy.inject(Delay(0.3)) as fault:
        asking.start()
        wait_until(lambda: fault.hits > 1)
        trades_on(venue)
        asking.join()
    assert len(hashes_of(venue.done("/api/gasless/merge", body, "slow"))) == 4
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_slow_operation_returns_pending_and_completes(venue):
    ada = somebody(venue, f"Ada {venue.url} waits")
    before = tokens_of(venue, ada)
    fault = Since(b"", Drop())
    path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
    with venue.proxy.inject(fault):
        result = venue.post(path, body, "patience")
        assert (result.status_code, result.json()["code"]) == (503, "OPERATION_PENDING")
        name = result.json()["operation"]
        assert result.json()["hashes"]["yesTransferTx"]
        trades_on(venue)
        assert venue.http.get(f"/api/gasless/operations/{name}").json()["status"] == "pending"
    wait_until(lambda: venue.http.get(f"/api/gasless/operations/{name}").json()["status"] == "done")
    answer = venue.done(path, body, "patience")
    assert answer == venue.http.get(f"/api/gasless/operations/{name}").json()["answer"]
    collateral, yes, no = before
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_disconnected_client_does_not_cancel_its_operation(venue):
    ada = somebody(venue, f"Ada {venue.url} hangs up")
    collateral, yes, no = tokens_of(venue, ada)
    path, body = "/api/gasless/merge", conversion(ada, venue.market, UNIT)
    with venue.proxy.inject(Delay(0.3, SEND)), pytest.raises(httpx.ReadTimeout):
        venue.http.post(path, json=body, headers={"Idempotency-Key": "gone"}, timeout=0.1)
    wait_until(lambda: tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT))
    assert len(hashes_of(venue.done(path, body, "gone"))) == 4
    assert tokens_of(venue, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


# ----- crashes -------------------------------------------------------------------------------


def child_of(pid, module):
    """Return the child process that runs a module; None if there is none.

    A new child has its parent's command line for a moment, and a zombie has an empty one.
    """
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if module.encode() in words:
                return int(child)
    return None


def kill_child(pid, module):
    """Kill the child that runs a module; return whether there was one."""
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
def test_crashed_child_process_is_restarted_without_losing_operations(tmp_path, module, chain):
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
            time.sleep(0.01 * number)  # at different stages of the operation
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


def test_clock_jumps_do_not_affect_operations(tmp_path, monkeypatch):
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
