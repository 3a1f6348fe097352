"""A folder with the results of a sweep, to which each finished run is appended.

``sweep.json`` describes the sweep; ``runs.jsonl`` has a line of JSON for each run. A line that was
cut off when its process was killed is removed when the sweep goes on.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import IO, Any

from clob.replay.errors import SweepError
from clob.replay.sweeps.grid import RunPoint, run_key
from clob.replay.sweeps.rows import KILLED, SweepRow, row_of_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "clob-sweep", 1
HEAD_FILE, RUNS_FILE = "sweep.json", "runs.jsonl"

FIELDS = {
    "clob": "version of the package",
    "stream": "stream",
    "strategy": "strategy",
    "arguments": "arguments of the strategy",
    "source": "source of the strategy",
    "settings": "settings",
}
"""The parts of an identity, in words."""


class SweepFolder:
    """The results of a sweep on disk. One process at a time writes to it.

    Args:
        path: the folder; it is made if it does not exist.
        identity: describes the sweep, see :func:`~clob.replay.sweeps.plan.identity_of`.

    Raises:
        OSError: the folder cannot be read or written.
        SweepError: the folder holds another sweep, is damaged, or another process writes to it.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self.path: Path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = open(self.path / RUNS_FILE, "a+b")  # noqa: SIM115 - see close
        self._rows: dict[str, SweepRow] = {}
        try:
            self._lock()
            self._check_head(identity)
            self._read()
        except BaseException:
            self.close()
            raise

    def finished(self, point: RunPoint) -> SweepRow | None:
        """Return the row of a point, or None if it must run; a killed run must run again."""
        row = self._rows.get(point.key)
        if row is None or row.state == KILLED:
            return None
        return dataclasses.replace(row, number=point.number)

    def append(self, row: SweepRow) -> None:
        """Append a row; it is in the file when this returns."""
        self._file.write(row.to_json().encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file, and let other processes write."""
        self._file.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            # Unlike flock, this lock is not passed on to forked workers.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SweepError(f"{self.path}: another process writes its results here") from error

    def _check_head(self, identity: dict[str, Any]) -> None:
        """Write the description, or compare it with that of the folder."""
        head = {"format": FORMAT, "version": VERSION, **identity}
        path = self.path / HEAD_FILE
        if not path.exists():
            if self._file.seek(0, os.SEEK_END):
                raise SweepError(f"{self.path}: {RUNS_FILE} has runs, but {HEAD_FILE} is missing")
            # Replaced as a whole, so that a killed process leaves no part of it.
            draft = path.with_suffix(".tmp")
            draft.write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
            draft.replace(path)
            return
        known = _read_head(path)
        changed = _changes(known, head)
        if changed:
            raise SweepError(
                f"{self.path}: the folder holds another sweep; different: {'; '.join(changed)}. "
                "Use another folder, or remove this one"
            )

    def _read(self) -> None:
        """Read all rows; later ones replace earlier ones of the same run."""
        self._file.seek(0)
        end = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                # Cut off by the end of its process.
                self._file.truncate(end)
                break
            end += len(line)
            try:
                row = row_of_json(line)
            except (ValueError, TypeError) as error:
                raise SweepError(f"{self.path / RUNS_FILE}: line {number}: {error}") from error
            self._rows[run_key(row.parameters, row.seed)] = row


def _read_head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads(path.read_bytes())
    except ValueError as error:
        raise SweepError(f"{path}: expected JSON: {error}") from error
    if not isinstance(head, dict) or (head.get("format"), head.get("version")) != (FORMAT, VERSION):
        raise SweepError(f"{path}: expected format {FORMAT!r} of version {VERSION}")
    return head


def _changes(known: dict[str, Any], head: dict[str, Any]) -> list[str]:
    """List the parts of an identity that differ, each setting by its name."""
    pairs = {words: (known.get(name), head[name]) for name, words in FIELDS.items()}
    settings, wanted = pairs.pop("settings")
    settings = settings if isinstance(settings, dict) else {}
    for name in sorted(settings.keys() | wanted.keys()):
        pairs[name] = settings.get(name), wanted.get(name)
    return [
        f"{words} (here {_short(here)}, in the folder {_short(there)})"
        for words, (there, here) in pairs.items()
        if there != here
    ]


def _short(value: Any) -> str:
    """Return a value as text; of a hash, the first digits."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:12]}..." if len(text) == 64 and " " not in text else text
