"""The public names have the documented types."""

import subprocess
import sys
from pathlib import Path

SURFACE = Path(__file__).with_name("surface.py")


def test_public_names_have_the_documented_types():
    # No configuration file: a user's strict mypy sees the same. --strict warns of unused ignores,
    # so every ignored line must be an error.
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(SURFACE)],
        cwd=SURFACE.parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
