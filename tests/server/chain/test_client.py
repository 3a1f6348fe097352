"""The chain client without a chain, without its package, and with frozen processes."""

import os
import signal
import subprocess
import time

import pytest

from clob_server.api.problems import ApiError
from clob_server.chain import config
from clob_server.chain.client import DEVCHAIN, WORKER, ChainClient, Stage
from clob_server.settings import Settings
from tests.server.live import live_server


async def on_ready():
    """Do nothing."""


def make_client(settings, folder):
    return ChainClient(settings, folder, on_ready=on_ready, on_end=lambda end: None)


def test_missing_package_is_reported_with_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setattr(config.importlib.util, "find_spec", lambda name: None)
    client = make_client(Settings(chain="embedded"), tmp_path)
    client.start()
    assert client.stage is Stage.MISSING
    with pytest.raises(ApiError, match=r"pip install 'clob\[devchain\]'") as caught:
        client.check_ready()
    assert caught.value.code == "CHAIN_UNAVAILABLE"
    assert list(tmp_path.iterdir()) == []


def test_no_process_is_started_without_a_chain(tmp_path):
    client = make_client(Settings(chain="none"), tmp_path)
    client.start()
    assert client.stage is Stage.NONE
    with pytest.raises(ApiError) as caught:
        client.check_ready()
    assert caught.value.code == "CHAIN_NOT_CONFIGURED"


PATIENCE_S = 200


def child_of(live, module):
    """Return the process id of a child of the server."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(live.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    (pid,) = [line.split()[0] for line in listed.splitlines() if f" -m {module} " in line]
    return int(pid)


def await_chain(live, state):
    """Wait until the server reports a state of the chain."""
    deadline = time.monotonic() + PATIENCE_S
    while live.http.get("/health").json()["chain"] != state:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("module", [WORKER, DEVCHAIN])
def test_frozen_process_is_reported_until_it_goes_on_or_is_restarted(tmp_path, module):
    pytest.importorskip("eth")
    with live_server(tmp_path, chain="embedded", chain_port=0, log_level="error") as live:
        await_chain(live, "ready")
        pid = child_of(live, module)
        os.kill(pid, signal.SIGSTOP)
        await_chain(live, "frozen")
        answer = live.http.get("/ready")
        assert (answer.status_code, answer.json()["chain"]) == (200, "frozen")
        assert "\nclob_chain_frozen 1.0" in live.http.get("/metrics").text
        body = {"userAddress": "0x" + "a1" * 20, "amount": 1}
        answer = live.http.post("/api/gasless/faucet", json=body)
        assert answer.status_code in (422, 503), answer.text
        if module == DEVCHAIN:
            os.kill(pid, signal.SIGCONT)  # the worker's test waits for the restart
        await_chain(live, "ready")
        assert (child_of(live, module) == pid) is (module == DEVCHAIN)
        assert "\nclob_chain_frozen 0.0" in live.http.get("/metrics").text
        assert live.stop() == 0
