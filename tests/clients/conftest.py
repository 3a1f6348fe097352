"""Runs the programs of ``js/`` with node: JSON lines in, JSON lines out."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "js"


@pytest.fixture(scope="session")
def ask():
    """Give jobs to a program and get its answers; skips where node or its packages are not.

    Each program is started once, since that takes longer than a hundred signatures.
    """
    with contextlib.ExitStack() as stack:
        running = {}

        def answers(program, jobs):
            if program not in running:
                running[program] = stack.enter_context(start(program))
            return [answer(running[program], job) for job in jobs]

        yield answers


def start(program):
    """Start a program; it ends when nothing more can come."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    pipe = subprocess.PIPE
    return subprocess.Popen([node, program], cwd=FOLDER, stdin=pipe, stdout=pipe, text=True)


def answer(process, job):
    """Get the answer to one job."""
    process.stdin.write(f"{json.dumps(job)}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "the program has ended; what it said stands above"
    told = json.loads(line)
    assert "error" not in told, told["error"]
    return told["answer"]
