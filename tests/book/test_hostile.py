"""No input may crash the interpreter; each trial runs in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.books import BOOKS, load

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="not here: only Linux bounds the memory of a process this way"
)


def survives(name, seed, calls):
    """Call a book with hostile values in a new process; return whether it exited normally."""
    load(name)
    done = subprocess.run(
        [sys.executable, "-m", "tests.book.hostile", name, str(seed), str(calls)],
        cwd=ROOT,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert done.stdout == f"{calls} calls\n"


@pytest.mark.parametrize("name", BOOKS)
def test_hostile_input_never_crashes_the_interpreter(name):
    survives(name, seed=1, calls=4_000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("name", BOOKS)
def test_hostile_input_never_crashes_the_interpreter_long(name, seed):
    survives(name, seed, calls=40_000)
