"""The types of the public names are what their users are promised."""

import subprocess
import sys
from pathlib import Path

SURFACE = Path(__file__).with_name("surface.py")


def test_surface():
    # Its own configuration, so that a user's strict mypy is what looks at it; --warn-unused-ignores
    # is part of --strict, so that each line it ignores has to be an error.
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(SURFACE)],
        cwd=SURFACE.parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
