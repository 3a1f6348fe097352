"""Anvil as the embedded chain: state across restarts, one node for each folder."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clob_server.chain.config import EMBEDDED, embedded_node
from clob_server.chain.eth.accounts import ACCOUNTS
from clob_server.settings import Settings, SettingsError
from tests.chain.chain_server import ChainServer, wait_until
from tests.chain.devchain.senders import Sender
from tests.chain.nodes import Node, anvil_path, running
from tests.chain.test_server_faults import child_of
from tests.chain.wallets import UNIT, receipt_of
from tests.server.live import environment, live_server

SETTINGS = {"chain": EMBEDDED, "chain_port": 0, "rate_limits": False}


@pytest.fixture(scope="module")
def anvil():
    """Path of anvil."""
    path = anvil_path()
    if path is None:
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    return str(path)


def start(folder, anvil):
    """Start anvil on a folder, with a pipe as standard input, as the server does."""
    command = [sys.executable, "-m", "clob_server.chain.anvil", str(folder), "--anvil", anvil]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    line = process.stdout.readline()
    assert line.startswith("listening on http://127.0.0.1:"), line
    return Node("anvil", process, line.split()[-1], folder)


def transact(node, value):
    """Send ether, wait for the block, and return the transaction hash."""
    nonce = int(node.ask("eth_getTransactionCount", Sender().address, "latest"), 16)
    raw = Sender().sign(ACCOUNTS[4].address, value=value, nonce=nonce)
    tx_hash = node.ask("eth_sendRawTransaction", raw)
    receipt_of(node, tx_hash)
    return tx_hash


def data_of(node, tx_hash):
    """Return data that a restart must not change."""
    return [
        node.ask("eth_getBlockByNumber", "0x0", False)["hash"],
        node.ask("eth_getBlockByNumber", "latest", False)["hash"],
        node.ask("eth_getTransactionReceipt", tx_hash),
        *(node.ask("eth_getBalance", each.address, "latest") for each in ACCOUNTS),
        *(node.ask("eth_getTransactionCount", each.address, "latest") for each in ACCOUNTS),
    ]


def end_of_input(node):
    """Close standard input, as the end of the server does, and wait for the exit."""
    node.process.stdin.close()
    assert node.process.wait(30) == 0


def test_chain_survives_the_end_of_the_server(anvil, tmp_path):
    with running(start(tmp_path, anvil)) as node:
        tx_hash = transact(node, 1)
        before = data_of(node, tx_hash)
        end_of_input(node)
    for _ in range(2):
        with running(start(tmp_path, anvil)) as node:
            assert data_of(node, tx_hash) == before
            end_of_input(node)


def test_killed_chain_has_the_blocks_of_the_last_state(anvil, tmp_path):
    with running(start(tmp_path, anvil)) as node:
        tx_hash = transact(node, 1)
        wait_until(lambda: (tmp_path / "state.json").exists())
        before = data_of(node, tx_hash)
        node.process.kill()
        node.process.wait(30)
        node.process.stdin.close()
    with running(start(tmp_path, anvil)) as node:
        assert data_of(node, tx_hash) == before
        transact(node, 2)
        end_of_input(node)


def test_time_of_a_restarted_chain_does_not_go_back(anvil, tmp_path):
    with running(start(tmp_path, anvil)) as node:
        node.ask("evm_increaseTime", 5_000)
        transact(node, 1)
        first = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        assert first > time.time_ns() // 10**9 + 4_000
        end_of_input(node)
    with running(start(tmp_path, anvil)) as node:
        transact(node, 2)
        second = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        assert first <= second <= first + 60
        end_of_input(node)


def test_second_anvil_on_a_folder_is_rejected(anvil, tmp_path):
    with running(start(tmp_path, anvil)) as node:
        command = [sys.executable, "-m", "clob_server.chain.anvil", str(tmp_path)]
        second = subprocess.run(
            [*command, "--anvil", anvil, "--port", "0"],
            input="",
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(),
            check=False,
        )
        assert (second.returncode, second.stdout) == (2, "")
        assert f"another anvil uses {tmp_path}" in second.stderr
        assert node.ask("eth_chainId") == "0x7a69"
        end_of_input(node)


def test_process_exits_with_anvil(anvil, tmp_path):
    with running(start(tmp_path, anvil)) as node:
        os.kill(child_of(node.process.pid, anvil), signal.SIGKILL)
        assert node.process.wait(30) == 1
        node.process.stdin.close()


def test_server_with_anvil_keeps_balances_after_restart_and_kill(anvil, tmp_path):
    settings = SETTINGS | {"chain_node": anvil}
    with live_server(tmp_path, **settings) as live:
        server = ChainServer(live)
        user = server.user(ACCOUNTS[3].private_key)
        server.faucet(user)
        assert "anvil" in server.ask("web3_clientVersion")
        assert live.stop() == 0
    with live_server(tmp_path, **settings) as live:
        server = ChainServer(live)
        assert server.ledger.collateral(user.address) == 100 * UNIT
        server.faucet(user)
        live.kill()
    with live_server(tmp_path, **settings) as live:
        server = ChainServer(live)
        assert server.ledger.collateral(user.address) == 200 * UNIT
        server.faucet(user)
        assert live.stop() == 0


# ----- the choice of the node ------------------------------------------------------------------


@pytest.fixture
def on_path(anvil, tmp_path, monkeypatch):
    """A PATH with anvil only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    os.symlink(anvil, folder / "anvil")
    monkeypatch.setenv("PATH", str(folder))
    return str(folder / "anvil")


def chosen(folder, **settings):
    """Return kind and path of the node of a data folder."""
    node = embedded_node(Settings(data_dir=str(folder), **settings))
    assert node.folder == folder / {"embedded": "devchain", "anvil": "anvil"}[node.kind]
    return node.kind, node.path


def test_new_folder_uses_anvil_on_the_path_or_as_given(on_path, anvil, tmp_path, monkeypatch):
    assert chosen(tmp_path) == ("anvil", on_path)
    assert chosen(tmp_path, chain_node="anvil") == ("anvil", on_path)
    assert chosen(tmp_path, chain_node=anvil) == ("anvil", anvil)
    assert chosen(tmp_path, chain_node="embedded") == ("embedded", "")
    monkeypatch.setenv("PATH", "")
    assert chosen(tmp_path) == ("embedded", "")
    assert chosen(tmp_path, chain_node="anvil") == ("anvil", "")


def test_folder_stays_with_the_node_that_it_began_with(on_path, tmp_path, monkeypatch):
    (tmp_path / "old" / "anvil").mkdir(parents=True)  # empty, as after a demo
    (tmp_path / "old" / "devchain").mkdir()
    (tmp_path / "old" / "devchain" / "chain.db").touch()
    assert chosen(tmp_path / "old") == ("embedded", "")
    with pytest.raises(SettingsError, match=r"--chain-node must be embedded, with which the chain"):
        chosen(tmp_path / "old", chain_node="anvil")
    (tmp_path / "new" / "anvil").mkdir(parents=True)
    (tmp_path / "new" / "anvil" / "lock").touch()
    with pytest.raises(SettingsError, match=r"--chain-node must be anvil, .* got 'embedded'$"):
        chosen(tmp_path / "new", chain_node="embedded")
    monkeypatch.setenv("PATH", "")  # anvil was removed: there is no silent change to an empty chain
    assert chosen(tmp_path / "new") == ("anvil", "")
