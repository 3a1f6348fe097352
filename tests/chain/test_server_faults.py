"""A server with an unreachable, slow or crashing chain keeps trading and repeats nothing."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from eth_utils import keccak

from tests.chain.chain_server import ChainServer, conversion, wait_until
from tests.chain.chains import hashes_of
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.proxy import SEND, AfterSending, Delay, Drop, proxy_to
from tests.chain.test_node_faults import NODE_FAULTS
from tests.chain.wallets import UNIT
from tests.server.live import live_server

pytestmark = pytest.mark.long
BUY, SELL = 0, 1
SLOWEST_S = 0.5
"""Maximum duration of trading, which must not wait for the node."""
WAIT_S = 1.5
NUM_CRASHES = 5
SETTINGS = {"chain_wait_s": WAIT_S, "chain_bump_after_s": 1, "rate_limits": False}


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        proxy_to(node) as proxy,
        live_server(folder / "data", chain=proxy.url, **SETTINGS) as live,
    ):
        server = ChainServer(live, node.url)
        server.proxy = proxy
        server.market = server.open_market("rain", "Will it rain?")
        yield server


def user_with_tokens(server, name, units=100):
    """Return a user with tokens of the market."""
    wait_until(lambda: server.chain()["state"] == "ready")
    user = server.user(f"0x{keccak(text=name).hex()}")
    server.send_gas(user.address)
    for _ in range(units // 100):
        server.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    server.convert("split", user, server.market, 50 * UNIT)
    return user


def check_trading(server):
    """Check that orders are accepted and matched without delay."""
    ada, bob = (server.user(f"0x{keccak(text=name).hex()}") for name in ("Ada", "Bob"))
    begin = time.monotonic()
    server.order(ada, server.market, SELL, 50, UNIT)
    assert server.order(bob, server.market, BUY, 50, UNIT)["matched"]
    assert server.http.get("/api/markets/rain/orderbook").status_code == 200
    assert time.monotonic() - begin < SLOWEST_S
    assert server.http.get("/ready").status_code == 200


def tokens_of(server, user):
    """Return a user's collateral, YES and NO, in wei."""
    tokens = (int(server.market[f"{name}TokenId"]) for name in ("yes", "no"))
    held = (server.ledger.token(user.address, token) for token in tokens)
    return (server.ledger.collateral(user.address), *held)


def send_request(url, kind, body, key):
    """Send a request; None if the server is gone."""
    headers = {"Idempotency-Key": key}
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(f"{url}/api/gasless/{kind}", json=body, headers=headers, timeout=60)
    return None


@pytest.mark.parametrize("fault_name", ["drops connections", "answers HTML"])
def test_trading_continues_while_the_chain_is_unreachable(server, fault_name):
    ada = user_with_tokens(server, f"Ada {server.url} {fault_name}")
    with server.proxy.inject(NODE_FAULTS[fault_name](None)):
        wait_until(lambda: server.chain()["state"] == "unreachable")
        check_trading(server)
        before = tokens_of(server, ada)
        path, body = "/api/gasless/merge", conversion(ada, server.market, UNIT)
        rejected = server.post(path, body, "later")
        assert (rejected.status_code, rejected.json()["code"]) == (503, "CHAIN_UNAVAILABLE")
        assert rejected.headers["retry-after"]
        faucet = server.post("/api/gasless/faucet", {"user": ada.address})
        assert faucet.json()["code"] == "CHAIN_UNAVAILABLE"
        check_trading(server)
        assert tokens_of(server, ada) == before
    wait_until(lambda: server.chain()["state"] == "ready")
    assert len(hashes_of(server.done(path, body, "later"))) == 4
    for _ in range(4):  # the rejected request did not count
        server.faucet(ada)
    over = server.post("/api/gasless/faucet", {"user": ada.address})
    assert (over.status_code, over.json()["code"]) == (429, "FAUCET_LIMIT")


