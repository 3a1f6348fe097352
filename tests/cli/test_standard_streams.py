"""Standard streams that are closed, full or without a reader, for each program."""

import os
import subprocess
import sys

import pytest

PROGRAMS = {
    "clob": ("clob.cli", ["--version"]),
    "clob replay": ("clob.cli", ["replay"]),
    "clob-client": ("clob.client.cli", ["--version"]),
    "clob-conformance": ("clob.testing.conformance.cli", ["--list"]),
    "clob-server": ("clob_server.__main__", ["wallets"]),
}
FULL = "/dev/full"


@pytest.fixture(params=PROGRAMS)
def command(request):
    """A shell command that starts a program with some output."""
    module, arguments = PROGRAMS[request.param]
    start = f"import sys; from {module} import main; sys.exit(main(sys.argv[1:]))"
    return request.param.split()[0], [sys.executable, "-c", start, *arguments]


def run(command, redirection):
    """Run a command with redirected streams; return its exit code and standard error."""
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {redirection}', "bash", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_ignored(command, closed):
    _, words = command
    assert run(words, closed) == (0, "")


@pytest.mark.skipif(not os.path.exists(FULL), reason=f"not here: {FULL}")
def test_full_output_is_an_error_of_one_line(command):
    name, words = command
    text = f"{name}: standard output: No space left on device\n"
    assert run(words, f">{FULL}") == (2, text)


def test_reader_that_ends_early_is_no_error(command):
    _, words = command
    assert run(words, "| true") == (0, "")


def test_reader_that_ends_before_a_strategy_has_printed_is_no_error(tmp_path):
    (tmp_path / "talker.py").write_text(
        "from clob.replay import Strategy\n\n\nclass Talker(Strategy):\n"
        "    def on_book(self, market):\n        print('x' * 99)\n"
    )
    start = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from clob.cli import main; "
        "sys.exit(main(['replay', '--strategy', 'talker:Talker']))"
    )
    assert run([sys.executable, "-c", start], "| true") == (0, "")


def test_file_does_not_receive_the_output_of_a_closed_stream(tmp_path):
    start = (
        "import os, sys; from clob.program import run_program\n"
        "def act():\n"
        f"    with open({str(tmp_path / 'data')!r}, 'w') as file:\n"
        "        os.write(1, b'output'), os.write(2, b'error'), file.write('data')\n"
        "    return 0\n"
        "sys.exit(run_program('it', act))"
    )
    assert run([sys.executable, "-c", start], "<&- >&- 2>&-") == (0, "")
    assert (tmp_path / "data").read_text() == "data"
