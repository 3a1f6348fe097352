"""The process of the chain: start, stop, and errors at the start."""

import shutil
import signal
import socket
import subprocess
import sys
import time

import apsw
import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.devchain.senders import Sender
from tests.chain.nodes import running, start_devchain
from tests.server.live import environment

MODULE = "clob_server.chain.devchain"
WAIT_S = 30


def run(*arguments, program=("-m", MODULE)):
    """Run the command to its end; return its exit code and standard error."""
    command = [sys.executable, *program, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, env=environment(), check=False
    )
    assert not done.stdout
    return done.returncode, done.stderr


def mine_two_blocks(folder):
    """Create a chain with two transactions; return the last hash and the chain's data."""
    sender = Sender()
    with running(start_devchain(folder)) as node:
        node.ask("evm_increaseTime", 500)
        for value in (1, 2):
            raw = sender.sign(ACCOUNTS[4].address, value=value)
            tx_hash = node.ask("eth_sendRawTransaction", raw)
        data = read_all(node, tx_hash)
        assert node.stop() == 0
    return tx_hash, data


def read_all(node, tx_hash):
    """Return all data that a restart must not change."""
    newest = node.ask("eth_getBlockByNumber", "latest", True)
    return [
        newest,
        node.ask("eth_getTransactionReceipt", tx_hash),
        node.ask("eth_getTransactionByHash", tx_hash),
        node.ask("eth_getBlockByNumber", "0x0", True),
        *(node.ask("eth_getBalance", each.address, "latest") for each in ACCOUNTS),
        *(node.ask("eth_getTransactionCount", each.address, "latest") for each in ACCOUNTS),
        node.ask("evm_increaseTime", 0),
    ]


@pytest.fixture(scope="module")
def chain_folder(tmp_path_factory):
    """A folder with a chain, which tests copy, its last transaction and its data."""
    folder = tmp_path_factory.mktemp("chain")
    return folder, *mine_two_blocks(folder)


def test_restart_keeps_all_data(chain_folder, tmp_path):
    folder, tx_hash, data = chain_folder
    with running(start_devchain(shutil.copytree(folder, tmp_path / "chain"))) as node:
        assert read_all(node, tx_hash) == data


def test_kill_keeps_answered_transactions(tmp_path):
    sender = Sender()
    with running(start_devchain(tmp_path)) as node:
        tx_hash = node.ask("eth_sendRawTransaction", sender.sign(ACCOUNTS[4].address, value=1))
        data = read_all(node, tx_hash)
        node.kill()
    with running(start_devchain(tmp_path)) as node:
        assert read_all(node, tx_hash) == data


def test_second_process_on_the_folder_is_rejected(tmp_path):
    with running(start_devchain(tmp_path)):
        code, text = run(tmp_path, "--port", 0)
    assert code == 2
    assert text == f"clob-devchain: another process is using the chain in {tmp_path}\n"


def test_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run(tmp_path, "--port", port)
    assert code == 2
    assert text.startswith(f"clob-devchain: cannot listen on 127.0.0.1:{port}: ")
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    "damage",
    ["no database", "truncated", "missing table", "missing state", "newer", "missing head"],
)
def test_damaged_store_is_rejected(chain_folder, tmp_path, damage):
    folder = shutil.copytree(chain_folder[0], tmp_path / "bad")
    damage_file(folder / "chain.db", damage)
    code, text = run(folder, "--port", 0)
    assert code == 2
    assert text.startswith("clob-devchain: ")
    assert "damaged" in text or "version 9" in text
    assert text.count("\n") == 1


def damage_file(path, damage):
    """Damage the database of a chain."""
    if damage == "no database":
        path.write_bytes(b"x" * 5000)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        statement = {
            "missing state": "DELETE FROM keys WHERE length(key)=32",
            "newer": "PRAGMA user_version=9",
            "missing table": "DROP TABLE facts",
            "missing head": "DELETE FROM keys WHERE length(key)<>32",
        }[damage]
        db = apsw.Connection(str(path))
        db.execute(statement).fetchall()
        db.close()


def test_other_chain_id_than_the_folder_is_rejected(chain_folder, tmp_path):
    folder = shutil.copytree(chain_folder[0], tmp_path / "chain")
    code, text = run(folder, "--port", 0, "--chain-id", 5)
    assert code == 2
    assert "the stored chain has id 31337; expected 5" in text


def test_invalid_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    code, text = run(tmp_path / "file", "--port", 0)
    assert code == 2
    assert "cannot be opened" in text


def test_missing_py_evm_is_reported_with_the_extra_to_install(tmp_path):
    without = (
        "import sys, runpy; sys.modules['eth'] = None; "
        f"runpy.run_module('{MODULE}', run_name='__main__')"
    )
    code, text = run(tmp_path / "chain", program=("-c", without))
    assert code == 2
    assert text == (
        "clob-devchain: the development chain needs py-evm: pip install 'clob[devchain]'\n"
    )
    assert not (tmp_path / "chain").exists()


@pytest.mark.parametrize(
    "arguments", [["--port", "x"], ["--port", "65536"], ["--chain-id", "0"], []]
)
def test_invalid_arguments_are_reported(tmp_path, arguments):
    code, text = run(*([tmp_path, *arguments] if arguments else []))
    assert code == 2
    assert "usage:" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_process_cleanly(tmp_path, number):
    with running(start_devchain(tmp_path)) as node:
        node.process.send_signal(number)
        assert node.process.wait(WAIT_S) == 0


def test_standard_input_that_is_no_pipe_is_ignored(tmp_path):
    command = [sys.executable, "-m", MODULE, str(tmp_path), "--port", "0", "--with-parent"]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, stdin=null, stdout=pipe, text=True, env=environment()) as one:
        assert one.stdout.readline().startswith("listening on ")
        time.sleep(0.2)
        assert one.poll() is None
        one.terminate()
        assert one.wait(WAIT_S) == 0


def test_process_stops_at_the_end_of_standard_input(tmp_path):
    command = [sys.executable, "-m", MODULE, str(tmp_path), "--port", "0", "--with-parent"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=environment()
    ) as process:
        assert process.stdout.readline().startswith("listening on http://127.0.0.1:")
        process.stdin.write("ignored\n")
        process.stdin.flush()
        time.sleep(0.2)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
