"""The shell lines of the start page work as described."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from clob_server import cli
from tests.server.live import live_server

ROOT = Path(__file__).parents[3]
ADDRESS = "http://127.0.0.1:8000"


def shell_lines(page):
    """Return the lines of the ``sh`` blocks of a page."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


LINES = shell_lines("start.md")
CURL_LINES = [line for line in LINES if line.startswith("curl ")]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("demo") / "data", demo=True) as live:
        yield live


def test_every_shell_line_of_the_page_is_tested():
    assert {line for line in LINES if line not in CURL_LINES} == {"make run"}
    assert CURL_LINES


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_shell_lines_of_the_page_succeed(live):
    for line in CURL_LINES:
        command = shlex.split(line.replace(ADDRESS, live.url))
        result = subprocess.run([*command, "-sS", "--fail"], capture_output=True, check=True)
        assert msgspec.json.decode(result.stdout), line


@pytest.mark.skipif(not (ROOT / "Makefile").is_file(), reason="needs the Makefile of a checkout")
def test_make_run_serves_the_demo():
    result = subprocess.run(
        ["make", "--dry-run", "run"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = result.stdout.splitlines()
    assert any(line.endswith("/python -m clob_server --demo") for line in lines)


@pytest.mark.parametrize("page", ["how-to/run-a-server.md", "how-to/manage-keys.md"])
def test_commands_on_the_pages_exist(page):
    commands = [line for line in shell_lines(page) if line.startswith("clob-server ")]
    assert commands
    for line in commands:
        words = shlex.split(line, comments=True)[1:]
        assert cli.parser().parse_args(words).command == words[0]
