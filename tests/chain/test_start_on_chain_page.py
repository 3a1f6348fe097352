"""The lines for a shell in the first steps on a chain do what the page says."""

import shlex
import shutil
import subprocess
import sys

import msgspec
import pytest

from tests.chain.venues import Venue
from tests.server.demo.test_start_page import ADDRESS, shell_lines
from tests.server.live import environment, live_server

LINES = shell_lines("start-on-chain.md")
ASKING = [line for line in LINES if line.startswith("curl ")]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    # Waiting for the chain asks more often than a newcomer may.
    settings = {"demo": True, "chain": "embedded", "chain_port": 0, "rate_limits": False}
    with live_server(tmp_path_factory.mktemp("demo") / "data", **settings) as live:
        Venue(live)
        yield live


def test_the_page_has_no_line_that_is_not_tried_here():
    assert {line for line in LINES if line not in ASKING} == {"make run", "clob-server wallets"}
    assert len(ASKING) == 3


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("line", ASKING)
def test_what_a_newcomer_asks_is_answered(live, line):
    command = shlex.split(line.replace(ADDRESS, live.url))
    done = subprocess.run([*command, "-sS", "--fail"], capture_output=True, check=True)
    answer = msgspec.json.decode(done.stdout)
    assert answer.get("success", True)


def test_the_wallets_are_listed():
    done = subprocess.run(
        [sys.executable, "-m", "clob_server", "wallets"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert "0x90F79bf6EB2c4f870365E785982E1f101E93b906" in done.stdout
