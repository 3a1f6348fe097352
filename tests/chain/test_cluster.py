"""A cluster with a chain: whichever node dies, each operation and each trade is sent once."""

import contextlib
import os
import random  # noqa: TID251 - seeded, and outside the engine
import shutil
import threading
import time

import httpx
import pytest

from clob_server.__main__ import main
from clob_server.auth.api_keys import IDS, TOKENS
from clob_server.chain.config import OUTBOX_FOLDER
from clob_server.chain.tx.outbox import FILE
from tests.chain.chain_server import ChainServer, conversion, wait_until
from tests.chain.nodes import running, start_anvil
from tests.chain.prepared_operations import POINTS, STEPS
from tests.chain.settling_server import SettlingServer, settled_numbers
from tests.chain.test_server_crashes import Round, begin_round
from tests.chain.test_server_faults import send_request
from tests.chain.wallets import UNIT
from tests.chain.workers import DIED
from tests.server.cluster.nodes import Nodes, cluster
from tests.server.live import live_server
from tests.server.log import nats_servers

LIVES = int(os.environ.get("CLOB_CHAIN_LIVES", "4"))
EVERY = int(os.environ.get("CLOB_CHAIN_EVERY", "8"))
DIES = f"exit code {DIED}"
KILL_AFTER_MAX_S = 0.4
SIZE = UNIT // 10
FAILPOINTS = [
    f"{kind}:{step}:{point}"
    for kind in ("merge", "split", "faucet")
    for step in STEPS[kind]
    for point in POINTS
    if step not in ("permitTx", "gasTx")  # steps of other requests
][::EVERY]


@contextlib.contextmanager
def nodes_with_chain(folder):
    """Run two nodes over one chain."""
    with (
        running(start_anvil()) as node,
        cluster(folder, 2, chain=node.url, settle_every_s=0.05) as nodes,
    ):
        yield node, nodes


def other_of(nodes, node):
    return next(each for each in nodes if each is not node)


def check_nonces(server, node):
    """Check that every transaction of the operator in a block is a step, and none is foreign."""
    steps = [step for each in server.operations() for step in each.steps]
    nonces = sorted(step.nonce for step in steps if step.nonce is not None)
    sent = int(node.ask("eth_getTransactionCount", server.operator, "latest"), 16)
    assert nonces == list(range(sent))
    assert {step.status for step in steps} == {"confirmed"}


@pytest.mark.long
def test_operations_of_killed_owners_are_completed_once_by_the_next_ones(tmp_path):
    rng = random.Random(LIVES)
    with nodes_with_chain(tmp_path) as (node, nodes):
        last = None
        for number in range(LIVES):
            owner = nodes.owner()
            follower = ChainServer(other_of(nodes, owner).live, node.url)
            last = begin_round(follower, number, last)
            time.sleep(rng.uniform(0, KILL_AFTER_MAX_S))  # at a random stage
            owner.kill()
            nodes.owner(besides=[owner])
            owner.start()
        server = ChainServer(nodes.owner().live, node.url)
        last.check(server)
        assert {each.status for each in server.operations()} == {"done"}
        check_nonces(server, node)


@pytest.mark.long
def test_operation_is_completed_by_the_next_owner_from_every_point(tmp_path, monkeypatch):
    """A worker dies at a point, then its node; the next owner continues there."""
    with nodes_with_chain(tmp_path) as (node, nodes):
        server = ChainServer(nodes.owner().live, node.url)
        server.open_market("rain", "Will it rain?")
        market = server.http.get("/api/markets/rain").json()
        user = server.user(f"0x{7:064x}")
        server.send_gas(user.address)
        for _ in range(3):
            server.faucet(user)
        user.approve_collateral()
        user.approve_tokens()
        server.convert("split", user, market, 100 * UNIT)
        owner = nodes.owner()
        victim = other_of(nodes, owner)
        victim.kill()
        for number, failpoint in enumerate(FAILPOINTS):
            monkeypatch.setenv("CLOB_CHAIN_DIE", failpoint)
            victim.start()
            monkeypatch.delenv("CLOB_CHAIN_DIE")
            assert owner.stop() == 0
            assert nodes.owner() is victim
            owner.start()
            ChainServer(victim.live, node.url)  # once it can run operations
            kind = failpoint.partition(":")[0]
            body = conversion(user, market, 1 + number)
            if kind == "faucet":
                body = {"user": server.user(f"0x{1_000 + number:064x}").address}
            request = (victim.live.url, kind, body, failpoint)
            asking = threading.Thread(target=send_request, args=request, daemon=True)
            asking.start()
            wait_until(lambda: DIES in victim.logged())
            victim.kill()
            asking.join()
            (victim.folder / "stderr").unlink()
            server = ChainServer(owner.live, node.url)
            done = server.done_at_last(f"/api/gasless/{kind}", body, failpoint)
            hashes = [value for name, value in done.items() if name.endswith("Tx") and value]
            assert len(set(hashes)) == len(hashes) > 0
        assert {each.status for each in server.operations()} == {"done"}
        check_nonces(server, node)


