"""Measure a newcomer's way: from ``git clone`` to a market that trades, and to a checked backtest.

``python -m tests.release.clone`` clones the committed tree into ``build/clone`` and runs the
commands of README.md under *Quick start* there, the demo on a free port.
"""

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.release.environments import ReleaseError, environment, report, run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "clone"
LIMIT_S = 600
READY = "listening on "
CHECKED = "recorded fills reproduced exactly"


def commands() -> list[str]:
    """Return the shell commands of the quick start."""
    section = (ROOT / "README.md").read_text().partition("## Quick start")[2].partition("\n## ")[0]
    lines = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL)).splitlines()
    return [" ".join(shlex.split(line, comments=True)) for line in lines]


def wait_until_trading(demo: subprocess.Popen[str]) -> str:
    """Read the output of the demo until it has an address, then wait for a trade; return it."""
    assert demo.stdout is not None
    url = next((line.split()[-1] for line in demo.stdout if READY in line), None)
    if url is None:
        raise ReleaseError(f"make run: must print {READY!r}; ended with code {demo.wait()}")
    while True:
        with urllib.request.urlopen(f"{url}/api/markets/demo/trades?limit=1") as answer:
            if b'"price"' in answer.read():
                return url
        time.sleep(0.2)


def main() -> int:
    """Clone, trade and test; return 1 if a step failed or took too long."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    clone, make_run, *others = commands()
    replays = [command for command in others if "clob replay" in command]
    if not (clone.startswith("git clone") and make_run == "make run" and replays):
        raise ReleaseError("Quick start must have git clone, make run and a replay, in this order")
    begin_s = time.monotonic()
    run("git", "clone", "-q", ROOT, FOLDER, folder=ROOT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        variables = {"CLOB_PORT": str(server.getsockname()[1])}
    demo = subprocess.Popen(
        ["make", "run"],
        cwd=FOLDER,
        env=environment() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = wait_until_trading(demo)
        report(f"from clone to trading on {url}/ui: {time.monotonic() - begin_s:.0f} s")
        output = run(*shlex.split(replays[0]), folder=FOLDER)
    finally:
        demo.terminate()
        demo.communicate()
    passed_s = time.monotonic() - begin_s
    if CHECKED not in output:
        raise ReleaseError(f"{replays[0]} must print {CHECKED!r}; got {output!r}")
    report(f"from clone to a checked backtest: {passed_s:.0f} s")
    return int(passed_s > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
