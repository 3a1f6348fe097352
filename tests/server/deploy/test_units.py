"""The units of systemd are valid and confine the server."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[3] / "deploy"
PROGRAM = re.compile(r"^ExecStart=\S+ ", re.MULTILINE)
EXPOSURE_MAX = 20
"""Largest exposure that ``systemd-analyze security`` may report, in tenths."""
pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def analyze(*arguments):
    """Run systemd-analyze; return its output."""
    command = ["systemd-analyze", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def units(tmp_path):
    """The units, with a program that exists here."""
    for unit in [*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]:
        text = PROGRAM.sub(f"ExecStart={sys.executable} ", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    return sorted(tmp_path.iterdir())


def test_units_are_valid(units):
    assert analyze("verify", *units) == ""


@pytest.mark.parametrize("name", ["clob-server.service", "clob-backup.service", "nats.service"])
def test_services_are_confined(units, name):
    threshold = [f"--threshold={EXPOSURE_MAX}", "--offline=yes"]
    [unit] = [each for each in units if each.name == name]
    analyze("security", *threshold, unit)