@pytest.mark.long
def test_frozen_owner_sends_nothing_after_another_one_took_over(tmp_path):
    with nodes_with_chain(tmp_path) as (node, nodes):
        owner = nodes.owner()
        other = other_of(nodes, owner)
        last = begin_round(ChainServer(other.live, node.url), 0, None)
        owner.freeze()
        assert nodes.owner(besides=[owner]) is other
        server = ChainServer(other.live, node.url)
        server.market = server.http.get("/api/markets/rain").json()
        again = Round(server, 1)
        again.begin()
        owner.thaw()
        last.check(server)
        again.check(server)
        wait_until(lambda: owner.role() == "follower")
        wait_until(lambda: owner.health()["chain"] == "elsewhere")
        assert "clob_chain_head 0.0" in owner.http.get("/metrics").text
        check_nonces(server, node)


@pytest.mark.long
def test_trades_settle_once_while_their_owners_are_killed(tmp_path):
    rng = random.Random(f"trades {LIVES}")
    with nodes_with_chain(tmp_path) as (node, nodes):
        SettlingServer(nodes.owner().live, node.url).set_up(complementary=True)
        for number in range(LIVES):
            owner = nodes.owner()
            server = SettlingServer(other_of(nodes, owner).live, node.url, names=f"{number}")
            traders = server.trader(5), server.trader(5)
            server.trade(*traders, size=SIZE)
            server.until_settled()
            server.trade(*traders, size=SIZE, count=4)
            time.sleep(rng.uniform(0, KILL_AFTER_MAX_S))
            owner.kill()
            nodes.owner(besides=[owner])
            owner.start()
        server = SettlingServer(nodes.followers()[0].live, node.url)
        assert server.until_settled().difference == 0
        assert sorted(settled_numbers(server)) == list(range(1, 5 * LIVES + 1))
        trades = server.settlements_by_id().values()
        assert [settlement for settlement, _ in trades] == ["settled"] * 5 * LIVES
        nodes.wait_until_equal()
        for each in nodes:
            others = SettlingServer(each.live, node.url).settlements_by_id().values()
            assert sorted(others) == sorted(trades)
        check_nonces(server, node)


@pytest.mark.long
def test_server_with_a_chain_joins_with_its_folder_and_its_outbox(tmp_path):
    alone = tmp_path / "alone"
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running(start_anvil()))
        with live_server(alone, chain=node.url) as live:
            server = ChainServer(live, node.url)
            user = server.user(f"0x{7:064x}")
            before = server.faucet(user, "once")
            assert live.stop() == 0
        nats = stack.enter_context(nats_servers.running(tmp_path / "nats"))
        command = ["restore", "--data-dir", str(alone), "--log", ",".join(nats.urls)]
        command += ["--log-monitors", ",".join(nats.monitors), "--log-replicas", "1"]
        assert main(command) == 0
        nodes = Nodes(tmp_path, nats, 3, {"chain": node.url})
        stack.callback(nodes.close)
        first, second, third = nodes
        shutil.copytree(alone, first.folder, dirs_exist_ok=True)
        for each in (second, third):
            for name in (IDS, TOKENS):
                shutil.copy(alone / name, each.folder / name)
        (second.folder / OUTBOX_FOLDER).mkdir(mode=0o700)
        for each in alone.glob(f"{OUTBOX_FOLDER}/{FILE}*"):
            shutil.copy(each, second.folder / OUTBOX_FOLDER / each.name)
        first.start()
        assert nodes.owner() is first
        second.start()
        third.start()
        server = ChainServer(first.live, node.url)
        server.faucet(user, "again")
        wait_until(lambda: not third.is_running)  # it lacks what the server sent alone
        assert "OutboxBehindError" in third.logged()
        first.kill()
        assert nodes.owner(besides=[first, third]) is second
        server = ChainServer(second.live, node.url)
        assert server.faucet(user, "once") == before
        third.stop()
        shutil.rmtree(third.folder / OUTBOX_FOLDER)
        second.stop()
        shutil.copytree(second.folder / OUTBOX_FOLDER, third.folder / OUTBOX_FOLDER)
        third.start()
        assert nodes.owner() is third
        server = ChainServer(third.live, node.url)
        server.faucet(user, "third")
        check_nonces(server, node)


@pytest.mark.long
def test_worker_processes_show_the_state_of_markets_on_the_chain(tmp_path):
    with (
        running(start_anvil()) as node,
        live_server(tmp_path, chain=node.url, workers=2, rate_limits=False) as live,
    ):
        ChainServer(live, node.url).open_market("rain", "Will it rain?")
        for _ in range(20):  # each connection is at either process
            with httpx.Client(base_url=live.url, timeout=60) as http:
                market = http.get("/api/markets/rain").json()
                [listed] = http.get("/api/markets").json()
            assert (market["chain"], listed["chain"]) == ("prepared", "prepared")
