"""The folder of the demo: made anew at each start, if nothing but a demo's own is in it."""

import shutil
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from clob_server.log import LogError, LogLockedError, SqliteLog
from clob_server.log.files import make_folder
from clob_server.log.sqlite import DATABASE
from clob_server.settings import SettingsError

MARK: Final = "made-by-demo"
"""The file that says whose the folder is."""
OURS: Final = ("log.db*", "history.*", "snapshot-*.bin", "tip", "*.key", "*.new", MARK)
"""What a demo leaves behind."""
FOLDERS: Final = {"chain": ("outbox.*",), "devchain": ("chain.db*",)}
"""The folders that a demo leaves behind, and what is in them."""


def make_anew(folder: Path) -> None:
    """Empty the folder of a demo, or make it.

    Raises:
        SettingsError: there is something in it that no demo has made; nothing was removed.
        LogLockedError: a demo runs in it.
        OSError: it can be neither emptied nor made.
    """
    found = list(folder.iterdir()) if folder.exists() else []
    if found:
        check_ours(folder, found)
        check_free(folder)
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != MARK:  # which says until the end whose folder it is
            path.unlink(missing_ok=True)
    make_folder(folder)
    (folder / MARK).touch(mode=0o600)


def check_ours(folder: Path, found: list[Path]) -> None:
    """Refuse to empty a folder that somebody uses for anything else."""
    strange = [path.name for path in found if not is_ours(path)]
    if folder / MARK not in found or strange:
        raise SettingsError(
            f"the demo would empty {folder}, which it has not made, or where there is more than it "
            f"left: {', '.join(sorted(strange)) or f'no {MARK}'}; name another --data-dir"
        )


def is_ours(path: Path) -> bool:
    """Say whether a demo leaves a file of this name behind, or a folder with just this in it."""
    if path.name in FOLDERS and path.is_dir() and not path.is_symlink():
        return all(is_one_of(each, FOLDERS[path.name]) for each in path.iterdir())
    return is_one_of(path, OURS)


def is_one_of(path: Path, patterns: Iterable[str]) -> bool:
    """Say whether a path is a file whose name is like one of some."""
    return path.is_file() and any(fnmatch(path.name, pattern) for pattern in patterns)


def check_free(folder: Path) -> None:
    """Refuse to empty a folder that a server has."""
    if not (folder / DATABASE).exists():
        return
    try:
        SqliteLog(folder).close()
    except LogLockedError:
        raise
    except LogError:  # whatever is wrong with it, it goes
        return
