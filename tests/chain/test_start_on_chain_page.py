"""The shell commands of the page on starting with a chain work as described."""

import shlex
import shutil
import subprocess
import sys

import msgspec
import pytest

from tests.chain.chain_server import ChainServer
from tests.server.demo.test_start_page import ADDRESS, shell_lines
from tests.server.live import environment, live_server

LINES = shell_lines("start-on-chain.md")
CURL_LINES = [line for line in LINES if line.startswith("curl ")]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    # Waiting for the chain sends more requests than the default limits allow.
    settings = {"demo": True, "chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path_factory.mktemp("demo") / "data", **settings) as live:
        ChainServer(live)
        yield live


def test_all_commands_of_the_page_are_tested():
    assert {line for line in LINES if line not in CURL_LINES} == {"make run", "clob-server wallets"}
    assert len(CURL_LINES) == 3


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("line", CURL_LINES)
def test_commands_of_the_page_succeed(live, line):
    command = shlex.split(line.replace(ADDRESS, live.url))
    result = subprocess.run([*command, "-sS", "--fail"], capture_output=True, check=True)
    answer = msgspec.json.decode(result.stdout)
    assert answer.get("success", True)


def test_wallets_command_lists_the_wallets():
    result = subprocess.run(
        [sys.executable, "-m", "clob_server", "wallets"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert "0x90F79bf6EB2c4f870365E785982E1f101E93b906" in result.stdout
