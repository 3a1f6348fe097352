"""Commands and empty virtual environments in which the caller's installation has no effect."""

import os
import subprocess
import sys
from pathlib import Path

INHERITED_NOT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
OWN = "CLOB_"


class ReleaseError(Exception):
    """A package or a page that is not fit for a release."""


def report(line: str) -> None:
    """Write a line of progress."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def environment() -> dict[str, str]:
    """Return the environment of this process without what leads to its packages or sets them up."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in INHERITED_NOT and not name.startswith(OWN)
    }


def own_variables() -> dict[str, str]:
    """Return the variables of the project: settings of a server, and those of its tests."""
    return {name: value for name, value in os.environ.items() if name.startswith(OWN)}


def run(*command: object, folder: Path, **variables: str) -> str:
    """Run a command and return its output; raise ReleaseError with the output if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def create(python: object, folder: Path) -> Path:
    """Create an empty virtual environment; return the folder of its programs."""
    folder.mkdir(parents=True)
    run(python, "-m", "venv", folder / "venv", folder=folder)
    return folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
