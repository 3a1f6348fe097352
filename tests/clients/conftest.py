"""Fixture that runs the programs of ``js/`` with node, over JSON lines."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "js"


@pytest.fixture(scope="session")
def run_jobs():
    """Send jobs to a program and return its answers; skip the test without node or its packages.

    Each program is started once, since a start takes longer than a hundred signatures.
    """
    with contextlib.ExitStack() as stack:
        running = {}

        def answers(program, jobs):
            if program not in running:
                running[program] = stack.enter_context(start(program))
            return [answer(running[program], job) for job in jobs]

        yield answers


def start(program):
    """Start a program; it ends when its input is closed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    pipe = subprocess.PIPE
    return subprocess.Popen([node, program], cwd=FOLDER, stdin=pipe, stdout=pipe, text=True)


def answer(process, job):
    """Send one job and return the answer."""
    process.stdin.write(f"{json.dumps(job)}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the program has ended; its output is above"
    message = json.loads(line)
    assert "error" not in message, message["error"]
    return message["answer"]