def test_trading_continues_while_the_chain_is_slow(server):
    ada = user_with_tokens(server, f"Ada {server.url} slow")
    collateral, yes, no = tokens_of(server, ada)
    body = conversion(ada, server.market, UNIT)
    client = threading.Thread(target=send_request, args=(server.live.url, "merge", body, "slow"))
    with server.proxy.inject(Delay(0.3)) as fault:
        client.start()
        wait_until(lambda: fault.hits > 1)
        check_trading(server)
        client.join()
    assert len(hashes_of(server.done_at_last("/api/gasless/merge", body, "slow"))) == 4
    assert tokens_of(server, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_slow_operation_returns_pending_and_completes(server):
    ada = user_with_tokens(server, f"Ada {server.url} waits")
    before = tokens_of(server, ada)
    fault = AfterSending(b"", Drop())
    path, body = "/api/gasless/merge", conversion(ada, server.market, UNIT)
    with server.proxy.inject(fault):
        result = server.post(path, body, "patience")
        assert (result.status_code, result.json()["code"]) == (503, "OPERATION_PENDING")
        name = result.json()["operation"]
        assert result.json()["hashes"]["yesTransferTx"]
        check_trading(server)
        assert server.http.get(f"/api/gasless/operations/{name}").json()["status"] == "pending"
    wait_until(
        lambda: server.http.get(f"/api/gasless/operations/{name}").json()["status"] == "done"
    )
    answer = server.done(path, body, "patience")
    assert answer == server.http.get(f"/api/gasless/operations/{name}").json()["answer"]
    collateral, yes, no = before
    assert tokens_of(server, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


def test_disconnected_client_does_not_cancel_its_operation(server):
    ada = user_with_tokens(server, f"Ada {server.url} hangs up")
    collateral, yes, no = tokens_of(server, ada)
    path, body = "/api/gasless/merge", conversion(ada, server.market, UNIT)
    with server.proxy.inject(Delay(0.3, SEND)), pytest.raises(httpx.ReadTimeout):
        server.http.post(path, json=body, headers={"Idempotency-Key": "gone"}, timeout=0.1)
    wait_until(lambda: tokens_of(server, ada) == (collateral + UNIT, yes - UNIT, no - UNIT))
    assert len(hashes_of(server.done(path, body, "gone"))) == 4
    assert tokens_of(server, ada) == (collateral + UNIT, yes - UNIT, no - UNIT)


# ----- crashes -------------------------------------------------------------------------------


def child_of(pid, module):
    """Return the process id of the child that runs a module, or None.

    Briefly after the fork a child has the command line of its parent; a zombie has none.
    """
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if module.encode() in words:
                return int(child)
    return None


def kill_child(pid, module):
    """Kill the child that runs a module; return whether it existed."""
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
        server = ChainServer(stack.enter_context(live_server(tmp_path, **settings)), url)
        server.market = server.open_market("rain", "Will it rain?")
        ada = user_with_tokens(server, "Ada")
        before = tokens_of(server, ada)
        body = conversion(ada, server.market, UNIT)
        for number in range(NUM_CRASHES):
            arguments = (server.live.url, "merge", body, f"{number}")
            client = threading.Thread(target=send_request, args=arguments)
            client.start()
            time.sleep(0.01 * number)  # at different stages of the operation
            wait_until(lambda: kill_child(server.live.process.pid, module))
            check_trading(server)
            client.join()
            wait_until(lambda: server.chain()["state"] == "ready")
            server.url = url or server.chain()["rpcUrl"]
        keys = [f"{number}" for number in range(NUM_CRASHES)]
        answers = [server.done_at_last("/api/gasless/merge", body, key) for key in keys]
        hashes = [hashed for each in answers for hashed in hashes_of(each)]
        assert len(set(hashes)) == 4 * NUM_CRASHES
        merged = NUM_CRASHES * UNIT
        collateral, yes, no = before
        assert tokens_of(server, ada) == (collateral + merged, yes - merged, no - merged)
        assert server.admin.admin_chain().num_deaths >= NUM_CRASHES


# ----- the clock -----------------------------------------------------------------------------

CLOCK_PATCH = """
import pathlib
import time

def shifted(now, unit, file=pathlib.Path(__file__).with_name("jump_s")):
    return lambda: now() + type(now())(file.read_text()) * unit

time.time, time.time_ns = shifted(time.time, 1), shifted(time.time_ns, 10**9)
"""
JUMPS_S = (86_400, -172_800, 3 * 86_400)


def test_operations_wait_while_the_clock_is_wrong(tmp_path, monkeypatch):
    clock = tmp_path / "clock"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(CLOCK_PATCH)
    (clock / "jump_s").write_text("0")
    monkeypatch.setenv("PYTHONPATH", str(clock))
    settings = {"chain": "embedded", "chain_port": 0, "rate_limits": False, "clock_skew_max_s": 2}
    with live_server(tmp_path / "data", **settings) as live:
        server = ChainServer(live)
        server.market = server.open_market("rain", "Will it rain?")
        ada = user_with_tokens(server, "Ada")
        collateral, yes, no = tokens_of(server, ada)
        body = conversion(ada, server.market, UNIT)
        for number, jump_s in enumerate(JUMPS_S, 1):
            (clock / "jump_s").write_text(str(jump_s))
            wait_until(lambda: live.http.get("/ready").status_code == 503)
            rejection = server.post("/api/gasless/merge", body, f"{number}")
            assert rejection.json()["code"] == "CLOCK_UNSURE"
            (clock / "jump_s").write_text("0")
            wait_until(lambda: live.http.get("/ready").status_code == 200)
            answer = server.convert("merge", ada, server.market, UNIT, f"{number}")
            assert server.convert("merge", ada, server.market, UNIT, f"{number}") == answer
            check_trading(server)
        merged = len(JUMPS_S) * UNIT
        assert tokens_of(server, ada) == (collateral + merged, yes - merged, no - merged)
        traded_s = live.http.get("/api/markets/rain/trades").json()[0]["timestamp"] / 1000
        assert abs(traded_s - time.time_ns() / 10**9) < -min(JUMPS_S) / 2
