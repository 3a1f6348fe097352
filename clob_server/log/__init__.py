"""The durable log of commands.

:class:`SqliteLog` stores the log in a folder, :class:`MemoryLog` in memory.
"""

from clob_server.log.base import (
    FencedError,
    Log,
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    LogOlderError,
    MemoryLog,
    Snapshot,
    Tail,
)
from clob_server.log.files import Folder
from clob_server.log.sqlite import SqliteLog

__all__ = [
    "FencedError",
    "Folder",
    "Log",
    "LogDamagedError",
    "LogError",
    "LogFailedError",
    "LogLockedError",
    "LogNewerError",
    "LogOlderError",
    "MemoryLog",
    "Snapshot",
    "SqliteLog",
    "Tail",
]
