"""The command log: what was asked, in sequence, durable before anybody hears of it.

A :class:`Log` is the only seam for durability. :class:`SqliteLog` keeps it in a folder,
:class:`MemoryLog` keeps it nowhere.
"""

from clob_server.log.base import (
    FencedError,
    Log,
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    MemoryLog,
    Snapshot,
    Tail,
)
from clob_server.log.files import Files, Folder
from clob_server.log.sqlite import SqliteLog

__all__ = [
    "FencedError",
    "Files",
    "Folder",
    "Log",
    "LogDamagedError",
    "LogError",
    "LogFailedError",
    "LogLockedError",
    "LogNewerError",
    "MemoryLog",
    "Snapshot",
    "SqliteLog",
    "Tail",
]
