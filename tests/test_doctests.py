"""Doctests of the modules that are also compiled, run against their Python source.

The compiled forms are imported in the process of the other tests, so a second process is needed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clob import _build

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(
    not (ROOT / "clob").is_dir(), reason="not here: the package is installed elsewhere"
)
def test_doctests_pass_in_pure_python():
    files = [f"{name.replace('.', '/')}.py" for name in _build.MODULES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env=os.environ | {"CLOB_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
