"""The same commands lead to the same state and the same events in every process.

Method: a seeded stream of commands of every kind, rejected ones included, is written to a file as
canonical bytes. Other processes replay it: with other hash seeds, in plain Python, without
assertions, on other versions of Python. ``CLOB_OTHER_PYTHONS`` lists interpreters to try, separated
like PATH; those without the dependencies of the engine are skipped.
"""

import json
import os
import random  # noqa: TID251 - seeded, and outside the engine
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clob import Matcher, RejectedError
from clob.codec import encode
from tests.matcher_model.flow import Flow
from tests.matcher_model.replay import read, replay, write
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT, busy

ROOT = Path(__file__).parents[2]
WORLDS = {
    "small": SMALL,
    "tight": TIGHT,
    "paired": PAIRED,
    "busy": busy(markets=4, makers=20),
}
OTHER_VERSIONS = ("python3.11", "python3.12", "python3.13", "python3.14")


def stream(world, count):
    """Draw commands that have canonical bytes."""
    matcher = Matcher()
    flow = Flow(random.Random(f"elsewhere {world}"), WORLDS[world], matcher)
    commands = list(flow.opening())
    for command in commands:
        matcher.apply(command)
    while len(commands) < count:
        command = flow.command()
        try:
            encode(command)
        except (TypeError, ValueError):
            continue
        commands.append(command)
        try:
            matcher.apply(command)
        except RejectedError:
            continue
    return commands, matcher.state_hash().hex()


@pytest.fixture(scope="module", params=WORLDS)
def recorded(request, tmp_path_factory):
    """A file of commands, and the results of replaying it in this process."""
    path = tmp_path_factory.mktemp("stream") / "commands"
    commands, state = stream(request.param, 1_500)
    write(path, commands)
    assert list(read(path)) == commands
    same, about = replay(path)
    assert same["state"] == state
    assert len(commands) / 20 < same["rejected"] < len(commands) * 0.7
    return path, same, about


def replay_in_process(path, interpreter=sys.executable, *options, **environment):
    """Replay the file in another process; all warnings but that of a missing build are errors."""
    command = (interpreter, *options, "-W", "error", "-W", "ignore::RuntimeWarning")
    command += ("-m", "tests.matcher_model.replay", str(path))
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_replay_does_not_depend_on_the_hash_seed(recorded, seed):
    path, same, here = recorded
    result, there = replay_in_process(path, PYTHONHASHSEED=seed)
    assert result == same
    assert there["seed"] != here["seed"]
    assert there["compiled"] == here["compiled"]


def test_replay_in_plain_python_has_the_same_result(recorded):
    path, same, _ = recorded
    result, there = replay_in_process(path, CLOB_PURE_PYTHON="1")
    assert result == same
    assert not there["compiled"]


def test_replay_without_assertions_has_the_same_result(recorded):
    path, same, _ = recorded
    for pure in ("0", "1"):
        assert replay_in_process(path, sys.executable, "-O", CLOB_PURE_PYTHON=pure)[0] == same


def other_pythons():
    """Return the other interpreters that have the dependencies of the engine."""
    listed = os.environ.get("CLOB_OTHER_PYTHONS", "").split(os.pathsep)
    this = f"python{sys.version_info.major}.{sys.version_info.minor}"
    installed = [shutil.which(name) for name in OTHER_VERSIONS if name != this]
    return [
        path for path in dict.fromkeys((*listed, *installed)) if path and has_dependencies(path)
    ]


def has_dependencies(interpreter):
    """Return whether an interpreter can import the dependencies of the engine."""
    try:
        done = subprocess.run(
            (interpreter, "-c", "import msgspec, sortedcontainers"),
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def test_replay_on_other_python_versions_has_the_same_result(recorded):
    pythons = other_pythons()
    if not pythons:
        pytest.skip("not here: no other Python with the dependencies")
    path, same, _ = recorded
    for interpreter in pythons:
        assert replay_in_process(path, interpreter)[0] == same, interpreter
