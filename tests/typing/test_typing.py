"""The public names have the documented types."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
SURFACES = ["surface.py", "client_surface.py"]


def check(*command):
    """Run a type checker; assert that it finds nothing."""
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("surface", SURFACES)
def test_public_names_have_the_documented_types(surface):
    # No configuration file: a user's strict mypy sees the same. --strict warns of unused ignores,
    # so every ignored line must be an error.
    check("mypy", "--strict", "--config-file=", str(FOLDER / surface))


def test_types_of_the_client_in_a_project_of_a_user(tmp_path):
    shutil.copy(FOLDER / "client_surface.py", tmp_path)
    settings = {
        "include": ["client_surface.py"],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check("pyright", "--project", str(tmp_path), "--pythonpath", sys.executable)
